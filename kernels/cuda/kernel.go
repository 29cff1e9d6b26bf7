//go:build cuda && cgo && linux

package cuda

import (
	"cmp"
	"errors"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/src"
)

// A plan makes the launches of an operation: it looks at the operands' layouts, chooses grid and block, and calls
// c.launch and arg for k.function or other kernels of the family. It refuses what the kernel cannot do by an
// error of kind [kernels.ErrDevice].
type plan func(c *call, k *kernel, l *kernels.Launch) error

// plans holds the plan of each operation that has kernels, by its symbol without element type. Operations that are
// expressions need no entry: planPointwise serves them.
var plans = map[string]plan{}

// families holds the plan of each operation that has several kernels, by its symbol without element type: the plan
// finds them by c.named. They take float32.
var families = map[string]plan{}

// halves holds plans as families does, of operations that take float16 and bfloat16, too.
var halves = map[string]plan{}

// everyType holds the plan of each operation whose plan finds kernels by c.named for all element types that the row takes.
var everyType = map[string]plan{}

// suffixes end the symbols of kernels.
var suffixes = src.Suffixes

// base is the symbol of an operation without element type: the row's, or the name of a pointwise operation.
func base(op *kernels.Op) string { return cmp.Or(op.Kernel, op.Name) }

// kernel runs one operation on one element type.
type kernel struct {
	*function
	plan plan
}

// byType holds the kernels of an operation.
type byType [8]*kernel

// kernel returns the kernel of an operation for elements of type d.
func (l *loader) kernel(b *Backend, op *kernels.Op, d kernels.DType) (*kernel, error) {
	if k := l.known(op, d); k != nil {
		return k, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k, err := l.choose(b, op, d)
	if err != nil {
		return nil, err
	}
	if l.kernels == nil {
		l.kernels = map[*kernels.Op]*byType{}
	}
	if l.kernels[op] == nil {
		l.kernels[op] = &byType{}
	}
	l.kernels[op][d] = k
	return k, nil
}

// choose is kernel for one that was not used before. mu is held.
func (l *loader) choose(b *Backend, op *kernels.Op, d kernels.DType) (*kernel, error) {
	p, symbol := plans[base(op)], base(op)
	if p == nil && op.Expr != nil {
		return pointwiseKernel, nil
	}
	if f := everyType[symbol]; f != nil {
		return &kernel{plan: f}, nil
	}
	if f := families[symbol]; f != nil && d == kernels.Float32 {
		return &kernel{plan: f}, nil
	}
	if f := halves[symbol]; f != nil && (d == kernels.Float32 || d == kernels.Float16 || d == kernels.BFloat16) {
		return &kernel{plan: f}, nil
	}
	if p == nil {
		return nil, kernels.Errorf(kernels.ErrDevice, op.Name, "device %s (%s) has no kernel for this operation on %v", b.Name(), b.gpu.Name, d)
	}
	f, err := l.load(b, symbol+"_"+suffixes[d])
	if err != nil {
		kind := kernels.ErrDevice
		if e := (*kernels.Error)(nil); errors.As(err, &e) {
			kind = e.Kind
		}
		return nil, kernels.Errorf(kind, op.Name, "device %s (%s) has no kernel for this operation on %v: %v", b.Name(), b.gpu.Name, d, err)
	}
	return &kernel{f, p}, nil
}

// known is kernel for one that was used before, else nil.
func (l *loader) known(op *kernels.Op, d kernels.DType) *kernel {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if k := l.kernels[op]; k != nil {
		return k[d]
	}
	return nil
}
