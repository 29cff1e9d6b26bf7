package cpu

import "github.com/weft-ml/weft/kernels"

// A reduction is an operand as its results see it.
type reduction struct{ kernels.Reduction }

func reductionOf(a kernels.Arg, axes []int) *reduction {
	r := &reduction{}
	r.Set(&a.Layout, axes)
	return r
}

// rowsOf is a with its last k axes reduced.
func rowsOf(a kernels.Arg, k int) *reduction {
	axes := make([]int, k)
	for i := range axes {
		axes[i] = len(a.Shape) - k + i
	}
	return reductionOf(a, axes)
}

// contiguous is the reduction of the rows of a matrix.
func contiguous(rows, n int) *reduction {
	r := &reduction{kernels.Reduction{N: n}}
	r.Kept.Push(rows, n)
	r.Reduced.Push(n, 1)
	return r
}

// columnsOf is the reduction of the columns of a matrix.
func columnsOf(rows, n int) *reduction {
	r := &reduction{kernels.Reduction{N: rows}}
	r.Reduced.Push(rows, n)
	r.Kept.Push(n, 1)
	return r
}

// byColumns tells whether neighbouring results, but not the elements of one, are neighbours in memory.
func (r *reduction) byColumns() bool {
	last := r.Kept.Rank - 1
	return !r.Reduced.Contiguous() && last >= 0 && r.Kept.Strides[last] == 1
}

// packed tells whether the results lie one after the other, without gaps.
func (r *reduction) packed() bool {
	return r.Reduced.Contiguous() && r.Kept.Rank == 1 && r.Kept.Strides[0] == r.N
}

// gathered is the size of the buffer that elements needs for up to n of them.
func (r *reduction) gathered(n int) int {
	if r.Reduced.Contiguous() {
		return 0
	}
	return min(n, r.N)
}

// elements is elements [from, to) of result o: where they lie, if side by side, else copied to buf.
func (r *reduction) elements(buf, x []float32, o, from, to int) []float32 {
	if from == to {
		return nil
	}
	x = x[r.Kept.Offset(o):]
	if r.Reduced.Contiguous() {
		return x[from:to]
	}
	buf = buf[:to-from]
	step := r.Reduced.Strides[r.Reduced.Rank-1]
	at := r.Reduced.Cursor(from)
	for i := 0; i < len(buf); {
		run := min(at.Run(), len(buf)-i)
		if step == 1 {
			copy(buf[i:i+run], x[at.Offset:])
		} else {
			for k := range run {
				buf[i+k] = x[at.Offset+k*step]
			}
		}
		i += run
		at.Skip(run)
	}
	return buf
}
