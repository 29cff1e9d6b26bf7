//go:build emu && cuda && cgo && linux

package train

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/internal/testing/emu"
	"github.com/weft-ml/weft/internal/testing/onehash"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// driver is the emulator, for its settings and counts.
var driver *emu.Driver

func TestMain(m *testing.M) {
	emu.UseOrExit(emu.Plain)
	var err error
	if os.Getenv("WEFT_CUDA_DRIVER") != missing {
		driver, err = emu.Load(os.Getenv("WEFT_CUDA_DRIVER"))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// missing is the path of no driver.
const missing = "/nowhere/libcuda.so"

// inChild runs a test in a process of its own, for what a process meets once: settings of devices, and faults. It
// returns true in that process.
func inChild(t *testing.T, env ...string) bool {
	t.Helper()
	if os.Getenv("WEFT_TRAIN_TEST_CHILD") == t.Name() {
		return true
	}
	run := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	cmd := exec.Command(os.Args[0], "-test.run="+run, "-test.v")
	cmd.Env = append(append(os.Environ(), "WEFT_TRAIN_TEST_CHILD="+t.Name()), env...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, name string, opts ...tensor.OpenOption) *tensor.Device {
	t.Helper()
	dev, err := onehash.Open(name, opts...)
	must(t, err)
	t.Cleanup(func() { dev.Close() })
	return dev
}

// mlp begins to train the digits with all that an optimizer does.
func mlp(t *testing.T, dev *tensor.Device) *onehash.Training {
	t.Helper()
	m, err := onehash.MLP(dev, optim.Clip(0.5), optim.NoDecay(optim.Vectors))
	must(t, err)
	return m
}

// steps runs steps [from, to).
func steps(t *testing.T, m *onehash.Training, from, to int) {
	t.Helper()
	for k := from; k < to; k++ {
		must(t, m.Step(k))
	}
}

// hashOnCPU is the hash of the digits after n steps there.
func hashOnCPU(t *testing.T, n int) string {
	t.Helper()
	h, err := mlp(t, open(t, "cpu")).Hash(n)
	must(t, err)
	return h
}

// A step queues as many launches as are written here and waits for nothing; after the first steps it also takes nothing
// from the driver. A read waits once. A loss scaler has its news copied to the host, without a wait.
func TestDriverCalls(t *testing.T) {
	queued := []string{"cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuEventRecord", "cuEventQuery",
		"cuStreamWriteValue32_v2", "cuCtxSetCurrent"}
	gpt := func(dtype tensor.DType) func(*tensor.Device) (*onehash.Training, error) {
		return func(dev *tensor.Device) (*onehash.Training, error) { return onehash.GPT(dev, dtype, 200) }
	}
	mlp := func(dev *tensor.Device) (*onehash.Training, error) { return onehash.MLP(dev, optim.Clip(0.5)) }
	for name, c := range map[string]struct {
		begin    func(dev *tensor.Device) (*onehash.Training, error)
		launches int // of three steps; if there are more, a fusion is lost
		news     int // copies to the host of a step
	}{
		"mlp":      {mlp, 69, 0},
		"gpt":      {gpt(tensor.Float32), 258, 0},
		"gpt bf16": {gpt(tensor.BFloat16), 309, 0},
		"gpt fp16": {gpt(tensor.Float16), 328, 1},
	} {
		t.Run(name, func(t *testing.T) {
			dev := open(t, "cuda")
			m, err := c.begin(dev)
			must(t, err)
			steps(t, m, 0, 3)
			must(t, dev.Synchronize())
			driver.Calls()
			steps(t, m, 3, 6)
			calls := driver.Calls()
			copies := calls["cuMemcpyDtoHAsync_v2"]
			delete(calls, "cuMemcpyDtoHAsync_v2")
			for call, n := range calls {
				if !slices.Contains(queued, call) {
					t.Errorf("%d calls of %s in three steps", n, call)
				}
			}
			if n := calls["cuLaunchKernel"]; n != c.launches || copies > 3*c.news {
				t.Errorf("%d launches and %d copies to the host in three steps, want %d and at most %d", n, copies,
					c.launches, 3*c.news)
			}
			m.Look = func(loss *tensor.Tensor) { t.Log("loss", loss.Item()) }
			steps(t, m, 6, 7) // memory for copies to the host
			driver.Calls()
			steps(t, m, 7, 9)
			calls = driver.Calls()
			waits := 0
			for call, n := range calls {
				if strings.Contains(call, "Synchronize") {
					waits += n
				} else if call != "cuMemcpyDtoHAsync_v2" && !slices.Contains(queued, call) {
					t.Errorf("%d calls of %s in two steps with a read", n, call)
				}
			}
			if waits != 2 || calls["cuMemcpyDtoHAsync_v2"] != 2+2*c.news {
				t.Errorf("two steps with a read each made the calls %v", calls)
			}
		})
	}
}

// Two hundred steps take no more memory than the first ones, of the device, the driver and the host.
func TestFlatMemory(t *testing.T) {
	dev := open(t, "cuda")
	m := mlp(t, dev)
	m.Look = func(loss *tensor.Tensor) { loss.Item() }
	measure := func() (device tensor.Stats, heap int) {
		runtime.GC()
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return dev.Stats(), int(s.HeapAlloc)
	}
	steps(t, m, 0, 50)
	driver.Calls()
	device, heap := measure()
	steps(t, m, 50, 200)
	later, heapLater := measure()
	if a, b := later.Memory, device.Memory; a.Active != b.Active || a.Reserved != b.Reserved || a.Blocks != b.Blocks {
		t.Errorf("after 50 steps %+v, after 200 %+v", device, later)
	}
	if heapLater > heap+256<<10 {
		t.Errorf("%d bytes on the heap after 50 steps, %d after 200", heap, heapLater)
	}
	for call, n := range driver.Calls() {
		if strings.Contains(call, "Alloc") || strings.Contains(call, "Create") || strings.Contains(call, "Load") {
			t.Errorf("%d calls of %s in 150 steps", n, call)
		}
	}
	if got, want := m.Optimizer.Hash(), hashOnCPU(t, 200); got != want {
		t.Errorf("the hash is %s, on the CPU %s", got, want)
	}
}

// schedules runs f under settings that change the order in which threads, copies and streams run.
func schedules(t *testing.T, f func(settings map[string]string)) {
	t.Helper()
	for _, settings := range []map[string]string{
		{"order": "random", "copies": "random", "streams": "random", "seed": "1"},
		{"order": "random", "copies": "late", "streams": "random", "seed": "2"},
		{"order": "lifo", "copies": "late", "streams": "early"},
		{"order": "skewed", "streams": "random", "seed": "3"},
	} {
		for name, value := range settings {
			must(t, driver.Set(name, value))
		}
		f(settings)
		for name, value := range map[string]string{"order": "fifo", "copies": "early", "streams": "late", "seed": "1"} {
			must(t, driver.Set(name, value))
		}
	}
}

// Whatever that order, the bits are the CPU's.
func TestSchedules(t *testing.T) {
	want := hashOnCPU(t, 3)
	schedules(t, func(settings map[string]string) {
		got, err := mlp(t, open(t, "cuda")).Hash(3)
		must(t, err)
		if got != want {
			t.Errorf("%v: the hash is %s, on the CPU %s", settings, got, want)
		}
	})
}

// What checkpoints keep goes to the host and back beside the work of steps, which wait for nothing and, after the
// first, take nothing from the driver. The bits are those of the CPU, which keeps all.
func TestOffload(t *testing.T) {
	gpt := func(name string) *onehash.Training {
		m, err := onehash.GPT(open(t, name), tensor.Float32, 200)
		must(t, err)
		return m
	}
	want, err := gpt("cpu").Hash(2)
	must(t, err)
	test := func(settings map[string]string) {
		m := gpt("cuda")
		m.Checkpoint()
		steps(t, m, 0, 1)
		driver.Calls()
		steps(t, m, 1, 2)
		calls := driver.Calls()
		if out, in := calls["cuMemcpyDtoHAsync_v2"], calls["cuStreamWaitEvent"]; out != 2 || in < 8 {
			t.Errorf("%d copies to the host, %d waits of streams", out, in)
		}
		for call, n := range calls {
			if strings.Contains(call, "Alloc") || strings.Contains(call, "Synchronize") {
				t.Errorf("%d calls of %s in a step", n, call)
			}
		}
		if got := m.Optimizer.Hash(); got != want {
			t.Errorf("%v: the hash is %s, on the CPU %s", settings, got, want)
		}
	}
	test(nil)
	schedules(t, test)
}

// A step that finds no memory fails with the right error and changes nothing; with memory the training goes on as if
// nothing had happened. Memory ends at one place of the step after the other.
func TestOutOfMemoryInStep(t *testing.T) {
	dev, cpu := open(t, "cuda"), open(t, "cpu")
	m, same := mlp(t, dev), mlp(t, cpu)
	steps(t, m, 0, 2)
	steps(t, same, 0, 2)
	before := m.Optimizer.Hash()
	limit := func(bytes int) { open(t, "cuda", tensor.MemoryLimit(bytes)).Close() }
	refused := 0
	for room := 0; ; room += 2 << 10 {
		limit(1) // gives back what is cached
		limit(dev.Stats().Memory.Active + room)
		err := m.Step(2)
		limit(1 << 28)
		if err == nil {
			break
		}
		refused++
		cpu.Step(func(*tensor.Scope) error { return err }) // random streams are counted by step
		if !errors.Is(err, tensor.ErrMemory) {
			t.Fatalf("with room for %d bytes: %v", room, err)
		}
		if m.Optimizer.Hash() != before {
			t.Fatalf("with room for %d bytes the step failed and changed the model: %v", room, err)
		}
	}
	steps(t, m, 3, 5)
	steps(t, same, 2, 5)
	if got, want := m.Optimizer.Hash(), same.Optimizer.Hash(); got != want || refused < 20 {
		t.Errorf("after %d failures the hash is %s, on the CPU %s", refused, got, want)
	}
}

// The driver refuses memory in the middle of a step. The step says where, changes nothing and leaves nothing behind,
// and with smaller batches the training goes on.
func TestDriverOutOfMemoryInStep(t *testing.T) {
	if !inChild(t, "WEFT_EMU=memory=8388608") {
		return
	}
	dev := open(t, "cuda")
	model := nn.Sequential(nn.NewLinear(64, 48), nn.GELU, nn.NewLinear(48, 10))
	must(t, nn.Init(dev, model))
	optimizer := optim.New(optim.SGD(0.1), model)
	step := func(rows int) (value float64, err error) {
		x := tensor.Uniform(tensor.Seed(1), -1, 1, rows, 64)
		return value, dev.Step(func(s *tensor.Scope) error {
			loss := model.Forward(s.In(x)).Square().Mean()
			autograd.Backward(loss)
			value = loss.Item()
			return optimizer.Step(s)
		})
	}
	_, err := step(16)
	must(t, err)
	before, live := optimizer.Hash(), dev.Stats().Memory.Blocks
	rows, where := 1<<15, map[string]bool{}
	for ; ; rows /= 2 {
		_, err := step(rows)
		if err == nil {
			break
		}
		var e *tensor.Error
		if !errors.As(err, &e) || !errors.Is(err, tensor.ErrMemory) || !strings.HasPrefix(e.Site, "train_test.go:") ||
			!strings.Contains(e.Msg, "of its 8388608 bytes are free") {
			t.Fatalf("%d rows: %v", rows, err)
		}
		where[e.Op] = true
		if n := dev.Stats().Memory.Blocks; n != live || optimizer.Hash() != before {
			t.Fatalf("%d rows: the step failed and left %d blocks, or changed the model: %v", rows, n-live, err)
		}
	}
	if len(where) < 2 || rows < 1000 {
		t.Errorf("%d rows found room; before, memory ended in %v", rows, where)
	}
	first, err := step(16)
	must(t, err)
	for range 3 {
		_, err := step(16)
		must(t, err)
	}
	if last, err := step(16); err != nil || last >= first {
		t.Errorf("the loss went from %v to %v: %v", first, last, err)
	}
}

// All memory of the device lies idle in the pool when an operation needs some for itself.
func TestScratchFromPool(t *testing.T) {
	if !inChild(t, "WEFT_EMU=memory=19065100") {
		return
	}
	dev := open(t, "cuda")
	big, small := tensor.Zeros(tensor.Float32, 7<<18+100000), tensor.Zeros(tensor.Float32, 1<<16)
	must(t, dev.Eval(func(s *tensor.Scope) error { s.In(big).Neg(); return nil }))
	must(t, dev.Eval(func(s *tensor.Scope) error { s.In(small).ReLU(); return nil }))
	if m := dev.Stats().Memory; m.Active != 0 || m.Reserved < 16000000 {
		t.Fatalf("%d bytes live, %d reserved: the pool is not as it should be", m.Active, m.Reserved)
	}
	must(t, dev.Eval(func(s *tensor.Scope) error { s.In(small).Sum(); return nil }))
}

// The driver refuses a launch in the middle of a step: that step fails and changes nothing, and the next one works.
func TestRefusedLaunchInStep(t *testing.T) {
	dev, cpu := open(t, "cuda"), open(t, "cpu")
	m, same := mlp(t, dev), mlp(t, cpu)
	steps(t, m, 0, 2)
	steps(t, same, 0, 2)
	before, live := m.Optimizer.Hash(), dev.Stats().Memory.Blocks
	for code, name := range map[string]string{"1": "CUDA_ERROR_INVALID_VALUE",
		"701": "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"} {
		for _, launch := range []string{"1", "4", "9"} {
			must(t, driver.Set("fail", "cuLaunchKernel:"+launch+":"+code))
			err := m.Step(2)
			must(t, driver.Set("fail", ""))
			cpu.Step(func(*tensor.Scope) error { return err }) // random streams are counted by step
			var e *tensor.Error
			if !errors.As(err, &e) || e.Kind != tensor.ErrDevice || !strings.HasPrefix(e.Site, "train_test.go:") ||
				!strings.Contains(e.Msg, "launching ") || !strings.Contains(e.Msg, name+" ("+code+")") {
				t.Errorf("launch %s is refused: %v", launch, err)
			}
			if n := dev.Stats().Memory.Blocks; n != live || m.Optimizer.Hash() != before {
				t.Errorf("launch %s: the step failed and left %d blocks, or changed the model", launch, n-live)
			}
		}
	}
	steps(t, m, 2, 4)
	steps(t, same, 2, 4)
	if got, want := m.Optimizer.Hash(), same.Optimizer.Hash(); got != want {
		t.Errorf("the hash is %s, on the CPU %s", got, want)
	}
}

// A kernel fails in the middle of a training. The read that meets it says so, with the launches that may have done it;
// no later step runs; nothing hangs.
func TestFaultInStep(t *testing.T) {
	if !inChild(t) {
		return
	}
	dev := open(t, "cuda")
	m := mlp(t, dev)
	m.Look = func(loss *tensor.Tensor) { loss.Item() }
	steps(t, m, 0, 2)
	must(t, dev.Synchronize())
	must(t, driver.Set("fail", "launch:5:719"))
	err := m.Step(2)
	if !errors.Is(err, cuda.ErrFault) || !errors.Is(err, tensor.ErrDevice) {
		t.Fatalf("the step returns %v", err)
	}
	for _, want := range []string{"CUDA_ERROR_LAUNCH_FAILED", "not known to be finished", " launches: ",
		"linear (matmul_f32) at", "train_test.go:"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	driver.Calls()
	for range 2 {
		if err := m.Step(3); !errors.Is(err, cuda.ErrFault) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("a later step returns %v", err)
		}
	}
	if n := driver.Calls()["cuLaunchKernel"]; n > 0 {
		t.Errorf("%d launches after the fault", n)
	}
	if _, err := tensor.Open("cuda"); err != nil && !errors.Is(err, cuda.ErrFault) {
		t.Errorf("opening returns %v", err)
	}
}

// A device that was closed can be opened again, and trains as before.
func TestReopen(t *testing.T) {
	want := hashOnCPU(t, 3)
	for range 3 {
		dev, err := onehash.Open("cuda")
		must(t, err)
		m := mlp(t, dev)
		if got, err := m.Hash(3); err != nil || got != want {
			t.Errorf("the hash is %s (%v), on the CPU %s", got, err, want)
		}
		must(t, m.Step(3)) // work that nobody waits for
		must(t, dev.Close())
		if err := m.Step(4); !errors.Is(err, tensor.ErrDevice) || !strings.Contains(err.Error(), "was closed") {
			t.Errorf("a step on a closed device: %v", err)
		}
	}
}

// Two devices train at the same time, each as the CPU does.
func TestTwoDevices(t *testing.T) {
	if !inChild(t, "WEFT_EMU=devices=2") {
		return
	}
	want := hashOnCPU(t, 4)
	var wg sync.WaitGroup
	for _, name := range []string{"cuda:0", "cuda:1"} {
		m := mlp(t, open(t, name))
		wg.Go(func() {
			if got, err := m.Hash(4); err != nil || got != want {
				t.Errorf("%s: the hash is %s (%v), on the CPU %s", name, got, err, want)
			}
		})
	}
	wg.Wait()
}

// Where no GPU can be used, "cuda" says why, and "auto" trains on the CPU and says why.
func TestNoGPU(t *testing.T) {
	for _, c := range []struct{ name, env, want string }{
		{"no driver", "WEFT_CUDA_DRIVER=" + missing, "WEFT_CUDA_DRIVER names no driver library: " + missing},
		{"no device", "WEFT_EMU=devices=0", "sees no GPU"},
		{"old", "WEFT_EMU=capability=75", "has compute capability 7.5 (Turing); Weft needs 8.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !inChild(t, c.env) {
				return
			}
			_, err := tensor.Open("cuda")
			var e *kernels.Error
			if !errors.As(err, &e) || !errors.Is(err, tensor.ErrDevice) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			dev := open(t, "auto")
			if s := dev.String(); !strings.HasPrefix(s, "cpu (") || !strings.Contains(s, c.want) {
				t.Errorf("device %s", s)
			}
			if got, err := mlp(t, dev).Hash(3); err != nil || got != hashOnCPU(t, 3) {
				t.Errorf("the hash is %s (%v)", got, err)
			}
		})
	}
}

// Batches that are uploaded while steps run are those of the host, though the emulator runs copies as late as it may:
// no slot is written again before the steps have used it, and no step waits.
func TestSlots(t *testing.T) {
	const rows, width = 8, 100
	x, y := make([]float32, 200*width), make([]int64, 200)
	for i := range x {
		x[i] = float32(i%251) / 512
	}
	set, err := data.NewArrays(x, []int{width}, y, nil)
	must(t, err)
	sums := func(dev *tensor.Device) (out []float64) {
		loader := &data.Loader{Dataset: set, BatchSize: rows, Shuffle: true, Seed: 3, Epochs: 2, Workers: 2,
			Device: dev}
		var kept []*tensor.Tensor
		var before tensor.Stats
		n := 0
		var batch data.Batch
		for batch, err = range loader.Batches(t.Context()) {
			must(t, err)
			if n++; n == 6 {
				before = dev.Stats()
			}
			must(t, dev.Eval(func(s *tensor.Scope) error {
				sum := s.In(batch.X)
				for range 4 {
					sum = sum.Square().Mul(sum).Add(batch.X)
				}
				kept = append(kept, sum.Sum().Keep())
				return nil
			}))
		}
		if after := dev.Stats(); after.Waits != before.Waits {
			t.Errorf("%s: %d waits", dev.Name(), after.Waits-before.Waits)
		}
		if dev.Name() != "cpu" {
			err := dev.Eval(func(s *tensor.Scope) error { s.In(batch.X); return nil })
			if !errors.Is(err, tensor.ErrStep) || !strings.Contains(err.Error(), "is of an earlier batch") {
				t.Errorf("a batch of an iteration that is over: %v", err)
			}
		}
		for _, k := range kept {
			out = append(out, k.Item())
		}
		return out
	}
	gpu := open(t, "cuda")
	if want, got := sums(open(t, "cpu")), sums(gpu); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
