package tensor_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// A device whose counters are set goes on with the random numbers of another one, in steps and evaluations.
func TestCounters(t *testing.T) {
	open := func() *tensor.Device {
		dev, err := tensor.Open("cpu", tensor.Seed(5))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
		return dev
	}
	draw := func(dev *tensor.Device) (v []float32) {
		t.Helper()
		f := func(s *tensor.Scope) error {
			v = append(v, tensor.ToSlice[float32](s.Uniform(0, 1, 8))...)
			return nil
		}
		if err := errors.Join(dev.Step(f), dev.Eval(f)); err != nil {
			t.Fatal(err)
		}
		return v
	}
	old := open()
	for range 3 {
		draw(old)
	}
	if err := old.Eval(func(*tensor.Scope) error { return nil }); err != nil {
		t.Fatal(err)
	}
	c := engine.Counters(old)
	if want := (seam.Counters{Steps: 3, Evals: 4}); c != want || old.Stats().Steps != 3 || old.Stats().Evals != 4 {
		t.Fatalf("counters %+v, want %+v", c, want)
	}
	now, want := open(), draw(old)
	for _, counters := range []seam.Counters{{}, {Steps: 3}, {Evals: 4}, c} {
		if err := engine.SetCounters(now, counters); err != nil {
			t.Fatal(err)
		}
		if got := draw(now); slices.Equal(got, want) != (counters == c) {
			t.Errorf("after %+v %v, want those of %+v: %v", counters, got, c, want)
		}
	}

	before := engine.Counters(now)
	refused := func(c seam.Counters, kind error) {
		t.Helper()
		var typed *tensor.Error
		err := engine.SetCounters(now, c)
		if !errors.As(err, &typed) || !errors.Is(err, kind) || typed.Op != "set_counters" {
			t.Errorf("%v, want %v", err, kind)
		}
	}
	refused(seam.Counters{Steps: 1 << 60}, tensor.ErrValue)
	refused(seam.Counters{Evals: 1 << 60}, tensor.ErrValue)
	for _, run := range []func(func(*tensor.Scope) error, ...tensor.Option) error{now.Step, now.Eval} {
		boom := errors.New("boom")
		if err := run(func(s *tensor.Scope) error {
			refused(seam.Counters{}, tensor.ErrBusy)
			return boom
		}); err != boom {
			t.Error(err)
		}
	}
	if engine.Counters(now) != before {
		t.Errorf("refused counters were set: %+v", engine.Counters(now))
	}
	now.Close()
	refused(seam.Counters{}, tensor.ErrDevice)
	now = nil
	refused(seam.Counters{}, tensor.ErrDevice)
}
