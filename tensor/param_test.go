package tensor_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// A Place that fails changes nothing: parameters without memory stay so, placed ones keep theirs, and the next step
// draws what it would have drawn.
func TestPlaceFails(t *testing.T) {
	bad := errors.New("of the program")
	var fail any // what the initializer of last panics with
	last := func(x []float64, _ []int, r nn.Random) {
		if e, ok := fail.(*tensor.Error); ok {
			engine.Fail(e.Kind, "init", "%s", e.Msg)
		} else if fail != nil {
			panic(fail)
		}
		nn.Ones(x, nil, r)
	}
	draw := func(dev *tensor.Device) (v []float32) {
		step(t, dev, func(s *tensor.Scope) { v = tensor.ToSlice[float32](s.Full(1, tensor.Float32, 64).Dropout(0.5)) })
		return v
	}
	want := draw(open(t, tensor.Seed(3)))

	dev := open(t, tensor.Seed(3))
	placed, w, state := nn.Parameter(nn.Ones, 3), nn.Parameter(nn.Normal(0, 1), 2, 3), nn.State(last, 4)
	if err := engine.Place(dev, "", []string{"placed"}, []*tensor.Tensor{placed}, tensor.Float32); err != nil {
		t.Fatal(err)
	}
	arena, _, _ := engine.Arena(placed)
	live := dev.Stats().Memory.Blocks
	names, all := []string{"placed", "w", "state"}, []*tensor.Tensor{placed, w, state}
	place := func(names []string, all []*tensor.Tensor) error {
		return engine.Place(dev, "", names, all, tensor.Float32)
	}
	for what, err := range map[string]func() error{
		"a typed error": func() error {
			fail = &tensor.Error{Kind: tensor.ErrShape, Msg: "no"}
			return place(names, all)
		},
		"a panic": func() (err error) {
			fail = bad
			defer func() { err, _ = recover().(error) }()
			return place(names, all)
		},
		"one given twice": func() error { fail = nil; return place([]string{"w", "v"}, []*tensor.Tensor{w, w}) },
		"nil":             func() error { return place([]string{"w", "v"}, []*tensor.Tensor{w, nil}) },
		"no name":         func() error { return place([]string{"w"}, []*tensor.Tensor{w, state}) },
		"two of a name":   func() error { return place([]string{"w", "w"}, []*tensor.Tensor{w, state}) },
		"no memory": func() error {
			return place([]string{"w", "huge"}, []*tensor.Tensor{w, nn.State(nil, 1<<23, 1<<23)})
		},
	} {
		if err() == nil {
			t.Errorf("%s: no error", what)
		}
		if a, _, _ := engine.Arena(placed); a != arena || placed.Name() != "placed" {
			t.Errorf("%s: %v has another arena", what, placed)
		}
		if w.Device() != nil || w.Name() != "" || state.Device() != nil {
			t.Errorf("%s: %v has memory", what, w)
		}
		if now := dev.Stats().Memory.Blocks; now != live {
			t.Errorf("%s: %d blocks are live, %d before", what, now, live)
		}
	}
	if !slices.Equal(draw(dev), want) {
		t.Error("the step after it draws other numbers")
	}
	fail = nil
	if err := place(names, all); err != nil || tensor.ToSlice[float32](state)[3] != 1 {
		t.Error(err)
	}
	if a, _, _ := engine.Arena(w); a == arena || len(engine.Params(a)) != 2 {
		t.Errorf("parameters %v", engine.Params(a))
	}
}

// A parameter that is placed anew leaves a gap among those that were placed with it.
func TestPlaceAnew(t *testing.T) {
	dev := open(t)
	var all []*tensor.Tensor
	for range 3 {
		all = append(all, nn.Parameter(nn.Ones, 20))
	}
	place := func(names []string, all []*tensor.Tensor) {
		if err := engine.Place(dev, "", names, all, tensor.Float32); err != nil {
			t.Fatal(err)
		}
	}
	place([]string{"a", "b", "c"}, all)
	for _, anew := range [][]*tensor.Tensor{{nn.Parameter(nn.Ones, 100), all[1]}, {all[1]}} { // behind c, and before
		place([]string{"first", "b"}[2-len(anew):], anew)
		step(t, dev, func(s *tensor.Scope) {
			loss := s.Full(0, tensor.Float32)
			for i := range all { // c first, whose gradient is then overwritten if that of a is too long
				k := len(all) - 1 - i
				loss = loss.Add(s.In(all[k]).Scale(float64(k + 1)).Sum())
			}
			autograd.Backward(loss)
		})
		for k, p := range all {
			want := float32(k + 1)
			for _, g := range tensor.ToSlice[float32](p.Grad()) {
				if g != want {
					t.Fatalf("the gradient of %v is %v, want %v", p, p.Grad(), want)
				}
			}
		}
		for _, p := range all {
			p.ClearGrads()
		}
	}
}
