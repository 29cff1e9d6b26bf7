package walk

import (
	"cmp"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-ml/weft/internal/caller"
	"github.com/weft-ml/weft/kernels"
)

// Container is a part that names its children itself; they are not found by its fields.
type Container interface {
	Children() iter.Seq2[string, any]
}

// Part is a part of a model.
type Part struct {
	Name   string // such as "weight" or "0"; "" for an embedded struct, whose parts are those of the outer one
	Value  reflect.Value
	Hidden bool // in an unexported field
}

// Pointer is the identity of what a pointer leads to.
type Pointer struct {
	at uintptr
	to reflect.Type
}

// PointerOf is the identity of v, which is a pointer.
func PointerOf(v reflect.Value) Pointer { return Pointer{v.Pointer(), v.Type()} }

// Open follows pointers and interfaces to a value, which is not valid if one is nil, or if they lead to themselves.
func Open(v reflect.Value) reflect.Value {
	for range 100 {
		if v.Kind() != reflect.Pointer && v.Kind() != reflect.Interface {
			return v
		}
		v = v.Elem()
	}
	return reflect.Value{}
}

// Parts are the parts of a struct, slice, array, map or [Container], or of what a pointer or interface leads to; none
// of other values, and of lists of what cannot have parts, such as numbers by the million. A field is called by its
// name in lower case, or as a tag `weft:"name"` says; `weft:"-"` leaves it out. Map entries are called by their keys,
// and come in the order of these.
func Parts(v reflect.Value) iter.Seq[Part] {
	return func(yield func(Part) bool) {
		if c := container(v); c != nil {
			for name, child := range childrenOf(c) {
				if !yield(Part{Name: name, Value: reflect.ValueOf(child)}) {
					return
				}
			}
			return
		}
		switch v = Open(v); v.Kind() {
		case reflect.Slice, reflect.Array:
			for i := 0; mayHave(v.Type().Elem()) && i < v.Len(); i++ {
				if !yield(Part{Name: strconv.Itoa(i), Value: v.Index(i)}) {
					return
				}
			}
		case reflect.Map:
			if !mayHave(v.Type().Elem()) {
				return
			}
			for _, k := range slices.SortedFunc(slices.Values(v.MapKeys()), byKey) {
				if !yield(Part{Name: fmt.Sprint(k), Value: v.MapIndex(k)}) {
					return
				}
			}
		case reflect.Struct:
			for i := range v.NumField() {
				f := v.Type().Field(i)
				name := f.Tag.Get("weft")
				switch {
				case name == "-":
					continue
				case name == "" && !f.Anonymous:
					name = strings.ToLower(f.Name)
				}
				if !yield(Part{Name: name, Value: v.Field(i), Hidden: !f.IsExported() && !f.Anonymous}) {
					return
				}
			}
		}
	}
}

// childrenOf is what c.Children returns.
func childrenOf(c Container) iter.Seq2[string, any] {
	children := c.Children()
	if children == nil {
		e := kernels.Errorf(kernels.ErrValue, "walk", "what Children of %T returned is nil", c)
		e.Site = caller.Site()
		panic(e)
	}
	return children
}

// mayHave tells whether a value of type t may have parts.
func mayHave(t reflect.Type) bool {
	if t.Implements(containerType) || reflect.PointerTo(t).Implements(containerType) {
		return true
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Map:
		return true
	case reflect.Slice: // whose elements may be of type t
		e := t.Elem()
		return e.Kind() == reflect.Slice || e.Kind() == reflect.Struct || mayHave(e)
	case reflect.Array:
		return mayHave(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if mayHave(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

var containerType = reflect.TypeFor[Container]()

// container is v, or a pointer to it, as a Container; nil if it is none.
func container(v reflect.Value) Container {
	for v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() || !v.CanInterface() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil
	}
	if c, ok := v.Interface().(Container); ok {
		return c
	}
	if v.Kind() == reflect.Struct && v.CanAddr() { // held by value, with methods of pointer receivers
		c, _ := v.Addr().Interface().(Container)
		return c
	}
	return nil
}

// byKey orders keys of maps: numbers by value, others by their text.
func byKey(a, b reflect.Value) int {
	switch {
	case a.CanInt():
		return cmp.Compare(a.Int(), b.Int())
	case a.CanUint():
		return cmp.Compare(a.Uint(), b.Uint())
	}
	return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
}
