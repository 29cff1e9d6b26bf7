package tensor_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/tensor"
)

// A step counts its memory under what it is for, and the sum of all categories is what is allocated.
func TestMemoryCategories(t *testing.T) {
	dev, err := tensor.Open("null") // whose memory no other test uses
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	w := engine.Parameter(nil, true, 64, 32)
	moment, err := engine.NewState(dev, "moment", tensor.Float32, 1)
	if err := errors.Join(err, engine.Place(dev, "m", []string{"w"}, []*tensor.Tensor{w}, tensor.Float32)); err != nil {
		t.Fatal(err)
	}
	before := dev.Stats().Memory
	if err := dev.Step(func(s *tensor.Scope) error {
		x := s.In(tensor.Zeros(tensor.Float32, 16, 64)).MatMul(w)
		autograd.Backward(x.Sum())
		now := dev.Stats().Memory
		grown := func(c kernels.MemoryCategory) int {
			return now.Categories[c].Allocated - before.Categories[c].Allocated
		}
		if n := grown(kernels.Activations); n != 2048+512 {
			t.Errorf("%d bytes of activations, want those of [16 32] and a sum", n)
		}
		if n := grown(kernels.Gradients); n < 64*32*4 {
			t.Errorf("%d bytes of gradients", n)
		}
		if n := grown(kernels.Parameters) + grown(kernels.Optimizer) + grown(kernels.Workspace); n != 0 {
			t.Errorf("%d bytes more of parameters, optimizer and workspace", n)
		}
		if n := now.Categories[kernels.Gradients].Peak; n <= grown(kernels.Gradients) {
			t.Errorf("the peak of gradients is %d", n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	runtime.KeepAlive(moment)
	m, sum := dev.Stats().Memory, 0
	for _, c := range m.Categories {
		sum += c.Allocated
	}
	if sum != m.Allocated || m.Reserved != m.Active+m.Inactive || m.Kept != m.Allocated || m.Blocks != 0 {
		t.Errorf("after the step: %+v", m)
	}
	if n := m.Categories[kernels.Data]; n.Total != 16*64*4 || n.Allocated != 0 {
		t.Errorf("data: %+v", n)
	}
	if n := m.Categories[kernels.Parameters].Allocated + m.Categories[kernels.Optimizer].Allocated; n < 64*32*4+512 {
		t.Errorf("%d bytes of parameters and optimizer", n)
	}
}

// The short forms are numbers of Stats; ResetPeak changes the peaks alone.
func TestMemoryNames(t *testing.T) {
	dev, err := tensor.Open("null")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	base := dev.MemoryAllocated()
	var kept *tensor.Tensor
	if err := dev.Step(func(s *tensor.Scope) error {
		s.Full(1, tensor.Float32, 1<<18)
		kept = s.Full(1, tensor.Float32, 1<<10).Keep()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	m := dev.Stats().Memory
	if dev.MemoryAllocated() != m.Allocated || dev.MemoryReserved() != m.Reserved ||
		dev.PeakMemory() != m.Peak.Allocated {
		t.Errorf("%d, %d, %d of %+v", dev.MemoryAllocated(), dev.MemoryReserved(), dev.PeakMemory(), m)
	}
	if m.Allocated != base+4096 || m.Peak.Allocated < 1<<20 {
		t.Errorf("allocated %d, at the peak %d", m.Allocated, m.Peak.Allocated)
	}
	dev.ResetPeak()
	if after := dev.Stats().Memory; after.Peak != m.MemorySizes || after.Total != m.Total || after.Allocs != m.Allocs ||
		after.MemorySizes != m.MemorySizes {
		t.Errorf("ResetPeak: %+v, before %+v", after, m)
	}
	if freed := dev.EmptyCache(); freed < 1<<20 || dev.MemoryAllocated() != base+4096 {
		t.Errorf("EmptyCache gave %d bytes back, %d are allocated", freed, dev.MemoryAllocated())
	}
	for _, want := range []string{"memory of null", "allocated", "  activations", "reserved", "fragmentation"} {
		if text := dev.MemorySummary(); !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if kept.Len() != 1<<10 {
		t.Error("the kept tensor is lost")
	}
}
