package cpu

import (
	"math"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// Operations whose results are made from windows of the last axes.

// planes are a tensor cut into planes of at most three axes, which windows move over. Fewer are completed in front.
type planes struct {
	count   int
	shape   [3]int
	windows [3]kernels.WindowAxis
}

// planesOf reads the windows of an op call, one for each of the last axes of its operand.
func planesOf(l *kernels.Launch) (p planes) {
	windows := kernels.WindowAxes(l.Ints)
	shape := l.In[0].Shape
	lead := len(shape) - len(windows)
	p.count = kernels.Count(shape[:lead])
	for d := range p.shape {
		p.shape[d], p.windows[d] = 1, kernels.WindowAxis{Size: 1, Stride: 1, Dilation: 1, Count: 1}
		if k := d + len(windows) - len(p.shape); k >= 0 {
			p.shape[d], p.windows[d] = shape[lead+k], windows[k]
		}
	}
	return p
}

// MaxPool finds the largest element of each window, and its index in the plane of the last axes, of which l.Ints has a
// kernels.WindowAxis each: the first of equal ones, or the last NaN.
func MaxPool(l *kernels.Launch) {
	p := planesOf(l)
	x, y, indices := contiguousElements(l.In[0]), Slice[float32](l.Out[0]), Slice[int64](l.Out[1])
	in, out := kernels.Count(p.shape[:]), p.windows[0].Count*p.windows[1].Count*p.windows[2].Count
	par.For(p.count, 1+rowGrain/max(1, in), func(lo, hi int) {
		m := newMaxPooling(p)
		for i := lo; i < hi; i++ {
			m.plane(y[i*out:(i+1)*out], indices[i*out:(i+1)*out], x[i*in:(i+1)*in])
		}
		giveBack(m.buf)
	})
}

// A maxPooling finds the largest elements of the windows of planes. For each row of results it looks at all columns of
// the rows below the windows, with vectors: at their largest elements and at the rows these are in. Then it goes along
// this row.
type maxPooling struct {
	planes
	buf          *[]float32 // the memory of all below
	most, inRow  []float32  // of each column: the largest element, and the row that it is in
	equal        []float32
	numbers      []float32 // a row of each number of a row; numbers are patterns of bits
	keys         []int64
	starts       []int // of the rows below the windows
	columns      [][2]int
	below        int // the most rows below a window
	max, eq, sel vec.Kernel
}

func newMaxPooling(p planes) *maxPooling {
	m := &maxPooling{planes: p, max: vec.Instr("max"), eq: vec.Instr("eq"), sel: vec.Instr("where")}
	most := func(d int) (n int) {
		for o := range p.windows[d].Count {
			from, to := p.windows[d].Range(o, p.shape[d])
			n = max(n, (to-from+p.windows[d].Dilation-1)/p.windows[d].Dilation)
		}
		return n
	}
	m.below = most(0) * most(1)
	width := p.shape[2]
	m.buf = borrow((5 + m.below) * width)
	rest := *m.buf
	take := func(n int) (part []float32) {
		part, rest = rest[:n], rest[n:]
		return part
	}
	m.keys = view[int64](take(2 * width))
	m.most, m.inRow, m.equal, m.numbers = take(width), take(width), take(width), take(m.below*width)
	for r := range m.below {
		vec.Fill(m.numbers[r*width:(r+1)*width], math.Float32frombits(uint32(r)))
	}
	for o := range p.windows[2].Count {
		from, to := p.windows[2].Range(o, width)
		m.columns = append(m.columns, [2]int{from, to})
	}
	return m
}

// plane does one plane.
func (m *maxPooling) plane(y []float32, indices []int64, x []float32) {
	for a := range m.windows[0].Count {
		fromA, toA := m.windows[0].Range(a, m.shape[0])
		for b := range m.windows[1].Count {
			fromB, toB := m.windows[1].Range(b, m.shape[1])
			m.starts = m.starts[:0]
			for i := fromA; i < toA; i += m.windows[0].Dilation {
				for j := fromB; j < toB; j += m.windows[1].Dilation {
					m.starts = append(m.starts, (i*m.shape[1]+j)*m.shape[2])
				}
			}
			m.columnKeys(x)
			n := len(m.columns)
			m.row(y[:n], indices[:n], x)
			y, indices = y[n:], indices[n:]
		}
	}
}

// columnKeys sets m.keys to the keys of the largest elements of all columns below a row of windows.
func (m *maxPooling) columnKeys(x []float32) {
	width := m.shape[2]
	row := func(r int) []float32 { return x[m.starts[r]:][:width] }
	if len(m.starts) == 1 {
		for j, v := range row(0) {
			m.keys[j] = poolKey(v, m.starts[0]+j)
		}
		return
	}
	m.max(m.most, row(0), row(1), nil)
	for r := 2; r < len(m.starts); r++ {
		m.max(m.most, m.most, row(r), nil)
	}
	last := len(m.starts) - 1
	copy(m.inRow, m.numbers[last*width:])
	for r := last - 1; r >= 0; r-- {
		m.eq(m.equal, row(r), m.most, nil)
		m.sel(m.inRow, m.equal, m.numbers[r*width:(r+1)*width], m.inRow)
	}
	keys, rows, starts := m.keys[:len(m.most)], view[uint32](m.inRow)[:len(m.most)], m.starts
	for j, v := range m.most {
		if v == v {
			keys[j] = numberKey(v, starts[rows[j]]+j)
			continue
		}
		r := last
		for x[starts[r]+j] == x[starts[r]+j] {
			r--
		}
		keys[j] = poolKey(v, starts[r]+j)
	}
}

// row computes a row of results from the keys of columns.
func (m *maxPooling) row(y []float32, indices []int64, x []float32) {
	step := m.windows[2].Dilation
	for o, c := range m.columns[:len(y)] {
		most := m.keys[c[0]]
		for k := c[0] + step; k < c[1]; k += step {
			most = max(most, m.keys[k])
		}
		at := poolIndex(most)
		y[o], indices[o] = x[at], int64(at)
	}
}

// poolKey is a number that is the larger the larger v is, and of equal ones the earlier their index i in the plane, or
// the later if they are NaN: then the largest element and its index are one maximum, without a branch.
func poolKey(v float32, i int) int64 {
	if v != v {
		return math.MaxInt32<<32 | int64(i)
	}
	return numberKey(v, i)
}

// numberKey is poolKey of what is no NaN.
func numberKey(v float32, i int) int64 {
	bits := int32(math.Float32bits(v))
	sign, size := bits>>31, bits&math.MaxInt32
	return int64(size^sign-sign)<<32 | int64(^uint32(i)) // both zeros have size 0
}

// poolIndex is the index in a key.
func poolIndex(key int64) int {
	if key>>32 == math.MaxInt32 {
		return int(uint32(key))
	}
	return int(^uint32(key))
}

// MaxUnpool sets a plane of the result to the elements of the same plane of the operand, each at its index, which the
// second operand gives, and the rest to zero. Of elements with one index the last stays.
func MaxUnpool(l *kernels.Launch) {
	lead := len(l.In[0].Shape) - len(l.Ints)
	count, in, out := kernels.Count(l.In[0].Shape[:lead]), kernels.Count(l.In[0].Shape[lead:]), kernels.Count(l.Ints)
	indices := make([]int, l.In[1].Len())
	readIntegers(indices, l.In[1])
	for k, v := range indices {
		if v < 0 || v >= out {
			panic(kernels.IndexError(l.Op.Name, l.In[1].Shape, k, v, out, nil, 0))
		}
	}
	x, y := contiguousElements(l.In[0]), Slice[float32](l.Out[0])
	par.For(count, 1+rowGrain/max(1, in+out), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			plane := y[i*out : (i+1)*out]
			clear(plane)
			for k := i * in; k < (i+1)*in; k++ {
				plane[indices[k]] = x[k]
			}
		}
	})
}
