package src

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

// Suffixes end the symbols of kernels, by element type.
var Suffixes = map[kernels.DType]string{
	kernels.Float32: "f32", kernels.Float64: "f64", kernels.Float16: "f16", kernels.BFloat16: "bf16",
	kernels.Int64: "i64", kernels.Int32: "i32", kernels.Uint8: "u8", kernels.Bool: "bool",
}

// A Pointwise is the kernels of an expression for given types of its operands and results.
type Pointwise struct {
	Name    string // of the operation and its types, such as "gelu_bf16"; a C identifier
	Func    *expr.Func
	In, Out []kernels.DType
	Short   bool // its functions are those of half.cuh, as far as it has them
}

// PointwiseOf describes the kernels of a launch of a pointwise operation. Their name tells the operation, its content,
// for there are operations of one name that compute other things, and the types.
func PointwiseOf(l *kernels.Launch) *Pointwise {
	p := &Pointwise{Name: fmt.Sprintf("pointwise_%s_%.6s", identifier(l.Op.Name), Sum(l.Op.Expr.Key())),
		Func: l.Op.Expr}
	for _, a := range l.In {
		p.In = append(p.In, a.DType)
	}
	for _, a := range l.Out {
		p.Out = append(p.Out, a.DType)
	}
	p.Short = l.Op.Approximate
	for _, d := range slices.Concat(p.In, p.Out) {
		p.Name += "_" + Suffixes[d]
		p.Short = p.Short && d.IsHalf()
	}
	return p
}

// Symbols are the kernels of the source.
func (p *Pointwise) Symbols() []string {
	return []string{p.Name + "_vector", p.Name + "_strided"}
}

// Sum identifies a generated source: images carry it.
func Sum(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// identifier makes a name one of C.
func identifier(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 128 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') {
			return r
		}
		return '_'
	}, name)
}

// elements are the names of the element types in element.cuh.
var elements = map[kernels.DType]string{
	kernels.Float32: "float", kernels.Float64: "double", kernels.Float16: "f16", kernels.BFloat16: "bf16",
	kernels.Int64: "int64_t", kernels.Int32: "int32_t", kernels.Uint8: "uint8_t", kernels.Bool: "boolean",
}

// computeTypes are the compute types, and the prefix of the instructions' functions.
var computeTypes = map[kernels.DType]struct{ name, prefix string }{
	kernels.Float32: {"float", "f32_"}, kernels.Float64: {"double", "f64_"}, kernels.Int64: {"int64_t", "i64_"},
}

// Number is the compute type of the kernels: Float32, Float64 or Int64.
func (p *Pointwise) Number() kernels.DType {
	l := kernels.Launch{Op: &kernels.Op{Expr: p.Func}}
	for _, d := range p.In {
		l.In = append(l.In, kernels.Arg{DType: d})
	}
	for _, d := range p.Out {
		l.Out = append(l.Out, kernels.Arg{DType: d})
	}
	return l.ComputeType()
}

// Vector is the number of elements that a thread of the kernels computes: 16 bytes of the widest type.
func (p *Pointwise) Vector() int {
	widest := 1
	for _, d := range slices.Concat(p.In, p.Out) {
		widest = max(widest, d.Size())
	}
	return min(8, 16/widest)
}

// Text is the source of the kernels Name_vector and Name_strided.
func (p *Pointwise) Text() (string, error) {
	in, err := types(p.In, len(p.Func.Args))
	if err != nil {
		return "", fmt.Errorf("pointwise %s: operands: %w", p.Name, err)
	}
	out, err := types(p.Out, len(p.Func.Roots))
	if err != nil {
		return "", fmt.Errorf("pointwise %s: results: %w", p.Name, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "// %s\n#include \"pointwise.cuh\"\n", strings.Join(strings.Fields(p.Func.Src), " "))
	if p.Short {
		b.WriteString("#include \"half.cuh\"\n")
	}
	b.WriteString("\n")
	number := p.Number()
	if err := kernels.DefinedOn(number, p.Func); err != nil {
		return "", fmt.Errorf("pointwise %s: %w", p.Name, err)
	}
	fmt.Fprintf(&b, "struct %s {\n  using Compute = %s;\n", p.Name, computeTypes[number].name)
	fmt.Fprintf(&b, "  using In = Types<%s>;\n  using Out = Types<%s>;\n", in, out)
	fmt.Fprintf(&b, "  static constexpr int scalars = %d;\n", len(p.Func.Params))
	body, streams := p.statements(number)
	fmt.Fprintf(&b, "  using Streams = RandomStreams<%s>;\n", streams)
	b.WriteString("  DEV_METHOD static void apply(const Compute* in, const Compute* scalar, " +
		"const Compute* random, Compute* out) {\n")
	b.WriteString(body)
	fmt.Fprintf(&b, "  }\n};\nPOINTWISE(%s, %d)\n", p.Name, p.Vector())
	return b.String(), nil
}

// types lists n element types.
func types(ds []kernels.DType, n int) (string, error) {
	if len(ds) != n {
		return "", fmt.Errorf("%d types for %d", len(ds), n)
	}
	var names []string
	for _, d := range ds {
		names = append(names, elements[d])
	}
	return strings.Join(names, ", "), nil
}

// short are the instructions that half.cuh has.
var short = []expr.Op{expr.Tanh, expr.NormPDF, expr.NormCDF, expr.Sigmoid}

// statements computes the nodes one after the other, each by the function of its instruction in z_lane.cuh, half.cuh,
// f64.cuh or i64.cuh, and lists the random streams in the order in which the statements number them.
func (p *Pointwise) statements(number kernels.DType) (body, streams string) {
	var b strings.Builder
	var drawn []string
	names := map[*expr.Node]string{}
	for i, n := range p.Func.Order() {
		switch n.Op {
		case expr.Arg:
			names[n] = fmt.Sprintf("in[%d]", n.K)
		case expr.Param:
			names[n] = fmt.Sprintf("scalar[%d]", n.K)
		case expr.Const:
			names[n] = constant(n.C, number)
		case expr.Rand:
			stream := fmt.Sprint(n.K)
			if !slices.Contains(drawn, stream) {
				drawn = append(drawn, stream)
			}
			names[n] = fmt.Sprintf("random[%d]", slices.Index(drawn, stream))
		default:
			var args []string
			for _, x := range n.Operands() {
				args = append(args, names[x])
			}
			names[n] = fmt.Sprint("v", i)
			prefix := computeTypes[number].prefix
			if p.Short && slices.Contains(short, n.Op) {
				prefix = "half_"
			}
			fmt.Fprintf(&b, "    const Compute v%d = %s%v(%s);\n", i, prefix, n.Op, strings.Join(args, ", "))
		}
	}
	for k, r := range p.Func.Roots {
		fmt.Fprintf(&b, "    out[%d] = %s;\n", k, names[r])
	}
	return b.String(), strings.Join(drawn, ", ")
}

// constant is x as a constant of the given compute type, with exactly its bits.
func constant(x float64, number kernels.DType) string {
	single := float32(x)
	switch {
	case number == kernels.Int64:
		return fmt.Sprintf("int64_t(%#xull)", uint64(int64(x)))
	case number == kernels.Float64 && x-x != 0:
		return fmt.Sprintf("f64_from(%#xull)", math.Float64bits(x))
	case number == kernels.Float64:
		return fmt.Sprintf("%x", x)
	case single-single != 0:
		return fmt.Sprintf("__uint_as_float(%#xu)", math.Float32bits(single))
	}
	return fmt.Sprintf("%xf", single)
}

// AppendNumber appends x as a value of the compute type `number`, as pointwise kernels take scalars.
func AppendNumber(b []byte, number kernels.DType, x float64) []byte {
	switch le := binary.LittleEndian; number {
	case kernels.Float64:
		return le.AppendUint64(b, math.Float64bits(x))
	case kernels.Int64:
		return le.AppendUint64(b, uint64(int64(x)))
	default:
		return le.AppendUint32(b, math.Float32bits(float32(x)))
	}
}
