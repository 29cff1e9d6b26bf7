package tensor

import (
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
// `weft:"-"` leaves the field out. A tensor reached twice (tied weights) keeps its first name.
func Walk(model any, visit func(name string, t *Tensor)) {
	w := walker{visit: visit, seen: map[any]bool{}}
	w.walk("", reflect.ValueOf(model))
}

type walker struct {
	visit func(string, *Tensor)
	seen  map[any]bool
}

func (w walker) walk(path string, v reflect.Value) {
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
			for name, child := range m.Children() {
				w.walk(path+"."+name, reflect.ValueOf(child))
			}
			return
		}
		if v.Kind() == reflect.Struct && v.CanAddr() { // held by value, with methods of pointer receivers
			if m, ok := v.Addr().Interface().(Container); ok && !w.seen[m] {
				w.walk(path, v.Addr())
				return
			}
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		w.walk(path, v.Elem())
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			w.walk(path+"."+strconv.Itoa(i), v.Index(i))
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
			w.walk(path+name, v.Field(i))
		}
	}
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
