package tensor_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// two are parameters of one element each, in arenas of their own, on a device.
func two(t *testing.T) (dev *tensor.Device, v, w *tensor.Tensor) {
	t.Helper()
	return open(t), nn.ParameterOf("v", tensor.FromSlice([]float32{0}, 1)),
		nn.ParameterOf("w", tensor.FromSlice([]float32{0}, 1))
}

// inTime fails the test if f takes as long as a deadlock does.
func inTime(t *testing.T, f func()) {
	t.Helper()
	done := make(chan bool, 1)
	go func() {
		defer func() { done <- true }() // also if f ends the test
		f()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("steps wait for each other")
	}
}

// increment adds 1 to w.
func increment(dev *tensor.Device, w *tensor.Tensor) error {
	return dev.Step(func(s *tensor.Scope) error { w.Assign(s.In(w).AddScalar(1)); return nil }, tensor.Wait())
}

// Steps that read a value and write the next one lose no update, evaluations see no half of one, and none fails.
func TestWait(t *testing.T) {
	dev := open(t)
	w := nn.ParameterOf("w", tensor.Zeros(tensor.Float32, 1000))
	inTime(t, func() {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 50 {
					if err := increment(dev, w); err != nil {
						t.Error(err)
					}
				}
			})
			wg.Go(func() {
				for range 200 {
					err := dev.Eval(func(s *tensor.Scope) error {
						x := s.In(w)
						if lo, hi := x.Min().Item(), x.Max().Item(); lo != hi {
							return fmt.Errorf("values from %v to %v", lo, hi)
						}
						return nil
					}, tensor.Wait())
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	})
	if got := tensor.ToSlice[float32](w)[0]; got != 200 {
		t.Errorf("200 updates made %v", got)
	}
}

// Requests are granted in order: an evaluation that comes after an update that waits sees what that wrote, and does not
// hold it up.
func TestWaitOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev, _, w := two(t)
		var seen []float32
		read := func(s *tensor.Scope) { seen = append(seen, float32(s.In(w).Item())) }
		var wg sync.WaitGroup
		err := dev.Eval(func(s *tensor.Scope) error {
			read(s)
			wg.Go(func() {
				if err := increment(dev, w); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait() // the update waits
			wg.Go(func() {
				if err := dev.Eval(func(s *tensor.Scope) error { read(s); return nil }, tensor.Wait()); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
			if len(seen) != 1 {
				t.Error("an evaluation went ahead of an older update")
			}
			err := dev.Eval(func(s *tensor.Scope) error { return nil })
			return errors.Join(err, dev.Eval(func(s *tensor.Scope) error { read(s); return nil }, tensor.Wait()))
		}) // the last one is part of what the update waits for, so it goes ahead
		wg.Wait()
		if err != nil || !slices.Equal(seen, []float32{0, 0, 1}) {
			t.Errorf("evaluations saw %v, error %v", seen, err)
		}
	})
}

// Of steps that read a value and then write it the second one waits before it reads.
func TestWaitTraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev, _, w := two(t)
		var wg sync.WaitGroup
		err := dev.Step(func(s *tensor.Scope) error {
			x := s.In(w)
			wg.Go(func() {
				if err := increment(dev, w); err != nil {
					t.Error("the second step:", err)
				}
			})
			synctest.Wait()
			w.Assign(x.AddScalar(1))
			return nil
		}, tensor.Wait())
		wg.Wait()
		if got := tensor.ToSlice[float32](w)[0]; err != nil || got != 2 {
			t.Errorf("two updates made %v, error %v", got, err)
		}
	})
}

// What would wait for ever is an error.
func TestWaitForItself(t *testing.T) {
	dev, v, w := two(t)
	one := tensor.Ones(tensor.Float32, 1)
	inTime(t, func() {
		err := dev.Eval(func(s *tensor.Scope) error { s.In(w); return increment(dev, w) }, tensor.Wait())
		wantError(t, err, tensor.ErrBusy, "w float32[1]", "wait for each other")
		wantError(t, dev.Eval(func(s *tensor.Scope) error {
			s.In(w)
			return engine.AssignAll([]*tensor.Tensor{v, w}, []*tensor.Tensor{one, one})
		}), tensor.ErrBusy, "w float32[1]")
	})
	if got := tensor.ToSlice[float32](v)[0]; got != 0 {
		t.Errorf("a failed AssignAll wrote %v", got)
	}
}

// Of two steps that take two models in opposite order one fails, and the other goes on.
func TestWaitOpposite(t *testing.T) {
	dev, v, w := two(t)
	errs := make([]error, 2)
	inTime(t, func() {
		var both, wg sync.WaitGroup
		both.Add(2)
		for i, order := range [][]*tensor.Tensor{{v, w}, {w, v}} {
			wg.Go(func() {
				errs[i] = dev.Step(func(s *tensor.Scope) error {
					s.In(order[0])
					both.Done()
					both.Wait()
					order[1].Assign(s.In(order[1]).AddScalar(1))
					return nil
				}, tensor.Wait())
			})
		}
		wg.Wait()
	})
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Fatal("errors:", errs)
	}
	wantError(t, errors.Join(errs...), tensor.ErrBusy, "wait for each other")
	if sum := tensor.ToSlice[float32](v)[0] + tensor.ToSlice[float32](w)[0]; sum != 1 {
		t.Errorf("the steps added %v", sum)
	}
}

func TestAssignAll(t *testing.T) {
	dev, v, w := two(t)
	made, err := engine.PlaceLike(dev, tensor.Float64, []*tensor.Tensor{v, w})
	if err != nil {
		t.Fatal(err)
	}
	if a, _, _ := engine.Arena(made[0]); made[1].Name() != "w" || made[0].DType() != tensor.Float64 || a.Len() != 32 ||
		!made[0].Trainable() || made[0].Device() != dev {
		t.Errorf("%+v and %+v in an arena of %d", made[0], made[1], a.Len())
	}
	if err := engine.AssignAll(made, []*tensor.Tensor{tensor.Ones(tensor.Int64, 1), v}); err != nil {
		t.Fatal(err)
	}
	if got := tensor.ToSlice[int](made[0])[0]; got != 1 {
		t.Errorf("the value is %v", got)
	}
	wantError(t, engine.AssignAll(made, made[:1]), tensor.ErrValue, "2 tensors to assign to, 1 values")
	err = engine.AssignAll(made[:1], []*tensor.Tensor{tensor.Ones(tensor.Int64)})
	wantError(t, err, tensor.ErrShape, "v float64[1]")
	wantError(t, engine.AssignAll(made[:1], []*tensor.Tensor{nil}), tensor.ErrStep, "nil")
	_, err = engine.PlaceLike(dev, tensor.Float64, []*tensor.Tensor{v.Reshape(1, 1)})
	wantError(t, err, tensor.ErrValue, "view")
	_, err = engine.PlaceLike(dev, tensor.Float32, []*tensor.Tensor{tensor.Ones(tensor.Float32, 1)})
	wantError(t, err, tensor.ErrStep, "placed")
}
