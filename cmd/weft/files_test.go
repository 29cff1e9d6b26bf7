package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-ml/weft/checkpoint"
	"github.com/weft-ml/weft/checkpoint/npy"
	"github.com/weft-ml/weft/checkpoint/safetensors"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

const torchFiles = "../../checkpoint/torchfile/testdata/"

// onFiles runs the program here.
func onFiles(args ...string) (out, errs string, code int) {
	var stdout, stderr bytes.Buffer
	code = run(args, &stdout, &stderr)
	return stdout.String(), stderr.String(), code
}

// A given is a tensor for a file of a test.
type given struct {
	name  string
	dtype safetensors.DType
	shape []int
	data  any // a slice of numbers
}

// fileOf writes tensors to a file, of NumPy if its name says so, and returns its path.
func fileOf(t *testing.T, name string, all ...given) string {
	t.Helper()
	var tensors []safetensors.Tensor
	data := map[string]any{}
	for _, g := range all {
		tensors = append(tensors, safetensors.Tensor{Name: g.name, DType: g.dtype, Shape: g.shape})
		data[g.name] = g.data
	}
	path := filepath.Join(t.TempDir(), name)
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	write := func(w io.Writer, x safetensors.Tensor) error {
		return binary.Write(w, binary.LittleEndian, data[x.Name])
	}
	if filepath.Ext(name) == ".npz" {
		err = npy.WriteZip(file, tensors, write)
	} else {
		err = safetensors.Write(file, tensors, nil, write)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestInspectFormats looks into a file of PyTorch and one of NumPy.
func TestInspectFormats(t *testing.T) {
	out, errs, code := onFiles("inspect", torchFiles+"2.15/adamw.pt")
	if code != 0 || errs != "" {
		t.Errorf("exit code %d, %s", code, errs)
	}
	says(t, out, "adamw.pt: 24 tensors\n", "  epoch: 3\n", "  optimizer.param_groups.0.lr: 0.01\n", "  done: true\n",
		"            48  F32          [4 3]                 state_dict.0.weight\n",
		"total: 24 tensors, 108 elements, 432 bytes\n")
	out, _, _ = onFiles("inspect", "../../checkpoint/npy/testdata/fortran.npy")
	says(t, out, "fortran.npy: 1 tensors\n", "            96  F32          [4 6]                 fortran\n")
	if _, errs, code := onFiles("inspect", torchFiles+"2.15/module.pt"); code != 1 || strings.Count(errs, "\n") != 1 ||
		!strings.Contains(errs, `"torch.nn.modules.linear.Linear"`) {
		t.Errorf("a module: exit code %d, %s", code, errs)
	}
}

// TestVerifyTied gives one hash for tied weights, whichever of their names a file has, and for a file that has them
// twice.
func TestVerifyTied(t *testing.T) {
	hash := func(path string) string {
		out, errs, code := onFiles("verify", path)
		if code != 0 || errs != "" {
			t.Errorf("exit code %d, %s", code, errs)
		}
		return out[strings.Index(out, "hash: "):]
	}
	values := []float32{1, 2}
	write := func(w io.Writer, _ safetensors.Tensor) error { return binary.Write(w, binary.LittleEndian, values) }
	want := hash(fileOf(t, "twice.npz", given{"head", safetensors.F32, []int{2}, values},
		given{"wte", safetensors.F32, []int{2}, values}))
	for _, names := range [][]string{{"head", "wte"}, {"wte", "head"}} {
		path := filepath.Join(t.TempDir(), "tied.safetensors")
		file, err := os.Create(path)
		if err == nil {
			tied := safetensors.Tensor{Name: names[0], DType: safetensors.F32, Shape: []int{2}, Aliases: names[1:]}
			err = errors.Join(safetensors.Write(file, []safetensors.Tensor{tied}, nil, write), file.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := hash(path); got != want {
			t.Errorf("%v: %s, want %s", names, got, want)
		}
	}
}

// TestVerify finds what is not finite in each floating type, and gives one hash for the same tensors in two formats.
func TestVerify(t *testing.T) {
	good := []given{
		{"b", safetensors.F32, []int{2}, []float32{1, 2}},
		{"a", safetensors.I64, []int{3}, []int64{math.MinInt64, -1, math.MaxInt64}}, // the bits of NaN
	}
	one, errs, code := onFiles("verify", fileOf(t, "a.safetensors", good...))
	if code != 0 || errs != "" {
		t.Errorf("exit code %d, %s", code, errs)
	}
	says(t, one, "2 tensors, 0 of them with NaN or infinities\nhash: ")
	if two, _, _ := onFiles("verify", fileOf(t, "a.npz", good...)); two != one {
		t.Errorf("NumPy: %s, want %s", two, one)
	}
	for i, other := range []given{
		{"c", safetensors.F32, []int{2}, []float32{1, 2}}, {"b", safetensors.I32, []int{2}, []float32{1, 2}},
		{"b", safetensors.F32, []int{1, 2}, []float32{1, 2}}, {"b", safetensors.F32, []int{2}, []float32{1, 3}},
	} {
		if out, _, _ := onFiles("verify", fileOf(t, "a.safetensors", other, good[1])); out == one {
			t.Errorf("change %d has the same hash", i)
		}
	}
	nan, inf := math.NaN(), math.Inf(-1)
	out, errs, code := onFiles("verify", fileOf(t, "x.safetensors",
		given{"f64", safetensors.F64, []int{3}, []float64{nan, 1, nan}},
		given{"f32", safetensors.F32, []int{2}, []float32{float32(inf), float32(nan)}},
		given{"c64", safetensors.C64, []int{1}, []float32{0, float32(inf)}},
		given{"f16", safetensors.F16, []int{4}, []uint16{0x7c00, 0xfc00, 0x7c01, 0x7bff}},
		given{"bf16", safetensors.BF16, []int{4}, []uint16{0x7f80, 0xff81, 0x7f7f, 0xffc0}},
		given{"fine", safetensors.F32, []int{0}, []float32{}},
		given{"f8", safetensors.F8_E4M3, []int{1}, []uint8{0x7f}}))
	if code != 1 || errs != "" {
		t.Errorf("exit code %d, %s", code, errs)
	}
	says(t, out, "f64: 2 NaN, 0 infinite\n", "f32: 1 NaN, 1 infinite\n", "c64: 0 NaN, 1 infinite\n",
		"\nf16: 1 NaN, 2 infinite\n", "bf16: 2 NaN, 1 infinite\n",
		"7 tensors, 5 of them with NaN or infinities, 1 of types of 8 bits or less, which are not looked at\n")
	if _, errs, code := onFiles("verify", "none"); code != 1 || strings.Count(errs, "\n") != 1 {
		t.Errorf("no file: exit code %d, %s", code, errs)
	}
}

// TestVerifyCheckpoint verifies a run's folder and a step's: whole, with a NaN, with a file that is damaged or missing.
func TestVerifyCheckpoint(t *testing.T) {
	dev, err := tensor.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	model := &struct{ A, B *nn.Linear }{nn.NewLinear(2, 3), nn.NewLinear(1, 1)}
	if err := nn.Init(dev, model); err != nil {
		t.Fatal(err)
	}
	opt := optim.New(optim.AdamW(1e-3), model.A)
	dir := t.TempDir()
	ck, err := checkpoint.Open(dir, checkpoint.Synchronous())
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	st := checkpoint.State{Device: dev, Model: model, Optimizer: opt,
		Optimizers: map[string]*optim.Optimizer{"other": optim.New(optim.SGD(1), model.B)}}
	save := func(step int) {
		if err := ck.Save(step, &st, nil); err != nil {
			t.Fatal(err)
		}
	}
	save(7)
	out, errs, code := onFiles("verify", dir)
	if code != 0 || errs != "" {
		t.Errorf("exit code %d, %s", code, errs)
	}
	step := filepath.Join(dir, "step-00000007")
	says(t, out, step+": step 7 of run ", ", on cpu\n", "  model.safetensors\n4 tensors, 0 of them with NaN",
		"\nhash: "+opt.Hash()+"\nhash of other: ")
	if again, _, _ := onFiles("verify", step); again != out {
		t.Errorf("the step's folder: %s, want %s", again, out)
	}
	model.A.Weight.Assign(tensor.Full(math.NaN(), tensor.Float32, 3, 2))
	save(8)
	out, errs, code = onFiles("verify", dir)
	if code != 1 || errs != "" {
		t.Errorf("NaN: exit code %d, %s", code, errs)
	}
	says(t, out, "step 8 of", "weight: 6 NaN, 0 infinite\n", "\nhash: "+opt.Hash())
	file := filepath.Join(step, "optimizer.safetensors")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-1] ^= 1
	if err := os.WriteFile(file, text, 0o666); err != nil {
		t.Fatal(err)
	}
	_, errs, code = onFiles("verify", step)
	if code != 1 || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "optimizer.safetensors is damaged") {
		t.Errorf("a damaged file: exit code %d, %s", code, errs)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	out, errs, code = onFiles("verify", step)
	if code != 1 || out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "no such file") {
		t.Errorf("a missing file: exit code %d, %s, %s", code, out, errs)
	}
}

// TestDiff compares files that differ in each way.
func TestDiff(t *testing.T) {
	large := make([]float32, pieceBytes/2)
	other := append([]float32(nil), large...)
	other[len(other)-1] = 1
	nan, minusZero := float32(math.NaN()), float32(math.Copysign(0, -1))
	a := fileOf(t, "a.safetensors",
		given{"same", safetensors.F32, []int{1}, []float32{nan}},
		given{"f32", safetensors.F32, []int{2, 3}, []float32{1, 2, 3, 4, 5, 6}},
		given{"signs", safetensors.F32, []int{2}, []float32{math.SmallestNonzeroFloat32, 0}},
		given{"f64", safetensors.F64, []int{1}, []float64{math.MaxFloat64}},
		given{"nan", safetensors.F32, []int{2}, []float32{nan, 1}},
		given{"f16", safetensors.F16, []int{2}, []uint16{0x3c00, 0x3c00}},
		given{"bf16", safetensors.BF16, []int{1}, []uint16{0x3f80}},
		given{"c64", safetensors.C64, []int{3}, []float32{1, 2, 3, 4, 5, 6}},
		given{"i64", safetensors.I64, []int{1}, []int64{-5}}, given{"u8", safetensors.U8, []int{1}, []uint8{255}},
		given{"u64", safetensors.U64, []int{1}, []uint64{1 << 63}}, given{"i8", safetensors.I8, []int{1}, []int8{-1}},
		given{"f8", safetensors.F8_E5M2, []int{2}, []uint8{1, 2}},
		given{"large", safetensors.F32, []int{2, len(large) / 2}, large},
		given{"gone", safetensors.F32, []int{0}, []float32{}}, given{"shape", safetensors.F32, []int{1}, []float32{1}},
		given{"type", safetensors.F32, []int{1}, []float32{1}})
	b := fileOf(t, "b.safetensors",
		given{"same", safetensors.F32, []int{1}, []float32{nan}},
		given{"f32", safetensors.F32, []int{2, 3}, []float32{1, 2, 3, 4, math.Nextafter32(5, 6), 6.5}},
		given{"signs", safetensors.F32, []int{2}, []float32{-math.SmallestNonzeroFloat32, minusZero}},
		given{"f64", safetensors.F64, []int{1}, []float64{-math.MaxFloat64}},
		given{"nan", safetensors.F32, []int{2}, []float32{1, 3}},
		given{"f16", safetensors.F16, []int{2}, []uint16{0x3c00, 0x3c02}},
		given{"bf16", safetensors.BF16, []int{1}, []uint16{0x3f7f}},
		given{"c64", safetensors.C64, []int{3}, []float32{1, 2, 3, 5, 5, 6}},
		given{"i64", safetensors.I64, []int{1}, []int64{7}}, given{"u8", safetensors.U8, []int{1}, []uint8{0}},
		given{"u64", safetensors.U64, []int{1}, []uint64{0}}, given{"i8", safetensors.I8, []int{1}, []int8{1}},
		given{"f8", safetensors.F8_E5M2, []int{2}, []uint8{1, 3}},
		given{"large", safetensors.F32, []int{2, len(large) / 2}, other},
		given{"new", safetensors.F32, []int{0}, []float32{}},
		given{"shape", safetensors.F32, []int{1, 1}, []float32{1}},
		given{"type", safetensors.I32, []int{1}, []float32{1}})
	out, errs, code := onFiles("diff", a, b)
	if code != 1 || errs != "" {
		t.Errorf("exit code %d, %s", code, errs)
	}
	const want = `bf16: 1 of 1 numbers, the first at [0], largest difference 0.00390625, 1 ulp
c64: 1 of 6 numbers, the first at [1], largest difference 1, 2097152 ulp
f16: 1 of 2 numbers, the first at [1], largest difference 0.00195312, 2 ulp
f32: 2 of 6 numbers, the first at [1 1], largest difference 0.5, 1048576 ulp
f64: 1 of 1 numbers, the first at [0], largest difference +Inf, 18437736874454810622 ulp
f8: 1 of 2 bytes, the first at 1
gone: only in A
i64: 1 of 1 numbers, the first at [0], largest difference 12
i8: 1 of 1 numbers, the first at [0], largest difference 2
large: 1 of 524288 numbers, the first at [1 262143], largest difference 1, 1065353216 ulp
nan: 2 of 2 numbers, the first at [0], largest difference NaN, 1077936128 ulp
new: only in B
shape: F32[1] in A, F32[1 1] in B
signs: 2 of 2 numbers, the first at [0], largest difference 2.8026e-45, 2 ulp
type: F32[1] in A, I32[1] in B
u64: 1 of 1 numbers, the first at [0], largest difference 9.22337e+18
u8: 1 of 1 numbers, the first at [0], largest difference 255
17 of 18 tensors differ
`
	if out != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
	if out, _, code := onFiles("diff", a, a); code != 0 || out != "0 of 17 tensors differ\n" {
		t.Errorf("the same file: exit code %d, %s", code, out)
	}
	if out, _, code := onFiles("diff", torchFiles+"1.13/views.pt", torchFiles+"2.15/views.pt"); code != 0 {
		t.Errorf("two versions of PyTorch: exit code %d, %s", code, out)
	}
	for _, args := range [][]string{{a, "none"}, {"none", a}, {a, torchFiles + "2.15/script.pt"}} {
		out, errs, code := onFiles("diff", args[0], args[1])
		if code != 2 || out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit code %d, %s, %s", args, code, out, errs)
		}
	}
	if _, errs, code := onFiles("diff", a); code != 2 || !strings.Contains(errs, "B is missing") {
		t.Errorf("one file: exit code %d, %s", code, errs)
	}
}
