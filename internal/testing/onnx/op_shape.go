package onnx

import (
	"math"
	"slices"

	"github.com/weft-ml/weft/tensor"
)

func init() {
	define(map[string]func(c *call) []*tensor.Tensor{
		"Concat":   one(func(c *call) *t { return tensor.Cat(c.int("axis", 0), c.in...) }),
		"Constant": one(constant),
		"Expand":   one(expand), "EyeLike": one(eyeLike), "Reshape": one(reshape), "Slice": one(slice),
		"Flatten":   one(func(c *call) *t { return flatten(c.in[0], axis(c.int("axis", 1), c.in[0].Rank())) }),
		"Transpose": one(transpose), "Tile": one(tile), "Compress": one(compress),
		"Squeeze": one(squeeze), "Unsqueeze": one(unsqueeze), "Shape": one(shapeOf), "Split": split,
		"Size":  one(func(c *call) *t { return c.scope.In(tensor.Of(int64(c.in[0].Len()))) }),
		"Trilu": one(trilu), "Range": one(arange), "OneHot": one(oneHot),
		"ConstantOfShape": one(constantOfShape), "DepthToSpace": one(depthToSpace), "SpaceToDepth": one(spaceToDepth),
		"Gather": one(gather), "GatherElements": one(gatherElements), "GatherND": one(gatherND),
		"ReverseSequence": one(reverseSequence), "Gemm": one(gemm), "Dropout": dropout,
		"If": func(c *call) []*t {
			if tensor.ToSlice[bool](c.in[0])[0] {
				return c.run(c.attrs["then_branch"].g)
			}
			return c.run(c.attrs["else_branch"].g)
		},
	})
}

func constant(c *call) *t {
	for name, a := range c.attrs {
		switch name {
		case "value":
			return c.scope.In(a.t)
		case "value_int":
			return c.scope.In(tensor.Of(int64(a.i)))
		case "value_float":
			return c.scope.In(tensor.Of(float32(a.f)))
		case "value_ints":
			v := []int64{}
			for _, x := range a.ints {
				v = append(v, int64(x))
			}
			return c.scope.In(tensor.FromSlice(v, len(v)))
		}
	}
	panic("onnx: a constant without a value")
}

func constantOfShape(c *call) *t {
	v := tensor.Zeros(tensor.Float32, 1)
	if c.has("value") {
		v = c.attrs["value"].t
	}
	return c.scope.In(v).Reshape().Expand(c.host(0)...)
}

// expand broadcasts in both directions.
func expand(c *call) *t {
	x, shape := c.in[0], c.host(1)
	for n := x.Rank(); n > len(shape); {
		shape = append([]int{1}, shape...)
	}
	for i := range x.Rank() {
		if d := &shape[len(shape)-1-i]; *d == 1 {
			*d = x.Dim(x.Rank() - 1 - i)
		}
	}
	return x.Expand(shape...)
}

func eyeLike(c *call) *t {
	k, x := c.int("k", 0), c.in[0]
	return c.scope.Full(1, c.dtype("dtype", x.DType()), x.Shape()...).Tril(k).Triu(k)
}

func flatten(x *t, a int) *t {
	rows := 1
	for _, d := range x.Shape()[:a] {
		rows *= d
	}
	columns := 1
	for _, d := range x.Shape()[a:] {
		columns *= d
	}
	return x.Reshape(rows, columns)
}

func reshape(c *call) *t {
	x, shape := c.in[0], c.host(1)
	for i, d := range shape {
		if d == 0 && c.int("allowzero", 0) == 0 {
			shape[i] = x.Dim(i)
		}
	}
	return x.Reshape(shape...)
}

func transpose(c *call) *t {
	axes := []int{}
	for a := range c.in[0].Rank() {
		axes = append([]int{a}, axes...)
	}
	return c.in[0].Permute(c.ints("perm", axes...)...)
}

// slice cuts along axes; negative steps go backwards.
func slice(c *call) *t {
	x, starts, ends, axes, steps := c.in[0], c.host(1), c.host(2), c.host(3), c.host(4)
	for i := range starts {
		a, step := i, 1
		if axes != nil {
			a = axis(axes[i], x.Rank())
		}
		if steps != nil {
			step = steps[i]
		}
		n := x.Dim(a)
		start, end := starts[i], ends[i]
		if start < 0 {
			start += n
		}
		if end < 0 {
			end += n
		}
		if step < 0 {
			start, end = min(max(start, 0), n-1), min(max(end, -1), n-1)
			x = x.Flip(a)
			start, end, step = n-1-start, n-1-end, -step
		} else {
			start, end = min(max(start, 0), n), min(max(end, 0), n)
		}
		x = x.Slice(a, start, max(start, end), step)
	}
	return x
}

func tile(c *call) *t {
	y := c.in[0]
	for a, n := range c.host(1) {
		if n == 0 {
			y = y.Slice(a, 0, 0)
			continue
		}
		y = tensor.Cat(a, slices.Repeat([]*t{y}, n)...)
	}
	return y
}

// axes are those of an operand or, in earlier versions, an attribute.
func (c *call) axes(rank int) []int {
	axes := c.ints("axes")
	if c.operand(1) != nil {
		axes = c.host(1)
	}
	axes = slices.Clone(axes)
	for i, a := range axes {
		axes[i] = axis(a, rank)
	}
	slices.Sort(axes)
	return axes
}

func squeeze(c *call) *t {
	x := c.in[0]
	axes := c.axes(x.Rank())
	if len(axes) == 0 {
		for a, d := range x.Shape() {
			if d == 1 {
				axes = append(axes, a)
			}
		}
	}
	for i, a := range axes {
		x = x.Squeeze(a - i)
	}
	return x
}

func unsqueeze(c *call) *t {
	x := c.in[0]
	n := len(c.ints("axes"))
	if c.operand(1) != nil {
		n = c.in[1].Len()
	}
	for _, a := range c.axes(x.Rank() + n) {
		x = x.Unsqueeze(a)
	}
	return x
}

func shapeOf(c *call) *t {
	shape := c.in[0].Shape()
	n := len(shape)
	start, end := axis(c.int("start", 0), n), axis(c.int("end", n), n)
	start, end = min(max(start, 0), n), min(max(end, 0), n)
	v := []int64{}
	for _, d := range shape[start:max(start, end)] {
		v = append(v, int64(d))
	}
	return c.scope.In(tensor.FromSlice(v, len(v)))
}

func split(c *call) []*t {
	x := c.in[0]
	a := axis(c.int("axis", 0), x.Rank())
	sizes := c.host(1)
	if sizes == nil {
		each := (x.Dim(a) + len(c.outputs) - 1) / len(c.outputs)
		for left := x.Dim(a); left > 0; left -= each {
			sizes = append(sizes, min(each, left))
		}
	}
	return x.Split(a, sizes...)
}

func trilu(c *call) *t {
	k := 0
	if c.operand(1) != nil {
		k = c.host(1)[0]
	}
	if c.int("upper", 1) == 1 {
		return c.in[0].Triu(k)
	}
	return c.in[0].Tril(k)
}

func arange(c *call) *t {
	start, limit, delta := c.in[0].Item(), c.in[1].Item(), c.in[2].Item()
	return c.scope.In(tensor.Arange(c.in[0].DType(), start, limit, delta))
}

// oneHot has values[1] where the index is, values[0] elsewhere, along a new axis.
func oneHot(c *call) *t {
	indices, depth := c.in[0].To(tensor.Int64), c.host(1)[0]
	indices = indices.LessScalar(0).Where(indices.AddScalar(float64(depth)), indices)
	valid := indices.GreaterEqualScalar(0).And(indices.LessScalar(float64(depth)))
	hot := indices.MaskedFill(valid.Not(), 0).OneHot(depth).To(tensor.Bool).And(valid.Unsqueeze(-1))
	y := hot.Where(c.in[2].Select(0, 1), c.in[2].Select(0, 0))
	last := indices.Rank()
	return move(y, last, axis(c.int("axis", -1), last+1))
}

func depthToSpace(c *call) *t {
	x, b := c.in[0], c.int("blocksize", 1)
	n, depth, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	if c.text("mode", "DCR") == "CRD" {
		return x.Reshape(n, depth/(b*b), b, b, h, w).Permute(0, 1, 4, 2, 5, 3).Reshape(n, depth/(b*b), h*b, w*b)
	}
	return x.Reshape(n, b, b, depth/(b*b), h, w).Permute(0, 3, 4, 1, 5, 2).Reshape(n, depth/(b*b), h*b, w*b)
}

func spaceToDepth(c *call) *t {
	x, b := c.in[0], c.int("blocksize", 1)
	n, depth, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	return x.Reshape(n, depth, h/b, b, w/b, b).Permute(0, 3, 5, 1, 2, 4).Reshape(n, depth*b*b, h/b, w/b)
}

// counted are indices counted from the start of an axis of n elements.
func counted(indices *t, n int) *t {
	indices = indices.To(tensor.Int64)
	return indices.LessScalar(0).Where(indices.AddScalar(float64(n)), indices)
}

func gather(c *call) *t {
	x := c.in[0]
	a := axis(c.int("axis", 0), x.Rank())
	indices := counted(c.in[1], x.Dim(a))
	shape := slices.Concat(x.Shape()[:a], indices.Shape(), x.Shape()[a+1:])
	return x.IndexSelect(a, indices.Reshape(-1)).Reshape(shape...)
}

func gatherElements(c *call) *t {
	a := axis(c.int("axis", 0), c.in[0].Rank())
	return c.in[0].Gather(a, counted(c.in[1], c.in[0].Dim(a)))
}

// gatherND takes slices at index tuples, the last axis of the indices, behind batch axes.
func gatherND(c *call) *t {
	x, batch := c.in[0], c.int("batch_dims", 0)
	flat, _ := flatIndices(x, c.in[1], batch)
	last := c.in[1].Rank() - 1
	width := c.in[1].Dim(last)
	rest := x.Shape()[batch+width:]
	rows := x.Reshape(append([]int{-1}, rest...)...)
	return rows.IndexSelect(0, flat.Reshape(-1)).Reshape(slices.Concat(c.in[1].Shape()[:last], rest)...)
}

// flatIndices turns index tuples into indices of rows: x with the axes that the tuples speak of, and the batch,
// joined. It returns their number, too.
func flatIndices(x, tuples *t, batch int) (flat *t, rows int) {
	last := tuples.Rank() - 1
	width := tuples.Dim(last)
	stride := 1
	for k := width - 1; k >= 0; k-- {
		n := x.Dim(batch + k)
		part := counted(tuples.Select(last, k), n).Scale(float64(stride))
		if flat == nil {
			flat = part
		} else {
			flat = flat.Add(part)
		}
		stride *= n
	}
	for b := batch - 1; b >= 0; b-- {
		shape := slices.Repeat([]int{1}, last)
		shape[b] = x.Dim(b)
		at := tensor.Arange(tensor.Int64, 0, float64(x.Dim(b)), 1).Scale(float64(stride))
		flat = flat.Add(flat.Scope().In(at).Reshape(shape...))
		stride *= x.Dim(b)
	}
	return flat, stride
}

func reverseSequence(c *call) *t {
	x, lengths := c.in[0], c.host(1)
	batch, time := c.int("batch_axis", 1), c.int("time_axis", 0)
	parts := []*t{}
	for b, n := range lengths {
		row := x.Slice(batch, b, b+1)
		parts = append(parts, tensor.Cat(time, row.Slice(time, 0, n).Flip(time), row.Slice(time, n, math.MaxInt)))
	}
	return tensor.Cat(batch, parts...)
}

func gemm(c *call) *t {
	a, b := c.in[0], c.in[1]
	if c.int("transA", 0) == 1 {
		a = a.T()
	}
	if c.int("transB", 0) == 1 {
		b = b.T()
	}
	y := a.MatMul(b).Scale(c.float("alpha", 1))
	if bias := c.operand(2); bias != nil {
		y = y.Add(bias.Scale(c.float("beta", 1)))
	}
	return y
}

// dropout keeps all: with another share the numbers would have to be NumPy's.
func dropout(c *call) []*t {
	return []*t{c.in[0], c.scope.Full(1, tensor.Bool, c.in[0].Shape()...)}
}

// compress keeps the entries of an axis at which a condition holds.
func compress(c *call) *t {
	x, a := c.in[0], 0
	if c.has("axis") {
		a = axis(c.int("axis", 0), x.Rank())
	} else {
		x = x.Reshape(-1)
	}
	indices := []int64{}
	for i, keep := range tensor.ToSlice[bool](c.in[1]) {
		if keep {
			indices = append(indices, int64(i))
		}
	}
	return x.IndexSelect(a, c.scope.In(tensor.FromSlice(indices, len(indices))))
}
