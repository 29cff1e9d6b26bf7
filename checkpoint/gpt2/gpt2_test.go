package gpt2

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weft-ml/weft/checkpoint"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

func device(t testing.TB) *tensor.Device {
	t.Helper()
	dev, err := tensor.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// logits are those of a model for tokens [B T], row-major.
func logits(t *testing.T, dev *tensor.Device, model *nn.GPT, tokens [][]int64) []float32 {
	t.Helper()
	var all []int64
	for _, row := range tokens {
		all = append(all, row...)
	}
	var v []float32
	if err := dev.Eval(func(s *tensor.Scope) error {
		v = tensor.ToSlice[float32](model.Forward(s.In(tensor.FromSlice(all, len(tokens), len(tokens[0])))))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return v
}

// wanted are tokens and logits of transformers; scripts/goldens/gpt2.py wrote them.
type wanted struct {
	Tokens [][]int64
	Logits [][][]float32
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// compare returns the largest difference of logits.
func compare(t *testing.T, have []float32, want [][][]float32) (worst float64) {
	t.Helper()
	n := 0
	for _, batch := range want {
		for _, row := range batch {
			for _, v := range row {
				if d := math.Abs(float64(have[n] - v)); !(d <= worst) {
					worst = d
				}
				n++
			}
		}
	}
	if n != len(have) || n == 0 {
		t.Errorf("%d logits, want %d", len(have), n)
	}
	return worst
}

// folders are what transformers has saved: one file, shards with a head of its own, shards of PyTorch.
var folders = []string{"one", "shards", "bin"}

// TestTransformers loads random models that transformers has saved, and compares logits.
func TestTransformers(t *testing.T) {
	for _, name := range folders {
		dir := filepath.Join("testdata", name)
		dev := device(t)
		model, err := Load(dev, dir)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var want wanted
		read(t, filepath.Join(dir, "logits.json"), &want)
		worst := compare(t, logits(t, dev, model, want.Tokens), want.Logits)
		t.Logf("%s: largest difference %.2g", name, worst)
		if !(worst <= 1e-5) {
			t.Errorf("%s: logits differ by %v", name, worst)
		}
	}
}

// TestSave saves what was loaded, and loads it again: logits are the same to the bit. Names, types and shapes in the
// file are those of transformers' own.
func TestSave(t *testing.T) {
	for _, name := range folders {
		dev, from, to := device(t), filepath.Join("testdata", name), filepath.Join(t.TempDir(), "new")
		model, err := Load(dev, from)
		if err != nil {
			t.Fatal(err)
		}
		var again *nn.GPT
		for range 2 { // the second time there are files
			if err := Save(to, model); err != nil {
				t.Fatal(err)
			}
			if again, err = Load(dev, to); err != nil {
				t.Fatal(err)
			}
		}
		var want wanted
		read(t, filepath.Join(from, "logits.json"), &want)
		a, b := logits(t, dev, model, want.Tokens), logits(t, dev, again, want.Tokens)
		for i := range a {
			if a[i] != b[i] {
				t.Fatalf("%s: logit %d is %v, was %v", name, i, b[i], a[i])
			}
		}
		if have, want := tensors(t, to), tensors(t, from); len(have) != len(want) {
			t.Errorf("%s: %d tensors, want %d", name, len(have), len(want))
		} else {
			for key := range want {
				if have[key] != want[key] {
					t.Errorf("%s: %s is %q, want %q", name, key, have[key], want[key])
				}
			}
		}
	}
}

// tensors are types and shapes of weights, by name without "transformer.".
func tensors(t *testing.T, dir string) map[string]string {
	t.Helper()
	weights, err := checkpoint.OpenWeights(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer weights.Close()
	all := map[string]string{}
	for x := range weights.Tensors() {
		if !strings.HasSuffix(x.Name, "attn.bias") { // the mask of old files
			all[strings.TrimPrefix(x.Name, "transformer.")] = fmt.Sprint(x.DType, x.Shape)
		}
	}
	return all
}

// TestTransformersLoads has transformers load what Save has written: WEFT_TRANSFORMERS_PYTHON is a Python that has it.
func TestTransformersLoads(t *testing.T) {
	python := os.Getenv("WEFT_TRANSFORMERS_PYTHON")
	if python == "" {
		t.Skip("WEFT_TRANSFORMERS_PYTHON names no Python with transformers")
	}
	for _, tied := range []bool{true, false} {
		dev, dir := device(t), t.TempDir()
		model := nn.NewGPT(nn.GPTConfig{Vocab: 61, Context: 12, Width: 16, Heads: 4, Layers: 3, TiedHead: tied})
		if err := nn.Init(dev, model); err != nil {
			t.Fatal(err)
		}
		if err := Save(dir, model); err != nil {
			t.Fatal(err)
		}
		tokens := [][]int64{{1, 2, 3, 60}, {0, 7, 7, 7}}
		text, err := json.Marshal(tokens)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "tokens.json"), text, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(python, "../../scripts/goldens/gpt2.py", dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		var want [][][]float32
		if err = errors.Join(err, json.Unmarshal(out, &want)); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if worst := compare(t, logits(t, dev, model, tokens), want); !(worst <= 1e-5) {
			t.Errorf("tied %v: logits differ by %v", tied, worst)
		}
	}
}

// TestRefuses changes config.json in one way each.
func TestRefuses(t *testing.T) {
	text, err := os.ReadFile("testdata/shards/config.json")
	if err != nil {
		t.Fatal(err)
	}
	for change, says := range map[string]string{
		`"model_type": "llama"`:                   "model_type is llama, want gpt2",
		`"activation_function": "relu"`:           "activation_function is relu, want gelu_new",
		`"n_inner": 33`:                           "n_inner is 33, want 4 n_embd = 32",
		`"scale_attn_weights": false`:             "scale_attn_weights is false",
		`"scale_attn_by_inverse_layer_idx": true`: "scale_attn_by_inverse_layer_idx is true",
		`"add_cross_attention": true`:             "add_cross_attention is true",
		`"n_head": 0`:                             "n_head is 0, want 1 to",
		`"n_head": 3`:                             "no multiple of 3 heads",
		`"n_layer": -1`:                           "n_layer is -1",
		`"n_layer": 16777216`:                     "asks for 1",
		`"n_embd": 16777216`:                      "asks for 6",
		`"n_embd": 9223372036854775807`:           "n_embd is 9223372036854775807",
		`"n_embd": "8"`:                           "cannot unmarshal",
		`"vocab_size": 60`:                        "has shape [61 8] in the file, want [60 8]",
		`"vocab_size": 62`:                        "has shape [61 8] in the file, want [62 8]",
		`"n_positions": 11`:                       "has shape [12 8] in the file, want [11 8]",
		`"vocab_size": 999`:                       "asks for 9",
		`"n_layer": 1`:                            "are not in the model: transformer.h.1",
		`"resid_pdrop": 1.5`:                      "Dropout is 1.5",
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS("testdata/shards")); err != nil {
			t.Fatal(err)
		}
		key, _, _ := strings.Cut(change, ":")
		changed := regexp.MustCompile(key+`: [^,\n]*`).ReplaceAllString(string(text), change)
		if changed == string(text) {
			t.Fatalf("%s changes nothing", change)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(changed), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(device(t), dir); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want %s", change, err, says)
		}
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/shards")); err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`"eos_token_id": 0`).ReplaceAll(text, []byte(`"eos_token_id": [0, 1]`))
	if err := os.WriteFile(filepath.Join(dir, "config.json"), list, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(device(t), dir); err != nil || string(list) == string(text) {
		t.Errorf("several tokens that end texts: %v", err)
	}
	dir = t.TempDir()
	if _, err := Load(device(t), dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), make([]byte, maxConfig+1), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(device(t), dir); err == nil || !strings.Contains(err.Error(), "at most 1048576") {
		t.Errorf("a large config.json: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(device(t), dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no weights: %v", err)
	}
}

// TestSaveRefuses holds that models that config.json cannot tell are not written.
func TestSaveRefuses(t *testing.T) {
	for says, change := range map[string]func(g *nn.GPT){
		"epsilon":              func(g *nn.GPT) { g.Blocks[1].LN2.Eps = 1 },
		"its Config says":      func(g *nn.GPT) { g.Blocks = g.Blocks[:1] },
		"no multiple":          func(g *nn.GPT) { g.Config.Heads = 3 },
		"blocks.0.attn.qkv.we": func(g *nn.GPT) { g.Blocks[0].Attn.QKV = nn.NewLinear(8, 24, nn.NoBias()) },
	} {
		model := nn.NewGPT(nn.GPTConfig{Vocab: 5, Context: 4, Width: 8, Heads: 2, Layers: 2, TiedHead: true})
		change(model)
		if err := nn.Init(device(t), model); err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := Save(dir, model); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %s", err, says)
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
			t.Errorf("%s: files %v, error %v", says, list, err)
		}
	}
}

// TestFails holds that what fails beside the model's own faults is an error, too.
func TestFails(t *testing.T) {
	dev := device(t)
	if err := dev.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dev, "testdata/one"); err == nil || !strings.Contains(err.Error(), "was closed") {
		t.Errorf("a closed device: error %v", err)
	}
	model := nn.NewGPT(nn.GPTConfig{Vocab: 50258, Context: 4, Width: 8, Heads: 2, Layers: 1, TiedHead: true})
	if err := nn.Init(device(t), model); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := Save(dir, model); err != nil {
		t.Fatal(err)
	}
	var c config
	if read(t, filepath.Join(dir, configName), &c); c.Begin != 50256. || c.End != 50256. {
		t.Errorf("tokens %v and %v begin and end a text, want 50256", c.Begin, c.End)
	}
	if err := Save(filepath.Join(dir, configName), model); err == nil {
		t.Error("a folder that is a file: no error")
	}
	other := t.TempDir()
	if err := os.MkdirAll(filepath.Join(other, configName, "x"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := Save(other, model); err == nil {
		t.Error("a config.json that is a folder: no error")
	}
	for _, norm := range norms(model) {
		norm.Eps = math.Inf(1)
	}
	if err := Save(dir, model); err == nil || !strings.Contains(err.Error(), "+Inf") {
		t.Errorf("an infinite epsilon: error %v", err)
	}
}

// FuzzConfig loads weights beside any config.json: what is accepted is a model that computes.
func FuzzConfig(f *testing.F) {
	dir, dev := f.TempDir(), device(f)
	if err := os.CopyFS(dir, os.DirFS("testdata/one")); err != nil {
		f.Fatal(err)
	}
	path := filepath.Join(dir, configName)
	for _, name := range folders {
		text, err := os.ReadFile(filepath.Join("testdata", name, configName))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"n_layer": 1e3, "n_embd": null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
		model, err := Load(dev, dir)
		if err != nil {
			return
		}
		if err := dev.Eval(func(s *tensor.Scope) error {
			tensor.ToSlice[float32](model.Forward(s.In(tensor.FromSlice([]int64{0}, 1, 1))))
			return nil
		}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
