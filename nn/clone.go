package nn

import (
	"cmp"
	"reflect"
	"slices"
	"strings"

	"github.com/weft-ml/weft/internal/walk"
	"github.com/weft-ml/weft/tensor"
)

// Clone is a deep copy of a model that [Init] has placed: parameters and states with the same names, types and values,
// and memory of their own on dev. Tied tensors stay tied, frozen ones frozen. All fields are copied, unexported ones,
// too. Functions, channels, host data and pointers that cannot lead to a parameter are shared with the original. No
// initial values are drawn; gradients, hooks and the state of optimizers stay behind. It waits for steps that update
// the model. The errors are of kind [tensor.ErrMemory], [tensor.ErrStep] where a parameter has not been placed, and
// [tensor.ErrValue] where a field holds a view of one, or a map whose keys lead to tensors, as an optim.EMA does.
func Clone[M any](dev *tensor.Device, model M) (M, error) {
	var none M
	find := &cloner{seen: map[walk.Pointer]reflect.Value{}}
	clone := &cloner{seen: map[walk.Pointer]reflect.Value{}, copies: map[*tensor.Tensor]*tensor.Tensor{}}
	err := engine.Try(func() {
		engine.Given("clone", "the model", model)
		first := model
		find.deepen(reflect.ValueOf(&first).Elem())
	})
	if err != nil {
		return none, err
	}
	var made, like []*tensor.Tensor
	for rest := find.tensors; len(rest) > 0; { // what is in one arena stays together, and in order
		arena, _, _ := engine.Arena(rest[0])
		var here, others []*tensor.Tensor
		for _, t := range rest {
			if a, _, _ := engine.Arena(t); a == arena {
				here = append(here, t)
			} else {
				others = append(others, t)
			}
		}
		slices.SortFunc(here, func(x, y *tensor.Tensor) int { return cmp.Compare(offset(x), offset(y)) })
		placed, err := engine.PlaceLike(dev, arena.DType(), here)
		if err != nil {
			return none, err
		}
		made, like, rest = append(made, placed...), append(like, here...), others
	}
	for i, t := range like {
		clone.copies[t] = made[i]
	}
	if err := engine.AssignAll(made, like); err != nil {
		return none, err
	}
	clone.deepen(reflect.ValueOf(&model).Elem())
	return model, nil
}

// offset is that of a tensor in its arena.
func offset(t *tensor.Tensor) int {
	_, lo, _ := engine.Arena(t)
	return lo
}

// cloner makes a copy of a value independent of the original.
type cloner struct {
	seen    map[walk.Pointer]reflect.Value // what pointers became
	copies  map[*tensor.Tensor]*tensor.Tensor
	tensors []*tensor.Tensor // found, if there are no copies yet
}

// deepen replaces what v, which can be set, refers to by copies.
func (c *cloner) deepen(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Map:
		c.refer(v)
	case reflect.Interface:
		if !v.IsNil() {
			held := reflect.New(v.Elem().Type()).Elem()
			held.Set(v.Elem())
			c.deepen(held)
			v.Set(held)
		}
	case reflect.Slice:
		if !v.IsNil() {
			s := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(s, v)
			v.Set(s)
			c.elements(v)
		}
	case reflect.Array:
		c.elements(v)
	case reflect.Struct:
		if v.Type().PkgPath() == tensorType.Elem().PkgPath() {
			return
		}
		for i := range v.NumField() {
			f := v.Field(i)
			c.deepen(reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem()) // an unexported field can be set so
		}
	}
}

// elements deepens those of a slice or an array.
func (c *cloner) elements(v reflect.Value) {
	for i := range v.Len() {
		c.deepen(v.Index(i))
	}
}

// refer deepens a pointer or a map, once.
func (c *cloner) refer(v reflect.Value) {
	if v.IsNil() || v.Kind() == reflect.Pointer && !mayHold(v.Type(), map[reflect.Type]bool{}) {
		return
	}
	if t, ok := v.Interface().(*tensor.Tensor); ok {
		c.tensor(v, t)
		return
	}
	at := walk.PointerOf(v)
	if known, ok := c.seen[at]; ok {
		v.Set(known)
		return
	}
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()).Convert(v.Type()))
		c.seen[at] = v
		v.Elem().Set(old.Elem())
		c.deepen(v.Elem())
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), old.Len()))
	c.seen[at] = v
	for entries := old.MapRange(); entries.Next(); {
		key := entries.Key()
		if key.Kind() == reflect.Interface {
			key = key.Elem()
		}
		if key.IsValid() && mayHold(key.Type(), map[reflect.Type]bool{}) {
			engine.Fail(tensor.ErrValue, "clone", "the model holds a %v, whose keys lead to tensors, as an optim.EMA "+
				"does; make one for the copy", v.Type())
		}
		e := reflect.New(v.Type().Elem()).Elem()
		e.Set(entries.Value())
		c.deepen(e)
		v.SetMapIndex(entries.Key(), e)
	}
}

// tensor replaces t, which v holds, or notes that it is there.
func (c *cloner) tensor(v reflect.Value, t *tensor.Tensor) {
	switch origin := t.Origin(); {
	case origin == nil: // data, which nothing changes
	case origin != t:
		engine.Fail(tensor.ErrValue, "clone", "the model holds %v, a view or copy of %v; make it in Forward", t, origin)
	case c.copies != nil:
		v.Set(reflect.ValueOf(c.copies[t]))
	case !slices.Contains(c.tensors, t):
		engine.Arena(t) // fails if nothing has placed it
		c.tensors = append(c.tensors, t)
	}
}

// CopyTo gives the parameters and states of dst the values that those of src with the same state-dict names have,
// converted to their types: all of them or, with an error, none. The error is of kind [tensor.ErrValue] and lists all
// names that one of the models lacks, or [tensor.ErrShape] and lists those of other shapes. It waits for steps that use
// the models, and is not for use in a step that does.
func CopyTo(dst, src any) error {
	var to, from []*tensor.Tensor
	err := engine.Try(func() {
		engine.Given("copy", "dst", dst)
		engine.Given("copy", "src", src)
		values := map[string]*tensor.Tensor{}
		Walk(src, func(name string, t *tensor.Tensor) { values[name] = t })
		var missing, misshapen []string
		Walk(dst, func(name string, t *tensor.Tensor) {
			v := values[name]
			delete(values, name)
			switch {
			case v == nil:
				missing = append(missing, name)
			case !slices.Equal(t.Shape(), v.Shape()):
				misshapen = append(misshapen, t.String()+" from "+v.String())
			case t != v:
				to, from = append(to, t), append(from, v)
			}
		})
		var extra []string
		for name := range values {
			extra = append(extra, name)
		}
		slices.Sort(extra)
		list := func(names []string) string { return "[" + strings.Join(names, ", ") + "]" }
		if len(missing)+len(extra) > 0 {
			engine.Fail(tensor.ErrValue, "copy", "src lacks %s, dst lacks %s, of other shapes are %s", list(missing),
				list(extra), list(misshapen))
		}
		if len(misshapen) > 0 {
			engine.Fail(tensor.ErrShape, "copy", "of other shapes are %s", list(misshapen))
		}
	})
	if err != nil {
		return err
	}
	return engine.AssignAll(to, from)
}
