package tensor

import (
	"slices"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attribute of index_select and index_add is the axis.
var indexSelect, indexAdd Op

// addable are the types for which the CPU has loops of index_add and scatter_add.
var addable = []DType{Float32, Float64, Int64, Int32, Uint8}

func init() {
	define(&indexSelect, entry{
		Op:    kernels.Op{Name: "index_select", CPU: cpu.IndexSelect, Types: kernels.DTypes(), Ref: indexSelectRef},
		Doc:   "the entries of an axis at indices",
		Args:  []string{"x", "indices"},
		Ints:  []string{"axis"},
		Shape: indexSelectShape,
		VJP:   indexSelectVJP,
		Saves: []saves{saveIn(1)},
		Samples: func() []opSample {
			return selectSamples(func(name string, shape []int, axis int, indices ...float64) opSample {
				return opSample{Name: name, In: append(randomArgs(shape), indexArg([]int{len(indices)}, indices...)),
					Call: func(x []*Tensor) *Tensor { return x[0].IndexSelect(axis, x[1]) }}
			})
		},
	})
	define(&indexAdd, entry{
		Op:    kernels.Op{Name: "index_add", CPU: cpu.IndexAdd, Types: addable, Ref: indexAddRef},
		Cast:  seam.CastWidest,
		Doc:   "x with y[.., k, ..] added to entry indices[k] of an axis, k ascending",
		Args:  []string{"x", "indices", "y"},
		Ints:  []string{"axis"},
		Shape: indexAddShape,
		VJP:   func(c *ctx, g *Tensor) []*Tensor { return addVJP(c, g, &indexSelect) },
		Saves: []saves{0, 0, saveIn(1)},
		Samples: func() []opSample {
			return selectSamples(func(name string, shape []int, axis int, indices ...float64) opSample {
				added := slices.Clone(shape)
				added[(axis+len(shape))%len(shape)] = len(indices)
				in := randomArgs(shape, added)
				return opSample{Name: name, In: []seam.Arg{in[0], indexArg([]int{len(indices)}, indices...), in[1]},
					Call: func(x []*Tensor) *Tensor { return x[0].IndexAdd(axis, x[1], x[2]) }}
			})
		},
	})
}

// selectSamples are the samples of index_select and index_add: the shape of x, the axis and the indices.
func selectSamples(sample func(name string, shape []int, axis int, indices ...float64) opSample) []opSample {
	return []opSample{
		sample("rows", []int{3, 4}, 0, 2, 0, 2, 2), sample("columns", []int{3, 4}, -1, 1, 1, 3, 0, 2),
		sample("middle", []int{2, 3, 2}, 1, 2, 1), sample("vector", []int{3}, 0, 1),
		sample("size 1", []int{1, 2}, 0, 0, 0), sample("no indices", []int{3, 2}, 0),
		sample("empty entries", []int{2, 0}, 0, 1),
	}
}

// indexArg is an operand of indices for a Sample.
func indexArg(shape []int, values ...float64) seam.Arg {
	return seam.Arg{Shape: shape, DType: Int64, Values: append([]float64{}, values...)}
}

// IndexSelect is the entries of an axis at the given indices, in their order: the axes of indices, usually one, replace
// that axis. Indices are int64, int32 or uint8; all outside the axis are refused, negative ones, too.
func (t *Tensor) IndexSelect(axis int, indices *Tensor) *Tensor {
	axis = t.axis("index_select", axis)
	return applyIndexed(&indexSelect, []*Tensor{t, indices}, axis)
}

// applyIndexed applies an operation with operands x, indices and perhaps y, of which the attribute is the axis of x, or
// with indices alone, of which it is the number of classes. Where the result is empty devices have no work:
// index_select of as many elements as there are indices looks at these in its place.
func applyIndexed(op *Op, in []*Tensor, attribute int) *Tensor {
	y := apply(op, in, []int{attribute}, nil)
	if indices := in[min(1, len(in)-1)]; y.Len() == 0 && indices.Len() > 0 {
		size := attribute
		if len(in) > 1 {
			size = in[0].layout.Shape[attribute]
		}
		s := stepOf(op.Name, in)
		x := y.constant(0, Uint8, size)
		s.apply(indexSelect.under(op.Name), []*Tensor{x, indices}, []int{0}, nil)
	}
	return y
}

// IndexAdd is t with y[k] added to its entry indices[k] along an axis, for k ascending. Indices are as in
// [Tensor.IndexSelect].
func (t *Tensor) IndexAdd(axis int, indices, y *Tensor) *Tensor {
	axis = t.axis("index_add", axis)
	return applyIndexed(&indexAdd, []*Tensor{t, indices, y}, axis)
}

// wantAddable fails unless operands 0 and 2 can be added.
func (c *ctx) wantAddable() {
	if x, y := c.In[0], c.In[2]; x.dtype != y.dtype || x.dtype == Bool {
		c.fail(ErrDType, "x %v and y %v must hold numbers of one type; x.To(...) converts", x, y)
	}
}

// wantIndices fails unless operand i holds indices.
func (c *ctx) wantIndices(i int) { c.wantDType(i, Int64, Int32, Uint8) }

// selected is shape with the given axis replaced by the axes of the indices.
func selected(shape []int, axis int, indices []int) []int {
	return slices.Concat(shape[:axis], indices, shape[axis+1:])
}

func indexSelectShape(c *ctx) {
	c.wantIndices(1)
	c.result(c.In[0].dtype, selected(c.shape(0), c.Ints[0], c.shape(1))...)
}

// indexSelectVJP adds the gradients of all copies of an entry to zero, in ascending order of their indices in the
// result.
func indexSelectVJP(c *ctx, g *Tensor) []*Tensor {
	return []*Tensor{apply(&indexAdd, []*Tensor{c.zeros(0), c.In[1], g}, c.Ints, nil), nil}
}

// addVJP is the gradient of index_add and scatter_add; read is the operation that reads what these add to.
func addVJP(c *ctx, g *Tensor, read *Op) []*Tensor {
	grads := make([]*Tensor, 3)
	if c.needs(0) {
		grads[0] = g
	}
	if c.needs(2) {
		grads[2] = apply(read, []*Tensor{g, c.In[1]}, c.Ints, nil)
	}
	return grads
}

// zeros is a tensor of zeros like operand i.
func (c *ctx) zeros(i int) *Tensor {
	return c.scope.newFull(c.In[i], 0, c.In[i].dtype, c.shape(i)...)
}

func indexAddShape(c *ctx) {
	c.wantIndices(1)
	c.wantAddable()
	x, y := c.In[0], c.In[2]
	if want := selected(c.shape(0), c.Ints[0], c.shape(1)); !slices.Equal(want, c.shape(2)) {
		c.fail(ErrShape, "y %v must have shape %v: that of x %v with the axes of the indices %v in place of axis %d",
			y, want, x, c.In[1], c.Ints[0])
	}
	c.result(x.dtype, c.shape(0)...)
}

// indicesOf is operand i, which holds indices. An index outside [0, size) fails the operation.
func indicesOf(l *kernels.Launch, i, size int) []int {
	v := integersOf(l.In[i])
	indices := make([]int, len(v))
	for k, index := range v {
		if index < 0 || index >= int64(size) {
			panic(l.IndexError(i, k, int(index), size))
		}
		indices[k] = int(index)
	}
	return indices
}

func indexSelectRef(l *kernels.Launch) {
	offset := selectedOffset(l)
	copyRef(l, nil, func(index []int) (int, int) { return 0, offset(index) })
}

func indexAddRef(l *kernels.Launch) { addRef(l, selectedOffset(l)) }

// selectedOffset maps an index of the result of index_select, or of y of index_add, to the offset in x.
func selectedOffset(l *kernels.Launch) func(index []int) int {
	axis, shape := l.Ints[0], l.In[0].Shape
	indices, rank := indicesOf(l, 1, shape[axis]), len(l.In[1].Shape)
	return func(index []int) int {
		k := offsetOf(l.In[1].Shape, index[axis:axis+rank])
		return offsetOf(shape, slices.Concat(index[:axis], indices[k:k+1], index[axis+rank:]))
	}
}

// addRef copies the first operand and adds each element of the third to it, in row-major order. offset gives the offset
// to which the element with the given indices is added.
func addRef(l *kernels.Launch, offset func(index []int) int) {
	switch l.Out[0].DType {
	case Int64:
		addRefOf[int64](l, offset)
	case Int32:
		addRefOf[int32](l, offset)
	case Uint8:
		addRefOf[uint8](l, offset)
	default:
		addRefOf[float64](l, offset)
	}
}

func addRefOf[T float64 | int64 | int32 | uint8](l *kernels.Launch, offset func(index []int) int) {
	y, added := cpu.Slice[T](l.Out[0]), cpu.Slice[T](l.In[2])
	copy(y, cpu.Slice[T](l.In[0])[:l.In[0].Len()])
	eachIndex(l.In[2].Shape, func(i int, index []int) { y[offset(index)] += added[i] })
}
