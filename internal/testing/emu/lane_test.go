//go:build emu && cgo && linux

package emu

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/internal/tools/gencuda/cudatext"
	"github.com/weft-ml/weft/internal/tools/lower"
	"github.com/weft-ml/weft/kernels/expr"
	"github.com/weft-ml/weft/kernels/expr/double"
	"github.com/weft-ml/weft/kernels/expr/lane"
)

// specials are operands at which algorithms go wrong first.
var specials = func() []float32 {
	xs := []float32{0, 1, 2, 3, 0.5, 1.5, 2.5, 10, 88, 89, 103, 104, 127, 128, 149, 150, 151, 252, 1e-3, 1e-7, 1e10,
		1e30,
		lane.TrigLimit, lane.TrigLimit + 1, 65504, 65520, 1 << 23, 1 << 24, 1 << 31, 0x1p-24, 0x1p-25, 0x1p-126,
		0x1p-127, 0x1p-149,
		math.Pi, math.Pi / 2, 0x1.891f3cp15, 0x1.9a238ep30, // the sines of these two are almost halfway between numbers
		0x1.f37c8ap95, // the nearest to a multiple of pi/2
		math.MaxFloat32, float32(math.Inf(1)), float32(math.NaN())}
	for _, x := range xs {
		xs = append(xs, -x, math.Nextafter32(x, 0), math.Nextafter32(x, float32(math.Inf(1))))
	}
	return xs
}()

// operands are n vectors: all pairs of special values, then random bits and numbers near 1.
func operands(r *rand.Rand, n, random int) [][]float32 {
	v := make([][]float32, n)
	for i := range specials {
		for j := range specials {
			for k := range v {
				v[k] = append(v[k], specials[[...]int{i, j, (i + 7*j) % len(specials)}[k%3]])
			}
		}
	}
	for i := range random {
		for k := range v {
			x := math.Float32frombits(r.Uint32())
			if i%2 == 1 {
				x = float32(r.NormFloat64())
			}
			v[k] = append(v[k], x)
		}
	}
	return v
}

// same tells whether two numbers have the same bits, or are both NaN.
func same(x, y float32) bool {
	return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
}

// TestPrimitiveInstructions compiles the CUDA text of every instruction and compares its bits with the definition.
func TestPrimitiveInstructions(t *testing.T) {
	d := fresh(t, plain)
	var text strings.Builder
	text.WriteString("#include \"lane.cuh\"\n")
	for i := range lane.Instrs {
		in := &lane.Instrs[i]
		fmt.Fprintf(&text, "%sKERNEL(t_%s, 256, 1)(const float* a, const float* b, const float* c, float* y, "+
			"uint32_t n) {\n", cudatext.Instr(in), in.Name)
		text.WriteString("  const uint32_t i = blockIdx.x * 256 + threadIdx.x;\n")
		fmt.Fprintf(&text, "  if (i < n) y[i] = f32_%s(%s);\n}\nEXPORT(t_%s);\n", in.Name,
			strings.Join([]string{"a[i]", "b[i]", "c[i]"}[:in.Args], ", "), in.Name)
	}
	module := compiled(t, d, "instructions.cu", text.String())

	r := rand.New(rand.NewPCG(1, 2))
	x := operands(r, 3, 100_000)
	n := len(x[0])
	a, b, c, y := upload(t, d, x[0]), upload(t, d, x[1]), upload(t, d, x[2]), upload(t, d, x[0])
	for i := range lane.Instrs {
		in := &lane.Instrs[i]
		f, err := d.Function(module, "t_"+in.Name)
		must(t, err)
		must(t, d.Launch(f, [3]uint32{uint32(n+255) / 256, 1, 1}, [3]uint32{256, 1, 1}, 0, 0, a, b, c, y, uint32(n)))
		p, wrong := in.Program(), 0
		for i, got := range download[float32](t, d, y, n) {
			if want := in.Eval(p, x[0][i], x[1][i], x[2][i]); !same(got, want) && wrong < 3 {
				wrong++
				t.Errorf("%s(%x, %x, %x) = %x, want %x", in.Name, x[0][i], x[1][i], x[2][i], got, want)
			}
		}
	}
}

// TestPrimitiveLogFloat64: the logarithm of f64.cuh has the bits of package double.
func TestPrimitiveLogFloat64(t *testing.T) {
	d := fresh(t, plain)
	module := compiled(t, d, "log.cu", `#include "f64.cuh"
KERNEL(t_log, 256, 1)(const double* x, double* y, uint32_t n) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) y[i] = f64_log(x[i]);
}
EXPORT(t_log);
`)
	f, err := d.Function(module, "t_log")
	must(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	x := []float64{0, math.Copysign(0, -1), -1, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64, 0x1p-1022,
		0x1p-1074, 0x1.8p-1050}
	for range 50_000 {
		x = append(x, math.Float64frombits(r.Uint64()), 1+r.NormFloat64()/8, r.ExpFloat64())
	}
	for _, v := range []float64{1, math.Sqrt2, math.Sqrt2 / 2, 2} {
		x = append(x, v, math.Nextafter(v, 0), math.Nextafter(v, 4))
	}
	n, p := uint32(len(x)), upload(t, d, x)
	must(t, d.Launch(f, [3]uint32{(n + 255) / 256, 1, 1}, [3]uint32{256, 1, 1}, 0, 0, p, p, n))
	for i, got := range download[float64](t, d, p, len(x)) {
		want := double.Log(x[i])
		if math.Float64bits(got) != math.Float64bits(want) && !(got != got && want != want) {
			t.Fatalf("log(%x) = %x, want %x", x[i], got, want)
		}
	}
}

// expressions are functions as training uses them.
func expressions(t *testing.T) map[string]*expr.Func {
	all := map[string]*expr.Func{}
	for _, name := range []string{"gelu", "gelu_tanh", "silu", "mish", "softplus", "elu(x, 1.5) + 0*x"} {
		src := name
		if !strings.Contains(name, "(") {
			src += "(x)"
		}
		f := expr.Must(src, []string{"x"}, nil)
		key, _, _ := strings.Cut(name, "(")
		all[key] = f
		all[key+"_gradient"] = f.Pullback(0).Func
	}
	for _, c := range pointwiseCases {
		if c.name == "adamw" {
			all[c.name] = expr.Must(c.src, strings.Fields(c.args), strings.Fields(c.params))
		}
	}
	return all
}

// TestPrimitiveExpressions does the same for whole expressions, each lowered to one program.
func TestPrimitiveExpressions(t *testing.T) {
	d := fresh(t, plain)
	var text strings.Builder
	text.WriteString("#include \"lane.cuh\"\nstruct Vectors { const float* in[8]; float u[8]; float* out[4]; };\n")
	programs := map[string]*lane.Program{}
	functions := expressions(t)
	names := slices.Sorted(maps.Keys(functions)) // so that the text is the same each time: its image is found by that
	for _, name := range names {
		p, err := lower.Expression(functions[name], 0)
		must(t, err)
		programs[name] = p
		text.WriteString(cudatext.Program(p, name))
		var args []string
		for k := range p.Ins {
			args = append(args, fmt.Sprintf("v.in[%d][i]", k))
		}
		for k := range p.Uniforms {
			args = append(args, fmt.Sprintf("v.u[%d]", k))
		}
		for k := range p.Outs {
			if len(p.Outs) > 1 {
				args = append(args, fmt.Sprintf("v.out[%d][i]", k))
			}
		}
		call := fmt.Sprintf("%s(%s)", name, strings.Join(args, ", "))
		if len(p.Outs) == 1 {
			call = "v.out[0][i] = " + call
		}
		fmt.Fprintf(&text, "KERNEL(t_%s, 256, 1)(Vectors v, uint32_t n) {\n  const uint32_t i = blockIdx.x * 256 + "+
			"threadIdx.x;\n  if (i < n) %s;\n}\nEXPORT(t_%s);\n", name, call, name)
	}
	module := compiled(t, d, "expressions.cu", text.String())

	r := rand.New(rand.NewPCG(3, 4))
	for _, name := range names {
		p := programs[name]
		x := operands(r, max(2, p.Ins), 20_000)
		n := len(x[0])
		type vectors struct {
			in  [8]Ptr
			u   [8]float32
			out [4]Ptr
		}
		var v vectors
		for k := range p.Ins {
			v.in[k] = upload(t, d, x[k])
		}
		for k := range p.Uniforms {
			v.u[k] = float32(r.Float64())
		}
		for k := range p.Outs {
			v.out[k] = upload(t, d, x[0])
		}
		f, err := d.Function(module, "t_"+name)
		must(t, err)
		must(t, d.Launch(f, [3]uint32{uint32(n+255) / 256, 1, 1}, [3]uint32{256, 1, 1}, 0, 0, v, uint32(n)))
		var got [4][]float32
		for k := range p.Outs {
			got[k] = download[float32](t, d, v.out[k], n)
		}
		ins := make([]float32, p.Ins)
		for i := range n {
			for k := range ins {
				ins[k] = x[k][i]
			}
			for k, want := range p.Eval(ins, v.u[:p.Uniforms], nil) {
				if !same(got[k][i], want) {
					t.Fatalf("%s(%x): result %d is %x, want %x", name, ins, k, got[k][i], want)
				}
			}
		}
	}
}
