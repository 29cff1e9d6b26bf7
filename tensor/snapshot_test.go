package tensor_test

import (
	"bytes"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// A far device computes on the CPU, but its memory counts as its own. It counts copies, and fails.
type far struct {
	kernels.Backend
	inside, out atomic.Int64 // copies
	broken      atomic.Bool
}

var theFar far

func init() {
	kernels.Register("far", func(int) (kernels.Backend, error) {
		b, err := kernels.Open("cpu")
		theFar.Backend = b
		return &theFar, err
	})
}

func (*far) Name() string { return "far" }

func (d *far) Copy(s kernels.Stream, dst kernels.Buffer, off int, src kernels.Buffer, srcOff, n int) error {
	d.inside.Add(1)
	return d.Backend.Copy(s, dst, off, src, srcOff, n)
}

func (d *far) CopyOut(s kernels.Stream, dst []byte, src kernels.Buffer, off int) error {
	if d.broken.Load() {
		return kernels.Errorf(kernels.ErrDevice, "copy out", "the device is broken")
	}
	if d.out.Add(1); s != kernels.Side {
		return errors.New("not on the side stream")
	}
	return d.Backend.CopyOut(s, dst, src, off)
}

// placed opens a device with a limit and places three parameters and a counter there; the last tensor is host data.
func placed(t *testing.T, name string, limit int) (dev *tensor.Device, ts []*tensor.Tensor) {
	t.Helper()
	dev, err := tensor.Open(name, tensor.MemoryLimit(limit))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	cpu.Collect() // what other tests have dropped
	dev.EmptyCache()
	ts = []*tensor.Tensor{nn.Parameter(nil, 1000, 100), nn.Parameter(nil, 3), nn.Parameter(nil, 5, 7),
		engine.Counter(4)}
	if err := engine.Place(dev, "", []string{"a", "b", "c", "n"}, ts, tensor.Float32); err != nil {
		t.Fatal(err)
	}
	set(ts, 1)
	return dev, append(ts, tensor.FromSlice([]float64{1, 2, 3}, 3))
}

// set makes all elements of parameters x, and x more of each that follows.
func set(ts []*tensor.Tensor, x float64) {
	for i, t := range ts {
		t.Assign(tensor.Of(x * float64(i+1)).To(t.DType()))
	}
}

func bytesOf(t *testing.T, r io.Reader) []byte {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSnapshot takes snapshots on the CPU and on a device with memory of its own, with room there and without, and
// changes the tensors: the snapshot has what was there, and gives its memory back.
func TestSnapshot(t *testing.T) {
	for _, name := range []string{"cpu", "far"} {
		for _, room := range []bool{true, false} {
			limit := 4 << 20
			if !room {
				limit = 600 << 10 // for one arena, not for two
			}
			dev, ts := placed(t, name, limit)
			var want [][]byte
			for _, x := range ts {
				raw := engine.Raw(x)
				want = append(want, bytesOf(t, io.NewSectionReader(raw, 0, raw.Size())))
			}
			active, inside := inUse(dev), theFar.inside.Load()
			s, err := engine.Snapshot(ts)
			if err != nil {
				t.Fatal(err)
			}
			if beside := inUse(dev) - active; s.Waited() == room || beside >= 400000 != room {
				t.Errorf("%s, room %v: waited %v, %d bytes beside %d", name, room, s.Waited(), beside, active)
			}
			if n := theFar.inside.Load() - inside; name == "far" && n != 2 && room {
				t.Errorf("%d copies on the device, want one for each arena", n)
			}
			set(ts[:4], 7)
			for i := range ts {
				r := s.Saved(i)
				if got := bytesOf(t, r); !bytes.Equal(got, want[i]) || r.Size() != int64(len(want[i])) {
					t.Errorf("%s, room %v: %v has other bytes", name, room, ts[i])
				}
			}
			s.Free()
			s.Free()
			if got := inUse(dev); got != active {
				t.Errorf("%s: %d bytes active, %d before", name, got, active)
			}
			if n, err := s.Saved(0).ReadAt(make([]byte, 4), 0); n != 0 || !errors.Is(err, tensor.ErrStep) {
				t.Errorf("%s: read after Free: %d bytes, error %v", name, n, err)
			}
			dev.Close()
		}
	}
}

// TestSnapshotRecalled has a step need the memory of a snapshot: it gets it, and the snapshot goes to the host, or
// fails if the device does.
func TestSnapshotRecalled(t *testing.T) {
	for _, broken := range []bool{false, true} {
		dev, ts := placed(t, "far", 2<<20)
		s, err := engine.Snapshot(ts)
		if err != nil || s.Waited() {
			t.Fatalf("waited %v, error %v", s.Waited(), err)
		}
		theFar.broken.Store(broken)
		set(ts[:4], 7)
		err = dev.Eval(func(s *tensor.Scope) error {
			s.Full(1, tensor.Float32, 1250<<10/4)
			return nil
		})
		theFar.broken.Store(false)
		if err != nil || !s.Waited() {
			t.Errorf("the step has the error %v; the snapshot was recalled: %v", err, s.Waited())
		}
		got := make([]byte, 4)
		_, err = s.Saved(0).ReadAt(got, 399996)
		if broken != errors.Is(err, tensor.ErrDevice) || !broken && !bytes.Equal(got, []byte{0, 0, 128, 63}) {
			t.Errorf("broken %v: read %x, error %v", broken, got, err)
		}
		s.Free()
		dev.Close()
	}
}

// inUse is the bytes that stay in use until somebody frees them: what Go's collector frees may be of other tests.
func inUse(dev *tensor.Device) int {
	m := dev.Stats().Memory
	return m.InSteps()
}

// TestSnapshotBesideStep holds that there is none while a step writes.
func TestSnapshotBesideStep(t *testing.T) {
	dev, ts := placed(t, "cpu", 0)
	before := inUse(dev)
	if err := dev.Step(func(s *tensor.Scope) error {
		ts[0].Assign(s.Full(1, tensor.Float32, 1))
		if _, err := engine.Snapshot(ts); !errors.Is(err, tensor.ErrBusy) {
			t.Errorf("error %v", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Snapshot([]*tensor.Tensor{ts[0], nil}); err == nil {
		t.Error("of nil: no error")
	}
	if after := inUse(dev); after != before {
		t.Errorf("%d bytes active, %d before", after, before)
	}
	s, err := engine.Snapshot(nil)
	if err != nil {
		t.Error(err)
	}
	s.Free()
}
