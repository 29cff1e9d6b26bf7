package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// moveShapes have rows and columns around the blocks of a strided copy.
var moveShapes = [][]int{{1, 1}, {9, 4, 30, 3}, {37, 41, 2}, {3, 5}, {2, 3, 4}, {70, 9}, {3, 4100}, {2, 1, 3, 2},
	{5000, 2}, {0, 4}, {4, 0}}

// A region of a larger tensor takes the elements, and what is around it stays.
func TestCopyStrided(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for i, shape := range moveShapes {
		for k := range layoutNames {
			for j := range 2 {
				d := []kernels.DType{kernels.Float32, kernels.Float64, kernels.BFloat16, kernels.Uint8}[(i+k+2*j)%4]
				src := random(r, layouts[layoutNames[k]](d, shape))
				wide := slices.Clone(shape)
				for a := range wide {
					wide[a] = 3*wide[a] + 2
				}
				all := newTensor(d, wide...)
				fill(all.Buf.(*Mem).data, 0x11)
				before := elements(all)
				dst := all
				for a, size := range shape {
					step := 1 + (i+j+k+a)%3
					dst = sliced(dst, a, 1, step, size)
				}
				copyStrided(dst, src)
				want := elements(src)
				if n := firstDifferent(elements(dst), want); n >= 0 {
					t.Fatalf("%v %v from %s: element %d is %v, want %v", d, shape, layoutNames[k], n, elements(dst)[n],
						want[n])
				}
				restore := newTensor(d, 1)
				fill(restore.Buf.(*Mem).data, 0x11)
				fillStrided(dst, restore)
				if n := firstDifferent(elements(all), before); n >= 0 {
					t.Fatalf("%v %v from %s: element %d outside the region changed", d, shape, layoutNames[k], n)
				}
			}
		}
	}
}

func firstDifferent(a, b []float64) int {
	for i := range b {
		if i >= len(a) || !same(a[i], b[i]) {
			return i
		}
	}
	return -1
}

// The kernels of copy.go, against the index that each element comes from.
func TestMoves(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var jobs []job
	for i, shape := range [][]int{{3, 4}, {2, 5, 3}, {40, 50}, {1, 1}, {150, 70}, {0, 2}} {
		for k := range layoutNames {
			for j := range 2 {
				d := []kernels.DType{kernels.Float32, kernels.Int64, kernels.BFloat16, kernels.Uint8}[(i+k+2*j)%4]
				x := random(r, layouts[layoutNames[k]](d, shape))
				v := elements(x)
				axis := (i + j + k) % len(shape)
				// push makes a job whose result, of the given shape, has at each index the element of x at from(index),
				// or blank.
				push := func(kernel func(*kernels.Launch), to []int, blank float64, ints []int, floats []float64,
					in []kernels.Arg, from func(at []int) bool) {
					y := newTensor(d, to...)
					var want []float64
					for i := range y.Len() {
						at := unravel(i, to)
						if from(at) {
							want = append(want, v[ravel(at, shape)])
						} else {
							want = append(want, blank)
						}
					}
					l := &kernels.Launch{Op: &kernels.Op{Name: "test"}, In: in, Out: []kernels.Arg{y}, Ints: ints,
						Floats: floats}
					jobs = append(jobs, job{kernel, l, [][]float64{want}})
				}
				one := []kernels.Arg{x}
				push(Flip, shape, 0, []int{axis}, nil, one,
					func(at []int) bool { at[axis] = shape[axis] - 1 - at[axis]; return true })
				diagonal := 3*j + k - 4
				last := len(shape) - 1
				push(Tril, shape, 0, []int{diagonal}, nil, one,
					func(at []int) bool { return at[last] <= at[last-1]+diagonal })
				push(Triu, shape, 0, []int{diagonal}, nil, one,
					func(at []int) bool { return at[last] >= at[last-1]+diagonal })
				var ints []int
				to := slices.Clone(shape)
				for a := range shape {
					ints = append(ints, (a+j)%3, (a+k)%2)
					to[a] += ints[2*a] + ints[2*a+1]
				}
				push(Pad, to, 7, ints, []float64{7}, one, func(at []int) bool {
					for a := range at {
						at[a] -= ints[2*a]
						if at[a] < 0 || at[a] >= shape[a] {
							return false
						}
					}
					return true
				})
				start, step := 2*j, 1+k%3
				to = slices.Clone(shape)
				to[axis] = start + step*shape[axis] + 2
				push(SliceGrad, to, 0, []int{axis, start, step, to[axis]}, nil, one, func(at []int) bool {
					at[axis] -= start
					on := at[axis] >= 0 && at[axis]%step == 0 && at[axis]/step < shape[axis]
					at[axis] /= step
					return on
				})
				to = slices.Insert(slices.Clone(shape), axis, 3)
				push(SelectGrad, to, 0, []int{axis, j % 3, 3}, nil, one, func(at []int) bool {
					on := at[axis] == j%3
					copy(at[axis:], at[axis+1:])
					return on
				})
				push(Stack, to, 0, []int{axis}, nil, []kernels.Arg{x, x, x},
					func(at []int) bool { copy(at[axis:], at[axis+1:]); return true })
				to = slices.Clone(shape)
				to[axis] *= 2
				push(Cat, to, 0, []int{axis}, nil, []kernels.Arg{x, x},
					func(at []int) bool { at[axis] %= max(shape[axis], 1); return true })
			}
		}
	}
	runJobs(t, jobs)
}
