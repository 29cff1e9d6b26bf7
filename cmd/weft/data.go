package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-ml/weft/data"
)

// readable is data of any format.
type readable struct {
	what string // in words, with how many there are
	n    int
	show func(i int) (string, error) // an example, in words
	read func(i int) error
	end  func() error
}

// source makes a source readable.
func source[T any](what string, s data.Source[T], show func(T) string, end func() error) *readable {
	return &readable{what, s.Len(), func(i int) (string, error) {
		x, err := s.At(i)
		if err != nil {
			return "", err
		}
		return show(x), nil
	}, func(i int) error { _, err := s.At(i); return err }, end}
}

// describeData prints what data are in a file or a folder, three examples, how fast they are read, and what limits
// that.
func describeData(args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("data", flag.ContinueOnError)
	seconds := f.Float64("seconds", 1, "how long each measurement takes")
	f.Usage = func() {
		fmt.Fprintln(stderr,
			"weft data [-seconds S] PATH: a folder of pictures by class, or a file: CSV, TSV, JSONL, tar of "+
				"WebDataset,\nTFRecord, .npy, .npz, IDX, tokens (.bin); plain or gzip")
		f.PrintDefaults()
	}
	if err := parse(f, args, stderr, "PATH"); err != nil {
		return err
	}
	if !(*seconds >= 0 && *seconds <= 3600) {
		return fmt.Errorf("-seconds %g, want 0 to 3600", *seconds)
	}
	path := f.Arg(0)
	began := time.Now()
	d, err := openData(path)
	if err != nil {
		return err
	}
	defer d.end()
	out := bufio.NewWriter(stdout)
	fmt.Fprintf(out, "%s: %s; opened in %v\n", plain(path), d.what, time.Since(began).Round(time.Millisecond))
	shown := slices.Compact([]int{0, d.n / 2, d.n - 1})
	for _, i := range shown[:min(len(shown), max(0, d.n))] {
		text, err := d.show(i)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  %d: %s\n", i, plain(text))
	}
	if d.n > 0 && *seconds > 0 {
		limit := time.Duration(*seconds * float64(time.Second))
		one, err := d.rate(1, limit)
		if err != nil {
			return err
		}
		all := runtime.GOMAXPROCS(0)
		many, err := d.rate(all, limit)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "reads %.0f examples/s in one goroutine, %.0f in %d\n", one, many, all)
		switch {
		case all == 1:
			fmt.Fprintf(out, "limit: the only processor\n")
		case many > 0.6*float64(all)*one:
			fmt.Fprintf(out,
				"limit: unpacking and decoding, in which processors do not hinder each other: use workers\n")
		default:
			fmt.Fprintf(out, "limit: what goroutines share, such as disk and memory: more than %d workers add little\n",
				max(1, int(many/one+0.5)))
		}
	}
	return out.Flush()
}

// rate is how many examples a second n goroutines read, in an order that jumps.
func (d *readable) rate(n int, limit time.Duration) (float64, error) {
	var next, done atomic.Int64
	var failed atomic.Pointer[error]
	began := time.Now()
	var wait sync.WaitGroup
	for range n {
		wait.Go(func() {
			for time.Since(began) < limit && failed.Load() == nil {
				i := int(uint64(next.Add(1)) * 0x9e3779b97f4a7c15 % uint64(d.n))
				if err := d.read(i); err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	wait.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(done.Load()) / time.Since(began).Seconds(), nil
}

// openData opens a folder of pictures, or a file in the format that its name or its first bytes tell.
func openData(path string) (*readable, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return openPictures(path)
	}
	ext := strings.ToLower(filepath.Ext(strings.TrimSuffix(path, ".gz")))
	rows := func(s data.Source[[]string], err error, end func() error) (*readable, error) {
		if err != nil {
			return nil, err
		}
		return source(fmt.Sprintf("%s file, %d rows", strings.ToUpper(ext[1:]), s.Len()), s,
			func(r []string) string { return strings.Join(r, " | ") }, end), nil
	}
	switch ext {
	case ".csv":
		s, err := data.OpenCSV[[]string](path, data.NoIndex())
		return rows(s, err, s.Close)
	case ".tsv":
		s, err := data.OpenCSV[[]string](path, data.NoIndex(), data.Comma('\t'))
		return rows(s, err, s.Close)
	case ".jsonl", ".ndjson":
		s, err := data.OpenJSONL[any](path, data.NoIndex())
		if err != nil {
			return nil, err
		}
		return source(fmt.Sprintf("JSONL file, %d rows", s.Len()), s, func(x any) string { return fmt.Sprint(x) },
			s.Close), nil
	case ".tar":
		s, err := data.OpenTar(path, data.NoIndex())
		if err != nil {
			return nil, err
		}
		return source(fmt.Sprintf("tar file of WebDataset, %d samples", s.Len()), s, showSample, s.Close), nil
	case ".tfrecord", ".tfrecords", ".tfrec":
		s, err := data.OpenTFRecord(path, data.NoIndex())
		if err != nil {
			return nil, err
		}
		return source(fmt.Sprintf("TFRecord file, %d records", s.Len()), s, showRecord, s.Close), nil
	case ".npy", ".npz":
		return openArrays(path)
	case ".bin":
		context := 128
		s, err := data.OpenTokens([]string{path}, context)
		if err != nil {
			context = 1
			s, err = data.OpenTokens([]string{path}, context)
		}
		if err != nil {
			return nil, err
		}
		return source(fmt.Sprintf("tokens, %d windows of %d and the next one", s.Len(), context), s,
			func(w []int64) string { return fmt.Sprint(w) }, s.Close), nil
	}
	if strings.Contains(filepath.Base(path), "idx") {
		return openIDX(path)
	}
	return nil,
		fmt.Errorf("%s: the name tells no format: want one that ends in .csv, .tsv, .jsonl, .tar, .tfrecord, .npy, "+
			".npz or .bin, perhaps with .gz, or has idx in it", path)
}

// openPictures opens a folder of pictures.
func openPictures(path string) (*readable, error) {
	s, err := data.ImageFolder(path)
	if err != nil {
		return nil, err
	}
	classes := s.Classes()
	counts := make([]int, len(classes))
	for i := range s.Len() {
		class, err := s.Class(i)
		if err != nil {
			return nil, err
		}
		counts[class]++
	}
	var list []string
	for i, name := range classes[:min(len(classes), 10)] {
		list = append(list, fmt.Sprintf("%s %d", plain(name), counts[i]))
	}
	if len(classes) > 10 {
		list = append(list, "...")
	}
	return source(fmt.Sprintf("%d pictures in %d classes (%s)", s.Len(), len(classes), strings.Join(list, ", ")), s,
		func(p data.Picture) string {
			return fmt.Sprintf("%s, %d x %d pixels, class %s", p.Name, p.Width, p.Height, classes[p.Class])
		}, closed), nil
}

// closed is the end of what holds no file open.
func closed() error { return nil }

// openIDX reads a file of MNIST.
func openIDX(path string) (*readable, error) {
	x, err := data.ReadIDX(path)
	if err != nil {
		return nil, err
	}
	pixels, ok := x.Data.([]uint8)
	n := x.Shape[0]
	if !ok { // rare
		return source(fmt.Sprintf("IDX file, %T of shape %v", x.Data, x.Shape), data.Slice[int](nil), nil, closed), nil
	}
	var rows data.Slice[[]uint8]
	for i := range n {
		rows = append(rows, pixels[i*(len(pixels)/n):(i+1)*(len(pixels)/n)])
	}
	return source(fmt.Sprintf("IDX file, bytes of shape %v, held in memory", x.Shape), rows,
		func(r []uint8) string { return fmt.Sprint(r) }, closed), nil
}

// openArrays opens the array of a .npy file, or the first one of a .npz file, whatever its elements are.
func openArrays(path string) (*readable, error) {
	var first error
	for _, open := range []func(string) (*readable, error){openArray[float32], openArray[float64], openArray[int64],
		openArray[int32], openArray[uint8], openArray[int16], openArray[uint16], openArray[int8], openArray[bool],
		openArray[uint32], openArray[uint64]} {
		d, err := open(path)
		if err == nil {
			return d, nil
		}
		if f, ok := err.(*data.FormatError); first == nil || ok && f.What != "elements" {
			first = err
		}
	}
	return nil, first
}

func openArray[T data.Number](path string) (*readable, error) {
	a, err := data.OpenNPY[T](path)
	if err != nil {
		return nil, err
	}
	return source(fmt.Sprintf("array of %T, %d rows of shape %v", *new(T), a.Len(), a.Shape()), a,
		func(r []T) string { return fmt.Sprint(r) }, a.Close), nil
}

// showSample lists the files of an example of a tar file.
func showSample(s data.TarSample) string {
	var parts []string
	for ext, content := range s.Files {
		if len(content) <= 40 && !bytes.ContainsFunc(content, func(r rune) bool { return r < ' ' || r == 0xfffd }) {
			parts = append(parts, fmt.Sprintf("%s %q", ext, content))
		} else {
			parts = append(parts, fmt.Sprintf("%s %d bytes", ext, len(content)))
		}
	}
	slices.Sort(parts)
	return s.Key + ": " + strings.Join(parts, ", ")
}

// showRecord lists the features of a tf.Example.
func showRecord(record []byte) string {
	features, err := data.ParseTFExample(record)
	if err != nil || len(features) == 0 {
		return fmt.Sprintf("%d bytes, no tf.Example", len(record))
	}
	var parts []string
	for name, f := range features {
		text := fmt.Sprintf("%d strings", len(f.Bytes))
		switch {
		case len(f.Bytes) == 1:
			text = fmt.Sprintf("%d bytes", len(f.Bytes[0]))
		case len(f.Floats) > 4:
			text = fmt.Sprintf("%d floats", len(f.Floats))
		case len(f.Floats) > 0:
			text = fmt.Sprint(f.Floats)
		case len(f.Ints) > 4:
			text = fmt.Sprintf("%d integers", len(f.Ints))
		case len(f.Ints) > 0:
			text = fmt.Sprint(f.Ints)
		}
		parts = append(parts, name+" "+text)
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
