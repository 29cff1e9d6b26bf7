package tensor

import (
	"reflect"
	"slices"

	"github.com/x448/float16"
)

// FromNested makes host data of nested slices or arrays, such as [][]float32, with an axis for each level. The elements
// are of one of the types in [Elem]. Slices of one level that differ in length are an error of kind [ErrShape].
func FromNested(v any) *Tensor {
	value := reflect.ValueOf(v)
	leaf, rank := reflect.TypeOf(v), 0
	for leaf != nil && (leaf.Kind() == reflect.Slice || leaf.Kind() == reflect.Array) {
		leaf, rank = leaf.Elem(), rank+1
	}
	shape := make([]int, rank)
	for axis, first := 0, value; axis < rank; axis++ {
		if shape[axis] = first.Len(); shape[axis] == 0 {
			break
		}
		first = first.Index(0)
	}
	checkShape("from_nested", shape)
	switch leaf {
	case reflect.TypeFor[float32]():
		return flat[float32](value, shape)
	case reflect.TypeFor[float64]():
		return flat[float64](value, shape)
	case reflect.TypeFor[float16.Float16]():
		return flat[float16.Float16](value, shape)
	case reflect.TypeFor[BF16]():
		return flat[BF16](value, shape)
	case reflect.TypeFor[int]():
		return flat[int](value, shape)
	case reflect.TypeFor[int64]():
		return flat[int64](value, shape)
	case reflect.TypeFor[int32]():
		return flat[int32](value, shape)
	case reflect.TypeFor[uint8]():
		return flat[uint8](value, shape)
	case reflect.TypeFor[bool]():
		return flat[bool](value, shape)
	}
	fail(ErrDType, "from_nested", "%T holds no elements of float32, float64, float16, bfloat16, int, int64, int32, "+
		"uint8 or bool", v)
	return nil
}

// flat is the elements of v, which is nested as deep as shape is long.
func flat[T Elem](v reflect.Value, shape []int) *Tensor {
	var all []T
	var collect func(v reflect.Value, at []int)
	collect = func(v reflect.Value, at []int) {
		if len(at) == len(shape) {
			all = append(all, v.Interface().(T))
			return
		}
		if n, want := v.Len(), shape[len(at)]; n != want {
			first := make([]int, len(at))
			fail(ErrShape, "from_nested", "the slice at %v has %d elements, that at %v has %d: all slices of one "+
				"level have one length", at, n, first, want)
		}
		if row, ok := v.Interface().([]T); ok {
			all = append(all, row...)
			return
		}
		for i := range v.Len() {
			collect(v.Index(i), append(slices.Clone(at), i))
		}
	}
	collect(v, nil)
	return FromSlice(all, shape...)
}
