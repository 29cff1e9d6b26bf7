package onnx

import (
	"slices"

	"github.com/weft-ml/weft/fft"
	"github.com/weft-ml/weft/linalg"
	"github.com/weft-ml/weft/tensor"
)

func init() {
	define(map[string]func(c *call) []*tensor.Tensor{
		"TopK": func(c *call) []*t {
			values, indices := c.in[0].TopK(c.host(1)[0], c.int("axis", -1), c.int("largest", 1) == 1)
			return []*t{values, indices}
		},
		"NonZero": unary(func(x *t) *t { return x.Nonzero().T() }),
		"Unique":  unique,
		"Scatter": one(scatterElements), "ScatterElements": one(scatterElements), "ScatterND": one(scatterND),

		"Det":    unary(linalg.Det),
		"Einsum": one(func(c *call) *t { return linalg.Einsum(c.text("equation", ""), c.in...) }),
		"DFT":    one(dft),
	})
}

// unique gives the elements, or the entries along an axis, in ascending order or in that of their first occurrence.
func unique(c *call) []*t {
	x, along := c.in[0], c.int("axis", 0)
	if !c.has("axis") {
		x = x.Reshape(-1)
	}
	values, inverse, counts := x.Unique(along)
	n := float64(inverse.Len())
	at := c.scope.In(tensor.Arange(tensor.Int64, 0, n, 1))
	first := c.scope.Full(n, tensor.Int64, counts.Len()).ScatterReduce(0, inverse, at, "amin", true)
	if c.int("sorted", 1) == 0 {
		order := first.ArgSort(0, false)
		inverse = order.ArgSort(0, false).IndexSelect(0, inverse)
		values, first = values.IndexSelect(along, order), first.IndexSelect(0, order)
		counts = counts.IndexSelect(0, order)
	}
	return []*t{values, first, inverse, counts}
}

// reductions are PyTorch's names of ONNX's.
var reductions = map[string]string{"add": "sum", "mul": "prod"}

func scatterElements(c *call) *t {
	x := c.in[0]
	a := axis(c.int("axis", 0), x.Rank())
	indices := counted(c.in[1], x.Dim(a))
	if how := c.text("reduction", "none"); how != "none" {
		return x.ScatterReduce(a, indices, c.in[2], reductions[how], true)
	}
	return x.Scatter(a, indices, c.in[2])
}

// scatterND writes slices at index tuples.
func scatterND(c *call) *t {
	x, tuples := c.in[0], c.in[1]
	flat, rows := flatIndices(x, tuples, 0)
	width := x.Len() / rows
	indices := flat.Reshape(-1, 1).Expand(flat.Len(), width)
	matrix, y := x.Reshape(rows, width), c.in[2].Reshape(flat.Len(), width)
	if how := c.text("reduction", "none"); how != "none" {
		matrix = matrix.ScatterReduce(0, indices, y, reductions[how], true)
	} else {
		matrix = matrix.Scatter(0, indices, y)
	}
	return matrix.Reshape(slices.Clone(x.Shape())...)
}

// dft transforms real or complex numbers, pairs on the last axis.
func dft(c *call) *t {
	x := c.in[0]
	if x.Dim(-1) == 1 {
		pads := make([][2]int, x.Rank())
		pads[x.Rank()-1] = [2]int{0, 1}
		x = x.Pad(0, pads...)
	}
	if c.int("inverse", 0) == 1 {
		return fft.IFFT(x, fft.Axes(c.int("axis", 1)))
	}
	return fft.FFT(x, fft.Axes(c.int("axis", 1)))
}
