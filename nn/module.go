package nn

import (
	"fmt"
	"iter"
	"reflect"
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
	s := x.Scope()
	if s == nil {
		return m.Forward(x)
	}
	out := s.Region(name, func() []*tensor.Tensor { return []*tensor.Tensor{m.Forward(x)} })
	return out[0]
}

// Chain runs modules one after the other. Make it with [Sequential].
type Chain struct {
	modules []Module
	names   []string // region names: "0/linear"
}

// Sequential is the chain of the given modules. Its parameters are named by position: "0.weight".
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
		c.names = append(c.names, name)
	}
	return c
}

// Forward applies the modules in order.
func (c *Chain) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("sequential", "the chain", c)
	for i, m := range c.modules {
		x = Call(c.names[i], m, x)
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

// CountParameters is the number of trainable elements of a model.
func CountParameters(model any) int {
	n := 0
	for _, p := range Parameters(model) {
		n += p.Len()
	}
	return n
}
