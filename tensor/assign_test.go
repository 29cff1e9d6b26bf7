package tensor_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// TestAssignView compares assignments to views of parameters and state with the same on a Go slice.
func TestAssignView(t *testing.T) {
	dev := open(t)
	views := map[string]struct {
		of      func(x *tensor.Tensor) *tensor.Tensor
		indices []int // of a [3 4], in the order of the view
	}{
		"rows":    {func(x *tensor.Tensor) *tensor.Tensor { return x.Slice(0, 1, 3) }, []int{4, 5, 6, 7, 8, 9, 10, 11}},
		"columns": {func(x *tensor.Tensor) *tensor.Tensor { return x.Slice(1, 1, 3) }, []int{1, 2, 5, 6, 9, 10}},
		"steps":   {func(x *tensor.Tensor) *tensor.Tensor { return x.Slice(1, 0, 4, 3) }, []int{0, 3, 4, 7, 8, 11}},
		"transposed": {func(x *tensor.Tensor) *tensor.Tensor { return x.T() },
			[]int{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}},
		"column":  {func(x *tensor.Tensor) *tensor.Tensor { return x.Select(1, -1) }, []int{3, 7, 11}},
		"element": {func(x *tensor.Tensor) *tensor.Tensor { return x.Index(tensor.At(1), tensor.At(2)) }, []int{6}},
		"nothing": {func(x *tensor.Tensor) *tensor.Tensor { return x.Slice(0, 1, 1) }, nil},
	}
	for name, view := range views {
		for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.BFloat16, tensor.Int32, tensor.Bool} {
			for _, inStep := range []bool{false, true} {
				w, err := engine.NewState(dev, "w", dt, 3, 4)
				if err != nil {
					t.Fatal(err)
				}
				if dt.IsFloat() { // a parameter: its views are recorded when a step uses them
					w = nn.Parameter(nil, 3, 4)
					if err := engine.Place(dev, "", []string{"w"}, []*tensor.Tensor{w}, dt); err != nil {
						t.Fatal(err)
					}
				}
				want := make([]float64, 12)
				v := tensor.Arange(tensor.Float64, 1, float64(1+len(view.indices)), 1)
				for k, i := range view.indices {
					if want[i] = float64(k + 1); dt == tensor.Bool {
						want[i] = 1
					}
				}
				v = v.Reshape(view.of(w).Shape()...)
				if inStep {
					step(t, dev, func(s *tensor.Scope) { view.of(w).Assign(s.In(v)) })
				} else {
					view.of(w).Assign(v)
				}
				wantTensor(t, fmt.Sprint(name, " ", dt, " in step ", inStep), w.Detach(), dt, []int{3, 4}, want...)
			}
		}
	}
}

// A step writes all it has assigned, in order, or nothing.
func TestAssignViewsInStep(t *testing.T) {
	dev := open(t)
	w := matrix("w", 2, 2)
	step(t, dev, func(s *tensor.Scope) {
		w.Select(0, 0).Assign(s.Full(7, tensor.Float32))
		w.Select(1, 1).Assign(s.Full(8, tensor.Float32, 2))
		err := engine.Try(func() { s.In(w) })
		wantError(t, err, tensor.ErrVersion, "in", "was updated in this step")
	})
	wantFloats(t, "in order", w, 7, 8, 3, 8)

	failed := errors.New("failed")
	err := dev.Step(func(s *tensor.Scope) error {
		w.Select(1, 0).Assign(s.Full(0, tensor.Float32, 2))
		w.Select(0, 0).Assign(s.Full(0, tensor.Float32, 2))
		return failed
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	wantFloats(t, "after a failure", w, 7, 8, 3, 8)

	err = dev.Step(func(s *tensor.Scope) error {
		y := s.In(w).Square().Sum()
		s.In(w).Slice(0, 0, 1).Assign(s.Full(0, tensor.Float32, 1, 2))
		autograd.Backward(y)
		return nil
	})
	wantError(t, err, tensor.ErrVersion, "square", "assign after Backward")
	wantFloats(t, "after a backward pass that failed", w, 7, 8, 3, 8)
}

// Of the parameters of one arena those that are assigned wait for the commit, and no others.
func TestAssignInArena(t *testing.T) {
	dev := open(t)
	all := []*tensor.Tensor{nn.Parameter(nn.Ones, 3), nn.Parameter(nn.Ones, 40), nn.Parameter(nn.Ones, 5)}
	if err := nn.Init(dev, all); err != nil {
		t.Fatal(err)
	}
	for i, p := range all {
		step(t, dev, func(s *tensor.Scope) {
			p.Slice(0, 1, 3).Assign(s.Full(7, tensor.Float32, 2))
			for k, q := range all {
				if err := engine.Try(func() { s.In(q) }); (err != nil) != (k == i) {
					t.Errorf("parameter %d is assigned, reading %d: %v", i, k, err)
				}
			}
		})
	}
}

func TestAssignErrors(t *testing.T) {
	dev := open(t)
	w := matrix("w", 2, 2)
	row := tensor.Zeros(tensor.Float32, 2)
	wantMisuse(t, func() { w.Slice(0, 0, 1).Expand(2, 2).Assign(row) }, tensor.ErrStep,
		"assign: w float32[2 2] repeats elements of w float32[2 2] along axis 0; assign before Expand")
	wantMisuse(t, func() { w.Reshape(4).Unfold(0, 3, 1).Assign(row) }, tensor.ErrStep, "repeats elements of w")
	wantMisuse(t, func() { w.Select(0, 0).Assign(w) }, tensor.ErrShape,
		"assign: w float32[2 2] does not fit into w float32[2]")
	wantMisuse(t, func() { row.Slice(0, 0, 1).Assign(row) }, tensor.ErrStep,
		"assign: float32[1] is no parameter or state and no view of one")
	var none *tensor.Tensor
	wantMisuse(t, func() { none.Assign(row) }, tensor.ErrStep, "assign: an operand is nil")
	wantMisuse(t, func() { w.Assign(none) }, tensor.ErrStep, "assign: an operand is nil")

	st := nn.State(nil, 4)
	place := func() {
		if err := engine.Place(dev, "", []string{"st"}, []*tensor.Tensor{st}, tensor.Float32); err != nil {
			t.Fatal(err)
		}
	}
	wantMisuse(t, func() { st.Slice(0, 0, 2).Assign(row) }, tensor.ErrStep, "no values yet")
	place()
	old := st.Slice(0, 0, 2)
	place()
	wantMisuse(t, func() { old.Assign(row) }, tensor.ErrStep, "or was made before nn.Init")
}

func ExampleTensor_Assign() {
	dev, err := tensor.Open("cpu")
	check(err)
	defer dev.Close()
	cache, err := engine.NewState(dev, "cache", tensor.Float32, 3, 2)
	check(err)
	check(dev.Eval(func(s *tensor.Scope) error {
		row := s.In(tensor.FromSlice([]float32{1, 2}, 2))
		cache.Select(0, 1).Assign(row)
		cache.Index(tensor.From(2), tensor.At(0)).Assign(row.Sum())
		return nil
	}))
	fmt.Println(cache)
	// Output:
	// cache float32[3 2]
	// [[0. 0.]
	//  [1. 2.]
	//  [3. 0.]]
}
