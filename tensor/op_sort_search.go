package tensor

import (
	"fmt"
	"slices"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// The attribute of searchsorted is right (0 or 1).
var searchSorted Op

func init() {
	define(&searchSorted, entry{
		Op:     kernels.Op{Name: "searchsorted", CPU: cpu.SearchSorted, Types: addable, Ref: searchSortedRef},
		Doc:    "how many elements of a row of x, in ascending order, are less than a value, or not greater",
		Args:   []string{"x", "values"},
		Ints:   []string{"right"},
		NoGrad: "the result is an index",
		Cast:   seam.CastWidest,
		Shape: func(c *ctx) {
			c.wantRank(0, 1)
			x, values := c.In[0], c.In[1]
			if x.dtype != values.dtype || x.dtype == Bool {
				c.fail(ErrDType, "x %v and values %v must hold numbers of one type; x.To(...) converts", x, values)
			}
			if last := x.Rank() - 1; last > 0 &&
				(values.Rank() != x.Rank() || !slices.Equal(c.shape(0)[:last], c.shape(1)[:last])) {
				c.fail(ErrShape, "values %v must have the leading axes of x %v, or x must have one axis", values, x)
			}
			c.result(Int64, c.shape(1)...)
		},
		Samples: func() []opSample {
			var all []opSample
			sample := func(name string, shape []int, x []float64, to []int, values ...float64) {
				in := []seam.Arg{{Shape: shape, Values: x}, {Shape: to, Values: append([]float64{}, values...)}}
				for _, right := range []bool{false, true} {
					all = append(all, opSample{Name: fmt.Sprintf("%s %v", name, right), In: in,
						Call: func(x []*Tensor) *Tensor { return x[0].SearchSorted(x[1], right) }})
				}
			}
			sample("row", []int{5}, []float64{0, 1.5, 1.5, 3, 250}, []int{2, 3}, 0, 1, 1.5, 2, 3, 251)
			sample("rows", []int{2, 3}, []float64{1, 2, 3, 5, 5, 9}, []int{2, 2}, 2, 4, 5, 8)
			sample("rank 0", []int{3}, []float64{7, 8, 9}, nil, 8)
			sample("no elements", []int{0}, []float64{}, []int{2}, 1, 2)
			sample("empty", []int{2}, []float64{1, 2}, []int{0})
			return all
		},
	})
}

// SearchSorted is, for each of the values, how many elements of t are less, or with right not greater: the index
// (int64) at which it goes into t so that the order stays, before or behind equal elements. t has one axis, or the
// leading axes of values; its elements are in ascending order along the last axis. A NaN counts as larger than any
// number. It is torch.searchsorted, and torch.bucketize of values with the boundaries t.
func (t *Tensor) SearchSorted(values *Tensor, right bool) *Tensor {
	return apply(&searchSorted, []*Tensor{t, values}, []int{toInt(right)}, nil)
}

func searchSortedRef(l *kernels.Launch) {
	switch l.In[0].DType {
	case kernels.Float64:
		searchSortedRefOf[float64](l)
	case kernels.Int64:
		searchSortedRefOf[int64](l)
	case kernels.Int32:
		searchSortedRefOf[int32](l)
	default:
		searchSortedRefOf[uint8](l)
	}
}

func searchSortedRefOf[T float64 | int64 | int32 | uint8](l *kernels.Launch) {
	x, values, y := cpu.Slice[T](l.In[0]), cpu.Slice[T](l.In[1]), cpu.Slice[int64](l.Out[0])
	shape := l.In[0].Shape
	n := shape[len(shape)-1]
	eachIndex(l.In[1].Shape, func(i int, index []int) {
		start := 0
		if len(shape) > 1 {
			start = offsetOf(shape[:len(shape)-1], index[:len(shape)-1]) * n
		}
		y[i] = 0
		for _, v := range x[start : start+n] {
			if nanLess(v, values[i]) || l.Ints[0] == 1 && !nanLess(values[i], v) {
				y[i]++
			}
		}
	})
}
