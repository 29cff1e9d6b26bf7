package tensor

import "reflect"

// given fails if v, an argument of op, is a nil interface, pointer or function; what names it.
func given(op, what string, v any) {
	r := reflect.ValueOf(v)
	if !r.IsValid() || (r.Kind() == reflect.Pointer || r.Kind() == reflect.Func) && r.IsNil() {
		fail(ErrValue, op, "%s is nil", what)
	}
}

// given is t; it fails for nil.
func (t *Tensor) given(op string) *Tensor {
	if t == nil {
		fail(ErrStep, op, "an operand is nil")
	}
	return t
}

// given fails for an operation that cannot be applied.
func (o *Op) given() {
	if o == nil || o.Shape == nil {
		fail(ErrValue, "apply", "the operation is nil, or has no Shape")
	}
}

// given is s; it fails for a scope of no step.
func (s *Scope) given(op string) *Scope {
	if s == nil || s.home == nil {
		fail(ErrStep, op, "the scope is nil, as that of host data and parameters is; use the one that the step's "+
			"function gets")
	}
	return s
}

// arenaOf is the arena with these values, which engine.Arena returned.
func arenaOf(op string, values *Tensor) *arena {
	if values == nil || values.root == nil || values.root.arena == nil || values.root.arena.values != values {
		fail(ErrValue, op, "%v does not have the values of an arena", values)
	}
	return values.root.arena
}

// given is d; it fails for a device that was not opened.
func (d *Device) given(op string) *Device {
	if d == nil || d.shared == nil {
		fail(ErrDevice, op, "the device is nil; tensor.Open opens one")
	}
	return d
}

// usable fails for a device that was not opened, or that is closed.
func (d *Device) usable(op string) {
	if d.given(op).closed.Load() {
		fail(ErrDevice, op, "%s was closed", d.Name())
	}
}
