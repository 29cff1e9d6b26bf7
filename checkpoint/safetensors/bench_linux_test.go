package safetensors

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// BenchmarkPython writes and reads a file in turns with Python, whose library needs NumPy for it, and reports how often
// Weft could have done it in Python's time: medians of all turns, at least five. Nothing is synced.
//
//	python3 -m pip install --target build/safetensors numpy
//	WEFT_SAFETENSORS_PYTHON=$PWD/build/safetensors go test -run - -bench Python ./checkpoint/safetensors
func BenchmarkPython(b *testing.B) {
	for _, c := range []struct {
		name           string
		tensors, bytes int
	}{{"8x32MiB", 8, 32 << 20}, {"2000x128KiB", 2000, 128 << 10}} {
		b.Run(c.name, func(b *testing.B) {
			o := newOracle(b)
			dir := b.TempDir()
			data := hugePages(b, c.bytes)
			copy(data, bytes.Repeat([]byte{1, 2, 3, 4}, c.bytes/4))
			path := filepath.Join(dir, "file")
			memory := hugePages(b, c.tensors*c.bytes)
			seconds := map[string][]float64{}
			for range max(5, b.N) {
				for _, what := range []string{"write", "read"} {
					fresh(b, what, path)
					start := time.Now()
					if err := (map[string]func() error{
						"write": func() error { return writeEqual(path, c.tensors, data) },
						"read":  func() error { return readAll(path, memory) },
					})[what](); err != nil {
						b.Fatal(err)
					}
					seconds[what] = append(seconds[what], time.Since(start).Seconds())
					fresh(b, what, path)
					a := o.ask(b, question{Measure: &measurement{what, path, c.tensors, c.bytes}})
					seconds["Python "+what] = append(seconds["Python "+what], a.Seconds)
				}
			}
			for what, all := range seconds {
				slices.Sort(all)
				if theirs := seconds["Python "+what]; theirs != nil {
					slices.Sort(theirs)
					ratio, verdict := theirs[len(theirs)/2]/all[len(all)/2], "ok"
					if ratio < 1 {
						verdict = "MISSED"
					}
					b.Logf("%-64s %8.3f  >=  1.00  %s", what+" beside Python's library, times as fast", ratio, verdict)
				}
				rate := float64(c.tensors*c.bytes) / all[len(all)/2] / 1e9
				b.ReportMetric(rate, strings.ReplaceAll(what, " ", "-")+"-GB/s")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// hugePages is memory on huge pages, as large arrays of NumPy and large tensors of Weft are.
func hugePages(b *testing.B, n int) []byte {
	memory, err := syscall.Mmap(-1, 0, n, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err == nil {
		err = syscall.Madvise(memory, syscall.MADV_HUGEPAGE)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { syscall.Munmap(memory) })
	return memory
}

// fresh removes a file before it is written: who cuts an old one off waits while the system writes that to the disk.
func fresh(b *testing.B, what, path string) {
	if what != "write" {
		return
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		b.Fatal(err)
	}
}

// writeEqual writes tensors that all have the same data.
func writeEqual(path string, n int, data []byte) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	tensors := make([]Tensor, n)
	for i := range tensors {
		tensors[i] = Tensor{Name: fmt.Sprint("tensor.", i), DType: F32, Shape: []int{len(data) / 4}}
	}
	err = Write(file, tensors, nil, func(w io.Writer, _ Tensor) error {
		_, err := w.Write(data)
		return err
	})
	return errors.Join(err, file.Close())
}

// readAll reads all tensors of a file into memory that is there, as that of a model's parameters is; Python's allocator
// keeps what earlier turns had, too.
func readAll(path string, memory []byte) error {
	m, err := OpenPath(path)
	if err != nil {
		return err
	}
	defer m.Close()
	for t := range m.Tensors() {
		if _, err := io.ReadFull(t.Data(), memory[:t.Bytes()]); err != nil {
			return err
		}
		memory = memory[t.Bytes():]
	}
	return nil
}
