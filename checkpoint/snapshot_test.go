package checkpoint

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-ml/weft/internal/testing/crashfs"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/tensor"
)

// A shaky device is the device of the tests, the CPU or an emulated GPU, whose memory counts as its own. It gives
// snapshots away slowly, or fails then.
type shaky struct {
	kernels.Backend
	fetches atomic.Int64
	broken  atomic.Bool
	gate    atomic.Pointer[chan struct{}] // fetches wait for it
}

var theShaky shaky

func init() {
	kernels.Register("shaky", func(int) (kernels.Backend, error) { return &theShaky, nil })
}

func (*shaky) Name() string { return "shaky" }

func (d *shaky) CopyOut(s kernels.Stream, dst []byte, src kernels.Buffer, off int) error {
	if s == kernels.Side {
		d.fetches.Add(1)
		if gate := d.gate.Load(); gate != nil {
			<-*gate
		}
		if d.broken.Load() {
			return kernels.Errorf(kernels.ErrDevice, "copy out", "the device is broken")
		}
	}
	return d.Backend.CopyOut(s, dst, src, off)
}

// onShaky is a run on the shaky device, and its manager.
func onShaky(t *testing.T) (*fixture, *crashfs.FS, *Manager) {
	t.Helper()
	if theShaky.Backend == nil {
		var err error
		if theShaky.Backend, err = kernels.Open(backend); err != nil {
			t.Fatal(err)
		}
	}
	defer func(was string) { backend = was }(backend)
	backend = "shaky"
	f := newFixture(t)
	fsys := crashfs.New()
	ck, err := open(fsys, "run", nil)
	if err != nil {
		t.Fatal(err)
	}
	return f, fsys, ck
}

// resumed holds that the folder has exactly some steps, and that the newest one is whole.
func resumed(t *testing.T, f *fixture, fsys *crashfs.FS, steps ...int) {
	t.Helper()
	ck, err := open(fsys, "run", nil)
	if err != nil {
		t.Fatal(err)
	}
	last := steps[len(steps)-1]
	if step, err := ck.Resume(f.at(0)); step != last || err != nil || !f.is(last) {
		t.Errorf("resumed at %d, error %v, the run's own step is %d, want %d", step, err, f.step, last)
	}
	if have, err := ck.Steps(); !slices.Equal(have, steps) || err != nil {
		t.Errorf("steps %v, error %v, want %v", have, err, steps)
	}
}

// TestDeviceSnapshot holds that Save copies on the device and returns before anything is fetched: an update in between
// is not in the file.
func TestDeviceSnapshot(t *testing.T) {
	f, fsys, ck := onShaky(t)
	gate := make(chan struct{})
	theShaky.gate.Store(&gate)
	if err := ck.Save(1, f.at(1), nil); err != nil {
		t.Fatal(err)
	}
	f.at(77) // an update
	close(gate)
	if err := ck.settle(); err != nil || theShaky.fetches.Load() < 3 || ck.stats.Waited+ck.stats.Synchronous != 0 {
		t.Errorf("error %v, %d fetches, stats %+v", err, theShaky.fetches.Load(), ck.stats)
	}
	theShaky.gate.Store(nil)
	resumed(t, f, fsys, 1)

	// Without room the copy goes to the host, and that is told.
	limit := func(bytes int) {
		dev, err := tensor.Open("shaky", tensor.MemoryLimit(bytes))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dev.Close() })
	}
	fetched := theShaky.fetches.Load()
	f.at(2)
	limit(f.st.Device.Stats().Memory.Active)
	if err := ck.Save(2, f.st, nil); err != nil {
		t.Fatal(err)
	}
	limit(1 << 30)
	f.at(78)
	if st := ck.Stats(); st.Waited != 1 || st.Synchronous != 0 || theShaky.fetches.Load() != fetched {
		t.Errorf("without room: %d fetches, stats %+v", theShaky.fetches.Load()-fetched, st)
	}
	resumed(t, f, fsys, 1, 2)
}

// TestDeviceFails breaks the device while a snapshot is fetched: the error comes with the next Save, which saves, and
// with Close; no half of a checkpoint and no memory stays.
func TestDeviceFails(t *testing.T) {
	f, fsys, ck := onShaky(t)
	if err := ck.Save(1, f.at(1), nil); err != nil {
		t.Fatal(err)
	}
	ck.settle()
	active := inUse(f.st.Device)
	theShaky.broken.Store(true)
	if err := ck.Save(2, f.at(2), nil); err != nil {
		t.Errorf("a save that has not failed yet: %v", err)
	}
	ck.inFlight <- <-ck.inFlight // its end
	theShaky.broken.Store(false)
	resumed(t, f, fsys, 1)
	if err := ck.Save(3, f.at(3), nil); !errors.Is(err, tensor.ErrDevice) {
		t.Errorf("the next save: error %v", err)
	}
	if err := ck.Close(); !errors.Is(err, tensor.ErrDevice) {
		t.Errorf("Close: error %v", err)
	}
	if now := inUse(f.st.Device); now != active {
		t.Errorf("%d bytes active, %d before", now, active)
	}
	resumed(t, f, fsys, 1, 3)
}

// inUse is the bytes that stay in use until somebody frees them: what Go's collector frees may be of other tests.
func inUse(dev *tensor.Device) int {
	m := dev.Stats().Memory
	return m.InSteps()
}

// TestPace holds that writing takes its small share of the processors and half of the time between saves, and no longer
// than it must once somebody waits.
func TestPace(t *testing.T) {
	hurry := make(chan struct{})
	p := newPace(hurry, 1000, 0)
	p.worked, p.done = time.Second, 1
	if d := p.due(); d != processorsOf*time.Second/time.Duration(runtime.GOMAXPROCS(0)) {
		t.Errorf("the first save: after a second of work %v", d)
	}
	p = newPace(hurry, 1000, 10*time.Second)
	p.worked, p.done = time.Hour, 500
	if d := p.due(); d != 2500*time.Millisecond {
		t.Errorf("half of a save, 10 s after the last: %v", d)
	}
	if p.done = 2000; p.due() != 5*time.Second {
		t.Errorf("all of it: %v", p.due())
	}
	for _, within := range []time.Duration{20 * time.Millisecond, time.Hour} {
		p.begun, p.within = time.Now(), within
		if within == time.Hour {
			time.AfterFunc(20*time.Millisecond, func() { close(hurry) })
		}
		p.rest()
		if d := time.Since(p.begun); d < 19*time.Millisecond || d > time.Minute {
			t.Errorf("a rest until %v takes %v, where somebody waits after 20 ms", within, d)
		}
	}
}
