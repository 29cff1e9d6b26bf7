package matmul

import (
	"sync"

	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

// Batch computes count products C = A B of equal sizes, asking for the operands of each by its number.
// Small products, such as the heads of attention, are spread over the processors whole.
// The functions may be called from several goroutines at once.
func Batch(count, m, n, k int, a, b func(i int) Matrix, c func(i int) (data []float32, ldc int)) {
	if m <= 0 || n <= 0 {
		return
	}
	if workers := par.Workers(); count < 4*workers && workersFor(m, n, k) > 1 {
		for i := range count {
			data, ldc := c(i)
			Float32(m, n, k, a(i), b(i), data, ldc, nil)
		}
		return
	}
	t, ok := batches.Get().(*batch)
	if !ok {
		t = new(batch)
		t.run = t.products
	}
	t.m, t.n, t.k, t.a, t.b, t.c = m, n, k, a, b, c
	par.For(count, max(1, parallelWork/(m*n*max(k, 1))), t.run)
	t.a, t.b, t.c = nil, nil, nil
	batches.Put(t)
}

// A batch is one call of Batch.
type batch struct {
	m, n, k int
	a, b    func(i int) Matrix
	c       func(i int) (data []float32, ldc int)
	run     func(lo, hi int) // the bound method products, made once
}

var batches sync.Pool

// products computes products [lo, hi) on this goroutine.
func (t *batch) products(lo, hi int) {
	var p *product
	if tier := current(); tier != nil && t.k > 0 {
		p = acquire(tier)
		defer p.release()
	}
	for i := lo; i < hi; i++ {
		a, b := t.a(i), t.b(i)
		c, ldc := t.c(i)
		check(t.m, t.n, t.k, a, b, len(c), ldc)
		if p == nil {
			portable(t.m, t.n, t.k, a, b, c, ldc, nil)
			continue
		}
		p.set(t.m, t.n, t.k, a, b, c, ldc, nil)
		p.run(1)
	}
}
