package tensor

import (
	"iter"
	"reflect"
	"strings"

	"github.com/weft-ml/weft/internal/walk"
)

// Container is a part of a model that names its children itself; they are not found by its fields.
type Container interface {
	Children() iter.Seq2[string, any]
}

// Walk visits every parameter and state of a model once, in order, with its state-dict name: the path of field names in
// lower case, of indices and of map keys, such as "blocks.0.attn.qkv.weight". A model is a tensor, a struct, a slice,
// an array or a map, which is visited in the order of its keys, or a pointer or interface to one of these. A field tag
// `weft:"name"` gives another name, `weft:"-"` leaves the field out. A tensor reached twice (tied weights) keeps its
// first name. Unexported fields are not visited, but for embedded structs. Walk fails for what has no end or more than
// a million values.
func Walk(model any, visit func(name string, t *Tensor)) {
	Given("walk", "visit", visit)
	w := walker{visit: visit, seen: map[walk.Pointer]bool{}}
	w.walk("", reflect.ValueOf(model), 0)
}

type walker struct {
	visit  func(string, *Tensor)
	seen   map[walk.Pointer]bool
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
	if !v.IsValid() {
		return
	}
	if v.Kind() == reflect.Pointer {
		at := walk.PointerOf(v)
		if w.seen[at] || v.IsNil() {
			return
		}
		w.seen[at] = true
	}
	if v.Type() == reflect.TypeFor[*Tensor]() {
		t := v.Interface().(*Tensor)
		if t.root != nil && t.root.tensor == t {
			w.visit(strings.TrimPrefix(path, "."), t)
		}
		return
	}
	for p := range walk.Parts(v) {
		switch {
		case p.Hidden:
		case p.Name == "":
			w.walk(path, p.Value, depth)
		default:
			w.walk(path+"."+p.Name, p.Value, depth)
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
