package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/checkpoint/npy"
	"github.com/weft-ml/weft/checkpoint/safetensors"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// all reads the data of all tensors of a path, by name.
func all(t *testing.T, path string) map[string]string {
	t.Helper()
	w, err := OpenWeights(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	data := map[string]string{}
	for x := range w.Tensors() {
		v, err := io.ReadAll(x.Data())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names(x) {
			data[name] = string(v)
		}
	}
	return data
}

// TestLoadPyTorch loads what is below a key of a file of PyTorch, with and without that key.
func TestLoadPyTorch(t *testing.T) {
	const path = "torchfile/testdata/2.15/adamw.pt"
	model := nn.Sequential(nn.NewLinear(3, 4), nn.NewLayerNorm(4), nn.NewLinear(4, 2))
	if err := nn.Init(device(t, 1), model); err != nil {
		t.Fatal(err)
	}
	before := state(t, model)
	var wrong *MatchError
	if err := Load(model, path); !errors.As(err, &wrong) || !slices.Contains(wrong.Extra, "state_dict.0.weight") {
		t.Errorf("without a key: error %v", err)
	}
	err := Load(model, path, Key("state_dict.0"))
	if !errors.As(err, &wrong) || !slices.Contains(wrong.Missing, "0.weight") {
		t.Errorf("another key: error %v", err)
	}
	if !maps.Equal(before, state(t, model)) {
		t.Error("the model has been changed")
	}
	if err := Load(model, path, Key("state_dict")); err != nil {
		t.Fatal(err)
	}
	want := all(t, path)
	for name, have := range state(t, model) {
		if have != want["state_dict."+name] || have == before[name] {
			t.Errorf("%s has other values", name)
		}
	}
}

// TestLoadViews loads transposed and other views of a file of PyTorch, converted and in pieces.
func TestLoadViews(t *testing.T) {
	const path = "torchfile/testdata/1.13/views.pt"
	type model struct{ Transposed, Cube, Steps, Half *tensor.Tensor }
	m := &model{nn.Parameter(nil, 6, 4), nn.Parameter(nil, 6, 2, 2), nn.Parameter(nil, 2, 2),
		nn.Parameter(nil, 8)}
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64} {
		if err := nn.Init(device(t, 1), m, nn.DType(dt)); err != nil {
			t.Fatal(err)
		}
		if err := Load(m, path, Partial(), Convert()); err != nil {
			t.Fatal(err)
		}
		for i, want := range map[*tensor.Tensor]string{
			m.Transposed: "[0 6 12 18 1 7 13 19 2 8 14 20 3 9 15 21 4 10 16 22 5 11 17 23]",
			m.Cube:       "[0 6 12 18 1 7 13 19 2 8 14 20 3 9 15 21 4 10 16 22 5 11 17 23]",
			m.Steps:      "[0 3 12 15]", m.Half: "[0 1 2 3 4 5 6 7]",
		} {
			if have := fmt.Sprint(tensor.ToSlice[float64](i)); have != want {
				t.Errorf("%v %s is %s, want %s", dt, i.Name(), have, want)
			}
		}
	}
}

// TestNumPy saves a model as NumPy does, and loads it; a type that NumPy does not have is refused, and nothing is left.
func TestNumPy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.npz")
	a, b := gpt(t, 1, tensor.Float32, true), gpt(t, 2, tensor.Float32, true)
	if err := SaveModel(path, a); err != nil {
		t.Fatal(err)
	}
	if err := Load(b, path); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(state(t, a), state(t, b)) {
		t.Error("other values")
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	arrays, err := npy.OpenZip(bytes.NewReader(file), int64(len(file)))
	if err != nil || len(arrays) != len(state(t, a)) {
		t.Errorf("%d arrays, error %v", len(arrays), err)
	}
	if err := SaveModel(path, gpt(t, 1, tensor.BFloat16, true)); err == nil || !strings.Contains(err.Error(), "BF16") {
		t.Errorf("BF16: error %v", err)
	}
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(again, file) {
		t.Errorf("the old file is gone: %v", err)
	}
	err = Load(b, "npy/testdata/float32.npy")
	if err == nil || !strings.Contains(err.Error(), "not in the model: float32") {
		t.Errorf("an array: error %v", err)
	}
}

// TestSaveNothing: a model without parameters replaces no file.
func TestSaveNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := os.WriteFile(path, []byte("before"), 0o666); err != nil {
		t.Fatal(err)
	}
	hidden := struct{ layer *nn.Linear }{nn.NewLinear(2, 3)}
	for _, model := range []any{nil, (*nn.Linear)(nil), hidden, nn.Sequential()} {
		if err := SaveModel(path, model); err == nil || !strings.Contains(err.Error(), "no parameters") {
			t.Errorf("%T: the error is %v", model, err)
		}
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "before" {
		t.Errorf("the file is %q, error %v", text, err)
	}
}

// TestSaveRenamed saves with the names and transposes of GPT-2, and loads that with the same rules.
func TestSaveRenamed(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16} {
		path := filepath.Join(t.TempDir(), "model.safetensors")
		a, b := gpt(t, 1, dt, true), gpt(t, 2, dt, true)
		if err := SaveModel(path, a, Rename(GPT2)); err != nil {
			t.Fatal(err)
		}
		if err := Load(b, path, Rename(GPT2)); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(state(t, a), state(t, b)) {
			t.Errorf("%v: other values", dt)
		}
		w, err := OpenWeights(path)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		for x := range w.Tensors() {
			if x.Name == "h.1.mlp.c_fc.weight" && !slices.Equal(x.Shape, []int{8, 32}) ||
				strings.HasPrefix(x.Name, "blocks") {
				t.Errorf("%s has shape %v", x.Name, x.Shape)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "model.safetensors")
	for _, o := range []Option{Partial(), Convert(), Key("a")} {
		if err := SaveModel(path, gpt(t, 1, tensor.Float32, true), o); err == nil ||
			!strings.Contains(err.Error(), "an option of Load") {
			t.Errorf("error %v", err)
		}
	}
}

// TestTorchIndex opens shards of PyTorch through an index that is wrong in one way each.
func TestTorchIndex(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("gpt2/testdata/bin")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, torchIndex)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var index struct {
		Where map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		t.Fatal(err)
	}
	if have := all(t, dir); len(have) != len(index.Where) || have["wte.weight"] != all(t, path)["wte.weight"] {
		t.Errorf("%d tensors, want %d", len(have), len(index.Where))
	}
	const one, two = "pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"
	for says, change := range map[string]func(where map[string]string){
		"found \"\" for \"wte.weight\"": func(where map[string]string) { delete(where, "wte.weight") },
		`"x" in "` + one:                func(where map[string]string) { where["x"] = one },
		`for "wte.weight", which`:       func(where map[string]string) { where["wte.weight"] = one },
		"the name of a file":            func(where map[string]string) { where["wte.weight"] = "../" + two },
		"no such file":                  func(where map[string]string) { where["x"] = "x.bin" },
		"data.pkl, byte":                func(where map[string]string) { where["wte.weight"] = "evil.bin" },
		"folder.bin: invalid argument":  func(where map[string]string) { where["wte.weight"] = "folder.bin" },
	} {
		where := maps.Clone(index.Where)
		change(where)
		text, err := json.Marshal(map[string]any{"weight_map": where})
		module, err2 := os.ReadFile("torchfile/testdata/2.15/module.pt")
		if err := errors.Join(err, err2, os.WriteFile(path, text, 0o666),
			os.MkdirAll(filepath.Join(dir, "folder.bin"), 0o777),
			os.WriteFile(filepath.Join(dir, "evil.bin"), module, 0o666)); err != nil {
			t.Fatal(err)
		}
		if w, err := OpenWeights(path); err == nil || w != nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %s", err, says)
		}
	}
}

// TestOpenWeights opens what is not there, or not what its name says.
func TestOpenWeights(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.pt": "PK", "a.npy": "a", "a.npz": "a", "a.safetensors": "a", "a.bin.index.json": "[]", "a.bin": "\x80\x02",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		w, err := OpenWeights(path)
		var format *safetensors.FormatError
		if w != nil || !errors.As(err, &format) || format.File != path || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for _, name := range []string{"none", "none.pt", "", "none.bin.index.json"} {
		if _, err := OpenWeights(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: error %v", name, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	var format *safetensors.FormatError
	if w, err := OpenWeights(dir); !errors.As(err, &format) || w != nil {
		t.Errorf("an evil file in a folder: %v", err)
	}
	if err := Load(&struct{}{}, filepath.Join(dir, "none.pt")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load: %v", err)
	}
}

// TestKeyHint: where a file has a model below a key, or nothing below the key that is given, the error says so;
// Partial, which would not help, is not named.
func TestKeyHint(t *testing.T) {
	dev, err := tensor.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	part := func() *nn.Chain { return nn.Sequential(nn.NewLinear(2, 3), nn.NewLinear(3, 1)) }
	model, lone := part(), nn.NewLinear(2, 3)
	whole := map[string]any{"module": map[string]any{"net": part()}, "ema": part(), "head": nn.NewLinear(4, 4)}
	for _, m := range []any{model, lone, whole} {
		if err := nn.Init(dev, m); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "whole.safetensors")
	if err := SaveModel(path, whole); err != nil {
		t.Fatal(err)
	}
	const all = ` (all are there below "ema", "module.net": the option Key names one to load from)`
	for _, c := range []struct {
		model any
		says  string // at the end
		opts  []Option
	}{
		{model, all, nil},
		{model, all, []Option{Partial()}},
		{model, all, []Option{Key("module")}},
		{nn.Sequential(nn.Sequential(lone)), ` (it has nothing below the key "net"; names there begin with "ema", ` +
			`"head", "module")`, []Option{Key("net"), Partial()}},
		{lone, ` below "ema.0", "ema.1", "head", "module.net.0", "module.net.1": the option Key names one to load ` +
			`from)`, nil},
		{nn.Sequential(nn.Sequential(lone)), ", ... (the option Rename gives them other names)", nil},
	} {
		err := Load(c.model, path, c.opts...)
		if err == nil || !strings.HasSuffix(err.Error(), c.says) {
			t.Errorf("%v: error %v, want %s", c.says, err, c.says)
		}
	}
	if err := Load(model, path, Key("module.net")); err != nil {
		t.Error(err)
	}
}

// TestSaveEndings: names by which Load would take a file for another format's are refused, and no file is made.
func TestSaveEndings(t *testing.T) {
	dir := t.TempDir()
	for _, ext := range otherFormats {
		path := filepath.Join(dir, "model"+ext)
		err := SaveModel(path, gpt(t, 1, tensor.Float32, true))
		if ext == ".npz" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), "end it in .safetensors") {
			t.Errorf("%s: error %v", ext, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", path, err)
		}
	}
}

// TestFolderWithoutWeights says what is missing, and knows folders of runs.
func TestFolderWithoutWeights(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []string{"neither model.safetensors nor pytorch_model.bin", "step-00000020: "} {
		_, err := OpenWeights(dir)
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
		for _, step := range []int{10, 20} {
			if err := os.MkdirAll(filepath.Join(dir, folderName(step)), 0o777); err != nil {
				t.Fatal(err)
			}
		}
	}
}
