package cpu

import (
	"github.com/chewxy/math32"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// Var computes sum((x - mean)^2) / max(0, n - correction) along the axes l.Ints; the correction is l.Floats[0].
func Var(l *kernels.Launch) {
	y := Slice[float32](l.Out[0])
	eachResult(l, func(o int, x []float32) {
		mean := vec.Sum(x) / float32(len(x))
		y[o] = vec.SumSquaresSub(x, mean) / float32(max(0, float64(len(x))-l.Floats[0]))
	})
}

// The norms work on rows: the last l.Ints[0] axes of x together. With canonical sums, and every operation rounded by
// itself,
//
//	mean = sum(x) / n
//	rstd = 1 / sqrt(sum((x - mean)^2) / n + eps)
//	h    = (x - mean) * rstd
//	y    = h * weight + bias
//
// RMSNorm is the same without the mean.

// LayerNorm normalises rows. The operands are x and, if present, weight and bias; the results y, mean and rstd.
func LayerNorm(l *kernels.Launch) {
	means := Slice[float32](l.Out[1])
	normalize(l, Slice[float32](l.Out[2]), func(r int, x []float32) float32 {
		means[r] = vec.Sum(x) / float32(len(x))
		return means[r]
	})
}

// RMSNorm scales rows. The operands are x and, if present, weight; the results y and rstd.
func RMSNorm(l *kernels.Launch) {
	normalize(l, Slice[float32](l.Out[1]), func(int, []float32) float32 { return 0 })
}

// normalize fills y = l.Out[0] and rstds; center is the mean of row number r.
func normalize(l *kernels.Launch, rstds []float32, center func(r int, x []float32) float32) {
	rows := rowsOf(l.In[0], l.Ints[0])
	weight, bias := parameter(l, 1), parameter(l, 2)
	out := Slice[float32](l.Out[0])
	eps := float32(l.Floats[0])
	n := rows.n
	parRows(rows.results(), n, func(lo, hi int) {
		in := newLines(rows, l.In[0], hi)
		for r := lo; r < hi; r++ {
			x := in.read(r)
			c := center(r, x)
			rstd := inverseRoot(vec.SumSquaresSub(x, c)/float32(n) + eps)
			rstds[r] = rstd
			y := out[r*n : (r+1)*n]
			switch {
			case weight == nil:
				vec.Norm(y, x, c, rstd)
			case bias == nil:
				vec.NormWeight(y, x, weight, c, rstd)
			default:
				vec.NormWeightBias(y, x, weight, bias, c, rstd)
			}
		}
		in.close()
	})
}

// inverseRoot is 1/sqrt(x) by an IEEE root and an IEEE division.
func inverseRoot(x float32) float32 { return 1 / math32.Sqrt(x) }

// parameter is operand k with its elements side by side, nil if it is missing.
func parameter(l *kernels.Launch, k int) []float32 {
	if k >= len(l.In) {
		return nil
	}
	a := l.In[k]
	r := rowsOf(a, len(a.Shape))
	return r.elements(make([]float32, r.gathered(r.n)), Slice[float32](a), 0, 0, r.n)
}

// LayerNormGrad computes the gradients of LayerNorm that l.Ints[1:] asks for by a 1, of x and weight:
//
//	dx      = ((gw - sum(gw)/n) - h * (sum(gw*h)/n)) * rstd, with gw = g * weight
//	dweight = the sum of g * h over the rows
//
// The operands are g, x, mean, rstd and, if present, weight.
func LayerNormGrad(l *kernels.Launch) {
	normGradients(l, newReader(l.In[2]), newReader(l.In[3]), parameter(l, 4))
}

// RMSNormGrad is LayerNormGrad without the mean. The operands are g, x, rstd and, if present, weight.
func RMSNormGrad(l *kernels.Launch) {
	normGradients(l, nil, newReader(l.In[2]), parameter(l, 3))
}

// A normGradient is one launch of the gradient of a norm.
type normGradient struct {
	l      *kernels.Launch
	mean   *reader // of the rows; nil if the norm has none
	rstd   *reader
	weight []float32
	g, x   *reduction // the rows
}

func normGradients(l *kernels.Launch, mean, rstd *reader, weight []float32) {
	n := &normGradient{l, mean, rstd, weight, rowsOf(l.In[0], l.Ints[0]), rowsOf(l.In[1], l.Ints[0])}
	if l.Ints[1] == 1 {
		n.input()
	}
	if l.Ints[2] == 1 {
		n.scale()
	}
}

// center is the mean of row r.
func (n *normGradient) center(r int) float32 {
	if n.mean == nil {
		return 0
	}
	return n.mean.at(r)
}

// input computes the gradient of x.
func (n *normGradient) input() {
	out := Slice[float32](n.l.Out[0])
	size := n.x.n
	count := float32(size)
	parRows(n.x.results(), size, func(lo, hi int) {
		gs, xs := newLines(n.g, n.l.In[0], hi), newLines(n.x, n.l.In[1], hi)
		for r := lo; r < hi; r++ {
			g, x := gs.read(r), xs.read(r)
			dx := out[r*size : (r+1)*size]
			c, rstd := n.center(r), n.rstd.at(r)
			var sum, product float32
			if n.weight == nil {
				sum, product = vec.NormGradSums(g, x, c, rstd)
			} else {
				sum, product = vec.NormWeightGradSums(g, x, n.weight, c, rstd)
			}
			if n.mean == nil {
				sum = 0
			}
			if n.weight == nil {
				vec.NormGrad(dx, g, x, c, rstd, sum/count, product/count)
			} else {
				vec.NormWeightGrad(dx, g, x, n.weight, c, rstd, sum/count, product/count)
			}
		}
		gs.close()
		xs.close()
	})
}

// scale computes the gradient of weight: the canonical sum of g * h along the rows, for some columns at a time.
func (n *normGradient) scale() {
	columns, rows := n.x.n, n.x.results()
	out := Slice[float32](n.l.Out[1])[:columns]
	if rows == 0 {
		clear(out)
		return
	}
	wide := tileWidth(columns)
	blocks, across := (rows+foldBlock-1)/foldBlock, (columns+wide-1)/wide
	dst, partial := out, (*[]float32)(nil)
	if blocks > 1 {
		partial = borrow(blocks * columns)
		defer giveBack(partial)
		dst = *partial
	}
	par.For(blocks*across, 1+rowGrain/(wide*min(rows, foldBlock)), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			b, c := i/across, i%across*wide
			to := min(c+wide, columns)
			n.tile(dst[b*columns+c:b*columns+to], c, b*foldBlock, min((b+1)*foldBlock, rows))
		}
	})
	if blocks > 1 {
		sumFold.run(out, dst, columnsOf(blocks, columns))
	}
}

// tile adds g * h of rows [from, to) in the columns that out stands for, which begin at column, lane by lane.
func (n *normGradient) tile(out []float32, column, from, to int) {
	gIn, xIn := Slice[float32](n.l.In[0]), Slice[float32](n.l.In[1])
	wide := len(out)
	used := min(to-from, foldLanes)
	scratch := borrow(used*wide + n.g.gathered(wide) + n.x.gathered(wide))
	defer giveBack(scratch)
	lanes, free := (*scratch)[:used*wide], (*scratch)[used*wide:]
	vec.Fill(lanes, 0)
	for j := range used {
		lane := lanes[j*wide : (j+1)*wide]
		for r := from + j; r < to; r += foldLanes {
			g := n.g.elements(free, gIn, r, column, column+wide)
			x := n.x.elements(free[n.g.gathered(wide):], xIn, r, column, column+wide)
			vec.AddNormProduct(lane, lane, g, x, n.center(r), n.rstd.at(r))
		}
	}
	sumFold.tree(lanes, wide, used)
	copy(out, lanes)
}
