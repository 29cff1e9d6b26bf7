package golden

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// small is a valid document; tests damage it by replacing substrings.
const small = `{"format":1,"script":"s.py","torch":"1","notes":{"n":"text"},
"arrays":{
 "a":{"dtype":"float64","shape":[2,1],"data":"AAAAAAAA8D8AAAAAAAD4fw=="},
 "b":{"dtype":"bool","shape":[2],"data":"AAE="},
 "i":{"dtype":"int64","shape":[],"data":"/v////////8="},
 "s":{"dtype":"float32","shape":[1],"data":"zczMPQ=="},
 "l":{"dtype":"int64","shape":[1],"data":"AQAAAAAAIAA="},
 "m":{"dtype":"int64","shape":[1],"data":"/////////38="},
 "e":{"dtype":"uint8","shape":[0,3],"data":""}},
"cases":[{"name":"abs/0","op":"abs","attrs":
  {"axis":-1,"axes":[0,2],"keepdim":true,"mode":"tanh","eps":0.1,"fill":"-inf"},
 "inputs":["a"],"outputs":["a"],"weights":["a"],"grads":[""],"edge":true}]}`

func zip(t *testing.T, text string) []byte {
	t.Helper()
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	if _, err := zw.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func load(t *testing.T, raw []byte) (*File, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "g.json.gz")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(path)
}

func TestLoad(t *testing.T) {
	f, err := load(t, zip(t, small))
	if err != nil {
		t.Fatal(err)
	}
	if f.Script != "s.py" || f.Torch != "1" || f.Notes["n"] != "text" {
		t.Errorf("header: %q %q %v", f.Script, f.Torch, f.Notes)
	}
	if got, want := f.Names(), []string{"a", "b", "e", "i", "l", "m", "s"}; !slices.Equal(got, want) {
		t.Errorf("Names() = %v, want %v", got, want)
	}
	a, shape := f.Float64("a")
	if a[0] != 1 || !math.IsNaN(a[1]) || !slices.Equal(shape, []int{2, 1}) {
		t.Errorf("a = %v %v", a, shape)
	}
	if s, _ := f.Float32("s"); s[0] != 0.1 {
		t.Errorf("s = %v", s)
	}
	if i, shape := f.Int64("i"); i[0] != -2 || len(shape) != 0 {
		t.Errorf("i = %v %v", i, shape)
	}
	if b, _ := f.Bool("b"); b[0] || !b[1] {
		t.Errorf("b = %v", b)
	}
	if v, _ := f.Values("b"); v[0] != 0 || v[1] != 1 {
		t.Errorf("Values(b) = %v", v)
	}
	if v, _ := f.Values("s"); v[0] != float64(float32(0.1)) {
		t.Errorf("Values(s) = %v", v)
	}
	if v, shape := f.Values("e"); len(v) != 0 || !slices.Equal(shape, []int{0, 3}) {
		t.Errorf("Values(e) = %v %v", v, shape)
	}
}

func TestReadersReturnCopies(t *testing.T) {
	f, err := load(t, zip(t, small))
	if err != nil {
		t.Fatal(err)
	}
	a, shape := f.Float64("a")
	a[0], shape[0] = 7, 7
	if a, shape := f.Float64("a"); a[0] != 1 || shape[0] != 2 {
		t.Errorf("a caller changed the file: %v %v", a, shape)
	}
}

func TestAttributes(t *testing.T) {
	f, err := load(t, zip(t, small))
	if err != nil {
		t.Fatal(err)
	}
	c := f.Cases[0]
	if c.Name != "abs/0" || c.Op != "abs" || !c.Edge || c.Grads[0] != "" {
		t.Errorf("case: %+v", c)
	}
	if c.Int("axis") != -1 || !slices.Equal(c.Ints("axes"), []int{0, 2}) || !c.Bool("keepdim") ||
		c.Text("mode") != "tanh" {
		t.Errorf("attributes: %s", c.Attrs)
	}
	if c.Float("eps") != 0.1 || !math.IsInf(c.Float("fill"), -1) {
		t.Errorf("eps %v, fill %v", c.Float("eps"), c.Float("fill"))
	}
	if !c.Has("eps") || c.Has("dim") {
		t.Error("Has is wrong")
	}
}

func TestMisusePanics(t *testing.T) {
	f, err := load(t, zip(t, small))
	if err != nil {
		t.Fatal(err)
	}
	c := f.Cases[0]
	for _, tt := range []struct {
		want string
		call func()
	}{
		{`no array "x"`, func() { f.Float64("x") }},
		{`array "a" is float64, not float32`, func() { f.Float32("a") }},
		{`no attribute "dim"`, func() { c.Int("dim") }},
		{`attribute "mode"`, func() { c.Float("mode") }},
		{"float64 cannot hold 9007199254740993", func() { f.Values("l") }},
		{"float64 cannot hold 9223372036854775807", func() { f.Values("m") }},
	} {
		t.Run(tt.want, func(t *testing.T) {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, tt.want) {
					t.Errorf("panic %q, want %q", got, tt.want)
				}
			}()
			tt.call()
		})
	}
}

func TestBadFiles(t *testing.T) {
	for _, tt := range []struct{ name, old, new, want string }{
		{"not JSON", `{"format"`, `{format`, "bad JSON"},
		{"cut short", `"edge":true}]}`, `"edge":true}`, "bad JSON"},
		{"more text", `"edge":true}]}`, `"edge":true}]} {}`, "more text after the end"},
		{"unknown field", `"script"`, `"skript"`, "unknown field"},
		{"future format", `"format":1`, `"format":2`, "format is 2"},
		{"no version", `"torch":"1"`, `"torch":""`, "lacks the script or the PyTorch version"},
		{"unknown dtype", `"float64"`, `"complex64"`, `array "a": unknown dtype "complex64"`},
		{"bad base64", `AAAAAAAA8D8A`, `AAAAAAAA!D8A`, "bad base64"},
		{"short data", `"shape":[2,1]`, `"shape":[3,1]`, "needs 24 bytes, data hold 16"},
		{"long data", `"shape":[2,1]`, `"shape":[1,1]`, "needs 8 bytes, data hold 16"},
		{"negative size", `"shape":[2,1]`, `"shape":[-2,-1]`, "negative size"},
		{"huge shape", `"shape":[2,1]`, `"shape":[4294967296,4294967296]`, "too large"},
		{"fractional size", `"shape":[2,1]`, `"shape":[2.5]`, "bad JSON"},
		{"bool of 2", `"AAE="`, `"AAI="`, "element 1 of a bool array is 2"},
		{"case without name", `"abs/0"`, `""`, "no name"},
		{"case without outputs", `"outputs":["a"]`, `"outputs":[]`, "no outputs"},
		{"missing input", `"inputs":["a"]`, `"inputs":["z"]`, `case "abs/0": no array "z"`},
		{"missing weight", `"weights":["a"]`, `"weights":["z"]`, `no array "z"`},
		{"unmatched weights", `"weights":["a"]`, `"weights":["a","a"]`, "2 weights for 1 outputs"},
		{"unmatched gradients", `"grads":[""]`, `"grads":["",""]`, "2 gradients for 1 inputs"},
		{"missing exact value", `"edge":true`, `"exact":["z"]`, `no array "z"`},
		{"unmatched exact values", `"edge":true`, `"exact":["a","a"]`, "2 exact values for 1 outputs"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(small, tt.old, tt.new, 1)
			if text == small {
				t.Fatal("the replacement changed nothing")
			}
			if _, err := load(t, zip(t, text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestBadContainers(t *testing.T) {
	whole := zip(t, small)
	flipped := slices.Clone(whole)
	flipped[len(flipped)-5] ^= 1 // in the checksum
	for _, tt := range []struct {
		name string
		raw  []byte
		want string
	}{
		{"empty", nil, "bad gzip"},
		{"plain text", []byte(small), "bad gzip"},
		{"cut short", whole[:len(whole)/2], "bad gzip"},
		{"bad checksum", flipped, "bad gzip"},
		{"bomb", zip(t, strings.Repeat(" ", maxBytes+1)), "longer than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := load(t, tt.raw); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
}

// TestModels reads the committed file and checks relations that hold in any
// right file, so that a damaged or half-written one is noticed here.
func TestModels(t *testing.T) {
	f, err := Open("models.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, model := range []string{"mlp", "gpt", "gpt-tied"} {
		for _, precision := range []string{"f64", "f32"} {
			at := model + "/" + precision
			params := f.Under(model + "/init/")
			if len(params) < 6 || !slices.Equal(params, f.Under(at+"/grad/")) ||
				!slices.Equal(params, f.Under(at+"/adamw/final/")) {
				t.Errorf("%s: parameters do not match: %v", at, params)
			}
			loss, _ := f.Values(at + "/loss")
			losses, _ := f.Values(at + "/adamw/losses")
			if len(losses) != 11 || losses[0] != loss[0] || losses[10] >= losses[0] {
				t.Errorf("%s: loss %v, losses %v", at, loss, losses)
			}
			var sum float64
			for _, p := range params {
				grad, shape := f.Values(at + "/grad/" + p)
				if _, init := f.Float32(model + "/init/" + p); !slices.Equal(shape, init) {
					t.Errorf("%s: %s has shape %v, its gradient %v", at, p, init, shape)
				}
				for _, g := range grad {
					sum += g * g
				}
			}
			norm, _ := f.Values(at + "/clip/norm")
			if math.Abs(math.Sqrt(sum)-norm[0]) > 1e-6*norm[0] {
				t.Errorf("%s: norm of the gradients is %v, stored %v", at, math.Sqrt(sum), norm[0])
			}
		}
	}
}

// TestOps reads the committed files, recomputes one smooth function in Go, and
// checks that every shape of weights and gradients fits.
func TestOps(t *testing.T) {
	ops, names := map[string]bool{}, map[string]bool{}
	for _, name := range Ops() {
		f, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		checkOps(t, f, ops, names)
	}
	if !names["tanh/random"] {
		t.Error("no case tanh/random")
	}
	if len(ops) < 110 {
		t.Errorf("%d operations; the files are not complete", len(ops))
	}
}

// checkOps checks the cases of one file, and adds operations and names of cases.
func checkOps(t *testing.T, f *File, ops, names map[string]bool) {
	for _, c := range f.Cases {
		ops[c.Op] = true
		if names[c.Name] {
			t.Errorf("%s: a second case of that name", c.Name)
		}
		names[c.Name] = true
		for i, name := range c.Weights {
			if name != "" && !slices.Equal(f.Array(name).Shape, f.Array(c.Outputs[i]).Shape) {
				t.Errorf("%s: shapes of output and weight %d differ", c.Name, i)
			}
		}
		for i, name := range c.Grads {
			if name != "" && !slices.Equal(f.Array(name).Shape, f.Array(c.Inputs[i]).Shape) {
				t.Errorf("%s: shapes of input and gradient %d differ", c.Name, i)
			}
		}
		if c.Name != "tanh/random" {
			continue
		}
		x, _ := f.Float64(c.Inputs[0])
		y, _ := f.Float64(c.Outputs[0])
		w, _ := f.Float64(c.Weights[0])
		g, _ := f.Float64(c.Grads[0])
		for i := range x {
			if want := math.Tanh(x[i]); math.Abs(y[i]-want) > 1e-15 {
				t.Errorf("tanh(%v) = %v, want %v", x[i], y[i], want)
			}
			if want := w[i] * (1 - y[i]*y[i]); math.Abs(g[i]-want) > 1e-15 {
				t.Errorf("gradient of %v*tanh at %v = %v, want %v", w[i], x[i], g[i], want)
			}
		}
	}
}
