//go:build linux

package attack

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// samples runs every sample of one operation, forward and backward, in several types and layouts, between guard pages
// and on the CPU as it is. The results have the same bits.
func samples(op *tensor.Op, say func(string), found func(cause, call string)) (c counts) {
	plain, guarded := must(tensor.Open("cpu")), must(tensor.Open("guarded"))
	defer plain.Close()
	defer guarded.Close()
	for _, s := range engine.Samples(op) {
		for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16} {
			for _, layout := range []string{"contiguous", "transposed", "strided"} {
				if s.Fixed && layout != "contiguous" {
					continue
				}
				call := fmt.Sprintf("%s, sample %s, %v, %s", op.Name, s.Name, dt, layout)
				say(call)
				c.Tried++
				want, err := sampleHash(plain, s, dt, layout)
				got, guardedErr := sampleHash(guarded, s, dt, layout)
				switch {
				case fmt.Sprint(err) != fmt.Sprint(guardedErr):
					c.Defects++
					found(fmt.Sprintf("%s between pages: %v, else %v", op.Name, guardedErr, err), call)
				case got != want:
					c.Defects++
					found(op.Name+": other bits between pages", call)
				case err != nil: // not for this type
					c.Typed++
				default:
					c.Fine++
				}
			}
		}
	}
	if theSlots().spare > 0 {
		found(op.Name+" does not fit between the pages", "")
	}
	return c
}

// sampleHash is that of the result of a sample, and of its gradients.
func sampleHash(dev *tensor.Device, s seam.Sample[*tensor.Tensor], dt tensor.DType, layout string) (hash string,
	err error) {
	err = dev.Step(func(scope *tensor.Scope) error {
		var xs, watched []*tensor.Tensor
		for i, a := range s.In {
			x := tensor.Uniform(tensor.Seed(uint64(i+1)), a.Lo, a.Hi, a.Shape...)
			if a.Values != nil {
				x = tensor.FromSlice(a.Values, a.Shape...)
			}
			own := a.DType
			if own == tensor.Float32 {
				own = dt
			}
			x = lay(scope.In(x.To(own)), layout)
			if own.IsFloat() {
				x = autograd.Watch(scope, x)
				watched = append(watched, x)
			}
			xs = append(xs, x)
		}
		y := s.Call(xs)
		results := []*tensor.Tensor{y}
		if y.NeedsGrad() {
			results = append(results, autograd.Grad(y, watched, autograd.AllowUnused(),
				autograd.GradOutput(tensor.Uniform(tensor.Seed(9), 0.5, 1.5, y.Shape()...).To(y.DType())))...)
		}
		hash = hashOf(results)
		return nil
	}, tensor.RandomStream(1))
	return hash, err
}

// lay is x in another layout.
func lay(x *tensor.Tensor, layout string) *tensor.Tensor {
	switch {
	case layout == "transposed" && x.Rank() > 1:
		return x.Transpose(0, -1).Clone().Transpose(0, -1)
	case layout == "strided" && x.Rank() > 0: // every second element of a longer last axis
		return tensor.Stack(-1, x, x).Reshape(append(x.Shape()[:x.Rank()-1], 2*x.Dim(-1))...).Slice(-1, 0, tensor.End,
			2)
	}
	return x
}

// hashOf is that of values, where all NaN are one.
func hashOf(ts []*tensor.Tensor) string {
	h := sha256.New()
	for _, t := range ts {
		if t == nil {
			fmt.Fprintln(h, "nil")
			continue
		}
		fmt.Fprintln(h, t)
		bits := bitsOf(t)
		for i, b := range bits {
			if v := math.Float64frombits(b); v != v {
				bits[i] = math.Float64bits(math.NaN())
			}
		}
		binary.Write(h, binary.LittleEndian, bits)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}
