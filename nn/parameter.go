package nn

import (
	"github.com/weft-ml/weft/internal/philox"
	"github.com/weft-ml/weft/tensor"
)

// Random is the random stream of one parameter: its numbers depend on the device's seed, the model and the parameter's
// name alone.
type Random struct{ source philox.Source }

// Uint64 is number i of the stream.
func (r Random) Uint64(i uint64) uint64 { return r.source.Uint64(i) }

// Uniform fills v with the stream's first uniform numbers in [0, 1).
func (r Random) Uniform(v []float64) { philox.Uniform(v, r.source, 0) }

// Normal fills v with the stream's first standard normal numbers.
func (r Random) Normal(v []float64) { philox.Normal(v, r.source, 0) }

// Initializer draws the first values v of a parameter of the given shape, in row-major order, from the parameter's own
// random stream.
type Initializer func(v []float64, shape []int, r Random)

// Parameter declares a trainable float32 tensor without values. [Init] gives it its name, its values, which are zero
// without an initializer, and memory on a device.
func Parameter(init Initializer, shape ...int) *tensor.Tensor { return declare(init, true, shape) }

// State declares a tensor that is saved with a model but not trained, such as running statistics.
func State(init Initializer, shape ...int) *tensor.Tensor { return declare(init, false, shape) }

func declare(init Initializer, trainable bool, shape []int) *tensor.Tensor {
	if init == nil {
		return engine.Parameter(nil, trainable, shape...)
	}
	return engine.Parameter(func(v []float64, shape []int, r philox.Source) { init(v, shape, Random{r}) },
		trainable, shape...)
}

// ParameterOf makes host data a trainable parameter of its own, without a model: for small experiments and tests. It
// takes over t, which is contiguous and of a floating type.
func ParameterOf(name string, t *tensor.Tensor) *tensor.Tensor { return engine.ParameterOf(name, t) }

// Walk visits every parameter and state of a model once, in order, with its state-dict name: the path of field names in
// lower case, of indices and of map keys, such as "blocks.0.attn.qkv.weight". A model is a tensor, a struct, a slice,
// an array or a map, which is visited in the order of its keys, or a pointer or interface to one of these. A field tag
// `weft:"name"` gives another name, `weft:"-"` leaves the field out. A tensor reached twice (tied weights) keeps its
// first name. Unexported fields are not visited, but for embedded structs. Walk fails for what has no end or more than
// a million values. A part with a method Children() iter.Seq2[string, any] names its children itself; they are not
// found by its fields.
func Walk(model any, visit func(name string, t *tensor.Tensor)) { engine.Walk(model, visit) }

// Parameters lists the trainable tensors of a model, in the order of [Walk].
func Parameters(model any) []*tensor.Tensor { return engine.Parameters(model) }
