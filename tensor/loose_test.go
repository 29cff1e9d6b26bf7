package tensor_test

import (
	"runtime"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// TestLongLoop: a loop of small operations in one Eval frees as it goes, and what the program still has stays right:
// kept, viewed, handed to a region for the last time.
func TestLongLoop(t *testing.T) {
	dev := open(t)
	runtime.GC()
	dev.ResetPeak()
	before := dev.Stats().Memory
	var kept, late *tensor.Tensor
	err := dev.Eval(func(s *tensor.Scope) error {
		x := s.Full(1, tensor.Float32, 8)
		first := x.AddScalar(0)
		var seen, views []*tensor.Tensor
		var old *tensor.Tensor
		for i := range 140_000 {
			x = x.AddScalar(1)
			if i%10_000 == 5000 {
				seen = append(seen, x)
				views = append(views, x.Slice(0, 2, 4))
			}
			if i%10_000 == 0 {
				runtime.GC() // it comes by itself later
			}
			switch i {
			case 10_001:
				old = x
			case 20_000:
				kept = x.Keep()
				old.Keep() // and dropped at once: its memory comes back once
				old = nil
			}
		}
		late = x
		for i, y := range seen {
			want := float32(10_000*i + 5002)
			if v, w := tensor.ToSlice[float32](y)[7], tensor.ToSlice[float32](views[i])[1]; v != want || w != want {
				t.Errorf("value %d is %v, its view %v, want %v", i, v, w, want)
			}
		}
		if v := tensor.ToSlice[float32](first)[0]; v != 1 {
			t.Errorf("the first is %v", v)
		}
		out := s.Region("r", func() []*tensor.Tensor { return []*tensor.Tensor{first.AddScalar(1)} }, first)
		if v := tensor.ToSlice[float32](out[0])[0]; v != 2 {
			t.Errorf("in a region: %v", v)
		}
		wantError(t, engine.Try(func() { first.Neg() }), tensor.ErrStep, "region r")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	after := dev.Stats().Memory
	if grown := after.Peak.Allocated - before.Allocated; grown > 16<<20 {
		t.Errorf("at most %d MiB, where all of them are 68", grown>>20)
	} else {
		t.Logf("at most %d KiB", grown>>10)
	}
	if after.Blocks != before.Blocks {
		t.Errorf("%d blocks live before, %d after", before.Blocks, after.Blocks)
	}
	wantError(t, engine.Try(func() { late.Neg() }), tensor.ErrStep, "its step")
	if v := tensor.ToSlice[float32](kept)[3]; v != 20_002 {
		t.Errorf("kept: %v", v)
	}
}
