package tensor

import "fmt"

// AllSamples are the operation's samples; pointwise operations without any get shapes that broadcast in every way. A
// sample of an operation of which several outputs carry a gradient becomes one for each of them, in which no gradient
// arrives at the others, and one for all together.
func (o *Op) AllSamples() (samples []Sample) {
	Given("all_samples", "the operation", o)
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
	params := make([]float64, len(o.Expr.Params))
	for i := range params {
		params[i] = 0.5 + 0.75*float64(i) // between the operands' usual values, and ascending for clamp
	}
	if o.draws > 0 {
		params[0] = 0.25 // a probability
	}
	for _, in := range shapes[len(o.Args)] {
		var s Sample
		for _, shape := range in {
			s.In = append(s.In, Arg{Shape: shape, Lo: o.lo, Hi: o.hi})
		}
		s.Call = func(x []*Tensor) *Tensor { return Apply(o, x, nil, params) }
		samples = append(samples, s)
	}
	return samples
}

// outputs are the samples for each output and for all.
func (o *Op) outputs(s Sample) (samples []Sample) {
	if s.CallAll == nil {
		return []Sample{s}
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
func randomArgs(shapes ...[]int) []Arg {
	var in []Arg
	for _, s := range shapes {
		in = append(in, Arg{Shape: s, Lo: -2, Hi: 2})
	}
	return in
}

// unary is a sample of an operation on one operand of the given shape.
func unary(name string, shape []int, call func(x *Tensor) *Tensor) Sample {
	return Sample{Name: name, In: randomArgs(shape), Call: func(x []*Tensor) *Tensor { return call(x[0]) }}
}
