package nn

import (
	"math"

	"github.com/weft-ml/weft/tensor"
)

// RotaryEmbedding gives queries and keys their positions by turning pairs of elements (Su et al. 2021): pair i at
// position p by the angle p * base^(-2i/width). It has no parameters.
type RotaryEmbedding struct {
	Width       int  // turned elements of a head, the first ones
	Interleaved bool // pairs are neighbours, as in GPT-J; else i and i + Width/2, as in GPT-NeoX and LLaMA

	tables map[tensor.DType][2]*tensor.Tensor // cosines and sines [positions Width/2], in float32 and float64
}

// NewRotaryEmbedding makes tables for so many positions and heads whose first elements, width of them, are turned; the
// base is usually 10000. Pairs are i and i + width/2; set Interleaved for neighbours.
func NewRotaryEmbedding(width, positions int, base float64) *RotaryEmbedding {
	const op = "rotary"
	if width < 2 || width%2 != 0 || positions < 0 {
		engine.Fail(tensor.ErrValue, op, "width %d must be even and positive, and %d positions not negative", width,
			positions)
	}
	want(op, "base", base, base > 0 && !math.IsInf(base, 1), "(0, inf)")
	rate := tensor.Of(base).Log().Scale(-2 / float64(width))
	frequency := tensor.Arange(tensor.Float64, 0, float64(width/2), 1).Mul(rate).Exp()
	angle := tensor.Arange(tensor.Float64, 0, float64(positions), 1).Unsqueeze(-1).Mul(frequency)
	r := &RotaryEmbedding{Width: width, tables: map[tensor.DType][2]*tensor.Tensor{}}
	cos, sin := angle.Cos(), angle.Sin()
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64} {
		r.tables[dt] = [2]*tensor.Tensor{cos.To(dt), sin.To(dt)}
	}
	return r
}

// Forward turns x [... T D], D at least Width, whose positions begin at 0.
func (r *RotaryEmbedding) Forward(x *tensor.Tensor) *tensor.Tensor { return r.At(x, 0) }

// At turns x [... T D], D at least Width, whose positions begin at the given one, such as the length of a [KVCache].
// Half precision is turned in float32 and rounded once.
func (r *RotaryEmbedding) At(x *tensor.Tensor, position int) *tensor.Tensor {
	const op = "rotary"
	engine.Given(op, "the embedding", r)
	engine.Given(op, "x", x)
	dt := tensor.Float32
	if x.DType() == tensor.Float64 {
		dt = tensor.Float64
	}
	table := r.tables[dt]
	engine.Given(op, "the table, which NewRotaryEmbedding makes,", table[0])
	if x.Rank() < 2 || x.Dim(-1) < r.Width {
		engine.Fail(tensor.ErrShape, op, "x %v must have two axes or more, the last of %d or more", x, r.Width)
	}
	t, d := x.Dim(-2), x.Dim(-1)
	if position < 0 || position > table[0].Dim(0)-t {
		engine.Fail(tensor.ErrIndex, op, "positions [%d, %d) are outside [0, %d), the positions of the table",
			position, position+t, table[0].Dim(0))
	}
	cos, sin := table[0].Slice(0, position, position+t), table[1].Slice(0, position, position+t)
	a, b := r.pair(x)
	turned := r.join(a.Mul(cos).Sub(b.Mul(sin)), b.Mul(cos).Add(a.Mul(sin))).To(x.DType())
	if d == r.Width {
		return turned
	}
	return tensor.Cat(-1, turned, x.Slice(-1, r.Width, d))
}

// pair is the first and the second elements of all pairs, [... Width/2].
func (r *RotaryEmbedding) pair(x *tensor.Tensor) (a, b *tensor.Tensor) {
	half := r.Width / 2
	if !r.Interleaved {
		return x.Slice(-1, 0, half), x.Slice(-1, half, r.Width)
	}
	shape := x.Shape()
	shape[len(shape)-1] = half
	x = x.Slice(-1, 0, r.Width).Reshape(append(shape, 2)...)
	return x.Select(-1, 0), x.Select(-1, 1)
}

// join is the inverse of pair.
func (r *RotaryEmbedding) join(a, b *tensor.Tensor) *tensor.Tensor {
	if !r.Interleaved {
		return tensor.Cat(-1, a, b)
	}
	shape := a.Shape()
	shape[len(shape)-1] = r.Width
	return tensor.Stack(-1, a, b).Reshape(shape...)
}

// String is the [Tree] of the embedding.
func (r *RotaryEmbedding) String() string { return Tree(r) }
