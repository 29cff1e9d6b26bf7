package tensor

// NaNSum is [Tensor.Sum] of the elements that are not NaN; the others have gradient 0.
func (t *Tensor) NaNSum(axes ...int) *Tensor {
	if t.given("nansum").dtype.IsFloat() {
		t = t.MaskedFill(t.IsNaN(), 0)
	}
	return t.Sum(axes...)
}

// NaNMean is [Tensor.Mean] of the elements that are not NaN, and NaN where there are none.
func (t *Tensor) NaNMean(axes ...int) *Tensor {
	if !t.given("nanmean").dtype.IsFloat() {
		return t.Mean(axes...)
	}
	wide := statistic(t.dtype)
	count := t.IsNaN().Not().Sum(axes...).To(wide)
	return t.To(wide).NaNSum(axes...).Div(count).To(t.dtype)
}
