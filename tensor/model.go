package tensor

import (
	"fmt"
	"iter"
	"reflect"
	"strconv"
	"strings"
)

// Container is a part of a model that names its children itself; they are not found by its fields.
type Container interface {
	Children() iter.Seq2[string, any]
}

// Walk visits every parameter and state of a model once, in order, with its state-dict name: the path of field names in
// lower case and of indices, such as "blocks.0.attn.qkv.weight". A model is a tensor, a struct, a slice or an array, or
// a pointer or interface to one of these; maps are not visited. A field tag `weft:"name"` gives another name,
// `weft:"-"` leaves the field out. A tensor reached twice (tied weights) keeps its first name. Walk fails for what has
// no end or more than a million values.
func Walk(model any, visit func(name string, t *Tensor)) {
	Given("walk", "visit", visit)
	w := walker{visit: visit, seen: map[any]bool{}}
	w.walk("", reflect.ValueOf(model), 0)
}

type walker struct {
	visit  func(string, *Tensor)
	seen   map[any]bool
	visits int
}

// The most values of a model, and the deepest.
const (
	maxVisits = 1_000_000
	maxDepth  = 1000
)

func (w *walker) walk(path string, v reflect.Value, depth int) {
	if w.visits++; w.visits > maxVisits {
		Fail(ErrValue, "walk", "the model has more than %d values, the last of them at %q", maxVisits, path)
	}
	if depth++; depth > maxDepth {
		Fail(ErrValue, "walk", "the model is nested more than %d deep at %q; does it hold itself?", maxDepth, path)
	}
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return
	}
	if v.Kind() == reflect.Pointer {
		if w.seen[v.Interface()] {
			return
		}
		w.seen[v.Interface()] = true
	}
	if v.CanInterface() {
		switch m := v.Interface().(type) {
		case *Tensor:
			if m.root != nil && m.root.tensor == m {
				w.visit(strings.TrimPrefix(path, "."), m)
			}
			return
		case Container:
			children := m.Children()
			Given("walk", fmt.Sprintf("what Children of %T at %q returned", m, path), children)
			for name, child := range children {
				w.walk(path+"."+name, reflect.ValueOf(child), depth)
			}
			return
		}
		if v.Kind() == reflect.Struct && v.CanAddr() { // held by value, with methods of pointer receivers
			if m, ok := v.Addr().Interface().(Container); ok && !w.seen[m] {
				w.walk(path, v.Addr(), depth)
				return
			}
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		w.walk(path, v.Elem(), depth)
	case reflect.Slice, reflect.Array:
		if !holdsTensors(v.Type().Elem()) {
			return
		}
		for i := range v.Len() {
			w.walk(path+"."+strconv.Itoa(i), v.Index(i), depth)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name := f.Tag.Get("weft")
			if !f.IsExported() || name == "-" {
				continue
			}
			switch {
			case name != "":
				name = "." + name
			case !f.Anonymous: // the fields of an embedded struct are the model's own
				name = "." + strings.ToLower(f.Name)
			}
			w.walk(path+name, v.Field(i), depth)
		}
	}
}

var container = reflect.TypeFor[Container]()

// holdsTensors tells whether there may be tensors below a value of type t. Numbers by the million are not visited.
func holdsTensors(t reflect.Type) bool {
	if t.Implements(container) || reflect.PointerTo(t).Implements(container) {
		return true
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface:
		return true
	case reflect.Slice: // whose elements may be of type t
		e := t.Elem()
		return e.Kind() == reflect.Slice || e.Kind() == reflect.Struct || holdsTensors(e)
	case reflect.Array:
		return holdsTensors(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && holdsTensors(f.Type) {
				return true
			}
		}
	}
	return false
}

// Parameters lists the trainable tensors of a model, in the order of [Walk].
func Parameters(model any) []*Tensor {
	var ps []*Tensor
	Walk(model, func(_ string, t *Tensor) {
		if t.Trainable() {
			ps = append(ps, t)
		}
	})
	return ps
}
