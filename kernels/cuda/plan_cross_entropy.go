//go:build cuda && cgo && linux

package cuda

import "github.com/weft-ml/weft/kernels"

func init() {
	plans["cross_entropy"] = planCrossEntropy
	plans["cross_entropy_grad"] = planCrossEntropyGrad
}

// The reductions of losses, l.Ints[1]; l.Ints[0] marks rows to leave out and l.Floats[0] is the label smoothing.
const (
	lossMean = iota
	lossSum
	lossNone
)

// targets is the struct Targets of cross_entropy.cu.
type targets struct {
	indices        rows
	errors         indexErrors
	ignore         int64
	bytes, classes uint32
}

// targets appends the class indices l.In[1].
func (c *call) targets(l *kernels.Launch, classes int) {
	a := &l.In[1]
	r := c.report(a, indexed{size: classes, target: true, ignore: l.Ints[0]})
	t := targets{c.rowsOf(a, nil), r, int64(l.Ints[0]), uint32(a.DType.Size()), uint32(classes)}
	structure(c, &t)
}

// shortMean is the most rows whose mean is of one launch: kMeanBlocks of cross_entropy.cu.
const shortMean = 32 * foldBlock

// countTargets launches the count of rows that matter, in countBlocks parts.
func (c *call) countTargets(l *kernels.Launch, to uint64, count, classes int) {
	c.start("cross_entropy_count", dim{countBlocks, 1, 1}, countThreads)
	arg(c, to)
	c.targets(l, classes)
	arg(c, uint64(count))
}

// Constants of cross_entropy.cu: the blocks that count, each for a number of its own.
const (
	countThreads = 256
	countBlocks  = 32
	meanThreads  = 1024
)

// countBytes is the memory for their numbers, so that what follows is aligned.
const countBytes = 256

// planCrossEntropy has the results loss, max and sum of exponentials of each row, and for the mean the number of rows
// that count.
func planCrossEntropy(c *call, l *kernels.Launch) {
	x := &l.In[0]
	axes := lastAxes(x, 1)
	count, classes := extent(x, axes)
	compute := computeType(x.DType)
	rows := ofMatrix(count, 1, false) // the losses
	lossBytes := roundUp(compute.Size()*count, countBytes)
	y := c.resultOf(&l.Out[0])
	losses, sum, counted := y, y, uint64(0)
	if l.Ints[1] != lossNone {
		scratch := c.scratch(2*countBytes + lossBytes + levelBytes(&rows, compute))
		counted = scratch
		losses = result{to: scratch + 2*countBytes, dtype: uint64(compute.Code())}
		if l.Ints[1] == lossMean {
			sum = result{to: scratch + countBytes, dtype: uint64(compute.Code())}
		}
	}
	if count > 0 {
		c.startGroups("cross_entropy_rows", x.DType, count, classes)
		structure(c, &losses)
		c.pointer(&l.Out[1])
		c.pointer(&l.Out[2])
		c.rows(x, axes)
		c.targets(l, classes)
		arg(c, uint64(count))
		arg(c, l.Floats[0])
	}
	if l.Ints[1] == lossNone {
		return
	}
	if l.Ints[1] == lossMean && count > 0 && count <= shortMean {
		c.start("cross_entropy_short_mean_"+typeSuffix(compute), dim{1, 1, 1}, meanThreads)
		structure(c, &y)
		c.pointer(&l.Out[3])
		arg(c, losses.to)
		c.targets(l, classes)
		arg(c, uint32(count))
		return
	}
	c.sumOf(sum, folded{at: losses.to, dtype: compute}, rows, losses.to+uint64(lossBytes))
	if l.Ints[1] == lossSum {
		return
	}
	c.countTargets(l, counted, count, classes)
	c.start("cross_entropy_mean_"+typeSuffix(compute), dim{1, 1, 1}, 32)
	structure(c, &y)
	c.pointer(&l.Out[3])
	arg(c, sum.to)
	arg(c, counted)
}

// planCrossEntropyGrad is the gradient for the logits, which may be in their place: a thread overwrites only what it
// alone has read. The operands are logits, targets, max, sum, the gradient of the result and, for the mean, the number
// of rows that count.
func planCrossEntropyGrad(c *call, l *kernels.Launch) {
	x := &l.In[0]
	axes := lastAxes(x, 1)
	count, classes := extent(x, axes)
	if count*classes == 0 {
		return
	}
	var counted uint64
	if l.Ints[1] == lossMean {
		counted = c.address(&l.In[5])
	}
	c.startGroups("cross_entropy_grad", x.DType, count, classes)
	each := uint32(0)
	if l.Ints[1] == lossNone {
		each = 1
	}
	c.pointer(&l.Out[0])
	c.rows(x, axes)
	c.targets(l, classes)
	for k := 2; k < 5; k++ {
		c.rows(&l.In[k], nil)
	}
	arg(c, counted)
	arg(c, uint64(count))
	arg(c, each)
	arg(c, l.Floats[0])
}
