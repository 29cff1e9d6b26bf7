package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-ml/weft/kernels/expr/lane"
)

// goText writes a program as statements of plain Go. Every product is converted
// to float32, which keeps the compiler from fusing it with a sum.
type goText struct {
	p     *lane.Program
	names []string // what each value is called, or its literal
	b     *strings.Builder
}

// types of Go expressions.
type goType int

const (
	goFloat goType = iota
	goInt          // uint32
	goMask         // bool
)

func (g *goText) typeOf(v lane.Value) goType {
	switch in := g.p.Insts[v]; in.Op {
	case lane.OpIAdd, lane.OpISub, lane.OpAnd, lane.OpOr, lane.OpXor,
		lane.OpShl, lane.OpShr, lane.OpSar:
		return goInt
	case lane.OpSelect:
		if g.typeOf(in.Args[1]) == goInt && g.typeOf(in.Args[2]) == goInt {
			return goInt
		}
		return goFloat
	default:
		if in.Op.IsMask() {
			return goMask
		}
		return goFloat
	}
}

// float is value v as a float32 expression.
func (g *goText) float(v lane.Value) string {
	if in := g.p.Insts[v]; in.Op == lane.OpConst {
		x := math.Float32frombits(in.Bits)
		if x != x || math.IsInf(float64(x), 0) || x == 0 && math.Signbit(float64(x)) {
			return fmt.Sprintf("math.Float32frombits(%#x)", in.Bits)
		}
		return strconv.FormatFloat(float64(x), 'g', -1, 32)
	}
	if g.typeOf(v) == goInt {
		return "math.Float32frombits(" + g.names[v] + ")"
	}
	return g.names[v]
}

// int is value v as a uint32 expression.
func (g *goText) int(v lane.Value) string {
	if in := g.p.Insts[v]; in.Op == lane.OpConst {
		return fmt.Sprintf("%#x", in.Bits)
	}
	if g.typeOf(v) == goInt {
		return g.names[v]
	}
	return "math.Float32bits(" + g.names[v] + ")"
}

// Instructions that are one operator or one function of Go.
var (
	floatInfix = map[lane.Op]string{
		lane.OpAdd: "+", lane.OpSub: "-", lane.OpDiv: "/", lane.OpLT: "<", lane.OpLE: "<=", lane.OpEQ: "==",
	}
	intInfix = map[lane.Op]string{
		lane.OpIAdd: "+", lane.OpISub: "-", lane.OpAnd: "&", lane.OpOr: "|", lane.OpXor: "^",
	}
	maskInfix = map[lane.Op]string{lane.OpMaskAnd: "&&", lane.OpMaskOr: "||"}
	rounding  = map[lane.Op]string{
		lane.OpRound: "RoundToEven", lane.OpFloor: "Floor", lane.OpCeil: "Ceil", lane.OpTrunc: "Trunc",
	}
	calls = map[lane.Op]string{
		lane.OpLesser: "Lesser32", lane.OpGreater: "Greater32", lane.OpLdexp: "Ldexp32",
	}
)

// expr is the expression of instruction v.
func (g *goText) expr(v lane.Value) string {
	in := g.p.Insts[v]
	f := func(i int) string { return g.float(in.Args[i]) }
	u := func(i int) string { return g.int(in.Args[i]) }
	n := func(i int) string { return g.names[in.Args[i]] }
	if infix, ok := floatInfix[in.Op]; ok {
		return f(0) + " " + infix + " " + f(1)
	}
	if infix, ok := intInfix[in.Op]; ok {
		return u(0) + " " + infix + " " + u(1)
	}
	if infix, ok := maskInfix[in.Op]; ok {
		return n(0) + " " + infix + " " + n(1)
	}
	if name, ok := rounding[in.Op]; ok {
		return "float32(math." + name + "(float64(" + f(0) + ")))"
	}
	if name, ok := calls[in.Op]; ok {
		return "lane." + name + "(" + f(0) + ", " + f(1) + ")"
	}
	switch in.Op {
	case lane.OpMul:
		return "float32(" + f(0) + " * " + f(1) + ")"
	case lane.OpSqrt:
		return "lane.Sqrt32(" + f(0) + ")"
	case lane.OpFMA:
		return "lane.FMA32(" + f(0) + ", " + f(1) + ", " + f(2) + ")"
	case lane.OpFNMA:
		return "lane.FMA32(-" + f(0) + ", " + f(1) + ", " + f(2) + ")"
	case lane.OpFloat:
		return "float32(int32(" + u(0) + "))"
	case lane.OpShl:
		return fmt.Sprintf("%s << %d", u(0), in.K)
	case lane.OpShr:
		return fmt.Sprintf("%s >> %d", u(0), in.K)
	case lane.OpSar:
		return fmt.Sprintf("uint32(int32(%s) >> %d)", u(0), in.K)
	case lane.OpLookup:
		return fmt.Sprintf("%s[%s&15]", tableName(g.p.Tables[in.K]), u(0))
	case lane.OpUnord:
		if in.Args[0] == in.Args[1] {
			return fmt.Sprintf("%[1]s != %[1]s", f(0))
		}
		return fmt.Sprintf("%[1]s != %[1]s || %[2]s != %[2]s", f(0), f(1))
	case lane.OpILT:
		return fmt.Sprintf("int32(%s) < int32(%s)", u(0), u(1))
	case lane.OpMaskNot:
		return "!" + n(0)
	}
	panic(fmt.Sprint("no Go for ", in.Op))
}

// statement writes instruction v.
func (g *goText) statement(v lane.Value) {
	in := g.p.Insts[v]
	name := fmt.Sprintf("v%d", v)
	g.names[v] = name
	if in.Op != lane.OpSelect {
		fmt.Fprintf(g.b, "%s := %s\n", name, g.expr(v))
		return
	}
	y, z := g.float(in.Args[1]), g.float(in.Args[2])
	kind := "float32"
	if g.typeOf(v) == goInt {
		y, z, kind = g.int(in.Args[1]), g.int(in.Args[2]), "uint32"
	}
	fmt.Fprintf(g.b, "var %s %s = %s\nif %s {\n%s = %s\n}\n", name, kind, z, g.names[in.Args[0]], name, y)
}

// tables names the lookup tables of all portable kernels.
var tables []lane.Table

func tableName(t lane.Table) string {
	i := slices.Index(tables, t)
	if i < 0 {
		i = len(tables)
		tables = append(tables, t)
	}
	return fmt.Sprintf("table%d", i)
}

// portable writes the plain Go twin of the kernel.
func (k *kernel) portable(b *strings.Builder) {
	var params []string
	slicesOf := k.vectors()
	if len(slicesOf) > 0 {
		params = append(params, strings.Join(slicesOf, ", ")+" []float32")
	}
	if len(k.uniforms) > 0 {
		params = append(params, strings.Join(k.uniforms, ", ")+" float32")
	}
	b.WriteString("\n")
	if k.doc != "" {
		fmt.Fprintf(b, "// %sPortable %s\n", k.name, k.doc)
	}
	fmt.Fprintf(b, "func %sPortable(%s)", k.name, strings.Join(params, ", "))
	if len(k.results) > 0 {
		var r []string
		for _, x := range k.results {
			r = append(r, x.name)
		}
		fmt.Fprintf(b, " (%s float32)", strings.Join(r, ", "))
	}
	b.WriteString(" {\n")
	g := &goText{p: k.prog, names: make([]string, len(k.prog.Insts)), b: b}

	uniform := k.uniformValues()
	for v, in := range k.prog.Insts {
		if in.Op == lane.OpUniform {
			g.names[v] = k.uniforms[in.K]
		} else if uniform[v] && in.Op != lane.OpConst {
			g.statement(lane.Value(v))
		}
	}
	for i, r := range k.results {
		fmt.Fprintf(b, "acc%d := lanesOf(%s)\n", i, goFloatBits(r.kind.neutral))
	}
	for _, s := range slicesOf[1:] {
		fmt.Fprintf(b, "%s = %s[:len(%s)]\n", s, s, slicesOf[0])
	}
	fmt.Fprintf(b, "for i := range %s {\n", slicesOf[0])
	for v, in := range k.prog.Insts {
		switch {
		case in.Op == lane.OpIn:
			g.names[v] = fmt.Sprintf("v%d", v)
			fmt.Fprintf(b, "v%d := %s[i]\n", v, k.ins[in.K])
		case in.Op == lane.OpAcc:
			g.names[v] = fmt.Sprintf("acc%d[i%%lanes]", in.K)
		case !uniform[v]:
			g.statement(lane.Value(v))
		}
	}
	for i, o := range k.prog.Outs {
		if i < len(k.outs) {
			fmt.Fprintf(b, "%s[i] = %s\n", k.outs[i], g.float(o))
		} else {
			fmt.Fprintf(b, "acc%d[i%%lanes] = %s\n", i-len(k.outs), g.float(o))
		}
	}
	b.WriteString("}\n")
	if len(k.results) > 0 {
		var r []string
		for i, x := range k.results {
			r = append(r, fmt.Sprintf("%sTree(&acc%d)", x.kind.name, i))
		}
		fmt.Fprintf(b, "return %s\n", strings.Join(r, ", "))
	}
	b.WriteString("}\n")
}

func goFloatBits(bits uint32) string {
	if bits == 0 {
		return "0"
	}
	return fmt.Sprintf("math.Float32frombits(%#x)", bits)
}

// uniformValues marks the values that depend on constants and scalars only.
func (k *kernel) uniformValues() []bool {
	u := make([]bool, len(k.prog.Insts))
	for v, in := range k.prog.Insts {
		u[v] = in.Op != lane.OpIn && in.Op != lane.OpAcc
		for _, a := range in.Args[:in.Op.Args()] {
			u[v] = u[v] && u[a]
		}
	}
	return u
}

// portableTables writes the lookup tables.
func portableTables(b *strings.Builder) {
	for i, t := range tables {
		fmt.Fprintf(b, "\nvar table%d = [16]float32{", i)
		for _, x := range t {
			b.WriteString(strconv.FormatFloat(float64(x), 'g', -1, 32) + ", ")
		}
		b.WriteString("}\n")
	}
}
