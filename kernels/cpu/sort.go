package cpu

import (
	"cmp"
	"math"
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// Sorting is by keys: unsigned integers in the order of the elements, equal for equal elements, such as both zeros. All
// NaN have the largest key. A stable radix sort of keys with their indices is the same for any number of threads.

// A pair is an element's key and its index along the axis.
type pair[K uint32 | uint64] struct{ key, index K }

// keys are how elements become keys. Sign is the bit of the sign, 0 for elements without; inf is the bits of infinity,
// 0 for integers; flip has all bits in descending order.
type keys struct{ sign, inf, flip uint64 }

// of is the key of an element with the given bits: numbers around that of zero, which is sign.
func (k *keys) of(bits uint64) uint64 {
	if k.inf == 0 {
		return bits ^ k.sign ^ k.flip
	}
	magnitude := bits & (k.sign - 1)
	if magnitude > k.inf {
		return 2*k.sign - 1 ^ k.flip
	}
	negative := uint64(0)
	if bits > magnitude {
		negative--
	}
	return k.sign + (magnitude ^ negative) - negative ^ k.flip
}

var keysOf = map[kernels.DType]keys{
	kernels.Float32: {sign: 1 << 31, inf: 0xff << 23}, kernels.Float64: {sign: 1 << 63, inf: 0x7ff << 52},
	kernels.Float16: {sign: 1 << 15, inf: 0x1f << 10}, kernels.BFloat16: {sign: 1 << 15, inf: 0xff << 7},
	kernels.Int64: {sign: 1 << 63}, kernels.Int32: {sign: 1 << 31}, // bytes and bools are their own keys
}

// A sorter does the rows of one op call.
type sorter struct {
	l    *kernels.Launch
	keys keys
	x, y kernels.Reduction // rows of the operand and of the results
	k    int               // how many elements of a row are results
}

// Sort sorts along the axis l.Ints[0], in descending order if l.Ints[1] is 1: the results are the elements and their
// indices. Equal elements stay in their order; NaN counts as larger than any number.
func Sort(l *kernels.Launch) { sortBy(l, l.Ints[1] == 1) }

// TopK finds the l.Ints[1] smallest elements along the axis l.Ints[0], the largest if l.Ints[2] is 1: what both results
// of Sort begin with.
func TopK(l *kernels.Launch) { sortBy(l, l.Ints[2] == 1) }

func sortBy(l *kernels.Launch, descending bool) {
	d := l.In[0].DType
	s := &sorter{l: l, keys: keysOf[d]}
	if descending {
		s.keys.flip = math.MaxUint64
	}
	s.x.Set(&l.In[0].Layout, l.Ints[:1])
	s.y.Set(&l.Out[0].Layout, l.Ints[:1])
	if s.k = s.y.N; s.k == 0 {
		return
	}
	switch d.Size() {
	case 8:
		sortRows[uint64, uint64](s)
	case 4:
		sortRows[uint32, uint32](s)
	case 2:
		sortRows[uint16, uint32](s)
	default:
		sortRows[uint8, uint32](s)
	}
}

// longRow is how many elements of a row are worth a second thread.
const longRow = 1 << 15

func sortRows[T uint8 | uint16 | uint32 | uint64, K uint32 | uint64](s *sorter) {
	x, n, axis := view[T](bytesOf(s.l.In[0])), s.x.N, s.l.Ints[0]
	values, indices := view[T](bytesOf(s.l.Out[0])), Slice[int64](s.l.Out[1])
	stride, apart := s.l.In[0].Strides[axis], s.l.Out[0].Strides[axis]
	if uint64(n) > uint64(^K(0)) {
		panic(kernels.Errorf(kernels.ErrDevice, s.l.Op.Name, "rows of %d elements of %v; the cpu sorts %d at most", n,
			s.l.In[0].DType, ^K(0)))
	}
	rows, grain, parts := s.y.Results(), 1+rowGrain/max(1, 8*n), 1
	if n >= longRow && rows < par.Workers() { // threads share a row, and not rows
		grain, parts = rows, par.Workers()
	}
	par.For(rows, grain, func(lo, hi int) {
		row := newSortedRow[T, K](s, parts)
		defer giveBack(row.memory)
		for r := lo; r < hi; r++ {
			in, out := x[s.x.Kept.Offset(r):], s.y.Kept.Offset(r)
			p := row.sorted(in, stride)
			put := func(lo, hi int) {
				for i := lo; i < hi; i++ {
					values[out+i*apart] = in[int(p[i].index)*stride]
					indices[out+i*apart] = int64(p[i].index)
				}
			}
			if parts == 1 {
				put(0, len(p))
			} else {
				par.For(len(p), longRow, put)
			}
		}
	})
}

// A sortedRow sorts one row after the other.
type sortedRow[T uint8 | uint16 | uint32 | uint64, K uint32 | uint64] struct {
	keys    keys
	n, k    int
	offsets [][digits]int // for each part that a thread has of a row
	few     bool          // each part finds its own k smallest
	ordered bool          // and keeps them in order, since they are at most fewPairs
	size    int           // pairs of a part, or of the row
	memory  *[]float32
	pairs   []pair[K] // twice so many
}

func newSortedRow[T uint8 | uint16 | uint32 | uint64, K uint32 | uint64](s *sorter, parts int) *sortedRow[T, K] {
	r := &sortedRow[T, K]{keys: s.keys, n: s.x.N, k: s.k, offsets: make([][digits]int, parts), size: s.x.N}
	r.few = r.k <= r.n/parts/2
	total := r.n
	if r.few {
		r.ordered = r.k <= fewPairs
		r.size = min(r.n/parts+1, max(8*r.k, 1024))
		total = parts * r.size
	}
	var p pair[K]
	r.memory = borrow(2 * total * (sizeOf(p) / 4))
	r.pairs = view[pair[K]](*r.memory)
	return r
}

// sorted is the k smallest pairs of a row in order.
func (r *sortedRow[T, K]) sorted(x []T, stride int) []pair[K] {
	parts, k := len(r.offsets), r.k
	if parts == 1 {
		p, q := r.pairs[:r.size], r.pairs[r.size:2*r.size]
		return radixSort(p[:least(p[:r.take(p, q, x, stride, 0, r.n)], q, k)], q[:k], r.offsets)
	}
	if !r.few {
		p, q := r.pairs[:r.n], r.pairs[r.n:2*r.n]
		par.For(r.n, max(longRow, (r.n+parts-1)/parts), func(lo, hi int) { r.take(p[lo:hi], nil, x, stride, lo, hi) })
		return radixSort(p[:least(p, q, k)], q[:k], r.offsets)
	}
	// The k smallest of each part, in the order of the parts, and of these the k smallest.
	par.Tiles(parts, parts, func(_, part int) {
		p := r.pairs[2*part*r.size:]
		lo, hi := r.n*part/parts, r.n*(part+1)/parts
		least(p[:r.take(p[:r.size], p[r.size:], x, stride, lo, hi)], p[r.size:], k)
	})
	for part := range parts {
		copy(r.pairs[part*k:(part+1)*k], r.pairs[2*part*r.size:])
	}
	p, q := r.pairs[:parts*k], r.pairs[parts*k:2*parts*k]
	return radixSort(p[:least(p, q, k)], q[:k], r.offsets[:1])
}

// take puts the pairs of elements [lo, hi) into p, but those that are not among the k smallest, as far as that is
// known: when p is full it keeps the k smallest. It returns how many pairs there are.
func (r *sortedRow[T, K]) take(p, q []pair[K], x []T, stride, lo, hi int) (n int) {
	keys, full, bounded := r.keys, len(p), false
	var last pair[K] // of the k smallest so far
	if r.ordered {
		full = r.k
	}
	numbers := floatsOf(x, keys, stride)
	for i := lo; i < hi; i++ {
		if bounded {
			if i = r.next(x, numbers, stride, i, hi, last); i == hi {
				break
			}
		}
		p[n] = pair[K]{K(keys.of(uint64(x[i*stride]))), K(i)}
		if n++; n < full {
			continue
		}
		if r.ordered {
			insertionSort(p[:n], !bounded)
			n, full, bounded = r.k, r.k+1, true
			last = p[n-1]
		} else if i+1 < hi {
			n, bounded = least(p, q, r.k), true
			last = slices.MaxFunc(p[:n], func(a, b pair[K]) int { return cmp.Compare(a.key, b.key) })
		}
	}
	return n
}

// next is the first of the elements [i, hi) that is before the last of the k smallest so far; hi if there is none.
func (r *sortedRow[T, K]) next(x []T, numbers []float32, stride, i, hi int, last pair[K]) int {
	if flip := K(r.keys.sign ^ r.keys.flip); r.keys.inf == 0 {
		for i < hi && K(x[i*stride])^flip >= last.key {
			i++
		}
		return i
	}
	for ; i < hi; i++ {
		for numbers != nil && i%boundPiece == 0 && i+boundPiece <= hi &&
			r.keys.beyond(numbers[i:i+boundPiece], numbers[last.index]) {
			i += boundPiece
		}
		if i < hi && K(r.keys.of(uint64(x[i*stride]))) < last.key {
			break
		}
	}
	return min(i, hi)
}

// boundPiece is how many elements are compared with a bound at once.
const boundPiece = 64

// floatsOf is x if it is float32, one behind the other; else nil.
func floatsOf[T uint8 | uint16 | uint32 | uint64](x []T, k keys, stride int) []float32 {
	if k.inf != keysOf[kernels.Float32].inf || stride != 1 {
		return nil
	}
	return view[float32](x)
}

// beyond tells that no element of x has a smaller key than bound, an element; false also where there is a NaN.
func (k *keys) beyond(x []float32, bound float32) bool {
	if k.flip != 0 {
		return vec.Max(x) <= bound
	}
	return vec.Min(x) >= bound
}

const (
	digitBits = 8
	digits    = 1 << digitBits
)

// least moves the k smallest pairs to the front of p, and of equal ones the first, which stay in their order. It
// returns k. Digit by digit from the highest on, it takes all pairs below that of the k-th and goes on with its equals.
func least[K uint32 | uint64](p, q []pair[K], k int) int {
	kept, candidates, varying := 0, p, ^K(0)
	for shift := 8*sizeOf(varying) - digitBits; shift >= 0 && kept+len(candidates) > k; shift -= digitBits {
		if uint8(varying>>shift) == 0 {
			continue
		}
		var count [digits]int
		countDigits(candidates, &count, shift)
		if count[uint8(candidates[0].key>>shift)] == len(candidates) {
			varying = differing(candidates)
			continue
		}
		digit, below := 0, kept
		for ; below+count[digit] < k; digit++ {
			below += count[digit]
		}
		equal := 0
		for _, c := range candidates { // what is written lies behind what is read
			switch d := int(uint8(c.key >> shift)); {
			case d < digit:
				p[kept] = c
				kept++
			case d == digit:
				q[equal] = c
				equal++
			}
		}
		candidates = q[:equal]
	}
	copy(p[kept:k], candidates)
	return k
}

// differing is the bits that some key has unlike another: those of small integers are few. Where a digit is the same in
// all keys, it is likely that others are, too.
func differing[K uint32 | uint64](p []pair[K]) (bits K) {
	for _, c := range p {
		bits |= c.key ^ p[0].key
	}
	return bits
}

// fewPairs are sorted faster by insertion.
const fewPairs = 48

// radixSort sorts p by keys, stable, with the help of q, which is as long; the result is one of both. Threads count and
// move a part of p each. In offsets is where the next pair with a digit of a part goes.
func radixSort[K uint32 | uint64](p, q []pair[K], offsets [][digits]int) []pair[K] {
	if len(p) <= fewPairs {
		insertionSort(p, true)
		return p
	}
	varying := ^K(0)
	for shift := 0; shift < 8*sizeOf(varying); shift += digitBits {
		switch {
		case uint8(varying>>shift) == 0:
		case sortDigit(p, q, offsets, shift):
			p, q = q, p
		default:
			varying = differing(p)
		}
	}
	return p
}

// sortDigit moves the pairs of p to q, in the order of a digit of their keys. It does nothing if all digits are equal.
func sortDigit[K uint32 | uint64](p, q []pair[K], offsets [][digits]int, shift int) (moved bool) {
	n, parts := len(p), len(offsets)
	if parts == 1 {
		countDigits(p, &offsets[0], shift)
		if moved = !toOffsets(offsets, n); moved {
			moveByDigit(p, q, &offsets[0], shift)
		}
		return moved
	}
	part := func(i int) []pair[K] { return p[n*i/parts : n*(i+1)/parts] }
	par.Tiles(parts, parts, func(_, i int) { countDigits(part(i), &offsets[i], shift) })
	if moved = !toOffsets(offsets, n); moved {
		par.Tiles(parts, parts, func(_, i int) { moveByDigit(part(i), q, &offsets[i], shift) })
	}
	return moved
}

func countDigits[K uint32 | uint64](p []pair[K], count *[digits]int, shift int) {
	clear(count[:])
	for _, c := range p {
		count[uint8(c.key>>shift)]++
	}
}

func moveByDigit[K uint32 | uint64](p, q []pair[K], next *[digits]int, shift int) {
	for _, c := range p {
		d := uint8(c.key >> shift)
		q[next[d]] = c
		next[d]++
	}
}

// toOffsets makes counts of digits the offsets of their first elements. It reports whether all n elements have one
// digit.
func toOffsets(offsets [][digits]int, n int) bool {
	at := 0
	for d := range digits {
		first := at
		for part := range offsets {
			at, offsets[part][d] = at+offsets[part][d], at
		}
		if at-first == n {
			return true
		}
	}
	return false
}

// insertionSort sorts p, of which all but the last pair are in order unless whole is set.
func insertionSort[K uint32 | uint64](p []pair[K], whole bool) {
	i := len(p) - 1
	if whole {
		i = 0
	}
	for ; i < len(p); i++ {
		c, k := p[i], i
		for ; k > 0 && p[k-1].key > c.key; k-- {
			p[k] = p[k-1]
		}
		p[k] = c
	}
}

// SearchSorted finds, for each element of the second operand, how many elements of its row of the first, which is in
// ascending order, are less, or not greater if l.Ints[0] is 1. The first operand has the same leading axes, or none.
func SearchSorted(l *kernels.Launch) {
	switch l.In[0].DType {
	case kernels.Float32:
		searchSorted[float32](l)
	case kernels.Float64:
		searchSorted[float64](l)
	case kernels.Int64:
		searchSorted[int64](l)
	case kernels.Int32:
		searchSorted[int32](l)
	case kernels.Uint8:
		searchSorted[uint8](l)
	}
}

func searchSorted[T float32 | float64 | int64 | int32 | uint8](l *kernels.Launch) {
	a, v, right := l.In[0], l.In[1], l.Ints[0] == 1
	x, values, y := Slice[T](a), Slice[T](v), Slice[int64](l.Out[0])
	last := len(a.Shape) - 1
	n, stride := a.Shape[last], a.Strides[last]
	var leading, at kernels.Dims
	leading.PushAll(a.Shape[:last], a.Strides[:last])
	at.PushAll(v.Shape, v.Strides)
	each := 1 // values of a row
	if last > 0 {
		each = max(1, v.Shape[last])
	} else if v.Len() > 0 {
		each = v.Len()
	}
	par.For(l.Out[0].Len(), 1<<10, func(lo, hi int) {
		from := at.Cursor(lo)
		for i := lo; i < hi; i++ {
			row, value := x[leading.Offset(i/each):], values[from.Offset]
			first, end := 0, n
			for first < end {
				if m := (first + end) / 2; before(row[m*stride], value, right) {
					first = m + 1
				} else {
					end = m
				}
			}
			y[i] = int64(first)
			from.Next()
		}
	})
}

// before tells whether a is less than b, or not greater if equal is set, where NaN is larger than any number.
func before[T float32 | float64 | int64 | int32 | uint8](a, b T, equal bool) bool {
	if equal {
		return !(b < a) && (a == a || b != b)
	}
	return a < b || a == a && b != b
}
