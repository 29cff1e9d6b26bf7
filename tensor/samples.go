package tensor

// AllSamples are the row's samples; pointwise rows without any get shapes that broadcast in every way.
func (o *Op) AllSamples() []Sample {
	if o.Samples != nil {
		return o.Samples()
	}
	if o.Expr == nil || len(o.Args) == 0 {
		return nil
	}
	shapes := map[int][][][]int{
		1: {{{2, 3}}, {nil}, {{1}}, {{0, 3}}, {{2, 1, 3}}},
		2: {{{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{2, 1}, {1, 3}}, {nil, {2}}, {nil, nil}, {{0, 3}, {3}}, {{1, 3}, {2, 2, 3}}},
		3: {{{2, 3}, {2, 3}, {2, 3}}, {{2, 1}, {3}, nil}, {{0, 2}, {2}, {1, 2}}},
	}
	params := make([]float64, len(o.Expr.Params))
	for i := range params {
		params[i] = 0.5 + 0.75*float64(i) // between the operands' usual values, and ascending for clamp
	}
	if o.draws > 0 {
		params[0] = 0.25 // a probability
	}
	var samples []Sample
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
