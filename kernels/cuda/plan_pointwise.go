//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"slices"
	"weak"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/src"
	"github.com/weft-ml/weft/kernels/expr"
)

// Operations that are expressions share one plan. Their kernels are written by package src for the element types of a
// launch. Those of the operation table are images of the build; others are compiled when they first occur.

// pointwiseKey identifies the kernels of an expression for element types: four bits each, operands before results. It
// does not keep the expression.
type pointwiseKey struct {
	f     weak.Pointer[expr.Func]
	types uint64
}

// pointwiseFamily is the two kernels of a key, as pointwise.cuh describes them.
type pointwiseFamily struct {
	vector, strided *function
	image           *image // they are of
	elements        int    // that a thread computes
}

const (
	pointwiseThreads = 256
	maxPointwise     = 16 // operands and results of an operation
)

// keyOf is the key of a launch.
func keyOf(l *kernels.Launch) (pointwiseKey, error) {
	if len(l.In)+len(l.Out) > maxPointwise {
		return pointwiseKey{}, kernels.Errorf(kernels.ErrDevice, l.Op.Name, "%d operands and results; kernels take %d",
			len(l.In)+len(l.Out), maxPointwise)
	}
	k := pointwiseKey{f: l.Op.Expr.Weak()}
	for _, as := range [2][]kernels.Arg{l.In, l.Out} {
		for i := range as {
			k.types = k.types<<4 | uint64(as[i].DType.Code())
		}
	}
	return k, nil
}

// pointwise returns the kernels of a launch: those of this build, else they are compiled.
func (l *loader) pointwise(b *Backend, launch *kernels.Launch) (*pointwiseFamily, error) {
	key, err := keyOf(launch)
	if err != nil {
		return nil, err
	}
	if f := l.expressions.get(key); f != nil {
		return f, nil
	}
	if err := kernels.DefinedOn(launch.ComputeType(), launch.Op.Expr); err != nil {
		err.Op = launch.Op.Name
		return nil, err
	}
	p := src.PointwiseOf(launch)
	text, err := p.Text()
	if err != nil {
		return nil, kernels.Errorf(kernels.ErrDevice, launch.Op.Name,
			"device %s (%s) has no kernel for this operation: %v", b.Name(), b.gpu.Name, err)
	}
	symbols := p.Symbols()
	fit := fitting(shipped().byText[src.Sum(text)], &b.gpu)
	if len(fit) == 0 {
		m, err := compile(&b.gpu, p.Name, text, symbols)
		if err != nil {
			return nil, err
		}
		fit = []*image{m}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if fit[0].compiled {
		l.forget(b)
	}
	f := &pointwiseFamily{elements: p.Vector()}
	for i, to := range []**function{&f.vector, &f.strided} {
		if *to, f.image, err = l.entry(b, fit, symbols[i]); err != nil {
			return nil, err
		}
	}
	l.expressions.add(key, f)
	return f, nil
}

// planPointwise chooses between the two kernels.
func planPointwise(c *call, l *kernels.Launch) {
	if params := l.Op.Expr.Params; len(l.Floats) < len(params) {
		panic(kernels.Errorf(kernels.ErrValue, c.op, "takes %d parameters %v, found %d",
			len(params), params, len(l.Floats)))
	}
	if l.ComputeType() == kernels.Int64 {
		if err := l.CheckIntegers(); err != nil {
			panic(err)
		}
	}
	var w stridedPointwise
	w.collapse(l.In, l.Out[0].Shape)
	if l.Op.Expr.Identity() && l.In[0].DType == l.Out[0].DType && !w.contiguous(0) {
		c.relayout(&l.Out[0], &l.In[0])
		return
	}
	f := must(c.b.images.pointwise(c.b, l))
	if w.n == 0 {
		return
	}
	aligned := true
	for k := range l.Out {
		aligned = aligned && c.aligned(&l.Out[k], f.elements)
	}
	w.access(c, l, f.elements)
	if aligned && w.Rank <= 1 && w.uniform|w.vectors == 1<<len(l.In)-1 {
		c.launch(f.vector, blocks(ceilDiv(w.n, f.elements), pointwiseThreads), dim{pointwiseThreads, 1, 1}, 0)
		c.operands(l, &w)
		arg(c, uint64(w.n))
		return
	}
	w.share(f.elements, aligned)
	c.stridedPointwise(f.strided, l, &w)
}

// A stridedPointwise is a launch of a strided kernel. The space is that of its threads; behind the operands it has the
// numbers of the elements of the results.
type stridedPointwise struct {
	space
	each             int               // elements of a thread, neighbours in the results
	step             [maxPointwise]int // from one to the next, in each operand
	uniform, vectors uint64            // the operands in which they are one element, and those in which a vector
}

// access finds the operands in which n neighbours of the results are one element or one vector.
func (w *stridedPointwise) access(c *call, l *kernels.Launch, n int) {
	for k := range l.In {
		outer, step := w.strides[k][:w.Rank], 0
		if last := w.Rank - 1; last >= 0 {
			outer, step = outer[:last], outer[last]
		}
		switch odd := func(stride int) bool { return stride%n != 0 }; {
		case step == 0:
			w.uniform |= 1 << k
		case step == 1 && c.aligned(&l.In[k], n) && !slices.ContainsFunc(outer, odd):
			w.vectors |= 1 << k
		}
	}
}

// share gives each thread n neighbours, or one where these are not in one row of every operand, within its reach.
func (w *stridedPointwise) share(n int, aligned bool) {
	if w.Rank == 0 { // one element
		w.Shape[0], w.Rank = 1, 1
	}
	last := w.Rank - 1
	kernels.RowMajor(w.strides[w.ins][:w.Rank], w.Shape[:w.Rank])
	w.ins++
	w.each = n
	if !aligned || w.Shape[last]%n != 0 {
		w.each = 1
	}
	for k := range w.ins {
		w.step[k] = w.strides[k][last]
		if n*max(w.step[k], -w.step[k]) >= maxReach {
			w.each = 1
		}
	}
	w.n /= w.each
	w.Shape[last] /= w.each
	for k := range w.ins {
		w.strides[k][last] *= w.each
	}
}

// stridedPointwise launches a strided kernel, several times if one launch cannot span all.
func (c *call) stridedPointwise(f *function, l *kernels.Launch, w *stridedPointwise) {
	if axis := w.longest(); axis >= 0 {
		c.stridedPointwiseHalves(f, l, w, axis)
		return
	}
	c.launch(f, blocks(w.n, pointwiseThreads), dim{pointwiseThreads, 1, 1}, 0)
	c.operands(l, w)
	w.put(c)
}

// stridedPointwiseHalves launches both halves of what is too far for one launch.
func (c *call) stridedPointwiseHalves(f *function, l *kernels.Launch, w *stridedPointwise, axis int) {
	first := *w
	second := first
	second.space = first.split(axis)
	c.stridedPointwise(f, l, &first)
	c.stridedPointwise(f, l, &second)
}

// put appends the struct Strides of pointwise.cuh.
func (w *stridedPointwise) put(c *call) {
	le, head := binary.LittleEndian, 20+4*w.ins
	p := c.space(uintptr(roundUp(head+w.shape32Bytes(), 8)), 8)
	le.PutUint64(p, uint64(w.base[w.ins-1]))
	le.PutUint32(p[8:], uint32(w.n))
	le.PutUint32(p[12:], uint32(w.each))
	le.PutUint32(p[16:], uint32(w.vectors))
	for k, step := range w.step[:w.ins] {
		le.PutUint32(p[20+4*k:], uint32(step))
	}
	w.putShape32(p[head:])
}

// aligned tells whether an operand is aligned for vectorised accesses to n elements.
func (c *call) aligned(a *kernels.Arg, n int) bool { return c.address(a)%uint64(a.DType.Size()*n) == 0 }

// operands appends the struct Operands of pointwise.cuh.
func (c *call) operands(l *kernels.Launch, w *stridedPointwise) {
	compute := l.ComputeType()
	ins, scalars := max(1, len(l.In)), max(1, len(l.Op.Expr.Params))
	size := 8*(ins+len(l.Out)+2) + compute.Size()*(1+scalars)
	p := c.space(uintptr(roundUp(size, 8)), 8)
	clear(p)
	for k := range l.In {
		binary.LittleEndian.PutUint64(p[8*k:], c.address(&l.In[k])+uint64(w.base[k]*l.In[k].DType.Size()))
	}
	p = p[8*ins:]
	for k := range l.Out {
		binary.LittleEndian.PutUint64(p[8*k:], c.address(&l.Out[k]))
	}
	p = p[8*len(l.Out):]
	binary.LittleEndian.PutUint64(p, l.Random.Key)
	binary.LittleEndian.PutUint64(p[8:], l.Random.Counter)
	binary.LittleEndian.PutUint32(p[16:], uint32(w.uniform))
	p = p[16+compute.Size():] // scalars are aligned
	for k := range l.Op.Expr.Params {
		src.AppendNumber(p[:compute.Size()*k], compute, l.Floats[k])
	}
}
