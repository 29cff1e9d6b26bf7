package nn

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/weft-ml/weft/tensor"
	"gonum.org/v1/gonum/mat"
)

// InitOption changes what [Init] does. The zero InitOption changes nothing.
type InitOption struct{ set func(*initConfig) }

type initConfig struct {
	dtype   tensor.DType
	model   string
	onlyNew bool
}

// DType makes parameters of another floating type than float32.
func DType(dt tensor.DType) InitOption { return InitOption{func(c *initConfig) { c.dtype = dt }} }

// Named draws the first values for a model of this name, whichever models were made before it: on devices of one seed,
// models of the same name begin alike.
func Named(model string) InitOption {
	if model == "" {
		engine.Fail(tensor.ErrValue, "named", "the name is empty")
	}
	return InitOption{func(c *initConfig) { c.model = model }}
}

// OnlyNew leaves parameters and states alone that have memory: after a part of a model was replaced, the new part gets
// its names, memory and the values that [Init] of the whole model would have given it; the others keep their values. It
// makes no model that counts.
func OnlyNew() InitOption { return InitOption{func(c *initConfig) { c.onlyNew = true }} }

// Init visits a model once and gives every parameter and state its state-dict name, first values from the
// stream (seed of dev, number of the model, name), and memory on dev. The n-th Init of a device makes model n, so that
// two models begin differently, and programs that make the same models in the same order alike; [Named] gives a name
// for the number. Calling it again starts afresh, with the same number and values.
//
// Matrices come before vectors, so that optimizers that treat them differently update two contiguous ranges. The errors
// are of kind [tensor.ErrMemory] and [tensor.ErrValue]; one of these names parameters in unexported fields, which it
// cannot reach. After an error all is as it was.
func Init(dev *tensor.Device, model any, opts ...InitOption) error {
	c := initConfig{dtype: tensor.Float32}
	for _, o := range opts {
		if o.set != nil {
			o.set(&c)
		}
	}
	type group struct {
		names   []string
		tensors []*tensor.Tensor
	}
	var matrices, rest group
	kept, whole := "", true // the model that parts belong to, and whether all of them do
	err := engine.Try(func() {
		Walk(model, func(name string, t *tensor.Tensor) {
			m := modelOn(dev, t)
			kept = cmp.Or(kept, m)
			whole = whole && m != "" && m == kept
			if c.onlyNew && placed(t) {
				return
			}
			g := &rest
			if t.Trainable() && t.Rank() >= 2 {
				g = &matrices
			}
			g.names, g.tensors = append(g.names, name), append(g.tensors, t)
		})
		if paths := unreached(model); len(paths) > 0 {
			engine.Fail(tensor.ErrValue, "init", "unexported fields hold parameters that nobody can name: %s; "+
				"export these fields", strings.Join(paths, ", "))
		}
	})
	if err != nil {
		return err
	}
	if c.model == "" && (whole || c.onlyNew) {
		c.model = kept
	}
	names, tensors := append(matrices.names, rest.names...), append(matrices.tensors, rest.tensors...)
	return engine.Place(dev, c.model, names, tensors, c.dtype)
}

// modelOn is the name of the model that t was placed with on dev; "" if it was not.
func modelOn(dev *tensor.Device, t *tensor.Tensor) string {
	if !placed(t) || t.Device() != dev {
		return ""
	}
	values, _, _ := engine.Arena(t)
	return engine.Model(values)
}

// want fails unless a hyperparameter is finite and in range.
func want(op, name string, v float64, within bool, limits string) {
	if v-v != 0 || !within {
		engine.Fail(tensor.ErrValue, op, "%s is %v, outside %s", name, v, limits)
	}
}

// Constant sets every element to v. Like the other initializers it panics with a [tensor.Error] for a NaN or an
// infinity, and for a deviation or a gain that is negative.
func Constant(v float64) Initializer {
	want("constant", "the value", v, true, "(-Inf, +Inf)")
	return func(x []float64, _ []int, _ Random) {
		for i := range x {
			x[i] = v
		}
	}
}

// Zeros and Ones are constant.
var (
	Zeros = Constant(0)
	Ones  = Constant(1)
)

// Uniform draws from the uniform distribution over [lo, hi); rounding to the type of the parameter may give hi.
func Uniform(lo, hi float64) Initializer {
	want("uniform", "lo", lo, lo <= hi, fmt.Sprintf("(-Inf, %v], up to hi", hi))
	want("uniform", "the width of the range", hi-lo, true, "[0, +Inf)")
	return func(x []float64, _ []int, r Random) {
		r.Uniform(x)
		for i, u := range x {
			x[i] = lo + float64((hi-lo)*u)
		}
	}
}

// within draws uniformly from [-bound, bound).
func within(bound float64) Initializer { return Uniform(-bound, bound) }

// Normal draws from the normal distribution.
func Normal(mean, std float64) Initializer {
	want("normal", "mean", mean, true, "(-Inf, +Inf)")
	want("normal", "std", std, std >= 0, "[0, +Inf)")
	return func(x []float64, _ []int, r Random) {
		r.Normal(x)
		for i, v := range x {
			x[i] = mean + float64(std*v)
		}
	}
}

// fans are the numbers of inputs and outputs of a weight [out in ...].
func fans(shape []int) (in, out float64) {
	if len(shape) < 2 {
		engine.Fail(tensor.ErrShape, "init", "fan-in and fan-out need a weight with two axes or more, not %v", shape)
	}
	field := 1
	for _, d := range shape[2:] {
		field *= d
	}
	return float64(shape[1] * field), float64(shape[0] * field)
}

// byFans draws as f says for the numbers of inputs and outputs of a weight.
func byFans(op string, gain float64, f func(in, out float64) Initializer) Initializer {
	want(op, "gain", gain, gain >= 0, "[0, +Inf)")
	return func(x []float64, shape []int, r Random) { f(fans(shape))(x, shape, r) }
}

// KaimingUniform keeps the variance of signals through layers with ReLU: bound gain*sqrt(3/fan_in)
// (He et al. 2015). The gain of ReLU is sqrt(2).
func KaimingUniform(gain float64) Initializer {
	return byFans("kaiming_uniform", gain, func(in, _ float64) Initializer { return within(gain * math.Sqrt(3/in)) })
}

// KaimingNormal is KaimingUniform with a normal distribution of deviation gain/sqrt(fan_in).
func KaimingNormal(gain float64) Initializer {
	return byFans("kaiming_normal", gain, func(in, _ float64) Initializer { return Normal(0, gain/math.Sqrt(in)) })
}

// XavierUniform balances forward and backward variance: bound gain*sqrt(6/(fan_in+fan_out)) (Glorot and Bengio 2010).
func XavierUniform(gain float64) Initializer {
	return byFans("xavier_uniform", gain, func(in, out float64) Initializer {
		return within(gain * math.Sqrt(6/(in+out)))
	})
}

// XavierNormal is XavierUniform with a normal distribution of deviation gain*sqrt(2/(fan_in+fan_out)).
func XavierNormal(gain float64) Initializer {
	return byFans("xavier_normal", gain, func(in, out float64) Initializer {
		return Normal(0, gain*math.Sqrt(2/(in+out)))
	})
}

// Orthogonal makes rows or columns, whichever are fewer, orthogonal and of length gain, by the QR
// decomposition of a normal matrix (Saxe et al. 2013). The weight is [out in ...].
func Orthogonal(gain float64) Initializer {
	want("orthogonal", "gain", gain, gain >= 0, "[0, +Inf)")
	return func(x []float64, shape []int, r Random) {
		fans(shape) // fails for vectors
		if len(x) == 0 {
			return
		}
		rows := shape[0]
		cols := len(x) / rows
		n, m := max(rows, cols), min(rows, cols)
		a := make([]float64, n*m)
		r.Normal(a)
		var qr mat.QR
		qr.Factorize(mat.NewDense(n, m, a))
		var q, t mat.Dense
		qr.QTo(&q)
		qr.RTo(&t)
		for i := range rows {
			for j := range cols {
				long, short := i, j
				if rows < cols {
					long, short = j, i
				}
				v := gain * q.At(long, short)
				if t.At(short, short) < 0 { // makes the distribution over orthogonal matrices uniform
					v = -v
				}
				x[i*cols+j] = v
			}
		}
	}
}
