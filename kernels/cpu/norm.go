package cpu

import (
	"github.com/chewxy/math32"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// The norms work on rows: the last l.Ints[0] axes of x together. With sums in the canonical order, every operation
// rounded, and mean and squares as [deviations] has them,
//
//	rstd = 1 / sqrt(squares/n + eps)
//	h    = (x - mean) * rstd
//	y    = h * weight + bias
//
// RMSNorm is the same with a mean of 0.

// LayerNorm normalises rows. The operands are x and, if present, weight and bias; the results are y, mean and rstd.
func LayerNorm(l *kernels.Launch) {
	means := Slice[float32](l.Out[1])
	normalize(l, Slice[float32](l.Out[2]), func(r int, x []float32) (mean, squares float32) {
		means[r], squares = deviations(x)
		return means[r], squares
	})
}

// RMSNorm scales rows. The operands are x and, if present, weight; the results are y and rstd.
func RMSNorm(l *kernels.Launch) {
	normalize(l, Slice[float32](l.Out[1]), func(_ int, x []float32) (mean, squares float32) {
		return 0, vec.SumSquares(x, 1)
	})
}

// normalize computes y = l.Out[0] and rstds; statistics has the mean and the squares of row r.
func normalize(l *kernels.Launch, rstds []float32, statistics func(r int, x []float32) (mean, squares float32)) {
	rows := rowsOf(l.In[0], l.Ints[0])
	weight, bias := parameter(l, 1), parameter(l, 2)
	out := Slice[float32](l.Out[0])
	eps := float32(l.Floats[0])
	n := rows.N
	parRows(rows.Results(), n, func(lo, hi int) {
		in := newRowAccess(rows, l.In[0], hi)
		for r := lo; r < hi; r++ {
			x := in.read(r)
			c, squares := statistics(r, x)
			rstd := inverseRoot(squares/float32(n) + eps)
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

// AddNorm computes a sum and its norm, one after the other, by the loops of both.
func AddNorm(l *kernels.Launch) {
	var sum, norm kernels.Launch
	l.Split(&sum, &norm)
	for _, call := range [...]*kernels.Launch{&sum, &norm} {
		if err := (Backend{}).Run(call); err != nil {
			panic(err)
		}
	}
}

// inverseRoot is 1/sqrt(x): an IEEE square root and an IEEE division.
func inverseRoot(x float32) float32 { return 1 / math32.Sqrt(x) }

// parameter is operand k as one contiguous row, nil if it is missing.
func parameter(l *kernels.Launch, k int) []float32 {
	if k >= len(l.In) {
		return nil
	}
	return contiguousElements(l.In[k])
}

// LayerNormGrad computes the gradients of x, weight and bias; those are wanted for which l.Ints[1:] is 1:
//
//	dx      = ((gw - sum(gw)/n) - h * (sum(gw*h)/n)) * rstd, with gw = g * weight
//	dweight = the sum of g * h over the rows
//	dbias   = the sum of g over the rows
//
// The operands are g, x, mean, rstd and, if present, weight.
func LayerNormGrad(l *kernels.Launch) {
	normGradients(l, newReader(l.In[2]), newReader(l.In[3]), parameter(l, 4))
}

// RMSNormGrad is LayerNormGrad without the mean and the bias. The operands are g, x, rstd and, if present, weight.
func RMSNormGrad(l *kernels.Launch) {
	normGradients(l, nil, newReader(l.In[2]), parameter(l, 3))
}

// The sums over rows for weight and bias are columns of the canonical order. One pass over the rows makes the sums of
// blocks of 64 rows together with dx.

// normGroup is the most elements of partial sums at a time, so that the L2 cache holds them.
const normGroup = 1 << 16

// A normGradient is one op call of the gradient of a norm. It reads the rows once: while a row and its partial sum are
// in the L1 cache, it computes dx and adds to the partial sum. Threads have different partial sums.
type normGradient struct {
	mean        *reader // of the rows; nil if the norm has none
	rstd        *reader
	weight      []float32
	gs, xs      []float32
	g, x        *reduction // the rows of gs and xs
	size        int        // of a row
	dx          []float32  // nil if not wanted
	scale, bias bool       // whether dweight and dbias are wanted
	wide        int        // elements of a partial sum: size for each of them
}

func normGradients(l *kernels.Launch, mean, rstd *reader, weight []float32) {
	n := &normGradient{
		mean: mean, rstd: rstd, weight: weight, gs: Slice[float32](l.In[0]), xs: Slice[float32](l.In[1]),
		g: rowsOf(l.In[0], l.Ints[0]), x: rowsOf(l.In[1], l.Ints[0]),
		scale: l.Ints[2] > 0, bias: len(l.Ints) > 3 && l.Ints[3] > 0,
	}
	n.size = n.x.N
	if l.Ints[1] == 1 {
		n.dx = Slice[float32](l.Out[0])
	}
	var parameters [][]float32 // or a row for each block
	for k, out := range l.Out[1:] {
		if l.Ints[2+k] > 0 {
			parameters = append(parameters, Slice[float32](out)[:out.Len()])
		}
	}
	n.wide = n.size * len(parameters)
	blocks := (n.x.Results() + columnBlock - 1) / columnBlock
	group := max(1, normGroup/(1+columnPartials*n.wide))
	memory := borrow((1 + blocks + columnPartials*min(group, blocks)) * n.wide)
	defer giveBack(memory)
	sums, rest := (*memory)[:n.wide], (*memory)[n.wide:]
	ofBlocks, partials := rest[:blocks*n.wide], rest[blocks*n.wide:]
	for b := 0; b < blocks; b += group {
		n.blocks(ofBlocks[b*n.wide:], partials, b, min(b+group, blocks))
	}
	sumFold.run(sums, ofBlocks, columnsOf(1, blocks, n.wide))
	for k, p := range parameters {
		of := sums
		if len(p) > n.size {
			of = ofBlocks
		}
		for i := 0; i < len(p); i += n.size {
			copy(p[i:i+n.size], of[i*len(parameters)+k*n.size:])
		}
	}
}

// blocks computes the rows of blocks [from, to) of dx, and the sums of these blocks for weight and bias.
func (n *normGradient) blocks(out, partials []float32, from, to int) {
	rows := n.x.Results()
	pairs := n.dx != nil && n.weight != nil && n.scale && n.bias && n.g.packed() && n.x.packed()
	nonTemporal := pairs && len(n.dx) >= nonTemporalFrom && n.size%cacheLine == 0 && onLine(n.dx)
	par.For(columnPartials*(to-from), 1+rowGrain/(1+n.size*partialRows), func(lo, hi int) {
		buf := borrow(n.g.gathered(n.size) + n.x.gathered(n.size))
		defer giveBack(buf)
		for j := lo; j < hi; j++ {
			partial := partials[j*n.wide : (j+1)*n.wide]
			vec.Fill(partial, 0)
			r := from*columnBlock + j*partialRows
			end := min(r+partialRows, rows)
			if pairs {
				for ; r+2 <= end; r += 2 {
					n.pair(partial, r, nonTemporal)
				}
			}
			for ; r < end; r++ {
				n.row(partial, *buf, r)
			}
		}
	})
	par.For(to-from, 1+rowGrain/(1+n.wide*columnPartials), func(lo, hi int) {
		for b := lo; b < hi; b++ {
			block := partials[b*columnPartials*n.wide : (b+1)*columnPartials*n.wide]
			sumFold.tree(block, n.wide, columnPartials)
			copy(out[b*n.wide:(b+1)*n.wide], block)
		}
	})
}

// row computes row r of dx and adds to its partial sum.
func (n *normGradient) row(partial, buf []float32, r int) {
	g := n.g.elements(buf, n.gs, r, 0, n.size)
	x := n.x.elements(buf[n.g.gathered(n.size):], n.xs, r, 0, n.size)
	c, rstd := n.center(r), n.rstd.at(r)
	if n.dx != nil {
		n.input(n.dx[r*n.size:(r+1)*n.size], g, x, c, rstd)
	}
	switch {
	case n.scale && n.bias:
		weight, bias := partial[:n.size], partial[n.size:]
		vec.AddNormProducts(weight, bias, weight, bias, g, x, c, rstd)
	case n.scale:
		vec.AddNormProduct(partial, partial, g, x, c, rstd)
	case n.bias:
		sumFold.into(partial, partial, g, nil)
	}
}

// pair computes rows r and r+1 of dx and adds to their partial sum, which is read and written once for both. It serves
// where everything is wanted of a norm with weight and bias.
func (n *normGradient) pair(partial []float32, r int, nonTemporal bool) {
	g, x, dx := n.gs[r*n.size:(r+2)*n.size], n.xs[r*n.size:(r+2)*n.size], n.dx[r*n.size:(r+2)*n.size]
	g0, x0, g1, x1 := g[:n.size], x[:n.size], g[n.size:], x[n.size:]
	c0, rstd0, c1, rstd1 := n.center(r), n.rstd.at(r), n.center(r+1), n.rstd.at(r+1)
	sum0, product0 := vec.NormWeightGradSums(g0, x0, n.weight, c0, rstd0)
	sum1, product1 := vec.NormWeightGradSums(g1, x1, n.weight, c1, rstd1)
	add, count := vec.NormWeightGradAdd, float32(n.size)
	if nonTemporal {
		add = vec.NormWeightGradAddNonTemporal
	}
	add(dx[:n.size], dx[n.size:], partial[:n.size], partial[n.size:], g0, x0, g1, x1, n.weight,
		c0, rstd0, sum0/count, product0/count, c1, rstd1, sum1/count, product1/count)
}

// center is the mean of row r.
func (n *normGradient) center(r int) float32 {
	if n.mean == nil {
		return 0
	}
	return n.mean.at(r)
}

// input computes one row of dx.
func (n *normGradient) input(dx, g, x []float32, c, rstd float32) {
	var sum, product float32
	if n.weight == nil {
		sum, product = vec.NormGradSums(g, x, c, rstd)
	} else {
		sum, product = vec.NormWeightGradSums(g, x, n.weight, c, rstd)
	}
	if n.mean == nil {
		sum = 0
	}
	count := float32(n.size)
	if n.weight == nil {
		vec.NormGrad(dx, g, x, c, rstd, sum/count, product/count)
	} else {
		vec.NormWeightGrad(dx, g, x, n.weight, c, rstd, sum/count, product/count)
	}
}
