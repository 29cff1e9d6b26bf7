//go:build emu && cuda && cgo && linux

package faults

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/weft-ml/weft/internal/testing/emu"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// TestMain makes an emulated GPU fail.
func TestMain(m *testing.M) {
	emu.UseOrExit(emu.Plain)
	inner = "cuda"
	os.Exit(m.Run())
}

// An index outside its axis that the device finds after its step is told to a later one, which fails and changes
// nothing. It names the operation that the program called.
func TestFaultsArriveLate(t *testing.T) {
	for want, call := range map[string]func(s *tensor.Scope, table *tensor.Tensor){
		"embedding: the index at [0] is 9, outside [0, 4), axis 0 of [4 2]": func(s *tensor.Scope,
			table *tensor.Tensor) {
			table.Embedding(s.In(tensor.FromSlice([]int64{9}, 1)))
		},
		"nll: the index at [1 0] is 2, outside [0, 2), axis 1 of [4 2]": func(s *tensor.Scope, table *tensor.Tensor) {
			nn.NLL(s.In(table), tensor.FromSlice([]int{0, 2, 1, 1}, 4))
		},
		"nll: the index at [3] is -1, outside [0, 2), axis 0 of [2]": func(s *tensor.Scope, table *tensor.Tensor) {
			weights := nn.ClassWeights(tensor.FromSlice([]float32{1, 2}, 2))
			nn.NLL(s.In(table), s.In(tensor.FromSlice([]int{0, 1, 1, -1}, 4)), weights)
		},
		"cross_entropy: target [2] is 5, outside the classes [0, 2); -100 marks rows to ignore": func(s *tensor.Scope,
			table *tensor.Tensor) {
			nn.CrossEntropy(s.In(table), tensor.FromSlice([]int{0, 1, 5, 1}, 4))
		},
	} {
		dev := open(t)
		tr, table := mlp(t, dev), place(t, dev, "table", tensor.Float32, 4, 2)
		must(t, tr.run(dev, 0))
		must(t, dev.Step(func(s *tensor.Scope) error { call(s, table); return nil }))
		late := tr.run(dev, 1)
		for late == nil { // it is not known to the host
			late = tr.run(dev, 1)
		}
		if !errors.Is(late, tensor.ErrIndex) || !strings.Contains(late.Error(), "_test.go:") ||
			!strings.HasSuffix(late.Error(), want+", in an earlier operation of step 2") {
			t.Errorf("error %v, want %s", late, want)
		}
		before := tr.hash(dev)
		must(t, tr.run(dev, 1))
		if tr.hash(dev) == before {
			t.Error("the step after the late error did nothing")
		}
	}
}
