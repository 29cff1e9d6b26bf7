//go:build cuda && cgo && linux

package tensor_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/testing/emu"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// onBareGPU runs a test in a process of its own, which looks for the driver anew, with settings of the bare emulator.
// It returns true in that process, where the caller then tests.
func onBareGPU(t *testing.T, settings string) bool {
	t.Helper()
	if childOf(t) {
		return true
	}
	path, err := emu.Build(emu.Bare)
	if errors.Is(err, emu.ErrNoCompiler) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	inChild(t, "WEFT_CUDA_DRIVER="+path, "WEFT_EMU="+settings)
	return false
}

const childVariable = "WEFT_TENSOR_TEST_CHILD"

func childOf(t *testing.T) bool { return os.Getenv(childVariable) == t.Name() }

func inChild(t *testing.T, env ...string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(append(os.Environ(), childVariable+"="+t.Name()), env...)
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("%v\n%s", err, out)
	}
}

// openGPU opens the emulated GPU for a test.
func openGPU(t *testing.T) *tensor.Device {
	t.Helper()
	dev, err := tensor.Open("cuda", tensor.Seed(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// Without a driver "auto" takes the CPU, says why, and training goes on there.
func TestAutoWithoutDriver(t *testing.T) {
	if !childOf(t) {
		inChild(t, "WEFT_CUDA_DRIVER=/nowhere/libcuda.so")
		return
	}
	dev, err := tensor.Open("auto", tensor.Seed(1))
	if err != nil {
		t.Fatal(err)
	}
	const why = "WEFT_CUDA_DRIVER names no driver library: /nowhere/libcuda.so"
	if s := dev.String(); !strings.HasPrefix(s, "cpu (") || !strings.Contains(s, why) {
		t.Errorf("device %s", s)
	}
	model := nn.NewLinear(4, 1)
	if err := nn.Init(dev, model); err != nil {
		t.Fatal(err)
	}
	opt := optim.New(optim.SGD(0.1), model)
	x := tensor.Randn(tensor.Seed(1), 16, 4)
	var losses []float64
	for range 10 {
		err := dev.Step(func(s *tensor.Scope) error {
			loss := model.Forward(s.In(x)).Square().Mean()
			losses = append(losses, loss.Item())
			autograd.Backward(loss)
			return opt.Step(s)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if losses[9] >= losses[0] {
		t.Errorf("losses %v", losses)
	}
	if _, err := tensor.Open("cuda"); !errors.Is(err, tensor.ErrDevice) {
		t.Errorf("cuda opens without a driver: %v", err)
	}
}

// Host data reach the GPU, whatever their layout, and come back.
func TestHostDataOnGPU(t *testing.T) {
	if !onBareGPU(t, "leaks=1") {
		return
	}
	dev := openGPU(t)
	if s := dev.String(); s != "cuda:0: as asked" {
		t.Errorf("device %s", s)
	}
	v := make([]float32, 24)
	for i := range v {
		v[i] = float32(i)
	}
	x := tensor.FromSlice(v, 2, 3, 4)
	ids := tensor.FromSlice([]int64{7, -1}, 2)
	for name, h := range map[string]*tensor.Tensor{
		"whole": x, "permuted": x.Permute(2, 0, 1), "slice": x.Slice(1, 1, 3),
		"expanded": x.Slice(0, 0, 1).Expand(5, 3, 4),
		"scalar":   tensor.Of(float32(2.5)), "empty": x.Slice(0, 0, 0), "integers": ids,
	} {
		err := dev.Eval(func(s *tensor.Scope) error {
			d := s.In(h)
			got, want := tensor.ToSlice[float64](d), tensor.ToSlice[float64](h)
			if !slices.Equal(got, want) || !slices.Equal(d.Shape(), h.Shape()) || d.DType() != h.DType() {
				t.Errorf("%s: %v %v, want %v %v", name, d, got, h, want)
			}
			if d.Scope() != s {
				t.Errorf("%s: not in the step", name)
			}
			if s.In(h) != d || s.In(d) != d {
				t.Errorf("%s: copied twice", name)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := dev.Stats().Memory.Blocks; n != 0 {
		t.Errorf("%d blocks are live after the steps", n)
	}
}

// The copy of host data serves the whole step, also where it was made in a region that has ended.
func TestUploadOutlivesRegion(t *testing.T) {
	if !onBareGPU(t, "leaks=1") {
		return
	}
	dev := openGPU(t)
	x := tensor.FromSlice([]float32{1, 2, 3}, 3)
	err := dev.Eval(func(s *tensor.Scope) error {
		s.Region("layer", func() []*tensor.Tensor { s.In(x); return nil })
		wantFloats(t, "after the region", s.In(x), 1, 2, 3)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A tensor kept on a GPU is read outside steps as it is inside, also through views and conversions.
func TestKeptOnGPU(t *testing.T) {
	if !onBareGPU(t, "leaks=1") {
		return
	}
	dev := openGPU(t)
	var k *tensor.Tensor
	if err := dev.Eval(func(s *tensor.Scope) error {
		k = s.In(tensor.FromSlice([]float32{0, 1, 2, 3, 4, 5}, 2, 3)).Keep()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	wantFloats(t, "kept", k, 0, 1, 2, 3, 4, 5)
	wantFloats(t, "transposed", k.Permute(1, 0), 0, 3, 1, 4, 2, 5)
	wantFloats(t, "column", k.Slice(1, 1, 2), 1, 4)
	if got := tensor.ToSlice[int64](k.Slice(0, 1, 2)); !slices.Equal(got, []int64{3, 4, 5}) {
		t.Errorf("as integers: %v", got)
	}
	if v := k.Slice(0, 1, 2).Slice(1, 2, 3).Item(); v != 5 {
		t.Errorf("item %v", v)
	}
	wantMisuse(t, func() { k.Square() }, tensor.ErrStep, "is on cuda:0; operations outside a step work on host data")
	wantMisuse(t, func() { engine.Bytes(k) }, tensor.ErrDevice)
}

// A model's first values are the same on every device.
func TestParametersOnGPU(t *testing.T) {
	if !onBareGPU(t, "leaks=1") {
		return
	}
	values := func(dev *tensor.Device) []float32 {
		model := nn.Sequential(nn.NewLinear(5, 3), nn.NewLinear(3, 2))
		if err := nn.Init(dev, model); err != nil {
			t.Fatal(err)
		}
		var v []float32
		for _, p := range nn.Parameters(model) {
			v = append(v, tensor.ToSlice[float32](p)...)
		}
		return v
	}
	host, err := tensor.Open("cpu", tensor.Seed(1))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := values(openGPU(t)), values(host); !slices.Equal(got, want) || len(got) != 26 {
		t.Errorf("%v, want %v", got, want)
	}
}

// A parameter made from host data can be read in a step on a GPU; updating it there is refused.
func TestHostParameterOnGPU(t *testing.T) {
	if !onBareGPU(t, "leaks=1") {
		return
	}
	dev := openGPU(t)
	w := nn.ParameterOf("w", tensor.FromSlice([]float32{1, 2}, 2))
	err := dev.Step(func(s *tensor.Scope) error {
		v := s.In(w)
		wantFloats(t, "w", v, 1, 2)
		if !v.NeedsGrad() || v.Origin() != w || v.Name() != "w" {
			t.Errorf("%v is not the parameter", v)
		}
		w.Assign(s.In(tensor.FromSlice([]float32{3, 4}, 2)))
		return nil
	})
	wantError(t, err, tensor.ErrStep,
		"parameter w float32[2] is host data, the step runs on cuda:0; nn.Init places a model on a device")
}

func TestNoKernelOnGPU(t *testing.T) {
	if !onBareGPU(t, "leaks=1") {
		return
	}
	dev := openGPU(t)
	op := engine.NewOp(kernels.Op{Name: "unheard", Ref: func(*kernels.Launch) { panic("ran on the host") }},
		tensor.Float32, 2)
	err := dev.Eval(func(s *tensor.Scope) error {
		engine.Apply(op, []*tensor.Tensor{s.In(tensor.FromSlice([]float32{1, 2}, 2))}, nil, nil)
		return nil
	})
	var e *tensor.Error
	if !errors.As(err, &e) || e.Kind != tensor.ErrDevice || !strings.HasPrefix(e.Site, "cuda_test.go:") ||
		!strings.Contains(e.Msg, "device cuda:0 (Weft emulator 9.0) has no kernel for this operation on float32") {
		t.Errorf("error %v", err)
	}
}

func TestGPUOutOfMemory(t *testing.T) {
	if !onBareGPU(t, "leaks=1,memory=8000000") {
		return
	}
	dev := openGPU(t)
	err := dev.Eval(func(s *tensor.Scope) error { s.In(tensor.Zeros(tensor.Float32, 3_000_000)); return nil })
	if !errors.Is(err, tensor.ErrMemory) {
		t.Errorf("error %v", err)
	}
	if err := dev.Eval(func(s *tensor.Scope) error {
		wantFloats(t, "afterwards", s.In(tensor.Of(float32(3))), 3)
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// After a fault every step fails, and says that it was a fault and not, say, lack of memory.
func TestGPUFault(t *testing.T) {
	if !onBareGPU(t, "fail=cuEventSynchronize:2:700") {
		return
	}
	dev := openGPU(t)
	x := tensor.FromSlice([]float32{1, 2, 3}, 3)
	use := func() error {
		return dev.Eval(func(s *tensor.Scope) error { tensor.ToSlice[float32](s.In(x)); return nil })
	}
	if err := use(); err != nil {
		t.Fatal(err)
	}
	if err := use(); !errors.Is(err, cuda.ErrFault) || !errors.Is(err, tensor.ErrDevice) {
		t.Errorf("the read: %v", err)
	}
	if err := use(); !errors.Is(err, cuda.ErrFault) {
		t.Errorf("the next step: %v", err)
	}
	_, err := engine.NewState(dev, "s", tensor.Float32, 1<<20)
	if !errors.Is(err, cuda.ErrFault) || errors.Is(err, tensor.ErrMemory) {
		t.Errorf("an allocation: %v", err)
	}
	if err := dev.Synchronize(); !errors.Is(err, cuda.ErrFault) {
		t.Errorf("synchronize: %v", err)
	}
}

// A device that all users have closed is opened again; its memory was freed.
func TestReopenGPU(t *testing.T) {
	if !onBareGPU(t, "leaks=1") {
		return
	}
	touch := func(s *tensor.Scope) error {
		wantFloats(t, "in a step", s.In(tensor.Of(float32(1))), 1)
		return nil
	}
	for range 3 {
		one, err := tensor.Open("cuda")
		if err != nil {
			t.Fatal(err)
		}
		two, err := tensor.Open("cuda:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := two.Eval(func(s *tensor.Scope) error { s.In(tensor.Of(float32(1))).Keep(); return nil }); err != nil {
			t.Error(err)
		}
		if err := one.Close(); err != nil {
			t.Error(err)
		}
		if err := two.Eval(touch); err != nil {
			t.Errorf("the second user: %v", err)
		}
		if err := two.Close(); err != nil {
			t.Error(err)
		}
		wantError(t, two.Eval(touch), tensor.ErrDevice, "was closed")
	}
}

// Fetch does not wait; the elements arrive while the host polls.
func TestFetch(t *testing.T) {
	if !onBareGPU(t, "") {
		return
	}
	dev := openGPU(t)
	var arrived func() []float64
	if err := dev.Eval(func(s *tensor.Scope) error {
		x := s.In(tensor.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3))
		arrived = x.Slice(0, 1, 2).Fetch()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if v := arrived(); v != nil {
		t.Errorf("%v has arrived at once: the host waited", v)
	}
	for range 1000 {
		if v := arrived(); v != nil {
			if !slices.Equal(v, []float64{4, 5, 6}) {
				t.Errorf("got %v", v)
			}
			return
		}
	}
	t.Error("nothing arrives")
}

// A read waits for the elements it wants, and not for work that others queue on the device while it waits.
func TestReadWaitsForItsElements(t *testing.T) {
	if !onBareGPU(t, "") {
		return
	}
	var kept, other *tensor.Tensor
	var arrived func() []float64
	dev, err := tensor.Open("cuda", tensor.WarnWaits(func(site, why string) {
		if why == "for the elements of a tensor" {
			arrived = other.Fetch()
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if err := dev.Eval(func(s *tensor.Scope) error {
		kept, other = s.In(tensor.FromSlice([]float32{1, 2, 3}, 3)).Keep(), s.In(tensor.Of(float32(7))).Keep()
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	wantFloats(t, "kept", kept, 1, 2, 3)
	if arrived == nil {
		t.Fatal("the read did not wait")
	}
	if v := arrived(); v != nil { // each poll makes a little progress
		t.Errorf("the read waited for what was queued after it: %v", v)
	}
	if err := dev.Synchronize(); err != nil {
		t.Error(err)
	}
	if v := arrived(); !slices.Equal(v, []float64{7}) {
		t.Errorf("queued after the read: %v", v)
	}
}

// Hidden waits are counted, and each line that waits is reported once.
func TestWaitsOnGPU(t *testing.T) {
	if !onBareGPU(t, "leaks=1") {
		return
	}
	var reports []string
	dev, err := tensor.Open("cuda", tensor.WarnWaits(func(site, why string) {
		reports = append(reports, site+" "+why)
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	x := tensor.FromSlice([]float32{1, 2, 3}, 3)
	line := 0
	for range 3 {
		if err := dev.Eval(func(s *tensor.Scope) error {
			d := s.In(x)
			before := dev.Stats().Waits
			_, _, line, _ = runtime.Caller(0)
			d.Slice(0, 1, 2).Item()
			if n := dev.Stats().Waits - before; n != 1 {
				t.Errorf("%d waits", n)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	before := dev.Stats().Waits
	if err := dev.Synchronize(); err != nil || dev.Stats().Waits != before {
		t.Errorf("a wait that was asked for is counted: %v", err)
	}
	want := []string{
		fmt.Sprintf("cuda_test.go:%d for memory from the driver", line-2),
		fmt.Sprintf("cuda_test.go:%d for the elements of a tensor", line+1),
	}
	if !slices.Equal(reports, want) {
		t.Errorf("%q, want %q", reports, want)
	}
}

// A slot of a ring is written again after the steps before have used it, and not sooner, though nobody waits; a use
// after that is refused, and Keep makes what lasts.
func TestSlotsOnGPU(t *testing.T) {
	if !onBareGPU(t, "leaks=1") {
		return
	}
	dev := openGPU(t)
	backend, err := kernels.Open("cuda")
	if err != nil {
		t.Fatal(err)
	}
	defer backend.(io.Closer).Close()
	ring, err := engine.NewSlots(dev)
	if err != nil {
		t.Fatal(err)
	}
	batch := func(k, n int) []*tensor.Tensor {
		x := tensor.FromSlice(slices.Repeat([]float32{float32(k)}, n), n)
		return []*tensor.Tensor{x, tensor.Of(float32(-k))}
	}
	var fetched []func() []float64
	var last []*tensor.Tensor
	const batches, grows = 9, 5 // the memory is enlarged once
	waits := uint64(0)
	for k := range batches {
		if k == grows+2 { // from here on nothing is taken from the driver
			waits = dev.Stats().Waits
		}
		n := 4
		if k >= grows {
			n = 1 << 17
		}
		slot := <-ring.Free()
		on, err := slot.Upload(batch(k, n))
		if err != nil {
			t.Fatal(err)
		}
		slot.Begin()
		fetched = append(fetched, on[0].Slice(0, 0, 4).Fetch(), on[1].Fetch())
		slot.End()
		if k == 0 {
			last = on
		}
		if k%2 == 1 { // uploads that do not wait for the steps come first
			if err := backend.Synchronize(kernels.Ahead); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := dev.Stats().Waits; n != waits {
		t.Errorf("%d waits", n-waits)
	}
	if err := dev.Synchronize(); err != nil {
		t.Fatal(err)
	}
	for k := range batches {
		if x, y := fetched[2*k](), fetched[2*k+1](); x[0] != float64(k) || x[3] != float64(k) || y[0] != float64(-k) {
			t.Errorf("batch %d is %v and %v", k, x, y)
		}
	}
	wantMisuse(t, func() { tensor.ToSlice[float32](last[0]) }, tensor.ErrStep, "is of an earlier batch")
	wantError(t, dev.Eval(func(s *tensor.Scope) error { s.In(last[1]); return nil }), tensor.ErrStep,
		"float32[] is of an earlier batch, whose memory the next ones have", "Keep it")
	ring.Close()
	if n := dev.Stats().Memory.Blocks; n != 0 {
		t.Errorf("%d blocks are live", n)
	}
}
