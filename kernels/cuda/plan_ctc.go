//go:build cuda && cgo && linux

package cuda

import "github.com/weft-ml/weft/kernels"

func init() {
	plans["ctc"] = planCTC
	plans["ctc_grad"] = planCTC
}

// ctcMostRows is how many rows of the batch the struct CtcRows of ctc.cu has.
const ctcMostRows = 64

// ctcRows is the struct CtcRows of ctc.cu.
type ctcRows struct {
	first, classes, blank, mostSteps, width uint64
	step, row, ofClass, targetRow, target   int64
	targets, bytes, targetsEach             uint64
	errors                                  indexErrors
	steps, targetsOf                        [ctcMostRows]uint32
}

// planCTC computes the losses, or with a third operand, their gradients, the gradient.
func planCTC(c *call, l *kernels.Launch) {
	x, targets := &l.In[0], &l.In[1]
	steps, rows, classes, lengths := x.Shape[0], x.Shape[1], x.Shape[2], l.Ints[1:]
	if l.Out[0].Len() == 0 {
		return
	}
	r := ctcRows{classes: uint64(classes), blank: uint64(l.Ints[0]), mostSteps: uint64(steps),
		width: uint64(2*targets.Shape[1] + 1), step: int64(x.Strides[0]), row: int64(x.Strides[1]),
		ofClass: int64(x.Strides[2]), targetRow: int64(targets.Strides[0]), target: int64(targets.Strides[1]),
		targets: c.address(targets), bytes: uint64(targets.DType.Size()), targetsEach: uint64(targets.Shape[1]),
		errors: c.report(targets, indexedAlong(x, 2))}
	width := int(r.width)
	block := min(rows, ctcMostRows, max(1, convScratch/(8*width*(steps+2))))
	whole := c.scratch(8 * block * (1 + width*(steps+2)))
	next := whole + uint64(8*block)
	ways := next + uint64(16*block*width)
	suffix := suffixes[x.DType]
	for first := 0; first < rows; first += block {
		count := min(block, rows-first)
		r.first = uint64(first)
		for n := range count {
			r.steps[n], r.targetsOf[n] = uint32(lengths[first+n]), uint32(lengths[rows+first+n])
		}
		grid := dim{uint32(count), 1, 1}
		c.start("ctc_forward_"+suffix, grid, windowThreads)
		if len(l.In) == 2 {
			c.pointer(&l.Out[0])
		} else {
			arg(c, uint64(0))
		}
		arg(c, whole)
		arg(c, ways)
		c.pointer(x)
		structure(c, &r)
		if len(l.In) == 2 {
			continue
		}
		c.start("ctc_backward_"+suffix, grid, windowThreads)
		arg(c, ways)
		arg(c, next)
		c.pointer(x)
		structure(c, &r)
		total := steps * count * classes
		c.startWindows("ctc_grad_"+suffix, total)
		c.pointer(&l.Out[0])
		c.pointer(&l.In[2])
		arg(c, int64(l.In[2].Strides[0]))
		arg(c, ways)
		arg(c, whole)
		c.pointer(x)
		for _, n := range [3]int{count, total, rows} {
			arg(c, uint64(n))
		}
		structure(c, &r)
	}
}
