package data

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// lacking has the call of room with that number, from 0, find no memory until the test ends. It counts the calls.
func lacking(t testing.TB, number int64) *atomic.Int64 {
	was, from := room, roomFrom
	t.Cleanup(func() { room, roomFrom = was, from })
	calls := new(atomic.Int64)
	roomFrom, room = 0, func(bytes int) error {
		if calls.Add(1)-1 != number {
			return nil
		}
		return engine.Try(func() { engine.Fail(tensor.ErrMemory, "room", "%d bytes", bytes) })
	}
	return calls
}

// allOpeners are openers of small files of all formats.
func allOpeners(t testing.TB) []opener {
	all := openers(t)
	all[0].name, all[1].name = "memory.csv", "memory.tsv"
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	mean, std := []float32{0}, []float32{1}
	return append(all,
		opener{"x.csv.gz", string(zip([]byte("a\n1\n2\n"))), func(path string, o ...ReadOption) (string, error) {
			s, err := OpenCSV[[]string](path, o...)
			return told(s, err)
		}},
		opener{"rows.npy", read("rows.npy"), func(path string, o ...ReadOption) (string, error) {
			s, err := OpenNPY[float32](path, o...)
			return told(s, err)
		}},
		opener{"plain.bin", read("plain.bin"), func(path string, o ...ReadOption) (string, error) {
			s, err := OpenTokens([]string{path}, 4, o...)
			return told(s, err)
		}},
		opener{"text", "a text", func(path string, o ...ReadOption) (string, error) {
			s, err := ReadText(path, Chars, o...)
			return fmt.Sprint(s), err
		}},
		opener{"idx", string(idxFile(0x0d, []uint32{2}, make([]byte, 8))), func(path string, o ...ReadOption) (string,
			error) {
			x, err := ReadIDX(path, o...)
			return fmt.Sprint(x), err
		}},
		opener{"c/rgb.png", read("pictures/exact/rgb.png"), func(path string, o ...ReadOption) (text string,
			err error) {
			pictures, err := ImageFolder(filepath.Dir(filepath.Dir(path)), o...)
			if err != nil {
				return "", fmt.Errorf("%s: %w", path, err)
			}
			p, err := pictures.At(0)
			if err != nil {
				return "", err
			}
			if err := engine.Try(func() { text = fmt.Sprint(p.Resize(5, 4).Floats(mean, std)) }); err != nil {
				return "", fmt.Errorf("%s: %w", path, err)
			}
			return text, nil
		}})
}

// Whatever a reader wants memory for: where there is none, its error is of kind ErrMemory and names the file, or it
// does without, as for an index.
func TestLittleMemory(t *testing.T) {
	withIndexes(t)
	for _, o := range allOpeners(t) {
		path := filepath.Join(t.TempDir(), o.name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(o.content),
			0o600)); err != nil {
			t.Fatal(err)
		}
		lacking(t, -1)
		want, err := o.open(path)
		if err != nil {
			t.Fatal(o.name, err)
		}
		refused := 0
		for number := int64(0); ; number++ {
			if number%2 == 1 {
				os.Remove(path + indexSuffix)
			}
			calls := lacking(t, number)
			got, err := o.open(path)
			if err == nil && got != want {
				t.Errorf("%s without memory %d: %.200q, want %.200q", o.name, number, got, want)
			}
			if err != nil {
				if refused++; !errors.Is(err, tensor.ErrMemory) || !strings.Contains(err.Error(), o.name) {
					t.Errorf("%s without memory %d: %v", o.name, number, err)
				}
			}
			if calls.Load() <= number && number%2 == 1 {
				break
			}
		}
		if refused == 0 {
			t.Errorf("%s asks for no memory", o.name)
		}
	}
	lacking(t, 0)
	if _, _, err := Digits(1); !errors.Is(err, tensor.ErrMemory) {
		t.Errorf("digits: %v", err)
	}
}

// Batches that are larger than the machine's memory are errors.
func TestLargeBatches(t *testing.T) {
	p := Picture{Name: "wide", Width: 4000, Height: 3000, Pix: make([]uint8, 3*4000*3000)}
	pictures := make([]Picture, 1<<18)
	for i := range pictures {
		pictures[i] = p
	}
	_, err := PictureBatch([]float32{0}, []float32{1})(pictures)
	if !errors.Is(err, tensor.ErrMemory) {
		t.Errorf("pictures: %v", err)
	}
	wide, narrow := make([]float32, 1<<20), make([]float32, 1)
	for _, x := range []bool{true, false} {
		arrays, err := NewArrays(wide, []int{len(wide)}, narrow, nil)
		if !x {
			arrays, err = NewArrays(narrow, nil, wide, []int{len(wide)})
		}
		if err != nil {
			t.Fatal(err)
		}
		if b, err := arrays.Batch(make([]int, 1<<24)); !errors.Is(err, tensor.ErrMemory) {
			t.Errorf("arrays: %v, %v", b, err)
		}
	}
}
