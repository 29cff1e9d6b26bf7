package safetensors

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestView reads random views of a storage in which each element is its own number, in pieces of random size.
func TestView(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	storage := make([]byte, 2*1000)
	for i := range 1000 {
		binary.LittleEndian.PutUint16(storage[2*i:], uint16(i))
	}
	r := io.NewSectionReader(bytes.NewReader(storage), 0, int64(len(storage)))
	inside, outside, rowMajor := 0, 0, 0
	for range 5000 {
		x := Tensor{DType: U16, Shape: make([]int, rng.IntN(4))}
		strides := make([]int, len(x.Shape))
		for i := range strides {
			x.Shape[i], strides[i] = rng.IntN(5), rng.IntN(300)
		}
		offset := rng.IntN(1000)
		if rng.IntN(4) == 0 { // those of row-major data
			step := 1
			for i := len(strides) - 1; i >= 0; i-- {
				strides[i] = step
				step *= max(1, x.Shape[i])
			}
		}
		want := []uint16{}
		var visit func(axis, at int)
		fits := true
		visit = func(axis, at int) {
			if axis == len(x.Shape) {
				want = append(want, uint16(at))
				fits = fits && at < 1000
				return
			}
			for i := range x.Shape[axis] {
				visit(axis+1, at+i*strides[axis])
			}
		}
		visit(0, offset)
		v, err := x.View(r, offset, strides)
		if (err == nil) != fits {
			t.Fatalf("%v, strides %v from %d: error %v", x.Shape, strides, offset, err)
		}
		if err != nil {
			outside++
			continue
		}
		inside++
		if v.strides == nil {
			rowMajor++
		}
		var have []byte
		data := v.Data()
		for {
			p := make([]byte, 1+rng.IntN(20))
			n, err := data.Read(p)
			have = append(have, p[:n]...)
			if err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		wantBytes, err := binary.Append(nil, binary.LittleEndian, want)
		if err != nil || !bytes.Equal(have, wantBytes) {
			t.Fatalf("%v, strides %v from %d: %v, want %v, error %v", x.Shape, strides, offset, have, wantBytes, err)
		}
	}
	if t.Logf("%d views, %d row-major, %d refused", inside, rowMajor, outside); min(inside, rowMajor, outside) < 300 {
		t.Error("too few of a kind")
	}
}

// TestViewRefuses holds what can be no view.
func TestViewRefuses(t *testing.T) {
	r := io.NewSectionReader(strings.NewReader("12345678"), 0, 8)
	for says, c := range map[string]struct {
		dtype   DType
		shape   []int
		offset  int
		strides []int
	}{
		"no tensor of type F4": {F4, []int{2}, 0, nil}, "no tensor of type": {0, nil, 0, nil},
		"shape [-1]": {U8, []int{-1}, 0, nil}, "1 strides for 2 axes": {U8, []int{1, 1}, 0, []int{1}},
		"the offset -1": {U8, nil, -1, nil}, "element 8 of a storage": {U8, nil, 8, nil},
		"element 2 of a storage": {F32, []int{3}, 0, nil}, "the stride -1": {U8, []int{2}, 5, []int{-1}},
		"strides up to 2^64":        {U8, []int{9}, 0, []int{math.MaxInt}},
		"element 92233720368547758": {U8, nil, math.MaxInt, nil},
	} {
		_, err := Tensor{DType: c.dtype, Shape: c.shape}.View(r, c.offset, c.strides)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %s", err, says)
		}
	}
	x, err := Tensor{DType: F64, Shape: []int{0, 2}}.View(r, math.MaxInt, []int{math.MaxInt, 0})
	if data, err2 := io.ReadAll(x.Data()); err != nil || err2 != nil || len(data) > 0 {
		t.Errorf("no elements: %d bytes, errors %v, %v", len(data), err, err2)
	}
}
