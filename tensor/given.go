package tensor

import "reflect"

// Given fails if v, an argument of op, is a nil interface, pointer or function; what names it.
func Given(op, what string, v any) {
	r := reflect.ValueOf(v)
	if !r.IsValid() || (r.Kind() == reflect.Pointer || r.Kind() == reflect.Func) && r.IsNil() {
		Fail(ErrValue, op, "%s is nil", what)
	}
}

// Configure applies options of op to c: every function of the library that takes options calls it.
func Configure[C any, O ~func(c *C)](op string, c *C, opts []O) {
	for i, o := range opts {
		if o == nil {
			Fail(ErrValue, op, "option %d is nil", i)
		}
		o(c)
	}
}

// given is t; it fails for nil.
func (t *Tensor) given(op string) *Tensor {
	if t == nil {
		Fail(ErrStep, op, "an operand is nil")
	}
	return t
}

// given fails for an operation that cannot be applied.
func (o *Op) given() {
	if o == nil || o.Shape == nil {
		Fail(ErrValue, "apply", "the operation is nil, or has no Shape")
	}
}

// given is s; it fails for a scope of no step.
func (s *Scope) given(op string) *Scope {
	if s == nil || s.home == nil {
		Fail(ErrStep, op, "the scope is nil, as that of host data and parameters is; use the one that the step's "+
			"function gets")
	}
	return s
}

// given is a; it fails for an arena that nothing was placed in.
func (a *Arena) given(op string) *Arena {
	if a == nil || a.values == nil {
		Fail(ErrValue, op, "the arena is nil; that of a parameter is its Arena")
	}
	return a
}

// given is d; it fails for a device that was not opened.
func (d *Device) given(op string) *Device {
	if d == nil || d.shared == nil {
		Fail(ErrDevice, op, "the device is nil; tensor.Open opens one")
	}
	return d
}

// usable fails for a device that was not opened, or that is closed.
func (d *Device) usable(op string) {
	if d.given(op).closed.Load() {
		Fail(ErrDevice, op, "%s was closed", d.Name())
	}
}
