//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
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

// pointwiseFamily is the three kernels of a key, as pointwise.cuh describes them.
type pointwiseFamily struct {
	vector, strided, strided64 *function
	image                      *image // they are of
	elements                   int    // that a thread of vector computes
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
	for i, to := range []**function{&f.vector, &f.strided, &f.strided64} {
		if *to, f.image, err = l.entry(b, fit, symbols[i]); err != nil {
			return nil, err
		}
	}
	l.expressions.add(key, f)
	return f, nil
}

// planPointwise chooses between the three kernels.
func planPointwise(c *call, l *kernels.Launch) {
	if params := l.Op.Expr.Params; len(l.Floats) < len(params) {
		panic(kernels.Errorf(kernels.ErrValue, c.op, "takes %d parameters %v, found %d",
			len(params), params, len(l.Floats)))
	}
	compute := l.ComputeType()
	if compute == kernels.Int64 {
		if err := l.CheckIntegers(); err != nil {
			panic(err)
		}
	}
	var s space
	s.collapse(l.In, l.Out[0].Shape)
	if l.Op.Expr.Identity() && l.In[0].DType == l.Out[0].DType && !s.contiguous(0) {
		c.relayout(&l.Out[0], &l.In[0])
		return
	}
	f := must(c.b.images.pointwise(c.b, l))
	uniform, flat := s.uniform(l.In), true
	for k := range l.Out {
		flat = flat && c.aligned(&l.Out[k], f.elements)
	}
	for k := range l.In {
		flat = flat && (uniform>>k&1 == 1 || s.contiguous(k) && c.aligned(&l.In[k], f.elements))
	}
	kernel, threads, wide := f.strided, s.n, !flat && !s.fits32()
	switch {
	case s.n == 0:
		return
	case flat:
		kernel, threads = f.vector, ceilDiv(s.n, f.elements)
	case wide:
		kernel = f.strided64
	}
	c.launch(kernel, blocks(threads, pointwiseThreads), dim{pointwiseThreads, 1, 1}, 0)
	c.operands(l, uniform, compute)
	arg(c, uint64(s.n))
	switch {
	case wide:
		s.shape64(c)
	case !flat:
		s.shape32(c)
	}
}

// aligned tells whether an operand is aligned for vectorised accesses to n elements.
func (c *call) aligned(a *kernels.Arg, n int) bool { return c.address(a)%uint64(a.DType.Size()*n) == 0 }

// operands appends the struct Operands of pointwise.cuh.
func (c *call) operands(l *kernels.Launch, uniform uint64, compute kernels.DType) {
	ins, scalars := max(1, len(l.In)), max(1, len(l.Op.Expr.Params))
	size := 8*(ins+len(l.Out)+2) + compute.Size()*(1+scalars)
	p := c.space(uintptr(roundUp(size, 8)), 8)
	clear(p)
	for k := range l.In {
		binary.LittleEndian.PutUint64(p[8*k:], c.address(&l.In[k]))
	}
	p = p[8*ins:]
	for k := range l.Out {
		binary.LittleEndian.PutUint64(p[8*k:], c.address(&l.Out[k]))
	}
	p = p[8*len(l.Out):]
	binary.LittleEndian.PutUint64(p, l.Random.Key)
	binary.LittleEndian.PutUint64(p[8:], l.Random.Counter)
	binary.LittleEndian.PutUint32(p[16:], uint32(uniform))
	p = p[16+compute.Size():] // scalars are aligned
	for k := range l.Op.Expr.Params {
		src.AppendNumber(p[:compute.Size()*k], compute, l.Floats[k])
	}
}
