package golden

import (
	"encoding/json"
	"fmt"
	"math"
)

// Case is one call of an operation.
//
// Gradients are those of the scalar sum over all outputs of output*weight, so
// Weights are what a test passes backward as the outputs' gradients.
type Case struct {
	Name string // unique, such as "softmax/axis=1"
	Op   string // operation

	// Attrs are the arguments that are not tensors; see [Case.Int] and its like.
	Attrs map[string]json.RawMessage

	Inputs  []string // arrays passed in, in order
	Outputs []string // arrays returned, in order

	// Weights has one array for each output, "" where the output is not
	// differentiable; it is empty if the case has no gradients.
	Weights []string

	// Grads has one array for each input, "" where the input is not
	// differentiable; it is empty if the case has no gradients.
	Grads []string

	// Exact holds, for float32 cases of smooth functions, the outputs computed
	// in float64 from the same inputs: the reference for errors in ulp.
	Exact []string

	// Edge marks a case that tests a convention (ties, zeros, NaN, empty axes),
	// not accuracy.
	Edge bool
}

// check reports a case that names missing arrays or whose lists do not match.
func (c *Case) check(f *File) error {
	if c.Name == "" || c.Op == "" {
		return fmt.Errorf("has no name or no operation")
	}
	if len(c.Outputs) == 0 {
		return fmt.Errorf("has no outputs")
	}
	for _, list := range [][]string{c.Inputs, c.Outputs, c.Exact} {
		for _, name := range list {
			if !f.Has(name) {
				return fmt.Errorf("no array %q", name)
			}
		}
	}
	for _, list := range [][]string{c.Weights, c.Grads} {
		for _, name := range list {
			if name != "" && !f.Has(name) {
				return fmt.Errorf("no array %q", name)
			}
		}
	}
	if n := len(c.Weights); n != 0 && n != len(c.Outputs) {
		return fmt.Errorf("%d weights for %d outputs", n, len(c.Outputs))
	}
	if n := len(c.Grads); n != 0 && n != len(c.Inputs) {
		return fmt.Errorf("%d gradients for %d inputs", n, len(c.Inputs))
	}
	if n := len(c.Exact); n != 0 && n != len(c.Outputs) {
		return fmt.Errorf("%d exact values for %d outputs", n, len(c.Outputs))
	}
	return nil
}

// Has reports whether the case has the attribute.
func (c *Case) Has(key string) bool {
	_, ok := c.Attrs[key]
	return ok
}

// Int returns an integer attribute. Like the other readers of attributes it
// panics if the case has none of that name and type.
func (c *Case) Int(key string) int { return attr[int](c, key) }

// Ints returns an attribute that is a list of integers.
func (c *Case) Ints(key string) []int { return attr[[]int](c, key) }

// Bool returns a bool attribute.
func (c *Case) Bool(key string) bool { return attr[bool](c, key) }

// Text returns an attribute that is a string.
func (c *Case) Text(key string) string { return attr[string](c, key) }

// Float returns a number; "inf", "-inf" and "nan" stand for those values.
func (c *Case) Float(key string) float64 {
	switch string(c.Attrs[key]) {
	case `"inf"`:
		return math.Inf(1)
	case `"-inf"`:
		return math.Inf(-1)
	case `"nan"`:
		return math.NaN()
	}
	return attr[float64](c, key)
}

func attr[T any](c *Case, key string) T {
	raw, ok := c.Attrs[key]
	if !ok {
		panic(fmt.Sprintf("golden: case %q has no attribute %q", c.Name, key))
	}
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		panic(fmt.Sprintf("golden: case %q, attribute %q: %v", c.Name, key, err))
	}
	return v
}
