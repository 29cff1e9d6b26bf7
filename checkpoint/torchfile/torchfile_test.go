package torchfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/checkpoint/safetensors"
)

// versions of PyTorch whose files are in testdata; scripts/goldens/files.py made them.
var versions = []string{"1.13", "2.15"}

// wanted is a tensor as PyTorch has it.
type wanted struct {
	DType string
	Shape []int
	Data  []byte
}

func open(t testing.TB, path string) (*File, error) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return Open(bytes.NewReader(file), int64(len(file)))
}

// TestPyTorch compares names, types, shapes, data and values of files of two versions with what PyTorch has: all types;
// views of all kinds; tied and shared tensors; states of AdamW and SGD; protocols 2 and 4.
func TestPyTorch(t *testing.T) {
	tensors, values := 0, 0
	for _, version := range versions {
		text, err := os.ReadFile(filepath.Join("testdata", version, "want.json"))
		if err != nil {
			t.Fatal(err)
		}
		var files map[string]map[string]json.RawMessage
		if err := json.Unmarshal(text, &files); err != nil {
			t.Fatal(err)
		}
		for name, want := range files {
			f, err := open(t, filepath.Join("testdata", version, name+".pt"))
			if err != nil {
				t.Errorf("%s %s: %v", version, name, err)
				continue
			}
			for x := range f.Tensors() {
				data, err := io.ReadAll(x.Data())
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range append([]string{x.Name}, x.Aliases...) {
					var w wanted
					if err := json.Unmarshal(want[name], &w); err != nil {
						t.Errorf("%s %s: PyTorch has no tensor %s: %v", version, name, name, err)
					}
					if x.DType.String() != w.DType || !slices.Equal(x.Shape, w.Shape) || !bytes.Equal(data, w.Data) {
						t.Errorf("%s %s: %v%v %x, want %s%v %x", version, name, x.DType, x.Shape, data, w.DType,
							w.Shape, w.Data)
					}
					tensors++
					delete(want, name)
				}
			}
			for name, value := range f.Values() {
				have, err := json.Marshal(value)
				var same any
				if err != nil || json.Unmarshal(want[name], &same) != nil {
					t.Errorf("%s: PyTorch has no value %s", version, name)
				}
				if want, _ := json.Marshal(same); !bytes.Equal(have, want) {
					t.Errorf("%s: %s is %s, want %s", version, name, have, want)
				}
				values++
				delete(want, name)
			}
			if len(want) > 0 {
				t.Errorf("%s: left out: %v", version, slices.Collect(maps.Keys(want)))
			}
		}
	}
	if tensors != 174 || values != 126 {
		t.Errorf("%d tensors and %d values", tensors, values)
	}
}

// TestAliases holds that tied tensors are one.
func TestAliases(t *testing.T) {
	f, err := open(t, "testdata/2.15/views.pt")
	if err != nil {
		t.Fatal(err)
	}
	for x := range f.Tensors() {
		if x.Name == "whole" && !slices.Equal(x.Aliases, []string{"again"}) || x.Name != "whole" && x.Aliases != nil {
			t.Errorf("%s has aliases %v", x.Name, x.Aliases)
		}
	}
}

// TestRefusedFiles opens real files of other kinds.
func TestRefusedFiles(t *testing.T) {
	for _, version := range versions {
		for name, found := range map[string]string{
			"legacy": "the container of PyTorch before 1.6", "script": "TorchScript",
			"module": `"torch.nn.modules.linear.Linear"`,
		} {
			_, err := open(t, filepath.Join("testdata", version, name+".pt"))
			var format *safetensors.FormatError
			if !errors.As(err, &format) || !strings.Contains(format.Found, found) {
				t.Errorf("%s %s: error %v, want one that says %s", version, name, err, found)
			}
		}
	}
	const safe = "\x08\x00\x00\x00\x00\x00\x00\x00{}      "
	_, err := Open(strings.NewReader(safe), int64(len(safe)))
	if err == nil || !strings.Contains(err.Error(), "a name that ends in .safetensors") {
		t.Errorf("safetensors: error %v", err)
	}
}

// TestPieces reads views in pieces that begin and end inside elements, and beyond its end.
func TestPieces(t *testing.T) {
	f, err := open(t, "testdata/1.13/views.pt")
	if err != nil {
		t.Fatal(err)
	}
	for x := range f.Tensors() {
		all, err := io.ReadAll(x.Data())
		if err != nil || int64(len(all)) != x.Bytes() {
			t.Fatalf("%s: %d bytes of %d, error %v", x.Name, len(all), x.Bytes(), err)
		}
		r := x.Data()
		for from := range len(all) + 1 {
			for size := range 9 {
				p := make([]byte, size)
				n, err := r.ReadAt(p, int64(from))
				if want := all[from:min(from+size, len(all))]; !bytes.Equal(p[:n], want) || n < size && err != io.EOF {
					t.Fatalf("%s: %d bytes from %d: %x, error %v, want %x", x.Name, size, from, p[:n], err, want)
				}
			}
		}
	}
	if _, err := f.tensors[0].Data().ReadAt(make([]byte, 1), math.MaxInt64); err != io.EOF {
		t.Errorf("far beyond the end: %v", err)
	}
}
