//go:build emu && cuda && cgo && linux

package checkpoint

import (
	"errors"
	"os"
	"testing"

	"github.com/weft-ml/weft/internal/testing/emu"
	"github.com/weft-ml/weft/tensor"
)

// TestResumeDevices takes a run from the CPU to an emulated GPU and back: it ends with the bits of the unbroken run.
func TestResumeDevices(t *testing.T) {
	defer func() { runsOn = "cpu" }()
	whole := newRun(t, tensor.Float32).end(t)
	dir, step := t.TempDir(), 0
	for _, c := range []struct {
		device string
		until  int
	}{{"cpu", 5}, {"cuda", 8}, {"cuda", 11}, {"cpu", steps}} {
		runsOn = c.device
		r := newRun(t, tensor.Float32)
		ck, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ck.Resume(r.state()); got != step || err != nil {
			t.Fatalf("resumed at step %d, error %v, want %d", got, err, step)
		}
		r.until(t, c.until)
		step = r.step
		if err := errors.Join(ck.Save(step, r.state(), nil), ck.Close()); err != nil {
			t.Fatal(err)
		}
		if step == steps {
			if got := r.end(t); got != whole {
				t.Errorf("the run ends as %.200s, want %.200s", got, whole)
			}
		}
	}
}

// TestMain has all tests use an emulated GPU.
func TestMain(m *testing.M) {
	emu.UseOrExit(emu.Plain)
	backend = "cuda"
	os.Exit(m.Run())
}
