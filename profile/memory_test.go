package profile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	weft "github.com/weft-ml/weft/profile"
	"github.com/weft-ml/weft/tensor"
)

// trained trains a small GPT for some steps.
func trained(t testing.TB, dev *tensor.Device, steps int) {
	t.Helper()
	model := nn.NewGPT(nn.GPTConfig{Vocab: 50, Context: 16, Width: 32, Heads: 4, Layers: 2})
	if err := nn.Init(dev, model); err != nil {
		t.Fatal(err)
	}
	opt := optim.New(optim.AdamW(1e-3), model)
	x := tensor.Zeros(tensor.Int64, 4, 16)
	for range steps {
		if err := dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(nn.CrossEntropy(model.Forward(s.In(x)), s.In(x)))
			return opt.Step(s)
		}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { runtime.KeepAlive(opt) }) // a collection would change what is counted
}

// TestMemory: the sums of a profile are what the device counts, and it knows layers, operations, categories and lines.
func TestMemory(t *testing.T) {
	dev, err := tensor.Open("null")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	dev.ResetPeak()
	before, total := dev.MemoryAllocated(), dev.Stats().Memory.Total.Allocated
	memory, err := weft.Memory(dev)
	if err != nil {
		t.Fatal(err)
	}
	trained(t, dev, 3)
	memory.Stop()
	var file bytes.Buffer
	if err := memory.Write(&file); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&file)
	if err != nil {
		t.Fatal(err)
	}
	sums, tags, lines := make([]int, len(p.SampleType)), map[string]int{}, false
	for _, s := range p.Sample {
		for i, v := range s.Value {
			sums[i] += int(v)
		}
		for key, values := range s.Label {
			tags[key+" "+values[0]] += int(s.Value[5])
		}
		for _, l := range s.Location {
			f := l.Line[0]
			lines = lines || strings.HasSuffix(f.Function.Name, "profile_test.trained.func1") && f.Line > 0
		}
	}
	m := dev.Stats().Memory
	want := []int{-1, m.Total.Allocated - total + before, -1, m.Allocated, -1, m.Peak.Allocated}
	for i, n := range want {
		if n >= 0 && sums[i] != n {
			t.Errorf("%s: %d, want %d", p.SampleType[i].Type, sums[i], n)
		}
	}
	for _, tag := range []string{"layer blocks.0/attn", "layer blocks.1/mlp", "category parameters",
		"category optimizer", "category activations", "category gradients", "operation gelu_tanh"} {
		if _, there := tags[tag]; !there {
			t.Errorf("no %s among %v", tag, tags)
		}
	}
	if !lines {
		t.Error("no stack has the line of the training step")
	}
	checkTimeline(t, memory, m.Peak.Allocated)
}

// checkTimeline holds the order of time and the peak.
func checkTimeline(t *testing.T, memory *weft.MemoryProfile, peak int) {
	t.Helper()
	var text bytes.Buffer
	if err := memory.WriteTimeline(&text); err != nil {
		t.Fatal(err)
	}
	var timeline struct {
		Events []struct {
			Phase string         `json:"ph"`
			Time  float64        `json:"ts"`
			Bytes map[string]int `json:"args"`
		} `json:"traceEvents"`
	}
	if err := json.Unmarshal(text.Bytes(), &timeline); err != nil {
		t.Fatal(err)
	}
	most, last := 0, 0.0
	for _, e := range timeline.Events {
		sum := 0
		for _, n := range e.Bytes {
			sum += n
		}
		most = max(most, sum)
		if e.Time < last || e.Phase != "C" {
			t.Fatalf("%+v after %v us", e, last)
		}
		last = e.Time
	}
	if most != peak {
		t.Errorf("the timeline has at most %d bytes, want %d", most, peak)
	}
}

// TestPprof: go tool pprof shows bytes by layer.
func TestPprof(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles pprof")
	}
	dev, err := tensor.Open("null")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	memory, err := weft.Memory(dev)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Stop()
	trained(t, dev, 1)
	var file bytes.Buffer
	if err := memory.Write(&file); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "f.pb.gz")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "tool", "pprof", "-top", "-nodecount", "1000", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"weft_device", "Type: peak_space", "kB", "blocks.1/attn", "(parameters)"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestMemoryErrors(t *testing.T) {
	if _, err := weft.Memory(nil); !errors.Is(err, tensor.ErrDevice) {
		t.Errorf("no device: %v", err)
	}
	dev, err := tensor.Open("null")
	if err != nil {
		t.Fatal(err)
	}
	memory, err := weft.Memory(dev)
	if err != nil {
		t.Fatal(err)
	}
	memory.Stop()
	dev.Close()
	if _, err := weft.Memory(dev); !errors.Is(err, tensor.ErrDevice) {
		t.Errorf("a closed device: %v", err)
	}
	if err := errors.Join(memory.Write(nil), memory.WriteTimeline(nil)); !errors.Is(err, tensor.ErrValue) {
		t.Errorf("no writer: %v", err)
	}
	var none *weft.MemoryProfile
	if err := none.Write(os.Stdout); !errors.Is(err, tensor.ErrValue) {
		t.Errorf("no profile: %v", err)
	}
	full := full{errors.New("disk full")}
	if err := memory.Write(full); err != full.err {
		t.Errorf("%v", err)
	}
	if err := memory.WriteTimeline(full); err != full.err {
		t.Errorf("%v", err)
	}
}

// full is a writer that fails.
type full struct{ err error }

func (f full) Write([]byte) (int, error) { return 0, f.err }
