package data

import (
	"reflect"
	"sync"

	"github.com/weft-ml/weft/tensor"
)

// Limits of what measure looks at.
const (
	mostMeasured = 16 // elements of a slice or map whose elements have memory of their own
	deepMeasured = 6  // pointers, slices and fields on the way
)

// measured is a function for how much memory values of type T take, theirs and what they lead to. A type may have a
// method Bytes() int that says it.
func measured[T any]() func(x *T) int64 {
	t := reflect.TypeFor[T]()
	if sizes(t) {
		n := int64(t.Size())
		return func(*T) int64 { return n }
	}
	return func(x *T) int64 { return int64(t.Size()) + measure(reflect.ValueOf(x).Elem(), 0) }
}

// examplesOf is measured[T], for the examples of a crew.
func examplesOf[T any](w *crew) func(x *T) int64 {
	if t := reflect.TypeFor[T](); sizes(t) {
		w.memory.change(0, 1, int64(t.Size())) // so that none waits to know
	}
	return measured[T]()
}

// sized are the types whose values have no memory but their own, by type.
var sized sync.Map

// sizes tells whether values of type t have no memory but their own.
func sizes(t reflect.Type) bool {
	if known, ok := sized.Load(t); ok {
		return known.(bool)
	}
	alone := true
	switch t.Kind() {
	case reflect.Array:
		alone = sizes(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			alone = alone && sizes(t.Field(i).Type)
		}
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.String, reflect.Map:
		alone = false
	}
	alone = alone && !t.Implements(reflect.TypeFor[interface{ Bytes() int }]())
	sized.Store(t, alone)
	return alone
}

// measure is the memory that a value leads to.
func measure(v reflect.Value, depth int) (n int64) {
	if depth > deepMeasured || sizes(v.Type()) {
		return 0
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice:
		if v.IsNil() {
			return 0
		}
	}
	if v.Type() == reflect.TypeFor[*tensor.Tensor]() { // of an unexported field, too
		x := (*tensor.Tensor)(v.UnsafePointer())
		return int64(x.Len() * x.DType().Size())
	}
	if v.CanInterface() {
		if x, ok := v.Interface().(interface{ Bytes() int }); ok {
			return int64(x.Bytes())
		}
	}
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Pointer, reflect.Interface:
		return int64(v.Elem().Type().Size()) + measure(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			n += measure(v.Field(i), depth+1)
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice {
			n = int64(v.Cap()) * int64(v.Type().Elem().Size())
		}
		if !sizes(v.Type().Elem()) {
			looked := min(v.Len(), mostMeasured)
			var sum int64
			for i := range looked {
				sum += measure(v.Index(i*v.Len()/looked), depth+1)
			}
			n += sum * int64(v.Len()) / int64(max(looked, 1))
		}
	case reflect.Map:
		n = int64(v.Len()) * int64(v.Type().Key().Size()+v.Type().Elem().Size())
		var sum, looked int64
		for it := v.MapRange(); looked < mostMeasured && it.Next(); looked++ {
			sum += measure(it.Key(), depth+1) + measure(it.Value(), depth+1)
		}
		n += sum * int64(v.Len()) / max(looked, 1)
	}
	return n
}
