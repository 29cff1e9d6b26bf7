package cpu

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// Attributes of the cross-entropy kernels: l.Ints are the target that marks ignored rows and the reduction, l.Floats is
// the label smoothing.
const (
	lossMean = iota
	lossSum
	lossNone
)

// Targets reads the class indices l.In[1] of the rows of l.In[0]: -1 for ignored rows. The second result is the number
// of the others. An index that is no class is an error.
func Targets(l *kernels.Launch, classes int) (targets []int, count int) {
	targets = integers(l.In[1].Len())
	readIntegers(targets, l.In[1])
	for r, k := range targets {
		switch {
		case k == l.Ints[0]:
			targets[r] = -1
		case k < 0 || k >= classes:
			panic(kernels.TargetError(l.Op.Name, l.In[1].Shape, r, k, classes, l.Ints[0]))
		default:
			count++
		}
	}
	return targets, count
}

// CrossEntropy computes for each row, with m = max(x) and s = sum(exp(x - m)),
//
//	(1-e) * (log(s) - (x[target] - m)) + e * (log(s) - sum(x - m)/C)
//
// where e is the label smoothing. m and s are results, too, for the gradient, and for the mean the number of rows that
// are not ignored. The mean is the sum of the rows' losses
// in the canonical order, divided by the number of rows that are not ignored.
func CrossEntropy(l *kernels.Launch) {
	x := l.In[0]
	classes := x.Shape[len(x.Shape)-1]
	targets, count := Targets(l, classes)
	largest, sums := Slice[float32](l.Out[1]), Slice[float32](l.Out[2])
	loss := Slice[float32](l.Out[0])
	if l.Ints[1] != lossNone {
		scratch := borrow(len(targets))
		defer giveBack(scratch)
		loss = *scratch
	}
	e := float32(l.Floats[0])
	rows := rowsOf(x, 1)
	parRows(len(targets), classes, func(lo, hi int) {
		scratch := borrow(2 * (hi - lo))
		logs, means := (*scratch)[:hi-lo], (*scratch)[hi-lo:] // means of x - m
		x := newRowAccess(rows, l.In[0], hi)
		for r := lo; r < hi; r++ {
			row := x.read(r)
			m := vec.Max(row)
			largest[r], sums[r] = m, vec.SumExpSub(row, m)
			if targets[r] >= 0 {
				loss[r] = row[targets[r]] - m
			}
			if e > 0 {
				means[r-lo] = vec.SumSub(row, m) / float32(classes)
			}
		}
		vecLog(logs, sums[lo:hi], nil, nil)
		for r := lo; r < hi; r++ {
			switch log := logs[r-lo]; {
			case targets[r] < 0:
				loss[r] = 0
			case e > 0:
				loss[r] = float32((1-e)*(log-loss[r])) + float32(e*(log-means[r-lo]))
			default:
				loss[r] = log - loss[r]
			}
		}
		x.close()
		giveBack(scratch)
	})
	if l.Ints[1] == lossNone {
		return
	}
	total := vec.Sum(loss)
	if l.Ints[1] == lossMean {
		total /= float32(count)
		Slice[float32](l.Out[3])[0] = float32(count)
	}
	Slice[float32](l.Out[0])[0] = total
}

// targetRows is how many rows the gradients of targets are computed for at once.
const targetRows = 8

// CrossEntropyGrad computes (exp(x - m) * (1/s) - target) * scale for each row. The target is a smoothed one-hot row
// and scale is the gradient of the row's loss. The operands are logits, targets, m, s, the gradient of the result and,
// for the mean, the number of rows that are not ignored.
func CrossEntropyGrad(l *kernels.Launch) {
	x := l.In[0]
	classes := x.Shape[len(x.Shape)-1]
	targets, _ := Targets(l, classes)
	count := float32(0)
	if l.Ints[1] == lossMean {
		count = newReader(l.In[5]).at(0)
	}
	dx := Slice[float32](l.Out[0])
	rows := rowsOf(x, 1)
	largest, sums, g := newReader(l.In[2]), newReader(l.In[3]), newReader(l.In[4])
	smoothing := float32(l.Floats[0])
	off := smoothing / float32(classes)
	on := (1 - smoothing) + off
	parRows(len(targets), classes, func(lo, hi int) {
		x := newRowAccess(rows, l.In[0], hi)
		for ; lo < hi; lo += targetRows {
			var logit, m, inverse, scale [targetRows]float32 // the target's, and those of its row
			group := targets[lo:min(lo+targetRows, hi)]
			for i, k := range group {
				r := lo + i
				d := dx[r*classes : (r+1)*classes]
				if k < 0 {
					clear(d)
					continue
				}
				row := x.read(r)
				logit[i], m[i], inverse[i] = row[k], largest.at(r), 1/sums.at(r) // d may be the row
				switch l.Ints[1] {
				case lossMean:
					scale[i] = g.at(0) / count
				case lossSum:
					scale[i] = g.at(0)
				case lossNone:
					scale[i] = g.at(r)
				}
				vec.CrossEntropyGrad(d, row, m[i], inverse[i], off, scale[i])
			}
			vec.CrossEntropyGradOn(logit[:], logit[:], m[:], inverse[:], scale[:], on)
			for i, k := range group {
				if k >= 0 {
					dx[(lo+i)*classes+k] = logit[i]
				}
			}
		}
		x.close()
	})
}

// A reader reads the elements of an operand of any layout by their number in row-major order.
type reader struct {
	all  kernels.Dims
	data []float32
}

func newReader(a kernels.Arg) *reader {
	r := &reader{data: Slice[float32](a)}
	r.all.PushAll(a.Shape, a.Strides)
	return r
}

func (r *reader) at(i int) float32 { return r.data[r.all.Offset(i)] }
