package nn

import (
	"fmt"
	"iter"
	"reflect"
	"runtime"
	"strings"

	"github.com/weft-ml/weft/tensor"
)

// Module is a layer or a model with one input and one output.
type Module interface {
	Forward(x *tensor.Tensor) *tensor.Tensor
}

// Func makes a module of a function without parameters.
type Func func(x *tensor.Tensor) *tensor.Tensor

// Forward is f(x).
func (f Func) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("func", "the function", f)
	return f(x)
}

// Call runs a part of a model on x in a region of that name: the name appears in errors, and memory that
// the part does not return goes back to the pool. A part may also be called directly; that costs memory only.
func Call(name string, m Module, x *tensor.Tensor) *tensor.Tensor {
	engine.Given("call", name, m)
	return call(name, m, x)
}

// call is Call; tensors in last are used for the last time.
func call(name string, m Module, x *tensor.Tensor, last ...*tensor.Tensor) *tensor.Tensor {
	s := x.Scope()
	if s == nil {
		return m.Forward(x)
	}
	out := s.Region(name, func() []*tensor.Tensor { return []*tensor.Tensor{m.Forward(x)} }, last...)
	return out[0]
}

// Chain runs modules one after the other. Make it with [Sequential].
type Chain struct {
	modules []Module
	names   []string // region names: "0/linear"
	plain   []bool   // see plain
}

// Sequential is the chain of the given modules. Its parameters are named by position: "0.weight". Memory that layers
// and activations of this package hand to each other goes back to the pool after the second one, unless it was saved
// for backward.
func Sequential(modules ...Module) *Chain {
	c := &Chain{modules: modules}
	for i, m := range modules {
		name := fmt.Sprint(i)
		engine.Given("sequential", "module "+name, m)
		t := reflect.TypeOf(m)
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() == reflect.Struct {
			name += "/" + strings.ToLower(t.Name())
		}
		c.names, c.plain = append(c.names, name), append(c.plain, plain(m))
	}
	return c
}

// plain tells whether m is a layer or an activation of this package without any code of the caller, so that it keeps
// neither its operand nor its result.
func plain(m Module) bool {
	ours, tensors := reflect.TypeFor[Chain]().PkgPath(), reflect.TypeFor[tensor.Tensor]().PkgPath()
	if f, ok := m.(Func); ok { // methods of tensors, and flatten
		name := runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
		return name == ours+".flatten" || strings.HasPrefix(name, tensors+".(*Tensor).")
	}
	t := reflect.TypeOf(m)
	return t.Kind() == reflect.Pointer && t.Elem().PkgPath() == ours && !holdsCode(t.Elem())
}

// holdsCode tells whether values of type t may refer to functions or modules.
func holdsCode(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsCode(t.Field(i).Type) {
				return true
			}
		}
		return false
	case reflect.Slice, reflect.Array:
		return holdsCode(t.Elem())
	}
	return t.Kind() > reflect.Complex128 && t.Kind() != reflect.String && t != reflect.TypeFor[*tensor.Tensor]()
}

// Forward applies the modules in order.
func (c *Chain) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("sequential", "the chain", c)
	owned := false // nothing but the chain refers to x
	for i, m := range c.modules {
		var last []*tensor.Tensor
		if owned && c.plain[i] {
			last = []*tensor.Tensor{x}
		}
		y := call(c.names[i], m, x, last...)
		owned = c.plain[i] && (owned || !engine.Shares(x, y))
		x = y
	}
	return x
}

// Children yields the modules with their positions as names.
func (c *Chain) Children() iter.Seq2[string, any] {
	engine.Given("sequential", "the chain", c)
	return func(yield func(string, any) bool) {
		for i, m := range c.modules {
			if !yield(fmt.Sprint(i), m) {
				return
			}
		}
	}
}

// Freeze stops gradients to the parameters of parts of a model: they keep their values, and cost no time in backward
// passes and no memory for what these would save. [Unfreeze] lets them flow again. Neither may run beside a step.
func Freeze(parts ...any) { setNeedsGrad(parts, false) }

// Unfreeze undoes [Freeze].
func Unfreeze(parts ...any) { setNeedsGrad(parts, true) }

func setNeedsGrad(parts []any, needs bool) {
	for _, p := range Parameters(parts) {
		p.SetNeedsGrad(needs)
	}
}

// CountParameters is the number of trainable elements of a model, those of frozen parts, too.
func CountParameters(model any) int {
	n := 0
	for _, p := range Parameters(model) {
		n += p.Len()
	}
	return n
}
