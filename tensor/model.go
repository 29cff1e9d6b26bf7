package tensor

import (
	"reflect"
	"strings"

	"github.com/weft-ml/weft/internal/walk"
)

// walkModel visits every parameter and state of a model once; nn.Walk documents it.
func walkModel(model any, visit func(name string, t *Tensor)) {
	given("walk", "visit", visit)
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
		fail(ErrValue, "walk", "the model has more than %d values, the last of them at %q", maxVisits, path)
	}
	if depth++; depth > maxDepth {
		fail(ErrValue, "walk", "the model is nested more than %d deep at %q; does it hold itself?", maxDepth, path)
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

// parameters lists the trainable tensors of a model.
func parameters(model any) []*Tensor {
	var ps []*Tensor
	walkModel(model, func(_ string, t *Tensor) {
		if t.Trainable() {
			ps = append(ps, t)
		}
	})
	return ps
}
