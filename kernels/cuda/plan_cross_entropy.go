//go:build cuda && cgo && linux

package cuda

import "github.com/weft-ml/weft/kernels"

func init() {
	families["cross_entropy"] = planCrossEntropy
	families["cross_entropy_grad"] = planCrossEntropyGrad
}

// The reductions of losses, l.Ints[1]; l.Ints[0] marks rows to leave out and l.Floats[0] is the label smoothing.
const (
	lossMean = iota
	lossSum
	lossNone
)

// targets is the struct Targets of cross_entropy.cu.
type targets struct {
	places         rows
	report         reporting
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

// countTargets launches the count of rows that matter.
func (c *call) countTargets(l *kernels.Launch, to uint64, count, classes int) error {
	if err := c.start("cross_entropy_count", dim{1, 1, 1}, 32); err != nil {
		return err
	}
	arg(c, to)
	c.targets(l, classes)
	arg(c, uint64(count))
	return nil
}

// countBytes is the room for a count, so that what follows is aligned.
const countBytes = 256

// planCrossEntropy has the results loss, max and sum of exponentials of each row.
func planCrossEntropy(c *call, _ *kernel, l *kernels.Launch) error {
	x := &l.In[0]
	axes := lastAxes(x, 1)
	count, classes := extent(x, axes)
	loss := c.address(&l.Out[0])
	var room uint64
	if l.Ints[1] != lossNone {
		var err error
		if room, err = c.scratch(countBytes + roundUp(4*count, countBytes) + partialBytes(1, count)); err != nil {
			return err
		}
		loss = room + countBytes
	}
	if count > 0 {
		if err := c.startRows("cross_entropy_rows_f32", count, classes); err != nil {
			return err
		}
		arg(c, loss)
		c.pointer(&l.Out[1])
		c.pointer(&l.Out[2])
		c.rows(x, axes)
		c.targets(l, classes)
		arg(c, uint64(count))
		arg(c, float32(l.Floats[0]))
	}
	if l.Ints[1] == lossNone {
		return nil
	}
	y := c.address(&l.Out[0])
	if err := c.sumOf(y, loss, count, loss+uint64(roundUp(4*count, countBytes))); err != nil || l.Ints[1] == lossSum {
		return err
	}
	if err := c.countTargets(l, room, count, classes); err != nil {
		return err
	}
	if err := c.start("cross_entropy_mean_f32", dim{1, 1, 1}, 32); err != nil {
		return err
	}
	arg(c, y)
	arg(c, room)
	return nil
}

// sumOf adds n numbers side by side.
func (c *call) sumOf(y, x uint64, n int, room uint64) error {
	if n == 0 {
		return c.fill(y, 0, 1)
	}
	folds := (n + foldBlock - 1) / foldBlock
	to := y
	if folds > 1 {
		to = room
	}
	if err := c.foldRows("sum", to, x, 1, n, n); err != nil {
		return err
	}
	return c.upperLevels("sum", y, to, 1, folds)
}

// planCrossEntropyGrad is the gradient for the logits. The operands are logits, targets, max, sum and the gradient of
// the result.
func planCrossEntropyGrad(c *call, _ *kernel, l *kernels.Launch) error {
	x := &l.In[0]
	axes := lastAxes(x, 1)
	count, classes := extent(x, axes)
	if count*classes == 0 {
		return nil
	}
	var counted uint64
	if l.Ints[1] == lossMean {
		var err error
		if counted, err = c.scratch(countBytes); err != nil {
			return err
		}
		if err := c.countTargets(l, counted, count, classes); err != nil {
			return err
		}
	}
	if err := c.startRows("cross_entropy_grad_f32", count, classes); err != nil {
		return err
	}
	smoothing := float32(l.Floats[0])
	off := smoothing / float32(classes)
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
	arg(c, off)
	arg(c, (1-smoothing)+off)
	return nil
}
