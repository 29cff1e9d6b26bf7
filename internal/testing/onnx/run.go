package onnx

import (
	"fmt"

	"github.com/weft-ml/weft/tensor"
)

// A call is one node with its operands.
type call struct {
	*node
	scope *tensor.Scope
	in    []*tensor.Tensor // nil where an optional one is missing
	opset int
	run   func(g *graph) []*tensor.Tensor // a graph that an attribute holds
}

// operators are what nodes do, by name.
var operators = map[string]func(c *call) []*tensor.Tensor{}

// define adds operators; each name has one.
func define(more map[string]func(c *call) []*tensor.Tensor) {
	for name, f := range more {
		if operators[name] != nil {
			panic("onnx: two operators " + name)
		}
		operators[name] = f
	}
}

// one makes an operator of a function with one result.
func one(f func(c *call) *tensor.Tensor) func(c *call) []*tensor.Tensor {
	return func(c *call) []*tensor.Tensor { return []*tensor.Tensor{f(c)} }
}

func unary(f func(x *tensor.Tensor) *tensor.Tensor) func(c *call) []*tensor.Tensor {
	return one(func(c *call) *tensor.Tensor { return f(c.in[0]) })
}

func pair(f func(x, y *tensor.Tensor) *tensor.Tensor) func(c *call) []*tensor.Tensor {
	return one(func(c *call) *tensor.Tensor { return f(c.in[0], c.in[1]) })
}

// fold makes an operator of any number of operands.
func fold(f func(x, y *tensor.Tensor) *tensor.Tensor) func(c *call) []*tensor.Tensor {
	return one(func(c *call) *tensor.Tensor {
		y := c.in[0]
		for _, x := range c.in[1:] {
			y = f(y, x)
		}
		return y
	})
}

// operand is operand i, nil if it is missing.
func (c *call) operand(i int) *tensor.Tensor {
	if i < len(c.in) {
		return c.in[i]
	}
	return nil
}

// wants tells whether the model uses output i.
func (c *call) wants(i int) bool { return i < len(c.outputs) && c.outputs[i] != "" }

func (c *call) has(name string) bool { _, ok := c.attrs[name]; return ok }

func (c *call) int(name string, otherwise int) int {
	if a, ok := c.attrs[name]; ok {
		return a.i
	}
	return otherwise
}

func (c *call) float(name string, otherwise float64) float64 {
	if a, ok := c.attrs[name]; ok {
		return a.f
	}
	return otherwise
}

func (c *call) text(name, otherwise string) string {
	if a, ok := c.attrs[name]; ok {
		return a.s
	}
	return otherwise
}

func (c *call) ints(name string, otherwise ...int) []int {
	if a, ok := c.attrs[name]; ok {
		return a.ints
	}
	return otherwise
}

// dtype is the element type that an attribute names.
func (c *call) dtype(name string, otherwise tensor.DType) tensor.DType {
	if !c.has(name) {
		return otherwise
	}
	dt, ok := dtypes[int64(c.attrs[name].i)]
	if !ok {
		panic(typeError{types[int64(c.attrs[name].i)]})
	}
	return dt
}

// host are the elements of an operand that the operator needs on the host, such as a shape; nil if it is missing.
func (c *call) host(i int) []int {
	t := c.operand(i)
	if t == nil {
		return nil
	}
	v := []int{}
	for _, x := range tensor.ToSlice[int64](t) {
		v = append(v, int(x))
	}
	return v
}

// axis is an axis counted from 0.
func axis(a, rank int) int {
	if a < 0 {
		return a + rank
	}
	return a
}

// evaluate computes the outputs of a graph. values are those known so far; they grow.
func evaluate(s *tensor.Scope, g *graph, opset int, values map[string]*tensor.Tensor) (out []*tensor.Tensor) {
	for name, t := range g.constants {
		values[name] = s.In(t)
	}
	for _, n := range g.nodes {
		c := &call{node: n, scope: s, opset: opset,
			run: func(inner *graph) []*tensor.Tensor { return evaluate(s, inner, opset, values) }}
		for _, name := range n.inputs {
			if name != "" && values[name] == nil {
				panic(fmt.Sprintf("onnx: %s reads %q, which nothing writes", n.op, name))
			}
			c.in = append(c.in, values[name])
		}
		for i, t := range operators[n.op](c) {
			if c.wants(i) {
				values[n.outputs[i]] = t
			}
		}
	}
	for _, name := range g.outputs {
		out = append(out, values[name])
	}
	return out
}

// lacks says what keeps a graph from being evaluated: a type, or an operator; "" if nothing does.
func lacks(g *graph) (why, operator string) {
	for _, kind := range g.types {
		if name, lacking := types[kind]; lacking {
			return typeError{name}.Error(), ""
		}
	}
	for _, n := range g.nodes {
		if n.domain == "ai.onnx.preview.training" {
			return training, ""
		}
		if n.domain != "" || operators[n.op] == nil {
			return outside[n.op], n.op
		}
		for _, a := range n.attrs {
			if a.g != nil {
				if why, operator = lacks(a.g); why != "" || operator != "" {
					return why, operator
				}
			}
		}
	}
	return "", ""
}
