package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/checkpoint/safetensors"
	"github.com/weft-ml/weft/internal/testing/crashfs"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// backend is the device that the tests use; emu_test.go has another one.
var backend = "cpu"

func device(t testing.TB, seed uint64) *tensor.Device {
	t.Helper()
	dev, err := tensor.Open(backend, tensor.Seed(seed))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// gpt is a small model whose values depend on the seed.
func gpt(t *testing.T, seed uint64, dt tensor.DType, tied bool) *nn.GPT {
	t.Helper()
	model := nn.NewGPT(nn.GPTConfig{Vocab: 11, Context: 5, Width: 8, Heads: 2, Layers: 2, TiedHead: tied})
	if err := nn.Init(device(t, seed), model, nn.DType(dt)); err != nil {
		t.Fatal(err)
	}
	// Norms and biases begin with equal values; here all differ.
	rng := rand.New(rand.NewPCG(seed, 1))
	nn.Walk(model, func(_ string, p *tensor.Tensor) {
		v := make([]float64, p.Len())
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		p.Assign(tensor.FromSlice(v, p.Shape()...))
	})
	return model
}

// host is p as host data, in float64.
func host(p *tensor.Tensor) *tensor.Tensor {
	return tensor.FromSlice(tensor.ToSlice[float64](p), p.Shape()...)
}

// state is the bytes of all parameters by name.
func state(t *testing.T, model any) map[string]string {
	t.Helper()
	all := map[string]string{}
	nn.Walk(model, func(name string, p *tensor.Tensor) {
		raw := engine.Raw(p)
		v, err := io.ReadAll(io.NewSectionReader(raw, 0, raw.Size()))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(v)
	})
	return all
}

// TestRoundTrip saves a model and loads it into another one, in each floating type.
func TestRoundTrip(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16} {
		path := filepath.Join(t.TempDir(), "model.safetensors")
		a, b := gpt(t, 1, dt, true), gpt(t, 2, dt, true)
		for range 2 { // the second time there is a file
			if err := SaveModel(path, a); err != nil {
				t.Fatal(err)
			}
		}
		if maps.Equal(state(t, a), state(t, b)) {
			t.Error("the models are equal before anything is loaded")
		}
		if err := Load(b, path); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(state(t, a), state(t, b)) {
			t.Errorf("%v: other values", dt)
		}
		if list, err := os.ReadDir(filepath.Dir(path)); err != nil || len(list) != 1 {
			t.Errorf("files %v, error %v", list, err)
		}
	}
}

// TestConvert loads each floating type into each: values are those of To.
func TestConvert(t *testing.T) {
	types := []tensor.DType{tensor.Float32, tensor.Float64, tensor.Float16, tensor.BFloat16}
	for _, from := range types {
		path := filepath.Join(t.TempDir(), "model.safetensors")
		a := gpt(t, 1, from, true)
		if err := SaveModel(path, a); err != nil {
			t.Fatal(err)
		}
		for _, to := range types {
			b := gpt(t, 2, to, true)
			before := state(t, b)
			var e *MatchError
			if err := Load(b, path); from != to && (!errors.As(err, &e) || len(e.Wrong) != len(before) ||
				len(e.Missing)+len(e.Extra) > 0 || !strings.Contains(err.Error(), "the option Convert")) {
				t.Errorf("%v to %v without Convert: error %v", from, to, err)
			} else if from != to && !maps.Equal(state(t, b), before) {
				t.Errorf("%v to %v: an error, and other values", from, to)
			}
			if err := Load(b, path, Convert()); err != nil {
				t.Errorf("%v to %v: %v", from, to, err)
			}
			want := tensor.ToSlice[float64](host(a.Tok.Weight).To(to))
			if got := tensor.ToSlice[float64](b.Tok.Weight); !slices.Equal(got, want) {
				t.Errorf("%v to %v: got %v, want %v", from, to, got[:3], want[:3])
			}
		}
	}
}

// writeFile writes float32 tensors with values of their own.
func writeFile(t *testing.T, tensors ...safetensors.Tensor) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	err = safetensors.Write(file, tensors, nil, func(w io.Writer, x safetensors.Tensor) error {
		v := make([]byte, x.Bytes())
		for i := range v {
			v[i] = byte(i*7+len(x.Name)) & 0x3f
		}
		_, err := w.Write(v)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestMatch holds that all differences are told at once, and that nothing has been loaded then.
func TestMatch(t *testing.T) {
	dev := device(t, 1)
	type model struct{ A, B, C *tensor.Tensor }
	f32 := func(name string, shape ...int) safetensors.Tensor {
		return safetensors.Tensor{Name: name, DType: safetensors.F32, Shape: shape}
	}
	as := func(x safetensors.Tensor, d safetensors.DType, aliases ...string) safetensors.Tensor {
		x.DType, x.Aliases = d, aliases
		return x
	}
	right := []safetensors.Tensor{f32("a", 2), f32("b", 3), f32("c", 2, 3)}
	for _, c := range []struct {
		name    string
		file    []safetensors.Tensor
		options []Option
		want    string // a part of the error; "" for none
		loaded  string // names that have changed
	}{
		{"right", right, nil, "", "abc"},
		{"all differences", []safetensors.Tensor{f32("a", 3), as(f32("b", 3), safetensors.I32), f32("x", 1)}, nil,
			"1 of the model's are missing: c; 1 are not in the model: x; 2 are different: a has shape [3] in the " +
				"file, want [2], b is I32 in the file, want F32 (the option Rename", ""},
		{"missing", right[:2], nil, "1 of the model's are missing: c (the option Partial", ""},
		{"missing and partial", right[:2], []Option{Partial()}, "", "ab"},
		{"extra", append(slices.Clone(right), f32("x")), nil, "1 are not in the model: x (the option Partial", ""},
		{"extra and partial", append(slices.Clone(right), f32("x")), []Option{Partial()}, "", "abc"},
		{"wrong shape and partial", []safetensors.Tensor{f32("a", 2), f32("b", 2)}, []Option{Partial()},
			"b has shape", ""},
		{"as many elements", []safetensors.Tensor{f32("a", 2, 1)}, []Option{Partial()}, "a has shape [2 1]", ""},
		{"nothing in common", []safetensors.Tensor{f32("x")}, []Option{Partial()}, "3 of the model's are missing", ""},
		{"no conversion of integers", []safetensors.Tensor{as(f32("a", 2), safetensors.I64)},
			[]Option{Partial(), Convert()}, "a is I64", ""},
		{"no conversion of unknown types", []safetensors.Tensor{as(f32("a", 2), safetensors.F8_E4M3)},
			[]Option{Partial(), Convert()}, "a is F8_E4M3", ""},
		{"renamed", []safetensors.Tensor{f32("a", 2), f32("b", 3), f32("x.1.y", 3, 2), f32("mask.0")},
			[]Option{Rename([]Rule{{"x.*.y", "c", true}, {"mask.*", "", false}})}, "", "abc"},
		{"renamed, the wrong way round", []safetensors.Tensor{f32("x", 2, 3)},
			[]Option{Partial(), Rename([]Rule{{"x", "c", true}})}, "c has shape [2 3] in the file, want [3 2]", ""},
		{"a vector transposed", []safetensors.Tensor{f32("x", 2)},
			[]Option{Partial(), Rename([]Rule{{"x", "a", true}})}, "a has shape", ""},
		{"two for one", []safetensors.Tensor{f32("a", 2), f32("x", 2)},
			[]Option{Partial(), Rename([]Rule{{"x", "a", false}})}, "a is there as a and as x", ""},
		{"an alias", []safetensors.Tensor{as(f32("b", 3), safetensors.F32), as(f32("x", 2), safetensors.F32, "a")},
			[]Option{Partial()}, "", "ab"},
		{"tied in the file alone", []safetensors.Tensor{f32("c", 2, 3), as(f32("x", 3), safetensors.F32, "b", "y")},
			[]Option{Partial()}, "", "bc"},
	} {
		m := &model{nn.Parameter(nn.Constant(9), 2), nn.Parameter(nn.Constant(9), 3),
			nn.Parameter(nn.Constant(9), 2, 3)}
		if err := nn.Init(dev, m); err != nil {
			t.Fatal(err)
		}
		before := state(t, m)
		err := Load(m, writeFile(t, c.file...), c.options...)
		var e *MatchError
		if (err == nil) != (c.want == "") ||
			err != nil && (!errors.As(err, &e) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
		changed := ""
		after := state(t, m)
		for _, name := range slices.Sorted(maps.Keys(after)) {
			if after[name] != before[name] {
				changed += name
			}
		}
		if changed != c.loaded {
			t.Errorf("%s: loaded %q, want %q", c.name, changed, c.loaded)
		}
	}
	bare := &model{A: nn.Parameter(nil, 2)}
	if err := Load(bare, writeFile(t, f32("a", 2))); !errors.Is(err, tensor.ErrStep) {
		t.Errorf("a model without memory: error %v", err)
	}
	if err := SaveModel(filepath.Join(t.TempDir(), "x"), bare); !errors.Is(err, tensor.ErrStep) {
		t.Errorf("a model without memory: error %v", err)
	}
	var many []safetensors.Tensor
	for i := range 2 * MaxExtra {
		many = append(many, f32(fmt.Sprint("x.", i)))
	}
	var e *MatchError
	err := Load(&model{}, writeFile(t, many...))
	if !errors.As(err, &e) || len(e.Extra) != MaxExtra || len(err.Error()) > 500 {
		t.Errorf("%d names that are not in the model: error %v", len(many), err)
	}
}

// TestGPT2 loads a file with the names and layouts of Hugging Face, with and without prefix, in each conversion.
func TestGPT2(t *testing.T) {
	names := map[string]string{"tok": "wte", "pos": "wpe", "ln1": "ln_1", "ln2": "ln_2", "qkv": "c_attn",
		"proj": "c_proj", "fc1": "c_fc", "fc2": "c_proj", "norm": "ln_f", "blocks": "h"}
	model := gpt(t, 1, tensor.Float32, true)
	for _, prefix := range []string{"", "transformer."} {
		values := map[string]*tensor.Tensor{}
		var tensors []safetensors.Tensor
		add := func(name string, v *tensor.Tensor, aliases ...string) {
			values[prefix+name] = v
			tensors = append(tensors, safetensors.Tensor{Name: prefix + name, DType: safetensors.F32, Shape: v.Shape(),
				Aliases: aliases})
		}
		nn.Walk(model, func(name string, p *tensor.Tensor) {
			parts := strings.Split(name, ".")
			v := host(p).To(tensor.Float32)
			if p.Rank() == 2 && parts[0] == "blocks" {
				v = v.T().Contiguous()
			}
			for i, part := range parts {
				if names[part] != "" {
					parts[i] = names[part]
				}
			}
			switch {
			case name != "tok.weight":
				add(strings.Join(parts, "."), v)
			case prefix == "":
				add("wte.weight", v, "lm_head.weight")
			default: // the head a second time
				add("wte.weight", v)
				tensors = append(tensors, safetensors.Tensor{Name: "lm_head.weight", DType: safetensors.F32,
					Shape: v.Shape()})
				values["lm_head.weight"] = v
			}
		})
		add("h.0.attn.bias", tensor.Zeros(tensor.Float32, 1, 1, 5, 5))
		add("h.1.attn.masked_bias", tensor.Zeros(tensor.Float32))
		path := filepath.Join(t.TempDir(), "model.safetensors")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := safetensors.Write(file, tensors, nil, func(w io.Writer, x safetensors.Tensor) error {
			return binary.Write(w, binary.LittleEndian, tensor.ToSlice[float32](values[x.Name]))
		}); err != nil {
			t.Fatal(err)
		}
		file.Close()
		for _, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16} {
			got := gpt(t, 2, dt, true)
			if err := Load(got, path, Rename(GPT2), Convert()); err != nil {
				t.Errorf("%q: %v", prefix, err)
				continue
			}
			want := map[string][]float64{}
			nn.Walk(model, func(name string, p *tensor.Tensor) {
				want[name] = tensor.ToSlice[float64](host(p).To(dt))
			})
			nn.Walk(got, func(name string, p *tensor.Tensor) {
				if !slices.Equal(tensor.ToSlice[float64](p), want[name]) {
					t.Errorf("%q, %v: %s has other values", prefix, dt, name)
				}
			})
		}
	}
}

// TestRename holds which names a rule fits.
func TestRename(t *testing.T) {
	rules := []Rule{{"a.*.b.*", "x.*.*", false}, {"a.*", "y.*", true}, {"a", "", true}}
	for name, want := range map[string]string{"a.1.b.2": "x.1.2", "a.1": "y.1", "a.1.b": "a.1.b",
		"a.1.b.2.c": "a.1.b.2.c", "a": "", "b": "b", "a.": "y.", "": "", "ab": "ab"} {
		got, transpose := rename(rules, name)
		if got != want || transpose != (name == "a" || name == "a.1" || name == "a.") {
			t.Errorf("%q: got %q, transposed %v, want %q", name, got, transpose, want)
		}
	}
}

// TestPieces copies tensors of several pieces, transposed and converted, whose last piece is smaller.
func TestPieces(t *testing.T) {
	const rows, cols = 700, 1501 // more than copyBuffer / 8 elements
	v := make([]float32, rows*cols)
	for i := range v {
		v[i] = float32(i % 1009)
	}
	x := tensor.FromSlice(v, rows, cols)
	path := filepath.Join(t.TempDir(), "x")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := []safetensors.Tensor{{Name: "w", DType: safetensors.F32, Shape: []int{rows, cols}}}
	if err := safetensors.Write(file, w, nil, func(w io.Writer, _ safetensors.Tensor) error {
		return binary.Write(w, binary.LittleEndian, v)
	}); err != nil {
		t.Fatal(err)
	}
	for _, dt := range []tensor.DType{tensor.Float32, tensor.BFloat16, tensor.Float64} {
		for _, transpose := range []bool{false, true} {
			type model struct{ W *tensor.Tensor }
			m, want := &model{nn.Parameter(nil, rows, cols)}, x
			if transpose {
				m, want = &model{nn.Parameter(nil, cols, rows)}, x.T()
			}
			if err := nn.Init(device(t, 1), m, nn.DType(dt)); err != nil {
				t.Fatal(err)
			}
			if err := Load(m, path, Convert(), Rename([]Rule{{"w", "w", transpose}})); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(tensor.ToSlice[float64](m.W), tensor.ToSlice[float64](want.Contiguous().To(dt))) {
				t.Errorf("%v, transposed %v: other values", dt, transpose)
			}
		}
	}
}

// TestShortFile lets a file become shorter while it is loaded.
func TestShortFile(t *testing.T) {
	for _, c := range []pair{
		{to: tensor.Zeros(tensor.Float32, 2, 3)}, {to: tensor.Zeros(tensor.BFloat16, 2, 3)},
		{to: tensor.Zeros(tensor.Float32, 3, 2), transpose: true},
	} {
		var file bytes.Buffer
		x := []safetensors.Tensor{{Name: "x", DType: safetensors.F32, Shape: []int{2, 3}}}
		if err := safetensors.Write(&file, x, nil, func(w io.Writer, _ safetensors.Tensor) error {
			_, err := w.Write(make([]byte, 24))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		r := &short{file.Bytes()}
		f, err := safetensors.Open(r, int64(file.Len()))
		if err != nil {
			t.Fatal(err)
		}
		c.from, _ = f.Lookup("x")
		if err := c.copy(new(buffer)); err != nil {
			t.Error(err)
		}
		r.file = r.file[:len(r.file)-1]
		if err := c.copy(new(buffer)); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("to %v: error %v", c.to, err)
		}
	}
}

type short struct{ file []byte }

func (s *short) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(s.file).ReadAt(p, off)
}

// TestMemory saves and loads 64 MB: all memory that is taken on the way is a part of that.
func TestMemory(t *testing.T) {
	var m []*tensor.Tensor
	for range 16 {
		m = append(m, nn.Parameter(nil, 1024, 1024))
	}
	if err := nn.Init(device(t, 1), m); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x")
	for name, do := range map[string]func() error{
		"save": func() error { return SaveModel(path, m) }, "load": func() error { return Load(m, path) },
	} {
		if name == "load" {
			if err := SaveModel(path, m); err != nil {
				t.Fatal(err)
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := do(); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		taken := after.TotalAlloc - before.TotalAlloc
		t.Logf("%s: %.1f MB for a model of 67 MB", name, float64(taken)/1e6)
		if taken > 3*copyBuffer {
			t.Errorf("%s takes %d bytes", name, taken)
		}
	}
}

// TestMemoryOfRun saves and resumes a run of 101 MB: without a snapshot both take a part of that.
func TestMemoryOfRun(t *testing.T) {
	dev, model := device(t, 1), []*tensor.Tensor{nn.Parameter(nil, 2048, 4096)}
	if err := nn.Init(dev, model); err != nil {
		t.Fatal(err)
	}
	opt := optim.New(optim.AdamW(1), model)
	if err := dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(s.In(model[0]).Sum())
		return opt.Step(s)
	}); err != nil {
		t.Fatal(err)
	}
	ck, err := Open(t.TempDir(), Synchronous())
	if err != nil {
		t.Fatal(err)
	}
	st := &State{Device: dev, Model: model, Optimizer: opt}
	for _, do := range []func() error{
		func() error { return ck.Save(1, st, nil) }, func() error { _, err := ck.Resume(st); return err },
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := do(); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; taken > 40<<20 {
			t.Errorf("%d bytes", taken)
		} else {
			t.Logf("%.1f MB for a state of 101 MB", float64(taken)/1e6)
		}
	}
}

// TestCrash lets the power fail, and each operation, while a file is replaced: the old one is there, or the new one,
// and after SaveModel has returned the new one.
func TestCrash(t *testing.T) {
	a, b := gpt(t, 1, tensor.Float32, true), gpt(t, 2, tensor.Float32, true)
	files := map[string]string{} // content by model
	for name, model := range map[string]any{"a": a, "b": b} {
		fsys := crashfs.New()
		if err := saveModel(fsys, "model", model); err != nil {
			t.Fatal(err)
		}
		files[contentOf(fsys)] = name
	}
	crashes, failed := 0, 0
	for fault := range 20 {
		for _, done := range []bool{false, true} {
			rng := rand.New(rand.NewPCG(uint64(fault), 1))
			fsys := crashfs.New()
			if err := saveModel(fsys, "model", a); err != nil {
				t.Fatal(err)
			}
			saved, begun := "a", fsys.Calls()
			check := func() {
				for range 100 {
					crashes++
					after := fsys.Crash(crashfs.Random(rng))
					if got := files[contentOf(after)]; got != saved && got != "b" {
						t.Fatalf("fault at %d: after a crash the file is %q, want %s", fault, got, saved)
					}
				}
			}
			fsys.After = check
			fsys.Fault = func(call int, _, _ string) (error, bool) {
				if call == begun+fault {
					return syscall.EIO, done
				}
				return nil, false
			}
			if err := saveModel(fsys, "model", b); err == nil {
				saved = "b"
			} else if failed++; !errors.Is(err, syscall.EIO) {
				t.Errorf("fault at %d: error %v", fault, err)
			}
			check()
		}
	}
	t.Logf("%d crashes, %d saves that failed", crashes, failed)
	if failed < 10 {
		t.Errorf("%d saves failed", failed)
	}
}

// content is the file "model".
func contentOf(fsys *crashfs.FS) string {
	fsys.After, fsys.Fault = nil, nil
	r, err := fsys.Open("model")
	if err != nil {
		return err.Error()
	}
	v := make([]byte, r.Size())
	r.ReadAt(v, 0)
	return string(v)
}

// TestFullDisk holds that a disk without space keeps the old file, and nothing else.
func TestFullDisk(t *testing.T) {
	fsys := crashfs.New()
	if err := saveModel(fsys, "model", gpt(t, 1, tensor.Float32, true)); err != nil {
		t.Fatal(err)
	}
	old := contentOf(fsys)
	for fsys.Space = 0; ; fsys.Space = fsys.Space + 1000 {
		space := fsys.Space
		err := saveModel(fsys, "model", gpt(t, 2, tensor.Float32, true))
		if err == nil {
			break
		}
		list, _ := fsys.ReadDir(".")
		if !errors.Is(err, syscall.ENOSPC) || contentOf(fsys) != old || len(list) != 1 || fsys.Space != space {
			t.Fatalf("error %v, files %v, space %d of %d", err, list, fsys.Space, space)
		}
	}
	if contentOf(fsys) == old {
		t.Error("the old file is there after a save")
	}
}
