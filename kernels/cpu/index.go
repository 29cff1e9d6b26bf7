package cpu

import (
	"math"
	"slices"
	"sync"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// Operations that read or add elements at given indices. All indices are checked before anything is written. Where an
// index occurs several times, elements are added in the order of occurrence: the work is cut along the other axes only,
// so that one goroutine does all additions to an element.

var indexBuffers = sync.Pool{New: func() any { return new([]int) }}

// indicesOf reads operand i of an op call, indices of an axis with the given size, to borrowed memory in row-major
// order. It panics with an error that names the first index outside [0, size).
func indicesOf(l *kernels.Launch, i, size int) *[]int {
	a := l.In[i]
	n := a.Len()
	buf := indexBuffers.Get().(*[]int)
	if cap(*buf) < n {
		*buf = integers(n)
	}
	*buf = (*buf)[:n]
	readIntegers(*buf, a)
	for k, v := range *buf {
		if v < 0 || v >= size {
			panic(l.IndexError(i, k, v, size))
		}
	}
	return buf
}

// readIntegers sets dst to the elements of a in row-major order.
func readIntegers(dst []int, a kernels.Arg) {
	switch {
	case len(dst) == 0:
	case a.DType == kernels.Int64:
		readElements(dst, Slice[int64](a), a.Layout)
	case a.DType == kernels.Int32:
		readElements(dst, Slice[int32](a), a.Layout)
	case a.DType == kernels.Uint8:
		readElements(dst, Slice[uint8](a), a.Layout)
	}
}

func readElements[T int64 | int32 | uint8](dst []int, src []T, l kernels.Layout) {
	if l.Contiguous() {
		for i := range dst {
			dst[i] = int(src[i])
		}
		return
	}
	var d kernels.Dims
	d.PushAll(l.Shape, l.Strides)
	at, step := d.Cursor(0), d.Step()
	for len(dst) > 0 {
		n, from := at.Run(), src[at.Offset:]
		if step == 0 { // such as the indices of rows, repeated along each
			fill(dst[:n], int(from[0]))
		} else {
			for i := range dst[:n] {
				dst[i] = int(from[i*step])
			}
		}
		dst = dst[n:]
		at.Skip(n)
	}
}

// IndexSelect reads the entries of the first operand along axis l.Ints[0] whose indices the second operand gives. The
// axes of the second operand replace that axis.
func IndexSelect(l *kernels.Launch) {
	x, y, axis := l.In[0], l.Out[0], l.Ints[0]
	indices := indicesOf(l, 1, x.Shape[axis])
	defer indexBuffers.Put(indices)
	v := slabsOf(x, axis, axis+1)
	n, size := len(*indices), y.DType.Size()
	dst, src := bytesOf(y), bytesOf(x)
	if v.width == 1 {
		switch size {
		case 1:
			selectElements(dst, src, v, *indices, x.Strides[axis])
		case 2:
			selectElements(view[uint16](dst), view[uint16](src), v, *indices, x.Strides[axis])
		case 4:
			selectElements(view[uint32](dst), view[uint32](src), v, *indices, x.Strides[axis])
		case 8:
			selectElements(view[uint64](dst), view[uint64](src), v, *indices, x.Strides[axis])
		}
		return
	}
	par.For(v.outer*n, 1+(1<<14)/max(v.width, 1), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			from := v.before.Offset(i/n) + (*indices)[i%n]*x.Strides[axis]
			if v.contiguous {
				copy(dst[i*v.width*size:(i+1)*v.width*size], src[from*size:])
				continue
			}
			at := v.inner.Cursor(0)
			for to := i * v.width; to < (i+1)*v.width; {
				n := at.Run()
				gatherBytes(dst[to*size:], src[(from+at.Offset)*size:], []int{0}, n, v.inner.Step(), n, size)
				to += n
				at.Skip(n)
			}
		}
	})
}

// selectElements sets dst to the elements of src with the given indices in each slab of v.
func selectElements[T uint8 | uint16 | uint32 | uint64](dst, src []T, v *slabs, indices []int, stride int) {
	n := len(indices)
	par.For(v.outer*n, 1<<14, func(lo, hi int) {
		for lo < hi {
			slab, first := lo/n, lo%n
			some := indices[first:min(n, first+hi-lo)]
			from := src[v.before.Offset(slab):]
			to := dst[lo:][:len(some)]
			for i, index := range some {
				to[i] = from[index*stride]
			}
			lo += len(some)
		}
	})
}

// slabs are a tensor cut into outer slabs, in each of them entries of width elements. Entry or slab i is at
// before.Offset(i).
type slabs struct {
	outer, width  int
	before, inner kernels.Dims
	contiguous    bool // the elements of an entry are
}

// slabsOf sees the axes of a before lead as slabs and those from rest on as entries.
func slabsOf(a kernels.Arg, lead, rest int) *slabs {
	v := &slabs{outer: kernels.Count(a.Shape[:lead]), width: kernels.Count(a.Shape[rest:])}
	v.before.PushAll(a.Shape[:lead], a.Strides[:lead])
	v.inner.PushAll(a.Shape[rest:], a.Strides[rest:])
	v.contiguous = v.inner.Contiguous()
	return v
}

// IndexAdd copies the first operand and adds the entries of the third to it, one after the other, at the indices that
// the second gives along axis l.Ints[0].
func IndexAdd(l *kernels.Launch) { indexAdds[l.Out[0].DType](l) }

var indexAdds = map[kernels.DType]func(l *kernels.Launch){
	kernels.Float32: indexAdd[float32], kernels.Float64: indexAdd[float64],
	kernels.Int64: indexAdd[int64], kernels.Int32: indexAdd[int32], kernels.Uint8: indexAdd[uint8],
}

// addColumns is the least number of columns that are worth a thread of their own in scattered adds: two cache lines.
const addColumns = 32

func indexAdd[T float32 | float64 | int64 | int32 | uint8](l *kernels.Launch) {
	y, axis := l.Out[0], l.Ints[0]
	indices := indicesOf(l, 1, y.Shape[axis])
	defer indexBuffers.Put(indices)
	copyStrided(y, l.In[0])
	lead := axis + len(l.In[1].Shape)
	to, from := slabsOf(y, axis, axis+1), slabsOf(l.In[2], lead, lead)
	dst, src := Slice[T](y), Slice[T](l.In[2])
	// A task is a piece of the columns of one slab: all entries are added to it in order.
	share := (to.width + par.Workers() - 1) / par.Workers()
	wide := max(1, min(to.width, (share+addColumns-1)/addColumns*addColumns))
	across := (to.width + wide - 1) / wide
	par.For(to.outer*across, 1+(1<<14)/max(1, wide*len(*indices)), func(lo, hi int) {
		for task := lo; task < hi; task++ {
			slab, column := task/across, task%across*wide
			n := min(wide, to.width-column)
			start := slab*y.Shape[axis]*to.width + column
			for k, i := range *indices {
				row := dst[start+i*to.width:][:n]
				at := from.before.Offset(slab*len(*indices) + k)
				if from.contiguous {
					addTo(row, src[at+column:])
					continue
				}
				w := from.inner.Cursor(column)
				for j := range row {
					row[j] += src[at+w.Offset]
					w.Next()
				}
			}
		}
	})
}

// EmbeddingBag is, for each of the bags that the third operand gives, the sum from +0 on of those rows of the first
// operand whose indices the second gives, one after the other.
func EmbeddingBag(l *kernels.Launch) {
	x, y := contiguousElements(l.In[0]), Slice[float32](l.Out[0])
	width := l.In[0].Shape[1]
	indices := indicesOf(l, 1, l.In[0].Shape[0])
	defer indexBuffers.Put(indices)
	ofResult := kernels.Launch{Op: l.Op, In: []kernels.Arg{l.Out[0], l.In[2]}, Ints: l.Ints} // for errors
	bags := indicesOf(&ofResult, 1, l.Out[0].Shape[0])
	defer indexBuffers.Put(bags)
	clearAll(l.Out[0])
	par.ForAligned(width, 1+(1<<14)/(1+len(*bags)), addColumns, func(lo, hi int) {
		for k := 0; k < len(*bags); {
			row := y[(*bags)[k]*width:][lo:hi]
			at := func(i int) []float32 { return x[(*indices)[k+i]*width:][lo:hi] }
			if k+7 <= len(*bags) && !slices.ContainsFunc((*bags)[k:k+7], func(b int) bool { return b != (*bags)[k] }) {
				vec.AddEight(row, row, at(0), at(1), at(2), at(3), at(4), at(5), at(6), negativeZero)
				k += 7
				continue
			}
			addTo(row, at(0))
			k++
		}
	})
}

// negativeZero changes no number that is added to it.
var negativeZero = float32(math.Copysign(0, -1))

// addTo adds the first elements of v to row.
func addTo[T float32 | float64 | int64 | int32 | uint8](row, v []T) {
	v = v[:len(row)]
	if row, ok := any(row).([]float32); ok && len(row) >= 16 {
		vecAdd(row, row, any(v).([]float32), nil)
		return
	}
	for j, w := range v {
		row[j] += w
	}
}

// Gather reads the elements of the first operand whose index along axis l.Ints[0] the second operand gives; their other
// indices are those of the result.
func Gather(l *kernels.Launch) {
	switch l.Out[0].DType.Size() {
	case 1:
		gatherAlong[uint8](l)
	case 2:
		gatherAlong[uint16](l)
	case 4:
		gatherAlong[uint32](l)
	case 8:
		gatherAlong[uint64](l)
	}
}

func gatherAlong[T uint8 | uint16 | uint32 | uint64](l *kernels.Launch) {
	x, axis := l.In[0], l.Ints[0]
	indices := indicesOf(l, 1, x.Shape[axis])
	defer indexBuffers.Put(indices)
	dst, src := view[T](bytesOf(l.Out[0])), view[T](bytesOf(x))
	others := alongOthers(l.In[1].Shape, x, axis)
	par.For(len(*indices), 1<<13, func(lo, hi int) {
		at, step := others.Cursor(lo), x.Strides[axis]
		if others.Rank == 0 {
			dst[lo] = src[(*indices)[lo]*step]
			return
		}
		for stride := others.Strides[others.Rank-1]; lo < hi; {
			n, from := min(at.Run(), hi-lo), at.Offset
			for i, index := range (*indices)[lo : lo+n] {
				dst[lo+i] = src[from+index*step]
				from += stride
			}
			at.Skip(n)
			lo += n
		}
	})
}

// alongOthers are the dimensions of the operand a for indices of the given shape, with stride 0 along the axis.
func alongOthers(shape []int, a kernels.Arg, axis int) *kernels.Dims {
	d := &kernels.Dims{}
	d.PushAll(shape[:axis], a.Strides[:axis])
	d.Push(shape[axis], 0)
	d.PushAll(shape[axis+1:], a.Strides[axis+1:])
	return d
}

// ScatterAdd copies the first operand and adds the elements of the third to it, in row-major order. The second operand
// gives their index along axis l.Ints[0]; the other indices are those of the added element.
func ScatterAdd(l *kernels.Launch) { scatterAdds[l.Out[0].DType](l) }

var scatterAdds = map[kernels.DType]func(l *kernels.Launch){
	kernels.Float32: scatterAdd[float32], kernels.Float64: scatterAdd[float64],
	kernels.Int64: scatterAdd[int64], kernels.Int32: scatterAdd[int32], kernels.Uint8: scatterAdd[uint8],
}

func scatterAdd[T float32 | float64 | int64 | int32 | uint8](l *kernels.Launch) {
	dst, src := Slice[T](l.Out[0]), Slice[T](l.In[2])
	eachScattered(l, func(r scatteredRun) {
		to, from := dst[r.to:], src[r.from:]
		if r.toStep == 0 && r.fromStep == 1 && r.stride == 1 { // such as the planes of the gradient of max pooling
			for k, v := range from[:len(r.indices)] {
				to[r.indices[k]] += v
			}
			return
		}
		for k, i := range r.indices {
			to[k*r.toStep+i*r.stride] += from[k*r.fromStep]
		}
	})
}

// A scatteredRun is elements of the third operand of a scatter a step apart, from offset `from` on: element k goes to
// offset to + k*toStep + indices[k]*stride of the result.
type scatteredRun struct {
	to, toStep, from, fromStep, stride int
	indices                            []int
}

// eachScattered copies the first operand to the result, and calls f for runs of the elements of the third, in row-major
// order where they may meet: elements with different indices before the axis have different results.
func eachScattered(l *kernels.Launch, f func(r scatteredRun)) {
	y, axis, shape := l.Out[0], l.Ints[0], l.In[1].Shape
	indices := indicesOf(l, 1, y.Shape[axis])
	defer indexBuffers.Put(indices)
	copyStrided(y, l.In[0])
	slabs, each := kernels.Count(shape[:axis]), kernels.Count(shape[axis:])
	if slabs == 0 || each == 0 {
		return
	}
	to := alongOthers(shape, y, axis)
	var from kernels.Dims
	from.PushAll(shape, l.In[2].Strides)
	par.For(slabs, 1+(1<<14)/each, func(lo, hi int) {
		lo, hi = lo*each, hi*each
		a, b := to.Cursor(lo), from.Cursor(lo)
		r := scatteredRun{toStep: to.Step(), fromStep: from.Step(), stride: y.Strides[axis]}
		for n := 0; lo < hi; lo += n {
			n = min(a.Run(), b.Run(), hi-lo)
			r.to, r.from, r.indices = a.Offset, b.Offset, (*indices)[lo:lo+n]
			f(r)
			a.Skip(n)
			b.Skip(n)
		}
	})
}

// OneHot is 1 where the index along the new last axis, of size l.Ints[0], is the value of the operand, and else 0.
func OneHot(l *kernels.Launch) {
	classes := l.Ints[0]
	indices := indicesOf(l, 0, classes)
	defer indexBuffers.Put(indices)
	clearAll(l.Out[0])
	y := Slice[int64](l.Out[0])
	for i, v := range *indices {
		y[i*classes+v] = 1
	}
}

// Scatter copies the first operand and sets elements of it to those of the third, one after the other in row-major
// order. The second operand gives their index along axis l.Ints[0], as for ScatterAdd.
func Scatter(l *kernels.Launch) {
	switch l.Out[0].DType.Size() {
	case 1:
		scatterSet[uint8](l)
	case 2:
		scatterSet[uint16](l)
	case 4:
		scatterSet[uint32](l)
	case 8:
		scatterSet[uint64](l)
	}
}

func scatterSet[T uint8 | uint16 | uint32 | uint64](l *kernels.Launch) {
	dst, src := view[T](bytesOf(l.Out[0])), view[T](bytesOf(l.In[2]))
	eachScattered(l, func(r scatteredRun) {
		to, from := dst[r.to:], src[r.from:]
		for k, i := range r.indices {
			to[k*r.toStep+i*r.stride] = from[k*r.fromStep]
		}
	})
}

// ScatterProd multiplies elements of a copy of the first operand by those of the third, in row-major order.
func ScatterProd(l *kernels.Launch) {
	dst, src := Slice[float32](l.Out[0]), Slice[float32](l.In[2])
	eachScattered(l, func(r scatteredRun) {
		to, from := dst[r.to:], src[r.from:]
		for k, i := range r.indices {
			to[k*r.toStep+i*r.stride] *= from[k*r.fromStep]
		}
	})
}

// ScatterMax replaces elements of a copy of the first operand by larger ones of the third, and by NaN.
func ScatterMax(l *kernels.Launch) {
	dst, src := Slice[float32](l.Out[0]), Slice[float32](l.In[2])
	eachScattered(l, func(r scatteredRun) {
		to, from := dst[r.to:], src[r.from:]
		for k, i := range r.indices {
			if y, v := &to[k*r.toStep+i*r.stride], from[k*r.fromStep]; v > *y || v != v {
				*y = v
			}
		}
	})
}

// ScatterMin replaces elements of a copy of the first operand by smaller ones of the third, and by NaN.
func ScatterMin(l *kernels.Launch) {
	dst, src := Slice[float32](l.Out[0]), Slice[float32](l.In[2])
	eachScattered(l, func(r scatteredRun) {
		to, from := dst[r.to:], src[r.from:]
		for k, i := range r.indices {
			if y, v := &to[k*r.toStep+i*r.stride], from[k*r.fromStep]; v < *y || v != v {
				*y = v
			}
		}
	})
}
