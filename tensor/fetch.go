package tensor

// Fetch begins to copy the elements of t to the host, without waiting for the device. The result gives them once they
// have arrived, nil before.
func (t *Tensor) Fetch() (arrived func() []float64) {
	v := ToSlice[float64](t)
	return func() []float64 { return v }
}
