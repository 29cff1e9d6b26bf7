package tensor_test

import (
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/tensor"
)

// TestStepWaitsAfterGivenUp: a call of several operations is waited for also when one before it was given up.
func TestStepWaitsAfterGivenUp(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("goroutines cannot be told apart")
	}
	dev := open(t)
	var held atomic.Bool
	running, returned, ended := make(chan bool), make(chan bool, 1), make(chan error, 1)
	var given error
	var got []float32
	err := dev.Step(func(s *tensor.Scope) error {
		x := s.Full(3, tensor.Float32, 4, 2).Slice(1, 0, 1)
		go func() {
			given = tensor.GiveUp(s)
			held.Store(true)
			ended <- engine.Try(func() { got = tensor.ToSlice[float32](x) })
		}()
		<-running
		return nil
	}, engine.Observe(func(string, seam.Applied[*tensor.Op, *tensor.Tensor]) {
		if held.Swap(false) {
			running <- true
			<-returned
		}
	}))
	wantError(t, err, tensor.ErrBusy)
	wantError(t, given, tensor.ErrBusy)
	step(t, dev, func(s *tensor.Scope) {
		for range 8 { // takes memory that is free
			s.Full(7, tensor.Float32, 4)
		}
	})
	returned <- true
	if err := <-ended; err != nil || !slices.Equal(got, []float32{3, 3, 3, 3}) {
		t.Errorf("%v, error %v, want 3", got, err)
	}
	if n := dev.Stats().Memory.Blocks; n != 0 {
		t.Errorf("%d blocks are live", n)
	}
}
