//go:build cuda && cgo && linux

package cuda

import (
	"slices"

	"github.com/weft-ml/weft/kernels"
)

func init() {
	plans["layer_norm"] = planNorm
	plans["rms_norm"] = planNorm
	plans["add_layer_norm"] = planAddNorm
	plans["add_rms_norm"] = planAddNorm
	plans["layer_norm_grad"] = planNormGrad
	plans["rms_norm_grad"] = planNormGrad
}

// residual is the struct Residual of norm.cu: the operands of the sum that is computed with the norm; none if x is 0.
type residual struct{ x, y, dtype uint64 }

// planNorm normalises rows, the last l.Ints[0] axes. Layer norm has the results y, mean and rstd, RMS norm has no mean.
func planNorm(c *call, l *kernels.Launch) { c.norm(l, residual{}) }

// planAddNorm computes a sum and its norm: by one kernel, which rounds the sum before it is normalised, if the operands
// are contiguous; else by two.
func planAddNorm(c *call, l *kernels.Launch) {
	sum, norm := &c.parts[0], &c.parts[1]
	l.Split(sum, norm)
	x, y, z := &sum.In[0], &sum.In[1], &sum.Out[0]
	if x.DType != z.DType { // the operand in half precision is the second one
		x, y = y, x
	}
	reads := x.DType == z.DType && (y.DType == z.DType || y.DType.IsHalf() && z.DType == kernels.Float32)
	if reads && x.Contiguous() && y.Contiguous() {
		c.norm(norm, residual{c.address(x), c.address(y), uint64(y.DType.Code())})
		return
	}
	planPointwise(c, sum)
	c.norm(norm, residual{})
}

// norm appends the launch of a norm, and of the sum that it normalises.
func (c *call) norm(l *kernels.Launch, sum residual) {
	x := &l.In[0]
	axes := lastAxes(x, l.Ints[0])
	count, n := extent(x, axes)
	if count == 0 {
		return
	}
	c.startGroups("norm", x.DType, count, n)
	mean, parameters := uint64(0), [2]*kernels.Arg{}
	if layer := len(l.Out) == 3; layer {
		mean = c.address(&l.Out[1])
	}
	for k := range l.In[1:] {
		parameters[k] = &l.In[1+k]
	}
	arg(c, c.address(&l.Out[0]))
	arg(c, mean)
	arg(c, c.address(&l.Out[len(l.Out)-1]))
	c.rows(x, axes)
	c.rows(parameters[0], allAxes)
	c.rows(parameters[1], allAxes)
	structure(c, &sum)
	c.extent(count, n)
	arg(c, l.Floats[0])
}

// normOperands are the operands of a norm's gradient; RMS norm has no mean, and weight may be missing.
type normOperands struct{ g, x, mean, rstd, weight *kernels.Arg }

func normOperandsOf(l *kernels.Launch) normOperands {
	o := normOperands{g: &l.In[0], x: &l.In[1]}
	rest := l.In[2:]
	if layer := len(l.Ints) == 4; layer { // x, weight and bias may have gradients
		o.mean, rest = &rest[0], rest[1:]
	}
	o.rstd = &rest[0]
	if len(rest) > 1 {
		o.weight = &rest[1]
	}
	return o
}

// normRows appends g, x, mean and rstd, and none for a mean that is missing.
func (c *call) normRows(o *normOperands, axes []int) {
	c.rows(o.g, axes)
	c.rows(o.x, axes)
	c.rows(o.mean, nil)
	c.rows(o.rstd, nil)
}

// Constants of norm.cu: the sums over rows for weight and bias.
const (
	rowPartials = 8
	partialRows = 8
	normBlock   = rowPartials * partialRows
	normColumns = 128
	normThreads = 32 * rowPartials

	foldPartials = 128 // kFoldPartials of reduce.cuh
	gradThreads  = 256 // at most, of the kernel that caches long rows: one for each partial sum
)

// planNormGrad computes the gradients that l.Ints[1:] asks for: of x, weight and, for layer norm, bias, the last two by
// a 2 as sums of blocks of rows. Cached
// rows are read once for all of them; else the sums for weight and bias take a kernel of their own. Long rows that are
// not cached have a block each.
func planNormGrad(c *call, l *kernels.Launch) {
	o := normOperandsOf(l)
	axes := lastAxes(o.x, l.Ints[0])
	count, n := extent(o.x, axes)
	if n == 0 {
		return
	}
	compute, folds := computeType(o.x.DType), ceilDiv(count, normBlock)
	size := compute.Size() * folds * n
	columns := ofMatrix(folds, n, true) // sums of blocks of rows
	some := slices.Max(l.Ints[2:]) > 0
	var scratch uint64
	if some {
		scratch = c.scratch(2*size + 2*roundUp(levelBytes(&columns, compute), copyBytes))
	}
	var wanted [2]result // of weight and bias
	var sums [2]uint64   // of the blocks
	for k, want := range l.Ints[2:] {
		switch y := c.resultOf(&l.Out[1+k]); want {
		case 1:
			wanted[k], sums[k] = y, scratch+uint64(k*size)
		case 2:
			sums[k] = y.to
		}
	}
	if count > 0 && l.Ints[1] == 1 && c.normGradX(&l.Out[0], &o, axes, some, sums) {
		some = false
	}
	if count > 0 && some {
		c.start("norm_parameters_"+typeSuffix(o.x.DType), blocks(ceilDiv(n, normColumns)*folds, 1), normThreads)
		arg(c, sums[0])
		arg(c, sums[1])
		c.normRows(&o, axes)
		c.extent(count, n)
	}
	all := make([]matrixSum, 0, 2)
	for k, y := range wanted {
		if y.to != 0 {
			all = append(all, matrixSum{y, folded{at: sums[k], dtype: compute}, columns})
		}
	}
	c.sums(all, scratch+uint64(2*size))
}

// normGradX appends the launch for the gradient dx of x, and tells whether that also computes the sums for weight and
// bias, which it does for cached rows if they are asked for.
func (c *call) normGradX(dx *kernels.Arg, o *normOperands, axes []int, some bool, sums [2]uint64) bool {
	count, n := extent(o.x, axes)
	d, to := o.x.DType, c.rowsOf(dx, axes)
	cached := n%4 == 0 && to.wide == 1 && c.rowsOf(o.g, axes).wide == 1 && c.rowsOf(o.x, axes).wide == 1 &&
		c.rowsOf(o.weight, allAxes).wide == 1 && n <= longGradient(d)
	if n > shortRow(d) && !cached {
		c.start("norm_grad_longer_"+typeSuffix(d), blocks(count, 1), uint32(blockThreads(n, blockWarps)))
		arg(c, to.data)
		c.normRows(o, axes)
		c.rows(o.weight, allAxes)
		arg(c, uint32(n))
		return false
	}
	some = some && cached
	each := 1
	if some {
		each = partialRows
	} else {
		sums = [2]uint64{}
	}
	if grid, folds := blocks(count, rowPartials*each), ceilDiv(n, foldBlock); n > shortRow(d) {
		c.startShared("norm_grad_long_"+typeSuffix(d), grid, uint32(foldPartials*folds), 6*foldBlock*folds*4)
	} else {
		c.start("norm_grad_"+typeSuffix(d), grid, normThreads)
	}
	arg(c, to.data)
	arg(c, sums[0])
	arg(c, sums[1])
	c.normRows(o, axes)
	c.rows(o.weight, allAxes)
	c.extent(count, n)
	arg(c, uint32(each))
	return some
}

// longGradient is the length of the longest rows that the gradients cache.
func longGradient(d kernels.DType) int {
	if d == kernels.Float64 {
		return shortRow(d)
	}
	return foldBlock / foldPartials * gradThreads
}
