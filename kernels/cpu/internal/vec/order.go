package vec

import (
	"fmt"
	"slices"

	"github.com/chewxy/math32"
)

// The canonical order in which a row is reduced (docs/adr/0008-order-of-sums.md): the elements are taken in blocks of
// Block; inside a block element i is combined into partial sum i mod 128, starting from the neutral element; partial
// sums are joined neighbours first, j with j+h for h = 1, 2, ..., 64; and the results of the blocks are reduced by the
// same rule.
const (
	// Block is the number of elements of one block of a reduction. A thread pool
	// that reduces whole blocks and then the block results gets the same bits.
	Block = 2048
	lanes = 128
)

// lanesOf returns the partial sums before the first element.
func lanesOf(neutral float32) [lanes]float32 {
	var l [lanes]float32
	for i := range l {
		l[i] = neutral
	}
	return l
}

// tree joins partial sums, neighbours first. What is missing of them is neutral and changes nothing.
func tree(l []float32, combine func(x, y float32) float32) float32 {
	for h := 1; h < len(l); h *= 2 {
		for i := 0; i+h < len(l); i += 2 * h {
			l[i] = combine(l[i], l[i+h])
		}
	}
	return l[0]
}

func sumTree(l *[lanes]float32) float32  { return tree(l[:], plus) }
func prodTree(l *[lanes]float32) float32 { return tree(l[:], times) }

// The order does not matter for maxTree and minTree: a NaN stays, and -0 is below +0.
func maxTree(l *[lanes]float32) float32 { return slices.Max(l[:]) }
func minTree(l *[lanes]float32) float32 { return slices.Min(l[:]) }

// total combines block results in the canonical order as they come.
type total struct {
	lanes [lanes]float32
	n     int
	upper *total // results of Block blocks each, for very long vectors
}

// add takes the next block result x; combine is that of the reduction and neutral is its neutral element.
func (t *total) add(x, neutral float32, combine func(x, y float32) float32) {
	if t.n == Block {
		if t.upper == nil {
			t.upper = &total{}
		}
		t.upper.add(tree(t.lanes[:], combine), neutral, combine)
		t.n = 0
	}
	if t.n < lanes {
		t.lanes[t.n] = combine(neutral, x)
	} else {
		t.lanes[t.n%lanes] = combine(t.lanes[t.n%lanes], x)
	}
	t.n++
}

func (t *total) value(neutral float32, combine func(x, y float32) float32) float32 {
	x := tree(t.lanes[:min(t.n, lanes)], combine)
	if t.upper == nil {
		return x
	}
	t.upper.add(x, neutral, combine)
	return t.upper.value(neutral, combine)
}

type (
	sumTotal  struct{ total }
	prodTotal struct{ total }
	maxTotal  struct{ total }
	minTotal  struct{ total }
)

func (t *sumTotal) add(x float32)  { t.total.add(x, 0, plus) }
func (t *prodTotal) add(x float32) { t.total.add(x, 1, times) }
func (t *maxTotal) add(x float32)  { t.total.add(x, math32.Inf(-1), larger) }
func (t *minTotal) add(x float32)  { t.total.add(x, math32.Inf(1), smaller) }

func (t *sumTotal) value() float32  { return t.total.value(0, plus) }
func (t *prodTotal) value() float32 { return t.total.value(1, times) }
func (t *maxTotal) value() float32  { return t.total.value(math32.Inf(-1), larger) }
func (t *minTotal) value() float32  { return t.total.value(math32.Inf(1), smaller) }

func plus(x, y float32) float32    { return x + y }
func times(x, y float32) float32   { return x * y }
func larger(x, y float32) float32  { return max(x, y) }
func smaller(x, y float32) float32 { return min(x, y) }

// sameLength returns n and panics if another length differs.
func sameLength(name string, n int, others ...int) int {
	for _, m := range others {
		if m != n {
			panic(fmt.Sprintf("vec: %s: slices of different lengths: %d and %d", name, n, m))
		}
	}
	return n
}
