package cpu

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// unravel are the indices of element i, in row-major order, of a shape.
func unravel(i int, shape []int) []int {
	at := make([]int, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		at[d] = i % shape[d]
		i /= shape[d]
	}
	return at
}

// ravel is the number of the element with the given indices.
func ravel(at, shape []int) int {
	i := 0
	for d, size := range shape {
		i = i*size + at[d]
	}
	return i
}

// indexJobs are op calls of the kernels of index.go in one element type, with results that are written from
// definitions.
func indexJobs(r *rand.Rand, d kernels.DType, turn int, shape []int, axis, count int) (jobs []job) {
	makeIndices := func(shape []int, size int) (kernels.Arg, []float64) {
		types := []kernels.DType{kernels.Int64, kernels.Int32, kernels.Uint8}
		a := layouts[layoutNames[turn%len(layoutNames)]](types[turn%3], shape)
		v := make([]float64, a.Buf.Bytes()/a.DType.Size())
		for i := range v {
			v[i] = float64(r.IntN(min(size, 256)))
		}
		with(a, v...)
		return a, elements(a)
	}
	fill := func(shape []int) (kernels.Arg, []float64) {
		a := layouts[layoutNames[(2*turn+1)%len(layoutNames)]](d, shape)
		random(r, a)
		return a, elements(a)
	}
	add := func(x, y float64) float64 {
		if d == kernels.Float32 {
			return float64(float32(x) + float32(y))
		}
		if d == kernels.Uint8 {
			return float64(uint8(x) + uint8(y))
		}
		return x + y
	}
	push := func(kernel func(*kernels.Launch), want []float64, shape []int, in ...kernels.Arg) {
		l := &kernels.Launch{Op: &kernels.Op{Name: "test"}, In: in, Out: []kernels.Arg{newTensor(d, shape...)},
			Ints: []int{axis}}
		jobs = append(jobs, job{kernel, l, [][]float64{want}})
	}
	x, xs := fill(shape)

	// Entries along the axis.
	entries := slices.Clone(shape)
	entries[axis] = count
	indices, chosen := makeIndices([]int{count}, shape[axis])
	var want []float64
	for i := range kernels.Count(entries) {
		at := unravel(i, entries)
		at[axis] = int(chosen[at[axis]])
		want = append(want, xs[ravel(at, shape)])
	}
	push(IndexSelect, want, entries, x, indices)
	if d != kernels.BFloat16 {
		added, adds := fill(entries)
		want = slices.Clone(xs)
		for i, v := range adds {
			at := unravel(i, entries)
			at[axis] = int(chosen[at[axis]])
			want[ravel(at, shape)] = add(want[ravel(at, shape)], v)
		}
		push(IndexAdd, want, shape, x, indices, added)
	}

	// Single elements.
	indices, chosen = makeIndices(entries, shape[axis])
	want = nil
	for i := range kernels.Count(entries) {
		at := unravel(i, entries)
		at[axis] = int(chosen[i])
		want = append(want, xs[ravel(at, shape)])
	}
	push(Gather, want, entries, x, indices)
	if d != kernels.BFloat16 {
		added, adds := fill(entries)
		want = slices.Clone(xs)
		for i, v := range adds {
			at := unravel(i, entries)
			at[axis] = int(chosen[i])
			want[ravel(at, shape)] = add(want[ravel(at, shape)], v)
		}
		push(ScatterAdd, want, shape, x, indices, added)
	}
	return jobs
}

// Rows of a table are added to bags one after the other, also where seven of one bag are added together.
func TestEmbeddingBag(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	var jobs []job
	for turn, c := range [][3]int{{5, 3, 7}, {30, 130, 300}, {4, 16, 65}, {9, 33, 1}, {3, 40, 0}, {3, 0, 4}} {
		rows, width, count := c[0], c[1], c[2]
		x := random(r, layouts[layoutNames[turn%len(layoutNames)]](kernels.Float32, []int{rows, width}))
		v, indices, bags, want := elements(x), make([]float64, count), make([]float64, count), make([]float64, 3*width)
		for k := range indices {
			indices[k] = float64(r.IntN(rows))
			if bags[k] = float64(r.IntN(3)); k%9 != 0 {
				bags[k] = bags[k-1]
			}
			for i := range width {
				to := &want[int(bags[k])*width+i]
				*to = float64(float32(*to) + float32(v[int(indices[k])*width+i]))
			}
		}
		jobs = append(jobs, job{EmbeddingBag, &kernels.Launch{
			Op: &kernels.Op{Name: "test"}, Ints: []int{0, 3}, Out: []kernels.Arg{newTensor(kernels.Float32, 3, width)},
			In: []kernels.Arg{x, with(newTensor(kernels.Int64, count), indices...),
				with(newTensor(kernels.Int32, count), bags...)},
		}, [][]float64{want}})
	}
	runJobs(t, jobs)
}

func TestIndexing(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var jobs []job
	turn := 0
	for _, d := range []kernels.DType{kernels.Float32, kernels.Float64, kernels.BFloat16, kernels.Int64, kernels.Int32,
		kernels.Uint8} {
		for _, c := range []struct {
			shape []int
			axis  int
			count int
		}{{[]int{5, 3}, 0, 7}, {[]int{5, 3}, 1, 2}, {[]int{4, 5, 6}, 1, 9}, {[]int{9}, 0, 4}, {[]int{30, 130}, 0, 300},
			{[]int{3, 200, 5}, 1, 400}, {[]int{2, 3}, 0, 0}} {
			for range 4 {
				jobs = append(jobs, indexJobs(r, d, turn, c.shape, c.axis, c.count)...)
				turn++
			}
		}
	}
	runJobs(t, jobs)
}

// An index outside its axis is an error, and nothing is written.
func TestIndexOutside(t *testing.T) {
	x := with(newTensor(kernels.Float32, 2, 2), 1, 2, 3, 4)
	one := with(newTensor(kernels.Float32, 2, 2), 1, 1, 1, 1)
	for _, bad := range []float64{-1, 2, 1 << 40} {
		rows := with(newTensor(kernels.Int64, 2), 0, bad)
		each := with(newTensor(kernels.Int64, 2, 2), 0, 0, 1, bad)
		for name, l := range map[string]*kernels.Launch{
			"select":  {Op: &kernels.Op{CPU: IndexSelect}, In: []kernels.Arg{x, rows}},
			"add":     {Op: &kernels.Op{CPU: IndexAdd}, In: []kernels.Arg{x, rows, one}},
			"gather":  {Op: &kernels.Op{CPU: Gather}, In: []kernels.Arg{x, each}},
			"scatter": {Op: &kernels.Op{CPU: ScatterAdd}, In: []kernels.Arg{x, each, one}},
		} {
			y := with(newTensor(kernels.Float32, 2, 2), 9, 9, 9, 9)
			l.Out, l.Ints = []kernels.Arg{y}, []int{0}
			if err := (Backend{}).Run(l); !errors.Is(err, kernels.ErrIndex) {
				t.Errorf("%s of index %g: error %v", name, bad, err)
			}
			if got := elements(y); !slices.Equal(got, []float64{9, 9, 9, 9}) {
				t.Errorf("%s of index %g wrote %v", name, bad, got)
			}
		}
	}
}
