package cudatext

import (
	"os"
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels/expr/lane"
)

// TestHeaders: the committed headers are those of the instructions as they are.
func TestHeaders(t *testing.T) {
	for name, want := range Headers() {
		file := "../../../../kernels/cuda/src/" + name
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s is out of date: run make gen (%v)", file, err)
		}
	}
}

// TestCUDAForms: every primitive has a text. Their values are compared with Eval in internal/testing/emu.
func TestCUDAForms(t *testing.T) {
	for o := lane.Op(0); !strings.HasPrefix(o.String(), "Op("); o++ {
		switch name := o.String(); name {
		case "in", "uniform", "acc", "index", "const", "lookup", "select":
		default:
			f, ok := forms[name]
			if !ok {
				t.Errorf("no CUDA text for %v", o)
			} else if (f.result == maskKind) != o.IsMask() {
				t.Errorf("the CUDA text of %v is of kind %v", o, f.result)
			}
		}
	}
}

func TestCUDAText(t *testing.T) {
	b := lane.NewBuilder()
	x := b.In(0)
	p := b.Program(b.Select(b.LT(x, b.Const(0)), b.Mul(lane.Abs(b, x), b.Uniform(0)), b.Const(-1.5)))
	want := `DEV float f(float in0, float u0) {
  const bool v2 = in0 < 0x0p+00f;
  const uint32_t v4 = __float_as_uint(in0) & 0x7fffffffu;
  const float v6 = __fmul_rn(__uint_as_float(v4), u0);
  const float v8 = v2 ? v6 : (-0x1.8p+00f);
  return v8;
}
`
	if got := Program(p, "f"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	many := Program(b.Program(x, b.Sqrt(x)), "g")
	if want := "DEV void g(float in0, float &out0, float &out1) {"; !strings.Contains(many, want) {
		t.Errorf("no %q in\n%s", want, many)
	}
}

func TestCUDATables(t *testing.T) {
	var text string
	for _, in := range lane.Instrs {
		if in.Name == "erf" {
			text = Instr(&in)
		}
	}
	if n := strings.Count(text, "static __constant__ const uint32_t f32_erf_table"); n == 0 ||
		n != strings.Count(text, "[16] = {") {
		t.Errorf("%d tables in\n%s", n, text)
	}
}
