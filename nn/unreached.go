package nn

import (
	"maps"
	"reflect"
	"slices"

	"github.com/weft-ml/weft/internal/walk"
	"github.com/weft-ml/weft/tensor"
)

// unreached lists the paths of parameters and states in unexported fields that have no memory and that [Walk]
// does not visit: nobody would give them any.
func unreached(model any) []string {
	found := map[*tensor.Tensor]string{}
	seen := map[walk.Pointer]bool{}
	var find func(path string, v reflect.Value, hidden bool, depth int)
	find = func(path string, v reflect.Value, hidden bool, depth int) {
		for v.Kind() == reflect.Interface {
			v = v.Elem()
		}
		if depth > 1000 || !v.IsValid() || !mayHold(v.Type(), map[reflect.Type]bool{}) {
			return
		}
		if v.Kind() == reflect.Pointer {
			if v.IsNil() || seen[walk.PointerOf(v)] {
				return
			}
			seen[walk.PointerOf(v)] = true
			if v.Type() == tensorType {
				t := (*tensor.Tensor)(v.UnsafePointer()) // Interface would refuse an unexported field
				if _, known := found[t]; hidden && !known && t.Origin() == t && !placed(t) {
					found[t] = path
				}
				return
			}
		}
		for p := range walk.Parts(v) {
			name := path
			if p.Name != "" && path != "" {
				name += "."
			}
			find(name+p.Name, p.Value, hidden || p.Hidden, depth+1)
		}
	}
	find("", reflect.ValueOf(model), false, 0)
	Walk(model, func(_ string, t *tensor.Tensor) { delete(found, t) })
	return slices.Sorted(maps.Values(found))
}

var tensorType = reflect.TypeFor[*tensor.Tensor]()

// mayHold tells whether values of type t can lead to a parameter. Those of package tensor do not, but for tensors.
func mayHold(t reflect.Type, seen map[reflect.Type]bool) bool {
	if t == tensorType || t.Kind() == reflect.Interface {
		return true
	}
	if seen[t] || t.PkgPath() == tensorType.Elem().PkgPath() {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return mayHold(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if mayHold(t.Field(i).Type, seen) {
				return true
			}
		}
	}
	return false
}

// placed tells whether a parameter or state has memory.
func placed(t *tensor.Tensor) bool { return engine.Try(func() { engine.Arena(t) }) == nil }
