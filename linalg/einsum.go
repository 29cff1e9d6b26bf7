package linalg

import (
	"math"
	"slices"
	"strings"

	"github.com/weft-ml/weft/tensor"
)

// Einsum is a sum of products in Einstein's notation, as NumPy and PyTorch have it: "bij,bjk->bik" is a product of
// batches of matrices.
//
//   - A letter is an axis, and axes with one letter have one size; size 1 broadcasts. Spaces do not count.
//   - A letter twice in one operand is its diagonal: "ii->i", and "ii" is the trace.
//   - Letters that are not behind the arrow are summed over. Without an arrow the result has "...", then the letters
//     that appear once, in alphabetical order, capitals first.
//   - "..." stands for the axes that have no letter; they are aligned from the right and broadcast. Behind an arrow
//     without "..." they are summed over.
//
// Operands are contracted in pairs, each time the pair that leaves the least memory, and of these the one with the
// fewest multiplications; products run through MatMul. The error of an equation that does not fit names the operand and
// the axis.
func Einsum(equation string, operands ...*tensor.Tensor) *tensor.Tensor {
	e := parse(equation, operands)
	var terms []term
	for i, x := range operands {
		terms = append(terms, e.diagonals(term{x, e.in[i]}))
	}
	return e.contract(terms).ordered(e.out)
}

// Tensordot sums over products along pairs of axes: axis of a i with axis of b i. The result has the other axes of a,
// then those of b.
func Tensordot(a, b *tensor.Tensor, axesOfA, axesOfB []int) *tensor.Tensor {
	const name = "tensordot"
	engine.Given(name, "a", a)
	engine.Given(name, "b", b)
	if len(axesOfA) != len(axesOfB) {
		engine.Fail(tensor.ErrShape, name, "%d axes of a, %d of b", len(axesOfA), len(axesOfB))
	}
	in := [2][]label{}
	for i := range a.Rank() + b.Rank() {
		if i < a.Rank() {
			in[0] = append(in[0], label(i))
		} else {
			in[1] = append(in[1], label(i))
		}
	}
	used := map[label]bool{}
	for i := range axesOfA {
		p, q := axisOf(name, a, axesOfA[i]), axisOf(name, b, axesOfB[i])
		if a.Dim(p) != b.Dim(q) || used[in[0][p]] || in[1][q] < label(a.Rank()) {
			engine.Fail(tensor.ErrShape, name, "axis %d of %v and axis %d of %v do not go together: sizes differ, or "+
				"one is given twice", p, a, q, b)
		}
		used[in[0][p]], in[1][q] = true, in[0][p]
	}
	e := &equation{name: name, in: in[:]}
	for _, l := range append(slices.Clone(in[0]), in[1]...) {
		if !used[l] {
			e.out = append(e.out, l)
		}
	}
	return e.contract([]term{{a, in[0]}, {b, in[1]}}).ordered(e.out)
}

// axisOf is axis of x, counted from 0.
func axisOf(op string, x *tensor.Tensor, axis int) int {
	if axis < -x.Rank() || axis >= x.Rank() {
		engine.Fail(tensor.ErrShape, op, "%v has no axis %d", x, axis)
	}
	return (axis + x.Rank()) % x.Rank()
}

// Outer is all products [m n] of the elements of two vectors [m] and [n].
func Outer(a, b *tensor.Tensor) *tensor.Tensor { return Einsum("i,j->ij", a, b) }

// Kron is the Kronecker product, of blocks of b for each element of a: axis i has the size of axis i of a times that of
// b. The shorter shape gets axes of size 1 in front; four axes are the most.
func Kron(a, b *tensor.Tensor) *tensor.Tensor {
	engine.Given("kron", "a", a)
	engine.Given("kron", "b", b)
	p, q := a.Shape(), b.Shape()
	n := max(len(p), len(q))
	p, q = append(ones(n-len(p)), p...), append(ones(n-len(q)), q...)
	var shapeA, shapeB, shape []int
	for i := range n {
		shapeA, shapeB = append(shapeA, p[i], 1), append(shapeB, 1, q[i])
		shape = append(shape, p[i]*q[i])
	}
	return a.Reshape(shapeA...).Mul(b.Reshape(shapeB...)).Reshape(shape...)
}

// A label names an axis: of a letter it is the letter, of one that the dots stand for its number from the right, less
// 0.
type label int

func (l label) String() string {
	if l < 0 {
		return "..."
	}
	return string(rune(l))
}

// An equation is what operands and the result have for labels.
type equation struct {
	name string
	in   [][]label
	out  []label
}

// A term is an operand, or what has become of some.
type term struct {
	x    *tensor.Tensor
	axes []label
}

// parse reads the equation for operands. It fails if they do not fit.
func parse(text string, operands []*tensor.Tensor) *equation {
	e := &equation{name: "einsum"}
	left, right, arrow := strings.Cut(strings.ReplaceAll(text, " ", ""), "->")
	inputs := strings.Split(left, ",")
	if len(inputs) != len(operands) {
		engine.Fail(tensor.ErrShape, e.name, "%q is of %d operands, got %d", text, len(inputs), len(operands))
	}
	count, dots := map[label]int{}, 0
	sizes := map[label]int{}
	for i, x := range operands {
		engine.Given(e.name, "an operand", x)
		axes := e.letters(text, inputs[i], x.Rank())
		if len(axes) != x.Rank() {
			engine.Fail(tensor.ErrShape, e.name, "operand %d of %q, %q, has %d axes; it is %v", i, text, inputs[i],
				len(axes), x)
		}
		for k, l := range axes {
			count[l]++
			if l < 0 {
				dots = max(dots, -int(l))
			}
			n := x.Dim(k)
			if m, ok := sizes[l]; ok && m != n && m != 1 && n != 1 ||
				slices.Contains(axes[:k], l) && n != x.Dim(slices.Index(axes, l)) {
				engine.Fail(tensor.ErrShape, e.name, "axis %d of operand %d of %q, %v, has size %d, %v had %d", k, i,
					text, x, n, l, m)
			} else if !ok || m == 1 {
				sizes[l] = n
			}
		}
		e.in = append(e.in, axes)
	}
	if arrow {
		e.out = e.letters(text, right, strings.Count(right, "")-1-3*strings.Count(right, "...")+dots)
	} else {
		for l := range count {
			if l < 0 || count[l] == 1 {
				e.out = append(e.out, l)
			}
		}
		slices.Sort(e.out)
	}
	for i, l := range e.out {
		if count[l] == 0 {
			engine.Fail(tensor.ErrShape, e.name, "%q: no operand has the axis %v of the result", text, l)
		}
		if slices.Contains(e.out[:i], l) {
			engine.Fail(tensor.ErrShape, e.name, "%q: the result has the axis %v twice", text, l)
		}
	}
	return e
}

// letters reads the labels of one operand of so many axes, or of the result.
func (e *equation) letters(text, part string, rank int) (axes []label) {
	before, after, dots := strings.Cut(part, "...")
	for i, s := range []string{before, after} {
		for _, c := range s {
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
				engine.Fail(tensor.ErrValue, e.name, "%q has %q, which is no letter", text, c)
			}
			axes = append(axes, label(c))
		}
		if i == 0 && dots {
			for k := range rank - len(before) - len(after) {
				axes = append(axes, label(k-rank+len(before)+len(after)))
			}
		}
	}
	return axes
}

// diagonals makes one axis of those with one label.
func (e *equation) diagonals(t term) term {
	for i := 0; i < len(t.axes); i++ {
		k := slices.Index(t.axes[i+1:], t.axes[i])
		if k < 0 {
			continue
		}
		k += i + 1
		// Of both axes as one of n*n elements, every n+1st.
		order := []int{}
		for a := range t.axes {
			if a != i && a != k {
				order = append(order, a)
			}
		}
		shape := t.x.Shape()
		n := shape[i]
		x := t.x.Permute(append(order, i, k)...)
		rest := x.Shape()[:len(order)]
		x = x.Reshape(append(rest, n*n)...).Slice(-1, 0, n*n, n+1)
		axes := []label{}
		for _, a := range order {
			axes = append(axes, t.axes[a])
		}
		t, i = term{x, append(axes, t.axes[i])}, -1
	}
	return t
}

// contract is the product of all terms, summed over what the result does not have.
func (e *equation) contract(terms []term) term {
	sizes := map[label]int{}
	for _, t := range terms {
		for i, l := range t.axes {
			if n, ok := sizes[l]; !ok || n == 1 {
				sizes[l] = t.x.Dim(i)
			}
		}
	}
	for i, t := range terms { // size 1 where another has more
		terms[i] = t.drop(func(k int, l label) bool { return t.x.Dim(k) == 1 && sizes[l] != 1 })
	}
	for i, t := range terms { // what no other term has then
		others := slices.Delete(slices.Clone(terms), i, i+1)
		terms[i] = t.drop(func(_ int, l label) bool { return !e.needs(l, others) })
	}
	for len(terms) > 1 {
		a, b := e.cheapest(terms, sizes)
		x, y := terms[a], terms[b]
		terms = slices.Delete(slices.Delete(slices.Clone(terms), b, b+1), a, a+1)
		terms = append(terms, e.product(x, y, terms, sizes))
	}
	return terms[0]
}

// needs tells whether the result or a term has the label.
func (e *equation) needs(l label, terms []term) bool {
	return slices.Contains(e.out, l) ||
		slices.ContainsFunc(terms, func(t term) bool { return slices.Contains(t.axes, l) })
}

// cheapest is the pair a < b of which the product leaves the least memory, and of these takes the least work.
func (e *equation) cheapest(terms []term, sizes map[label]int) (first, second int) {
	least, work := math.Inf(1), math.Inf(1)
	for b := range terms {
		for a := range b {
			x, y := terms[a], terms[b]
			rest := slices.Delete(slices.Delete(slices.Clone(terms), b, b+1), a, a+1)
			batch, inner, left, right := e.split(x, y, rest)
			size := func(groups ...[]label) float64 {
				n := 1.0
				for _, l := range slices.Concat(groups...) {
					n *= float64(sizes[l])
				}
				return n
			}
			memory := size(batch, left, right) - size(x.axes) - size(y.axes)
			flops := size(batch, left, inner, right)
			if memory < least || memory == least && flops < work {
				least, work, first, second = memory, flops, a, b
			}
		}
	}
	return first, second
}

// split tells apart the labels of x and y: of both and still needed, of both and summed over, of x alone, of y alone.
func (e *equation) split(x, y term, rest []term) (batch, inner, left, right []label) {
	for _, l := range x.axes {
		switch {
		case !slices.Contains(y.axes, l):
			left = append(left, l)
		case e.needs(l, rest):
			batch = append(batch, l)
		default:
			inner = append(inner, l)
		}
	}
	for _, l := range y.axes {
		if !slices.Contains(x.axes, l) {
			right = append(right, l)
		}
	}
	return batch, inner, left, right
}

// product contracts x and y; rest are the other terms.
func (e *equation) product(x, y term, rest []term, sizes map[label]int) term {
	batch, inner, left, right := e.split(x, y, rest)
	if len(inner) == 0 || !x.x.DType().IsFloat() { // numbers that MatMul does not take, too
		all := slices.Concat(batch, inner, left, right)
		z := term{x.spread(all).Mul(y.spread(all)), all}
		return z.drop(func(_ int, l label) bool { return slices.Contains(inner, l) })
	}
	out := slices.Concat(batch, left, right)
	shape := make([]int, len(out))
	for i, l := range out {
		shape[i] = sizes[l]
	}
	return term{x.matrix(batch, left, inner).MatMul(y.matrix(batch, inner, right)).Reshape(shape...), out}
}

// spread is the term with the axes of all, of size 1 where it has none.
func (t term) spread(all []label) *tensor.Tensor {
	var order []label
	shape := ones(len(all))
	for i, l := range all {
		if k := slices.Index(t.axes, l); k >= 0 {
			order = append(order, l)
			shape[i] = t.x.Dim(k)
		}
	}
	return t.ordered(order).Reshape(shape...)
}

// matrix is the term as [batch, rows, columns], without batch if there is none. It is a view if it can be one.
func (t term) matrix(batch, rows, columns []label) *tensor.Tensor {
	if len(rows)*len(columns) > 0 && slices.Equal(t.axes, slices.Concat(batch, columns, rows)) {
		return mT(t.matrix(batch, columns, rows))
	}
	x := t.ordered(slices.Concat(batch, rows, columns))
	var shape []int
	at := 0
	for _, group := range [][]label{batch, rows, columns} {
		n := 1
		for range group {
			n *= x.Dim(at)
			at++
		}
		shape = append(shape, n)
	}
	if len(batch) == 0 {
		shape = shape[1:]
	}
	return x.Reshape(shape...)
}

// ordered is the tensor with the axes in the order given.
func (t term) ordered(axes []label) *tensor.Tensor {
	if slices.Equal(t.axes, axes) {
		return t.x
	}
	order := make([]int, len(axes))
	for i, l := range axes {
		order[i] = slices.Index(t.axes, l)
	}
	return t.x.Permute(order...)
}

// drop sums over the axes that f chooses.
func (t term) drop(f func(i int, l label) bool) term {
	var sum []int
	var kept []label
	for i, l := range t.axes {
		if f(i, l) {
			sum = append(sum, i)
		} else {
			kept = append(kept, l)
		}
	}
	if sum == nil {
		return t
	}
	return term{t.x.Sum(sum...), kept}
}
