//go:build emu && cuda && cgo && linux

package faults

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/weft-ml/weft/internal/testing/emu"
	"github.com/weft-ml/weft/tensor"
)

// TestMain makes an emulated GPU fail.
func TestMain(m *testing.M) {
	emu.UseOrExit(emu.Plain)
	inner = "cuda"
	os.Exit(m.Run())
}

// An index outside its axis that the device finds after its step is told to a later one, which fails and changes
// nothing.
func TestFaultsArriveLate(t *testing.T) {
	dev := open(t)
	tr, table := mlp(t, dev), place(t, dev, "table", tensor.Float32, 4, 2)
	must(t, tr.run(dev, 0))
	must(t, dev.Step(func(s *tensor.Scope) error {
		table.Embedding(s.In(tensor.FromSlice([]int64{9}, 1)))
		return nil
	}))
	late := tr.run(dev, 1)
	for late == nil { // it is not known to the host
		late = tr.run(dev, 1)
	}
	const want = "embedding: the index at [0] is 9, outside [0, 4), in an earlier operation of step 2"
	if !errors.Is(late, tensor.ErrIndex) || !strings.Contains(late.Error(), "_test.go:") ||
		!strings.HasSuffix(late.Error(), want) {
		t.Errorf("error %v", late)
	}
	before := tr.hash(dev)
	must(t, tr.run(dev, 1))
	if tr.hash(dev) == before {
		t.Error("the step after the late error did nothing")
	}
}
