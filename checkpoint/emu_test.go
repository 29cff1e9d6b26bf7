//go:build emu && cuda && cgo && linux

package checkpoint

import (
	"errors"
	"math"
	"os"
	"testing"

	"github.com/weft-ml/weft/internal/testing/emu"
	"github.com/weft-ml/weft/tensor"
)

// TestResumeDevices takes runs from the CPU to an emulated GPU and back. What is resumed has the bits of what was
// saved. In float32 the run ends with the bits of the unbroken one; in halves, whose products a GPU adds in another
// order, its losses stay within a bound of the unbroken run's, which a run that lost the data's position leaves.
func TestResumeDevices(t *testing.T) {
	for _, c := range []struct {
		dtype tensor.DType
		bound float64 // of losses, relative
	}{{tensor.Float32, 0}, {tensor.Float16, 1e-4}, {tensor.BFloat16, 1e-4}} {
		whole := newRun(t, c.dtype)
		end := whole.end(t)
		moved := moveBetweenDevices(t, c.dtype, false)
		if got := moved.end(t); c.bound == 0 && got != end {
			t.Errorf("%v: the run ends as %.200s, want %.200s", c.dtype, got, end)
		}
		if far := distance(whole.log, moved.log); far > c.bound {
			t.Errorf("%v: a loss is %.2g off, relatively, want at most %g", c.dtype, far, c.bound)
		} else {
			t.Logf("%v: losses at most %.2g off", c.dtype, far)
		}
		if lost := moveBetweenDevices(t, c.dtype, true); distance(whole.log, lost.log) <= c.bound {
			t.Errorf("%v: a run that lost the data's position has the losses of the unbroken one", c.dtype)
		}
	}
}

// moveBetweenDevices is a run at its end, after three saves and changes of device; it may lose the data's position at
// each.
func moveBetweenDevices(t *testing.T, dtype tensor.DType, loseData bool) *run {
	t.Helper()
	defer func() { runsOn = "cpu" }()
	dir, step, hash := t.TempDir(), 0, ""
	var r *run
	for _, c := range []struct {
		device string
		until  int
	}{{"cpu", 5}, {"cuda", 8}, {"cuda", 11}, {"cpu", steps}} {
		runsOn = c.device
		r = newRun(t, dtype)
		ck, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ck.Resume(r.state()); got != step || err != nil {
			t.Fatalf("resumed at step %d, error %v, want %d", got, err, step)
		}
		if step > 0 && r.opt.Hash() != hash {
			t.Errorf("%v: resumed on %s as %s, saved as %s", dtype, c.device, r.opt.Hash(), hash)
		}
		if loseData && step > 0 {
			r.loader = newRun(t, dtype).loader
		}
		r.until(t, c.until)
		step, hash = r.step, r.opt.Hash()
		if err := errors.Join(ck.Save(step, r.state(), nil), ck.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// distance is the largest relative difference of two logs.
func distance(a, b []float64) (far float64) {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	for i := range a {
		far = max(far, math.Abs(a[i]-b[i])/math.Abs(a[i]))
	}
	return far
}

// TestMain has all tests use an emulated GPU.
func TestMain(m *testing.M) {
	emu.UseOrExit(emu.Plain)
	backend = "cuda"
	os.Exit(m.Run())
}
