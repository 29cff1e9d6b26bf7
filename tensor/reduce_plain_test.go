package tensor

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// TestPlainFolds compares the loops of integers, bools and float64 with the references, to the bit, on layouts at
// random.
func TestPlainFolds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 60 {
		shape, strides, size := randomLayout(r)
		axes := slices.DeleteFunc([]int{0, 1, 2, 3}[:len(shape)], func(int) bool { return r.IntN(2) == 0 })
		for _, d := range kernels.DTypes() {
			x := kernels.Arg{Buf: cpu.Wrap(randomBytes(r, d, size)), DType: d}
			x.Shape, x.Strides = shape, strides
			for _, o := range []*Op{&sum, &prod, &amax, &amin, &mean, &anyOp, &allOp} {
				result := d
				switch o {
				case &sum, &prod:
					result = accumulated(d)
				case &anyOp, &allOp:
					result = Bool
				}
				if result.IsFloat() && d != Float64 || o == &mean && d != Float64 ||
					(o == &amax || o == &amin) && kernels.Count(shape) == 0 {
					continue
				}
				got, want := reduced(t, &o.Op, x, axes, result, true), reduced(t, &o.Op, x, axes, result, false)
				if !bytes.Equal(got, want) {
					t.Fatalf("%s of %v %v, strides %v, along %v: %v, want %v", o.Name, d, shape, strides, axes,
						got[:min(64, len(got))], want[:min(64, len(want))])
				}
			}
		}
	}
}

// randomLayout is at most four axes in any order, some repeated or with gaps, and how many elements they reach.
func randomLayout(r *rand.Rand) (shape, strides []int, size int) {
	rank := 1 + r.IntN(4)
	shape, strides, size = make([]int, rank), make([]int, rank), 1
	for _, axis := range r.Perm(rank) {
		shape[axis] = r.IntN(6)
		if r.IntN(6) == 0 && size < 100 {
			shape[axis] = 1100 + r.IntN(1000)
		}
		if strides[axis] = size; r.IntN(6) == 0 {
			strides[axis] = 0
		}
		size *= max(1, shape[axis]) * (1 + r.IntN(2))
	}
	return shape, strides, size
}

// randomBytes is n elements: numbers, zeros of both signs, and whatever integers have.
func randomBytes(r *rand.Rand, d DType, n int) []byte {
	x := make([]byte, n*d.Size())
	share := []int{1, 500, 999}[r.IntN(3)] // of bytes that are 0, in 1000
	for i := range x {
		if d == Float64 && i%8 == 0 {
			v := r.NormFloat64()
			if r.IntN(10) == 0 {
				v = math.Copysign(0, -1)
			}
			binary.LittleEndian.PutUint64(x[i:], math.Float64bits(v))
		}
		switch {
		case r.IntN(1000) < share || d == Float64:
		case d == Bool:
			x[i] = 1
		case d.IsFloat(): // for any and all
			x[i] = byte(r.Uint32()) & 0x80
		default:
			x[i] = byte(r.Uint32())
		}
	}
	return x
}

// reduced is the bytes of the result of op along axes, by its loops or by its reference.
func reduced(t *testing.T, op *kernels.Op, x kernels.Arg, axes []int, result DType, loops bool) []byte {
	t.Helper()
	var shape []int
	for axis, size := range x.Shape {
		if !slices.Contains(axes, axis) {
			shape = append(shape, size)
		}
	}
	by := *op
	if !loops {
		by.CPU = nil
	}
	y := kernels.Arg{Buf: cpu.Wrap(make([]byte, 8*kernels.Count(shape)+8)), DType: result}
	y.Shape, y.Strides = shape, kernels.RowMajor(make([]int, len(shape)), shape)
	l := &kernels.Launch{Op: &by, In: []kernels.Arg{x}, Out: []kernels.Arg{y}, Ints: axes}
	if err := (cpu.Backend{}).Run(l); err != nil {
		t.Fatal(err)
	}
	return y.Buf.(*cpu.Mem).Data()
}
