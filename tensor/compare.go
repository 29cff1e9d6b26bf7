package tensor

import "math"

// AllClose tells whether t and u have one shape and all their elements differ by at most atol + rtol*|u|, whatever
// their types. Infinities of one sign are close; a NaN is close to nothing. It reads both on the host, which waits for
// the device.
func (t *Tensor) AllClose(u *Tensor, rtol, atol float64) bool {
	return all("all_close", t, u, func(x, y float64) bool {
		return x == y || math.Abs(x-y) <= atol+math.Abs(rtol*y) && !math.IsInf(y, 0)
	})
}

// AllEqual tells whether t and u have one type, one shape and equal elements; a NaN equals nothing. It reads both on
// the host, which waits for the device. [Tensor.Equal] compares element by element.
func (t *Tensor) AllEqual(u *Tensor) bool {
	t.given("all_equal")
	u.given("all_equal")
	if t.dtype != u.dtype {
		return false
	}
	if t.dtype == Int64 { // float64 does not hold them all
		return all("all_equal", t, u, func(x, y int64) bool { return x == y })
	}
	return all("all_equal", t, u, func(x, y float64) bool { return x == y })
}

// all tells whether a and b have one shape, and f holds for each pair of elements.
func all[T Elem](op string, a, b *Tensor, f func(x, y T) bool) bool {
	a.usable(op)
	b.usable(op)
	if !sameShape(a, b) {
		return false
	}
	y := ToSlice[T](b)
	for i, x := range ToSlice[T](a) {
		if !f(x, y[i]) {
			return false
		}
	}
	return true
}
