package tensor_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// TestRaw reads and writes the bytes of parameters and of host data in pieces.
func TestRaw(t *testing.T) {
	dev, err := tensor.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	first, p := nn.Parameter(nil, 3), nn.Parameter(nil, 2, 3)
	if err := engine.Place(dev, "", []string{"first", "p"}, []*tensor.Tensor{first, p}, tensor.Float32); err != nil {
		t.Fatal(err)
	}
	want := []float32{1, 2, 3, 4, 5, 6}
	for _, x := range []*tensor.Tensor{p, tensor.Zeros(tensor.Float32, 2, 3)} {
		raw := engine.Raw(x)
		if raw.Size() != 24 {
			t.Fatalf("%v has %d bytes", x, raw.Size())
		}
		file, _ := binary.Append(nil, binary.LittleEndian, want)
		for off := 0; off < 24; off += 5 { // pieces that cut elements
			piece := file[off:min(off+5, 24)]
			if n, err := raw.WriteAt(piece, int64(off)); n != len(piece) || err != nil {
				t.Fatalf("%v: %d bytes written, error %v", x, n, err)
			}
		}
		if got := tensor.ToSlice[float32](x); !slices.Equal(got, want) {
			t.Errorf("%v: got %v", x, got)
		}
		got, err := io.ReadAll(io.NewSectionReader(raw, 0, raw.Size()))
		if err != nil || !bytes.Equal(got, file) {
			t.Errorf("%v: read %v, error %v", x, got, err)
		}
		if n, err := raw.ReadAt(make([]byte, 5), 20); n != 4 || err != io.EOF {
			t.Errorf("%v: %d bytes at the end, error %v", x, n, err)
		}
		for _, off := range []int64{-1, 20, 24, 1 << 62} {
			if n, err := raw.WriteAt(make([]byte, 5), off); n != 0 || err == nil {
				t.Errorf("%v: %d bytes written at %d", x, n, off)
			}
		}
	}
	if got := tensor.ToSlice[float32](first); !slices.Equal(got, []float32{0, 0, 0}) {
		t.Errorf("the neighbour has %v", got)
	}
}

// TestRawBesideStep holds that a step which uses a parameter keeps its values.
func TestRawBesideStep(t *testing.T) {
	dev, err := tensor.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	p := nn.Parameter(nil, 2)
	if err := engine.Try(func() { engine.Raw(p) }); !errors.Is(err, tensor.ErrStep) {
		t.Errorf("a parameter without values: error %v", err)
	}
	if err := engine.Place(dev, "", []string{"p"}, []*tensor.Tensor{p}, tensor.Float32); err != nil {
		t.Fatal(err)
	}
	raw := engine.Raw(p)
	if err := dev.Step(func(s *tensor.Scope) error {
		y := s.In(p).Exp()
		if _, err := raw.WriteAt(make([]byte, 4), 0); !errors.Is(err, tensor.ErrBusy) {
			t.Errorf("written beside a step: error %v", err)
		}
		if _, err := raw.ReadAt(make([]byte, 4), 0); err != nil {
			t.Errorf("read beside a step: error %v", err)
		}
		if err := engine.Try(func() { engine.Raw(y) }); !errors.Is(err, tensor.ErrStep) {
			t.Errorf("the result of a step: error %v", err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	transposed := tensor.Zeros(tensor.Float32, 2, 3).T()
	if err := engine.Try(func() { engine.Raw(transposed) }); !errors.Is(err, tensor.ErrStep) {
		t.Errorf("a transposed tensor: error %v", err)
	}
}
