package src

import (
	"regexp"
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

func TestPointwiseText(t *testing.T) {
	p := Pointwise{
		Name: "drop_bf16",
		Func: expr.Must("where(rand(3) < p, 0, x*1.5)", []string{"x"}, []string{"p"}),
		In:   []kernels.DType{kernels.BFloat16}, Out: []kernels.DType{kernels.Float32},
	}
	text, err := p.Text()
	if err != nil {
		t.Fatal(err)
	}
	want := `// where(rand(3) < p, 0, x*1.5)
#include "pointwise.cuh"

struct drop_bf16 {
  using Compute = float;
  using In = Types<bf16>;
  using Out = Types<float>;
  static constexpr int scalars = 1;
  using Streams = RandomStreams<3>;
  DEV_METHOD static void apply(const Compute* in, const Compute* scalar, const Compute* random, Compute* out) {
    const Compute v2 = f32_lt(random[0], scalar[0]);
    const Compute v6 = f32_mul(in[0], 0x1.8p+00f);
    const Compute v7 = f32_where(v2, 0x0p+00f, v6);
    out[0] = v7;
  }
};
POINTWISE(drop_bf16, 4)
`
	if text != want {
		t.Errorf("got\n%swant\n%s", text, want)
	}
}

// TestComputeTypes: what kernels compute with, and its constants.
func TestComputeTypes(t *testing.T) {
	floating, integer := "where(x < 0.1, -3, x) + inf", "where(x < 7, -3, x)"
	for d, want := range map[kernels.DType]string{
		kernels.BFloat16: "float; 0x1.99999ap-04f) f32_where(v2, -0x1.8p+01f, __uint_as_float(0x7f800000u)",
		kernels.Float64:  "double; 0x1.999999999999ap-04) f64_where(v2, -0x1.8p+01, f64_from(0x7ff0000000000000ull)",
		kernels.Int32:    "int64_t; int64_t(0x7ull)) i64_where(v2, int64_t(0xfffffffffffffffdull),",
	} {
		f := expr.Must(floating, []string{"x"}, nil)
		if !d.IsFloat() {
			f = expr.Must(integer, []string{"x"}, nil)
		}
		p := Pointwise{Name: "f", Func: f, In: []kernels.DType{d}, Out: []kernels.DType{d}}
		text, err := p.Text()
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range strings.Fields(want) {
			if !strings.Contains(text, part) {
				t.Errorf("%v: no %q in\n%s", d, part, text)
			}
		}
	}
}

func TestPointwiseErrors(t *testing.T) {
	f := expr.Must("x + y", []string{"x", "y"}, nil)
	for want, p := range map[string]Pointwise{
		"operands: 1 types for 2": {In: []kernels.DType{kernels.Float32}, Out: []kernels.DType{kernels.Float32}},
		"results: 0 types for 1":  {In: []kernels.DType{kernels.Float32, kernels.Float32}},
	} {
		p.Name = "sum"
		if p.Func == nil {
			p.Func = f
		}
		if _, err := p.Text(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestRules holds the sources to the rules of prim.cuh that a text can show.
func TestRules(t *testing.T) {
	rules := []struct {
		name, pattern string
		where         func(file string) bool
	}{
		{"inline assembly outside the primitives", `\basm\b`,
			func(f string) bool { return !strings.HasPrefix(f, "prim") }},
		{"raw shared memory", `__shared__`, func(f string) bool { return f != "prim.cuh" }},
		{"an entry point without KERNEL", `__global__`, func(f string) bool { return f != "prim.cuh" }},
		{"an intrinsic of warps outside the primitives", `__shfl|__ballot|__any_sync|__all_sync|__ldg`,
			func(string) bool { return true }},
		{"fast arithmetic", `__fdividef|__expf|__logf|__powf|__frsqrt|rsqrtf|use_fast_math`,
			func(string) bool { return true }},
		{"a launch", `<<<`, func(string) bool { return true }},
	}
	files, err := Files.ReadDir(".")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, f := range files {
		text, err := Files.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rules {
			if r.where(f.Name()) {
				if at := regexp.MustCompile(r.pattern).FindIndex(text); at != nil {
					t.Errorf("%s:%d: %s", f.Name(), 1+strings.Count(string(text[:at[0]]), "\n"), r.name)
				}
			}
		}
	}
}
