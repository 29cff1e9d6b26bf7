//go:build cuda && cgo && linux

package cuda

import (
	"math"

	"github.com/weft-ml/weft/kernels"
)

// The operations of rows.cu and softmax.cu.
func init() {
	plans["softmax"] = alongAxis("softmax")
	plans["softmax_grad"] = alongAxis("softmax_grad")
	plans["log_softmax"] = alongAxis("log_softmax")
	plans["log_softmax_grad"] = alongAxis("log_softmax_grad")
	plans["logsumexp"] = planLogSumExp
	plans["var"] = planVar
	plans["argmax"] = planPlaceOf("argmax")
	plans["argmin"] = planPlaceOf("argmin")
	plans["max_index"] = planPlaceOf("argmax")
	plans["min_index"] = planPlaceOf("argmin")
	plans["cumsum"] = planCumSum
	plans["prod_grad"] = planProdGrad
}

const (
	rowWarps     = 4 // kRowWarps of rows.cuh
	rowThreads   = 32 * rowWarps
	maxRow       = 1 << 28  // elements of a row
	blockThreads = 512      // kBlockThreads
	tileBytes    = 32 << 10 // kTile

	// What rows may be that warps and blocks keep, and what a thread of a block keeps, in bytes of numbers.
	warpKeeps   = 32 * 32 * 4
	threadKeeps = 16 * 4
	blockKeeps  = blockThreads * threadKeeps
)

// shortRow is how long rows of elements of type d are that a warp keeps, as rows.cuh says, longRow that a block keeps.
func shortRow(d kernels.DType) int { return warpKeeps / numberOf(d).Size() }
func longRow(d kernels.DType) int  { return blockKeeps / numberOf(d).Size() }

// rows is the struct Rows of rows.cuh.
type rows struct {
	data           uint64
	rows, elements shape64
	dtype          uint64
}

// rowsOf describes a, the elements of a row being those along the given axes.
func (c *call) rowsOf(a *kernels.Arg, axes []int) rows {
	var r reduction
	r.describe(a, axes)
	return rows{c.address(a), r.kept.shape64(), r.reduced.shape64(), uint64(a.DType)}
}

// rows appends an operand as rowsOf describes it.
func (c *call) rows(a *kernels.Arg, axes []int) {
	r := c.rowsOf(a, axes)
	structure(c, &r)
}

// lastAxes are the last k axes of a.
func lastAxes(a *kernels.Arg, k int) []int { return allAxes[len(a.Shape)-k : len(a.Shape)] }

var allAxes = [kernels.MaxDims]int{0, 1, 2, 3, 4, 5, 6, 7}

// startRows begins a launch in which threads have rows of n elements of type d.
func (c *call) startRows(name string, d kernels.DType, rows, n int) error {
	if n >= maxRow {
		return kernels.Errorf(kernels.ErrDevice, c.op, "rows of %d elements; kernels on %s take fewer than %d", n, c.b.Name(), maxRow)
	}
	return c.start(name+"_"+reader(d), blocks(rows, rowThreads), rowThreads)
}

// startTeams begins a launch in which warps, or blocks where rows are long, have rows of n elements of type d. Kernels with
// rows of parameters keep them in shared memory if teams keep rows. So that they are read seldom, at most 4 blocks of a
// multiprocessor take all rows in turns: enough bytes under way, with 24 KB and more, to keep memory busy.
func (c *call) startTeams(name string, d kernels.DType, rows, n, parameters int) error {
	size := numberOf(d).Size()
	infix, each, threads, shared := "_", rowWarps, rowThreads, 0
	if n > shortRow(d) {
		infix, each, threads = "_long_", 1, roundUp(ceilDiv(min(n*size, blockKeeps), threadKeeps), 32)
		shared = min(n*size, tileBytes)
	}
	if n <= longRow(d) {
		shared += parameters * n * size
	}
	grid := ceilDiv(rows, each)
	if parameters > 0 {
		grid = min(grid, min(4, 2*blockThreads/threads)*c.b.gpu.SMs)
	}
	if n >= maxRow || grid > math.MaxInt32 {
		return kernels.Errorf(kernels.ErrDevice, c.op, "%d rows of %d elements; kernels on %s take fewer than %d, of fewer than %d", rows, n, c.b.Name(), 1<<31, maxRow)
	}
	return c.startShared(name+infix+reader(d), dim{uint32(grid), 1, 1}, uint32(threads), shared)
}

// extent is the number of rows of a along the given axes and their length.
func extent(a *kernels.Arg, axes []int) (rows, n int) {
	n = 1
	for _, i := range axes {
		n *= a.Shape[i]
	}
	if n == 0 {
		var r reduction
		r.describe(a, axes)
		return r.results(), 0
	}
	return a.Len() / n, n
}

// alongAxis is the plan of kernels with the parameters (result, operands..., rows, n).
func alongAxis(name string) plan {
	return func(c *call, l *kernels.Launch) error {
		axes := l.Ints[:1]
		count, n := extent(&l.Out[0], axes)
		if count*n == 0 {
			return nil
		}
		if err := c.startTeams(name, l.In[0].DType, count, n, 0); err != nil {
			return err
		}
		c.rows(&l.Out[0], axes)
		for k := range l.In {
			c.rows(&l.In[k], axes)
		}
		arg(c, uint64(count))
		arg(c, uint32(n))
		return nil
	}
}

// startResults begins a launch of a kernel with the parameters (..., x, rows, n, ...), of which the caller appends the
// first by results.
func (c *call) startResults(name string, l *kernels.Launch, axes []int, results func()) error {
	x := &l.In[0]
	count, n := extent(x, axes)
	if err := c.startTeams(name, x.DType, count, n, 0); err != nil {
		return err
	}
	results()
	c.rows(x, axes)
	arg(c, uint64(count))
	arg(c, uint32(n))
	return nil
}

// firstResult appends the first result as a struct Result.
func (c *call) firstResult(l *kernels.Launch) func() {
	return func() {
		y := c.resultOf(&l.Out[0])
		structure(c, &y)
	}
}

func planLogSumExp(c *call, l *kernels.Launch) error {
	return c.startResults("logsumexp", l, l.Ints, c.firstResult(l))
}

// planVar divides by the number of elements less the correction.
func planVar(c *call, l *kernels.Launch) error {
	if err := c.startResults("var", l, l.Ints, c.firstResult(l)); err != nil {
		return err
	}
	_, n := extent(&l.In[0], l.Ints)
	arg(c, max(0, float64(n)-l.Floats[0]))
	return nil
}

// planPlaceOf finds places, the last result, and if there are two the elements there, the first.
func planPlaceOf(name string) plan {
	return func(c *call, l *kernels.Launch) error {
		return c.startResults(name, l, l.Ints, func() {
			c.pointer(&l.Out[len(l.Out)-1])
			if len(l.Out) == 2 {
				c.firstResult(l)()
			} else {
				structure(c, &result{})
			}
		})
	}
}

// planCumSum has a thread for each row.
func planCumSum(c *call, l *kernels.Launch) error {
	axes := l.Ints[:1]
	count, n := extent(&l.In[0], axes)
	if count*n == 0 {
		return nil
	}
	if err := c.startRows("cumsum", l.In[0].DType, count, n); err != nil {
		return err
	}
	c.rows(&l.Out[0], axes)
	c.rows(&l.In[0], axes)
	arg(c, uint64(count))
	arg(c, uint32(n))
	arg(c, uint32(l.Ints[1]))
	return nil
}

// planProdGrad has a thread for each row of x that makes a product. The operands are x and g.
func planProdGrad(c *call, l *kernels.Launch) error {
	x := &l.In[0]
	count, n := extent(x, l.Ints)
	if count*n == 0 {
		return nil
	}
	front, err := c.scratch(8 * count * n)
	if err != nil {
		return err
	}
	if err := c.startRows("prod_grad", x.DType, count, n); err != nil {
		return err
	}
	c.rows(&l.Out[0], l.Ints)
	c.rows(x, l.Ints)
	c.rows(&l.In[1], nil)
	arg(c, front)
	arg(c, uint64(count))
	arg(c, uint32(n))
	return nil
}
