//go:build cuda && cgo && linux

package cuda

import (
	"slices"

	"github.com/weft-ml/weft/internal/caller"
	"github.com/weft-ml/weft/kernels"
)

// In a pre-norm transformer the sum x = x + f(x) is followed by a norm of x. A stream therefore holds the launch of a sum
// back until it is asked for anything else. If that is a norm of just this sum, one kernel computes both: it reads the
// operands once and writes the sum, rounded to its type, and the norm. Otherwise the sum is launched first, as it was planned.
// Nobody can tell the difference:
//
//   - Whoever queues work on a stream, marks it or waits for it locks it by [stream.lock], which launches what is held. Only
//     Run locks mu itself. Other streams, devices and the host learn of a stream's work by marks and copies only.
//   - Memory that a held sum uses is given to other operations in the meantime, in the order of the stream: they are queued
//     behind the sum. In one kernel there is no such order, so results of the norm must lie apart from the sum and its operands,
//     and weights apart from the sum. [Backend.Free] launches what is held before memory goes back to the driver.
//   - What is held is a planned call and the line that asked for it, in memory of the stream's own: errors of the plan come at once,
//     errors of the launch name that line, and the log of launches knows a kernel that computes both by either line.
//   - In synchronous mode, and in what is captured, nothing is held.
type residual struct {
	call      call // the sum
	held      bool
	x, y, sum span
	dtype     kernels.DType // of x and the sum
	addend    kernels.DType // of y
}

// span is the addresses of an operand without gaps.
type span struct{ from, to uint64 }

func (s *stream) span(op string, a *kernels.Arg) span {
	size := a.DType.Size()
	at := uint64(s.b.at(op, a.Buf, a.Offset*size, 0))
	return span{at, at + uint64(a.Len()*size)}
}

func (s span) overlaps(t span) bool { return s.from < t.to && t.from < s.to }

// lock locks the stream for any work but that of Run, and launches what is held.
func (s *stream) lock() {
	s.mu.Lock()
	s.b.postpone(s.release())
}

// flush launches what is held.
func (s *stream) flush() {
	s.lock()
	s.mu.Unlock()
}

// release launches the sum that is held, if there is one. An error names the line that asked for the sum. s.mu is held.
func (s *stream) release() error {
	r := &s.residual
	if !r.held || s.b.fault.Load() != nil {
		return nil
	}
	r.held = false
	err := r.call.submit()
	if e, ok := err.(*kernels.Error); ok {
		own := *e
		own.Site, own.In = r.call.site, "an earlier operation"
		return &own
	}
	return err
}

// hold keeps the sum that has been planned.
func (r *residual) hold() {
	r.held = true
	r.call.site = caller.Site()
}

// describe tells whether l is a sum that is worth to be held, and notes where its operands lie.
func (r *residual) describe(l *kernels.Launch) bool {
	s := r.call.stream
	if l.Op.Expr == nil || !l.Op.Expr.Sum() || s.b.sync || s.capturing.Load() {
		return false
	}
	x, y, sum := &l.In[0], &l.In[1], &l.Out[0]
	if x.DType != sum.DType {
		x, y = y, x
	}
	r.dtype, r.addend = x.DType, y.DType
	if !sum.DType.IsFloat() || x.DType != sum.DType || y.DType != sum.DType && !(y.DType.IsHalf() && sum.DType == kernels.Float32) {
		return false
	}
	for _, a := range [...]*kernels.Arg{x, y} {
		if !a.Contiguous() || !slices.Equal(a.Shape, sum.Shape) {
			return false
		}
	}
	op := l.Op.Name
	r.x, r.y, r.sum = s.span(op, x), s.span(op, y), s.span(op, sum)
	return sum.Len() > 0 && !r.sum.overlaps(r.x) && !r.sum.overlaps(r.y)
}

// feeds tells whether l is a norm that its kernel can compute together with the sum that is held.
func (r *residual) feeds(l *kernels.Launch) bool {
	if !r.held || l.Op.Expr != nil {
		return false
	}
	if name := l.Op.Kernel; name != "layer_norm" && name != "rms_norm" {
		return false
	}
	s, op, x := r.call.stream, l.Op.Name, &l.In[0]
	_, n := extent(x, lastAxes(x, l.Ints[0]))
	if n > longRow(x.DType) || !x.Contiguous() || x.DType != r.dtype || s.span(op, x) != r.sum {
		return false
	}
	for i := range l.In[1:] {
		if p := &l.In[1+i]; !p.Contiguous() || s.span(op, p).overlaps(r.sum) {
			return false
		}
	}
	for i := range l.Out {
		y := s.span(op, &l.Out[i])
		if y.overlaps(r.x) || y.overlaps(r.y) || y.overlaps(r.sum) {
			return false
		}
	}
	return true
}

// residual appends the struct Residual of norm.cu: the operands of the sum that is computed with the norm.
func (c *call) residual() {
	var a struct{ x, y, dtype uint64 }
	if r := c.sum; r != nil {
		a.x, a.y, a.dtype = r.x.from, r.y.from, uint64(r.addend)
	}
	structure(c, &a)
}
