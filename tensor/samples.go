package tensor

import (
	"fmt"

	"github.com/weft-ml/weft/internal/seam"
)

// allSamples is engine.Samples.
func (o *Op) allSamples() (samples []opSample) {
	given("all_samples", "the operation", o)
	if o.Samples != nil {
		for _, s := range o.Samples() {
			samples = append(samples, o.outputs(s)...)
		}
		return samples
	}
	if o.Expr == nil || len(o.Args) == 0 {
		return nil
	}
	shapes := map[int][][][]int{
		1: {{{2, 3}}, {nil}, {{1}}, {{0, 3}}, {{2, 1, 3}}},
		2: {{{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 1}, {1, 3}}, {nil, {2}}, {nil, nil}, {{0, 3}, {3}},
			{{1, 3}, {2, 2, 3}}},
		3: {{{2, 3}, {2, 3}, {2, 3}}, {{2, 1}, {3}, nil}, {{0, 2}, {2}, {1, 2}}},
	}
	if n := len(o.Args); n > 3 {
		same, spread, empty := make([][]int, n), make([][]int, n), make([][]int, n)
		for i := range n {
			same[i], spread[i] = []int{2, 3}, [][]int{{2, 3}, {3}, {2, 1}, nil}[i%4]
			empty[i] = [][]int{{0, 2}, {2}}[i%2]
		}
		shapes[n] = [][][]int{same, spread, empty}
	}
	params := make([]float64, len(o.Expr.Params))
	for i := range params {
		params[i] = 0.5 + 0.75*float64(i) // between the operands' usual values, and ascending for clamp
	}
	if o.draws > 0 {
		params[0] = 0.25 // a probability
	}
	dt := Float32
	if o.result == integerType {
		dt = Int32
	}
	for _, in := range shapes[len(o.Args)] {
		var s opSample
		for _, shape := range in {
			s.In = append(s.In, seam.Arg{Shape: shape, DType: dt, Lo: o.lo, Hi: o.hi})
		}
		s.Call = func(x []*Tensor) *Tensor { return apply(o, x, nil, params) }
		samples = append(samples, s)
	}
	return samples
}

// outputs are the samples for each output and for all.
func (o *Op) outputs(s opSample) (samples []opSample) {
	if s.CallAll == nil {
		return []opSample{s}
	}
	for k := range o.differentiable() {
		alone := s
		alone.Name = fmt.Sprintf("%s, output %d", s.Name, k)
		alone.Call = func(x []*Tensor) *Tensor { return s.CallAll(x)[k] }
		samples = append(samples, alone)
	}
	s.Call = func(x []*Tensor) *Tensor {
		var flat []*Tensor
		for _, y := range s.CallAll(x) {
			flat = append(flat, y.Reshape(y.Len()))
		}
		return Cat(0, flat...)
	}
	return append(samples, s)
}

// randomArgs are operands of the given shapes with values from [-2, 2).
func randomArgs(shapes ...[]int) []seam.Arg {
	var in []seam.Arg
	for _, s := range shapes {
		in = append(in, seam.Arg{Shape: s, Lo: -2, Hi: 2})
	}
	return in
}

// unary is a sample of an operation on one operand of the given shape.
func unary(name string, shape []int, call func(x *Tensor) *Tensor) opSample {
	return opSample{Name: name, In: randomArgs(shape), Call: func(x []*Tensor) *Tensor { return call(x[0]) }}
}
