//go:build linux

package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"iter"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// A value is an argument, and what it is in words.
type value struct {
	v    reflect.Value
	text string
}

func is(text string, x any) value { return value{reflect.ValueOf(x), text} }

// twice is an operation of a user.
var twice = tensor.MustPointwise("twice", "a*x + y", []string{"x", "y"}, "a")

// userPanic is what functions of the attacker panic with: it must arrive at the caller.
type userPanic struct{}

// most is how many values of a type are kept from the results of earlier calls.
const most = 12

// add keeps a value for later calls, in the place of another if there are enough.
func (w *world) add(x value) {
	t := x.v.Type()
	if t.Kind() == reflect.Pointer && x.v.IsNil() {
		return
	}
	if y, ok := x.v.Interface().(*tensor.Tensor); ok && y.Len() > 1<<16 {
		return // an operation on an enormous view takes as long as it was asked to
	}
	if have := w.pool[t]; len(have) < most {
		w.pool[t] = append(have, x)
	} else {
		have[w.rng.IntN(most)] = x
	}
}

// arg is an argument of type t.
func (w *world) arg(t reflect.Type, depth int) value {
	switch t {
	case reflect.TypeFor[*tensor.Tensor]():
		return w.tensor()
	case reflect.TypeFor[*tensor.Scope]():
		return pick(w, is("the step", w.step), is("the step", w.step), is("another step", w.foreign),
			is("an ended step", w.ended), is("nil", (*tensor.Scope)(nil)))
	case reflect.TypeFor[*tensor.Device]():
		return pick(w, is("the device", w.dev), is("the device", w.dev), is("the device", w.dev), is("null", w.null),
			is("a closed device", closedCPU), is("a closed null", closedNull),
			is("a closed second", closedSecond), is("nil", (*tensor.Device)(nil)))
	case reflect.TypeFor[tensor.DType]():
		dt := kernels.DTypeOf(w.rng.IntN(8))
		return is(dt.String(), dt)
	case reflect.TypeFor[tensor.RandomSeed]():
		return is("a seed", tensor.Seed(uint64(w.int())))
	case reflect.TypeFor[optim.Rule]():
		return pick(w, is("AdamW", optim.AdamW(0.1)), is("SGD", optim.SGD(0.1)), is("Lion", optim.Lion(0.1)),
			is("LAMB", optim.LAMB(0.1)),
			is("Muon", optim.Muon(0.1)),
			is("no rule", optim.Rule{}), is("a rule that does not fit", optim.Rule{Name: "bad", LR: math.NaN(),
				Update: "p - ", State: []string{"p", "p"}}))
	case reflect.TypeFor[*tensor.Op]():
		if w.rng.IntN(2) == 0 { // those of the library are called by their methods, which know their attributes
			return pick(w, is("twice", twice), is("twice", twice), is("nil", (*tensor.Op)(nil)))
		}
	case reflect.TypeFor[[]byte]():
		return pick(w, is("nil", []byte(nil)), is("an IDX file", bytes.Clone(idx)),
			is("half an IDX file", bytes.Clone(idx[:9])), is("text", bytes.Clone(text)))
	}
	if have := w.pool[t]; len(have) > 0 && w.rng.IntN(2) == 0 {
		return have[w.rng.IntN(len(have))]
	}
	return w.made(t, depth)
}

// made is a new value, by the kind of its type.
func (w *world) made(t reflect.Type, depth int) value {
	switch k := t.Kind(); {
	case k == reflect.Bool:
		b := w.rng.IntN(2) == 0
		return value{reflect.ValueOf(b).Convert(t), fmt.Sprint(b)}
	case k >= reflect.Int && k <= reflect.Int64:
		n := w.int()
		return value{reflect.ValueOf(n).Convert(t), fmt.Sprint(n)}
	case k >= reflect.Uint && k <= reflect.Uintptr:
		n := uint64(w.int())
		return value{reflect.ValueOf(n).Convert(t), fmt.Sprint(n)}
	case k == reflect.Float32 || k == reflect.Float64:
		f := floats[w.rng.IntN(len(floats))]
		return value{reflect.ValueOf(f).Convert(t), fmt.Sprint(f)}
	case k == reflect.String:
		s := w.strings[w.rng.IntN(len(w.strings))]
		return value{reflect.ValueOf(s).Convert(t), fmt.Sprintf("%.20q", s)}
	case k == reflect.Slice:
		return w.slice(t, depth)
	case k == reflect.Array:
		return w.fields(reflect.New(t).Elem(), depth)
	case k == reflect.Map:
		m := reflect.MakeMap(t)
		for range w.rng.IntN(3) {
			m.SetMapIndex(w.arg(t.Key(), depth+1).v, w.arg(t.Elem(), depth+1).v)
		}
		return value{m, t.String()}
	case k == reflect.Func:
		return w.function(t)
	case k == reflect.Interface:
		return w.implementation(t)
	case k == reflect.Pointer:
		return w.pointer(t, depth)
	case k == reflect.Struct:
		return w.fields(reflect.New(t).Elem(), depth)
	}
	return value{reflect.Zero(t), "zero " + t.String()}
}

// opaque are types with exported fields, or settings of options, that only the library makes.
var opaque = []reflect.Type{reflect.TypeFor[*optim.Optimizer](), reflect.TypeFor[*optim.LBFGS](),
	reflect.TypeFor[*tensor.Op](),
	reflect.TypeFor[*autograd.Ctx](), reflect.TypeFor[*data.FormatError](), reflect.TypeFor[*nn.Report]()}

// pointer is nil, or points to a struct whose fields are set, or zero. What only the library makes is nil here.
func (w *world) pointer(t reflect.Type, depth int) value {
	s, made := t.Elem(), reflect.New(t.Elem())
	switch {
	case !ast.IsExported(s.Name()):
		return value{made, "settings"} // of options, which the library applies
	case w.rng.IntN(3) == 0 || slices.Contains(opaque, t) || !slices.ContainsFunc(reflect.VisibleFields(s),
		func(f reflect.StructField) bool { return f.IsExported() }):
		return value{reflect.Zero(t), "nil " + t.String()}
	case w.rng.IntN(2) == 0 || depth > 3:
		return value{made, "zero " + t.String()}
	}
	return value{made, "&" + w.fields(made.Elem(), depth).text}
}

// pick is one of the given values.
func pick(w *world, from ...value) value { return from[w.rng.IntN(len(from))] }

var floats = []float64{0, 1, 0.5, 1e-5, 2, 0, 1, 0.5, 1e-5, 0.1, math.Copysign(0, -1), -1, -0.5, 1e-300, 1e300,
	math.MaxFloat64, math.NaN(), math.Inf(1), math.Inf(-1)}

// int is mostly small, and never of a size that the machine could have and would take long.
func (w *world) int() int {
	switch n := w.rng.IntN(20); {
	case n < 14:
		return w.rng.IntN(7) - 2
	case n < 16:
		return 5 + w.rng.IntN(12)
	case n == 16:
		return 60 + w.rng.IntN(40)
	}
	huge := []int{math.MaxInt, math.MinInt, math.MaxInt - 1, math.MinInt + 1, 1 << 62, 1 << 61, 1 << 48, 1 << 47,
		1 << 40,
		1 << 33, 1<<32 + 1, 1 << 32, 1<<32 - 1, 1 << 31, math.MaxInt32, math.MinInt32, -1 << 40, tensor.End}
	return huge[w.rng.IntN(len(huge))]
}

// slice is nil, empty, or has elements; numbers are mostly a shape that others fit.
func (w *world) slice(t reflect.Type, depth int) value {
	if t.Elem().Kind() == reflect.Int && w.rng.IntN(2) == 0 {
		shape := shapes[w.rng.IntN(len(shapes))]
		return value{reflect.ValueOf(shape).Convert(t), fmt.Sprint(shape)}
	}
	n := w.rng.IntN(5)
	if w.rng.IntN(30) == 0 {
		n = 9 + w.rng.IntN(60)
	}
	if n == 0 || depth > 3 {
		return value{reflect.Zero(t), "nil " + t.String()}
	}
	v, texts := reflect.MakeSlice(t, n, n), []string{}
	for i := range n {
		x := w.arg(t.Elem(), depth+1)
		v.Index(i).Set(x.v)
		texts = append(texts, x.text)
	}
	return value{v, "{" + strings.Join(texts, ", ") + "}"}
}

// fields fills some of the exported fields of a struct, or the elements of an array.
func (w *world) fields(v reflect.Value, depth int) value {
	var texts []string
	if v.Kind() == reflect.Array {
		for i := range v.Len() {
			x := w.arg(v.Type().Elem(), depth+1)
			v.Index(i).Set(x.v)
			texts = append(texts, x.text)
		}
		return value{v, v.Type().String() + "{" + strings.Join(texts, ", ") + "}"}
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && w.rng.IntN(4) > 0 && depth <= 3 {
			x := w.arg(f.Type, depth+1)
			v.Field(i).Set(x.v)
			texts = append(texts, f.Name+": "+x.text)
		}
	}
	return value{v, v.Type().String() + "{" + strings.Join(texts, ", ") + "}"}
}

// function is nil, or gives back something of the right types, or panics.
func (w *world) function(t reflect.Type) value {
	how := w.rng.IntN(12)
	if how == 0 {
		return value{reflect.Zero(t), "nil func"}
	}
	name := "a function"
	if how == 1 {
		name = "a function that panics"
	}
	return value{reflect.MakeFunc(t, func(args []reflect.Value) (out []reflect.Value) {
		if how == 1 {
			panic(userPanic{})
		}
		if w.calls++; w.calls > 1000 {
			panic(userPanic{}) // an endless sequence
		}
		for _, a := range args {
			if slices.Contains(opaque, a.Type()) {
				w.add(value{a, "a kept " + a.Type().String()})
			}
		}
		for i := range t.NumOut() {
			out = append(out, w.result(t.Out(i), args, how))
		}
		return out
	}), name}
}

// result is one of a function's, made from its arguments where that is possible.
func (w *world) result(t reflect.Type, args []reflect.Value, how int) reflect.Value {
	if how < 4 {
		return reflect.Zero(t)
	}
	for _, a := range args {
		if x, ok := a.Interface().(*tensor.Tensor); ok && t == a.Type() && how > 6 {
			return reflect.ValueOf(x.Square())
		}
		if s, ok := a.Interface().(*tensor.Scope); ok && s != nil && how > 6 {
			s.Full(1, tensor.Float32, 2).Sum()
		}
		if a.Type() == t && how > 4 {
			return a
		}
		if a.Type() == reflect.SliceOf(t) && a.Len() > 0 && how > 4 {
			return a.Index(w.rng.IntN(a.Len()))
		}
	}
	return w.arg(t, 3).v
}

// implementation is a value of an interface type.
func (w *world) implementation(t reflect.Type) value {
	if w.rng.IntN(8) == 0 {
		return value{reflect.Zero(t), "nil"}
	}
	var have []value
	for _, x := range w.things {
		if x.v.IsValid() && x.v.Type().Implements(t) {
			have = append(have, x)
		}
	}
	if len(have) == 0 || w.rng.IntN(8) == 0 {
		for _, c := range types {
			if x := w.arg(c, 3); c.Implements(t) && !isNil(x.v) {
				have = append(have, x)
			}
		}
	}
	if len(have) == 0 {
		return value{reflect.Zero(t), "nil"}
	}
	return pick(w, have...)
}

// shapes fit to each other often.
var shapes = [][]int{{2, 3}, {2, 3}, {3}, {3, 3}, {}, {1}, {2}, {0, 3}, {2, 1, 3}, {1, 2, 6}, {1, 2, 2, 3}, {6}, {4, 5}}

// files that can be read, and one that is none.
var (
	idx  = []byte{0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6}
	text = []byte(strings.Repeat("to be or not to be. ", 20))
)

// thingsOf are values for interfaces.
func thingsOf() (names []string, things []value) {
	names = []string{"", "x", "y", "cpu", "cpu:1", "cuda:99", "null", "second", "auto", "x*y", "x + ", "exp(x)/y; x",
		"((x",
		strings.Repeat("(", 100_000), strings.Repeat("x+", 2000) + "x", "weight", "\x00", ".", "idx", "text", "none",
		"/dev/zero"}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	small, err := data.NewImages(make([]uint8, 12), 6, []uint8{0, 1}, 255, 3)
	if err != nil {
		panic(err)
	}
	loop := &cycle{}
	loop.Next = loop
	things = []value{is("a context", context.Background()), is("a context that is done", ctx), is("an error",
		errors.New("e")),
		is("ErrValue", tensor.ErrValue), is("a buffer", &bytes.Buffer{}), is("a full disk", full{}), is("images",
			small),
		is("poison", tensor.Poison()), is("a limit", tensor.MemoryLimit(1<<20)), is("a container", nothing{}),
		is("an endless model", endless{}),
		is("a cyclic model", loop), is("a function", func() {}), is("a number", 3), is("a model of nothing",
			&struct{ A any }{}),
		is("a nil function", nn.Func(nil)), is("ReLU", nn.ReLU),
		is("a module that returns nil", nn.Func(func(*tensor.Tensor) *tensor.Tensor { return nil })),
		is("no children", nothing{}), is("a data set that lies", liar{}), is("a deep slice", deep(5000)),
		is("a map", map[string]int{}), is("a channel", make(chan int)), is("an array of functions", [2]func(){})}
	return names, things
}

// deep is a slice of a slice of a slice.
func deep(n int) any {
	var x any
	for range n {
		x = []any{x}
	}
	return x
}

// A cycle is a model that contains itself.
type cycle struct{ Next *cycle }

// endless is a model with children of children without end.
type endless struct{}

func (endless) Children() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) { yield("child", endless{}) }
}

// nothing is a container that has no sequence of children.
type nothing struct{}

func (nothing) Children() iter.Seq2[string, any] { return nil }

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

// liar is a data set that does not keep what its length promises.
type liar struct{}

func (liar) Len() int                        { return math.MaxInt }
func (liar) Batch([]int) (data.Batch, error) { return data.Batch{}, nil }
