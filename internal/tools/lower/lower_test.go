package lower_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weft-ml/weft/internal/tools/lower"
	"github.com/weft-ml/weft/kernels/expr"
	"github.com/weft-ml/weft/kernels/expr/lane"
)

// A lowered function gives the bits of its instructions one by one.
func TestLower(t *testing.T) {
	programs := map[expr.Op]*lane.Program{}
	for _, op := range expr.Instructions() {
		if in := lane.Find(op.String()); in != nil {
			programs[op] = in.Program()
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	for _, src := range []string{"gelu(x + y)", "relu(x)*p; x; y - p", "pow(x, y) + log1p(exp(x)); p + 1",
		"where(x < y, bf16(x), f16(y))", "x + rand(7)*y; rand(2) < p; rand(7)", "atan2(x, y)*erfc(p)"} {
		f, err := xyp(src)
		if err != nil {
			t.Fatal(err)
		}
		for uniform := range uint64(4) {
			p, err := lower.Expression(f, uniform)
			if err != nil {
				t.Fatal(err)
			}
			for range 50 {
				args := []float32{float32(r.NormFloat64()), float32(r.NormFloat64())}
				param := float32(r.NormFloat64())
				ins, uniforms := []float32{}, []float32{param}
				for k, v := range args {
					if uniform>>k&1 == 1 {
						uniforms = append(uniforms, v)
					} else {
						ins = append(ins, v)
					}
				}
				drawn := map[int]float32{}
				for _, k := range f.Streams() {
					drawn[k] = r.Float32()
					ins = append(ins, drawn[k])
				}
				got := p.Eval(ins, uniforms, nil)
				for i, want := range oneByOne(f, programs, args, param, drawn) {
					if math.Float32bits(got[i]) != math.Float32bits(want) && (got[i] == got[i] || want == want) {
						t.Fatalf("%s with uniform %b at %v, %v: result %d is %v, want %v", src, uniform, args, param, i,
							got[i], want)
					}
				}
			}
		}
	}
}

// xyp reads an expression of x, y and the parameter p.
func xyp(src string) (*expr.Func, error) { return expr.New(src, []string{"x", "y"}, []string{"p"}) }

func oneByOne(f *expr.Func, programs map[expr.Op]*lane.Program, args []float32, param float32,
	drawn map[int]float32) (out []float32) {
	v := map[*expr.Node]float32{}
	for _, n := range f.Order() {
		switch n.Op {
		case expr.Arg:
			v[n] = args[n.K]
		case expr.Param:
			v[n] = param
		case expr.Const:
			v[n] = float32(n.C)
		case expr.Rand:
			v[n] = drawn[n.K]
		default:
			x := make([]float32, 3)
			for i, o := range n.Operands() {
				x[i] = v[o]
			}
			v[n] = programs[n.Op].Eval(x, nil, nil)[0]
		}
	}
	for _, root := range f.Roots {
		out = append(out, v[root])
	}
	return out
}

// Every instruction on floating numbers has its algorithm in package lane.
func TestLaneHasAllInstructions(t *testing.T) {
	for _, op := range expr.Instructions() {
		found := !op.Float()
		for i := range lane.Instrs {
			found = found || lane.Instrs[i].Name == op.String() && lane.Instrs[i].Args == op.Arity()
		}
		if !found {
			t.Errorf("package lane lacks %v", op)
		}
	}
}

func TestLowerRefuses(t *testing.T) {
	f, _ := xyp("sin(x)")
	const want = `expression "sin(x)": sin cannot be part of a fused kernel`
	if _, err := lower.Expression(f, 0); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
