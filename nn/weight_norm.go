package nn

import (
	"math"
	"reflect"

	"github.com/weft-ml/weft/internal/philox"
	"github.com/weft-ml/weft/tensor"
)

// scale is the product with a number.
var scale = engine.Op("scale")

// Normalize is x over its p-norm along an axis, which is held above eps: PyTorch has p = 2, axis 1 and eps = 1e-12.
// Shape and type stay; the gradient does not see a norm below eps.
func Normalize(x *tensor.Tensor, p float64, axis int, eps float64) *tensor.Tensor {
	engine.Given("normalize", "x", x)
	want("normalize", "eps", eps, eps >= 0, "[0, +Inf)")
	return x.Div(x.Norm(p, axis, tensor.KeepDims).Clamp(eps, math.Inf(1))).To(x.DType())
}

// WeightNorm is a layer whose weight is G*V/|V|: its slices along an axis have a length, G, and a direction, V, of
// their own (Salimans and Kingma 2016). Its other parameters keep their names.
type WeightNorm struct {
	Module                // the layer, without its weight
	V      *tensor.Tensor `weft:"weight_v"` // of the weight's shape
	G      *tensor.Tensor `weft:"weight_g"` // so, but with size 1 on the other axes
	Axis   int
}

// NewWeightNorm takes over a layer that [Init] has not seen: a pointer to a struct whose field Weight is a parameter of
// at least two axes, such as those of [NewLinear] and [NewConv2d]. The first weights are those of the layer. The option
// is [NormAxis].
func NewWeightNorm(layer Module, opts ...LayerOption) *WeightNorm {
	const op = "weight_norm"
	c := layerOf(op, opts, "NormAxis")
	weight, axis := takeWeight(op, layer, c.axis)
	if placed(weight) {
		engine.Fail(tensor.ErrStep, op, "the layer has its first values already; give it before nn.Init")
	}
	// The stream of a length is not that of its slice, so the lengths are those of the values drawn just before.
	shape, first := weight.Shape(), engine.Initializer(weight)
	lengths := make([]float64, shape[axis])
	v := func(v []float64, shape []int, r philox.Source) {
		if first != nil {
			first(v, shape, r)
		}
		sliceNorms(lengths, v, shape, axis)
	}
	g := func(v []float64, _ []int, _ Random) { copy(v, lengths) }
	ones := make([]int, len(shape))
	for i := range ones {
		ones[i] = 1
	}
	ones[axis] = shape[axis]
	return &WeightNorm{layer, engine.Parameter(v, true, shape...), Parameter(g, ones...), axis}
}

// sliceNorms sets norms to those of the slices of v along an axis.
func sliceNorms(norms, v []float64, shape []int, axis int) {
	inner := 1
	for _, n := range shape[axis+1:] {
		inner *= n
	}
	clear(norms)
	for i, x := range v {
		norms[i/inner%len(norms)] += float64(x * x)
	}
	for i, squares := range norms {
		norms[i] = math.Sqrt(squares)
	}
}

// Forward is that of the layer.
func (n *WeightNorm) Forward(x *tensor.Tensor) *tensor.Tensor {
	const op = "weight_norm"
	engine.Given(op, "the layer", n)
	v := stepOf(op, x).In(n.V)
	w := v.Mul(n.G.Div(v.Norm(2, append(otherAxes(v, n.Axis), tensor.KeepDims)...))).To(v.DType())
	return withWeight(op, n.Module, w).Forward(x)
}

// SpectralNorm is a layer whose weight is divided by its largest singular value (Miyato et al. 2018). U and V approach
// the singular vectors by power iteration, in steps with training behaviour. They are state: they move when the step
// commits, once, however often the step calls Forward. The layer's other parameters keep their names.
type SpectralNorm struct {
	Module                    // the layer, without its weight
	Weight     *tensor.Tensor `weft:"weight_orig"` // as a matrix: its rows are the slices along Axis
	U          *tensor.Tensor `weft:"weight_u"`    // [rows]
	V          *tensor.Tensor `weft:"weight_v"`    // [columns]
	Axis       int
	Iterations int     // in a step
	Eps        float64 // that the norms of U and V are held above
}

// NewSpectralNorm takes over a layer: a pointer to a struct whose field Weight is a parameter of at least two axes,
// such as those of [NewLinear] and [NewConv2d]. Options, with PyTorch's defaults: [NormAxis] (0, and 1 for transposed
// convolutions), [PowerIterations] (1), [Eps] (1e-12).
func NewSpectralNorm(layer Module, opts ...LayerOption) *SpectralNorm {
	const op = "spectral_norm"
	c := layerConfig{eps: 1e-12, iterations: 1}
	switch layer.(type) {
	case *ConvTranspose1d, *ConvTranspose2d, *ConvTranspose3d:
		c.axis = 1
	}
	c = c.with(op, opts, "NormAxis", "PowerIterations", "Eps")
	weight, axis := takeWeight(op, layer, c.axis)
	unit := func(v []float64, shape []int, r Random) {
		r.Normal(v)
		squares := 0.0
		for _, x := range v {
			squares += float64(x * x)
		}
		for i := range v {
			v[i] /= max(math.Sqrt(squares), c.eps)
		}
	}
	rows := weight.Dim(axis)
	return &SpectralNorm{layer, weight, State(unit, rows), State(unit, weight.Len()/max(1, rows)), axis, c.iterations,
		c.eps}
}

// Forward is that of the layer.
func (n *SpectralNorm) Forward(x *tensor.Tensor) *tensor.Tensor {
	const op = "spectral_norm"
	engine.Given(op, "the layer", n)
	s := stepOf(op, x)
	u, v := widened(engine.Committed(s, n.U)), widened(engine.Committed(s, n.V))
	weight := s.In(n.Weight)
	rowsFirst := append([]int{n.Axis}, otherAxes(weight, n.Axis)...)
	matrix := widened(weight).Permute(rowsFirst...).Reshape(n.U.Len(), n.V.Len())
	if s.Training() {
		s.With(func() {
			for range n.Iterations {
				v = Normalize(matrix.Mul(u.Unsqueeze(1)).Sum(0), 2, 0, n.Eps)
				u = Normalize(matrix.Mul(v).Sum(1), 2, 0, n.Eps)
			}
		}, tensor.NoGrad())
		engine.Update(s, scale, 0, u.Len(), []*tensor.Tensor{n.U}, []*tensor.Tensor{u}, []float64{1})
		engine.Update(s, scale, 0, v.Len(), []*tensor.Tensor{n.V}, []*tensor.Tensor{v}, []float64{1})
	}
	largest := matrix.Mul(v).Sum(1).Mul(u).Sum()
	return withWeight(op, n.Module, weight.Div(largest).To(weight.DType())).Forward(x)
}

// stepOf is the step that x belongs to.
func stepOf(op string, x *tensor.Tensor) *tensor.Scope {
	engine.Given(op, "x", x)
	s := x.Scope()
	if s == nil {
		engine.Fail(tensor.ErrStep, op, "x %v belongs to no step; take it in with s.In", x)
	}
	return s
}

// otherAxes are the axes of x but the given one.
func otherAxes(x *tensor.Tensor, but int) (axes []int) {
	for axis := range x.Rank() {
		if axis != but {
			axes = append(axes, axis)
		}
	}
	return axes
}

// takeWeight takes the weight out of a layer. The axis of it comes back counted from the front.
func takeWeight(op string, layer Module, axis int) (*tensor.Tensor, int) {
	field := weightOf(op, layer)
	if field.IsNil() {
		engine.Fail(tensor.ErrValue, op, "the field Weight of %T is nil", layer)
	}
	weight := field.Interface().(*tensor.Tensor)
	rank := weight.Rank()
	if rank < 2 || !weight.Trainable() {
		engine.Fail(tensor.ErrShape, op, "the weight %v of %T must be a parameter of at least two axes", weight, layer)
	}
	if axis < -rank || axis >= rank {
		engine.Fail(tensor.ErrShape, op, "the weight %v of %T has no axis %d", weight, layer, axis)
	}
	field.SetZero()
	return weight, (axis + rank) % rank
}

// weightOf is the field Weight of what a layer points to.
func weightOf(op string, layer Module) (_ reflect.Value) {
	engine.Given(op, "the layer", layer)
	if v := reflect.ValueOf(layer); v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
		if f, ok := v.Elem().Type().FieldByName("Weight"); ok && f.Type == tensorType {
			if field, err := v.Elem().FieldByIndexErr(f.Index); err == nil && field.CanSet() {
				return field
			}
		}
	}
	engine.Fail(tensor.ErrValue, op, "%T is no pointer to a struct with a field Weight that is a parameter", layer)
	return
}

// withWeight is a copy of a layer, with that weight.
func withWeight(op string, layer Module, weight *tensor.Tensor) Module {
	weightOf(op, layer)
	from := reflect.ValueOf(layer)
	made := reflect.New(from.Type().Elem())
	made.Elem().Set(from.Elem())
	made.Elem().FieldByName("Weight").Set(reflect.ValueOf(weight))
	return made.Interface().(Module)
}
