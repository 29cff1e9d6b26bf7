// Package cudatext writes the programs of package kernels/expr/lane in CUDA C, with the same bits.
package cudatext

import (
	"fmt"
	"math"
	"strings"

	"github.com/weft-ml/weft/kernels/expr/lane"
)

// Headers are the generated files of kernels/cuda/src by name: z_lane.cuh, the instructions of expressions as CUDA
// functions, and z_exp_below.cuh, lane.ExpBelow, by itself as few kernels include it.
func Headers() map[string]string {
	instrs := ""
	for i := range lane.Instrs {
		instrs += "\n" + Instr(&lane.Instrs[i])
	}
	b := lane.NewBuilder()
	below := "\n" + Program(b.Program(lane.ExpBelow(b, b.In(0))), "f32_exp_below")
	const head = "// Generated from the instructions of package kernels/expr by internal/tools/gencuda. " +
		"DO NOT EDIT.\n#pragma once\n#include \"lane.cuh\"\n"
	return map[string]string{"z_lane.cuh": head + instrs, "z_exp_below.cuh": head + below}
}

// Instr returns an instruction as a function of CUDA C, f32_exp for exp. Values beyond lane.TrigLimit are computed by a
// function of lane.cuh, such as lane_sin_large. Minimum and maximum are one instruction of a GPU.
func Instr(in *lane.Instr) string {
	if in.Name == "min" || in.Name == "max" {
		return fmt.Sprintf("DEV float f32_%[1]s(float in0, float in1) { return %[1]s_nan(in0, in1); }\n", in.Name)
	}
	first := ""
	if in.Large != nil {
		first = fmt.Sprintf("  if (!(in0 >= -%[1]d.f && in0 <= %[1]d.f)) return lane_%[2]s_large(in0);\n",
			lane.TrigLimit, in.Name)
	}
	return function(in.Program(), "f32_"+in.Name, first)
}

// A kind is the type by which CUDA C knows a value.
type kind uint8

const (
	floatKind kind = iota
	wordKind       // unsigned
	maskKind       // bool
)

// String is the name of the type.
func (k kind) String() string { return [...]string{"float", "uint32_t", "bool"}[k] }

// A form is how CUDA C writes a primitive. Functions beside CUDA's own are those of lane.cuh.
type form struct {
	result   kind
	operands kind   // of all
	text     string // with operands as %[1]s to %[3]s, and the shift count or table as %[4]d
}

var forms = map[string]form{
	"add":  {floatKind, floatKind, "__fadd_rn(%[1]s, %[2]s)"},
	"sub":  {floatKind, floatKind, "__fsub_rn(%[1]s, %[2]s)"},
	"mul":  {floatKind, floatKind, "__fmul_rn(%[1]s, %[2]s)"},
	"div":  {floatKind, floatKind, "__fdiv_rn(%[1]s, %[2]s)"},
	"sqrt": {floatKind, floatKind, "__fsqrt_rn(%[1]s)"},
	"fma":  {floatKind, floatKind, "__fmaf_rn(%[1]s, %[2]s, %[3]s)"},
	"fnma": {floatKind, floatKind, "__fmaf_rn(-%[1]s, %[2]s, %[3]s)"},

	"lesser":  {floatKind, floatKind, "(%[1]s < %[2]s ? %[1]s : %[2]s)"},
	"greater": {floatKind, floatKind, "(%[1]s > %[2]s ? %[1]s : %[2]s)"},
	"round":   {floatKind, floatKind, "rintf(%[1]s)"},
	"floor":   {floatKind, floatKind, "floorf(%[1]s)"},
	"ceil":    {floatKind, floatKind, "ceilf(%[1]s)"},
	"trunc":   {floatKind, floatKind, "truncf(%[1]s)"},

	"float": {floatKind, wordKind, "__int2float_rn((int)%[1]s)"},
	"ldexp": {floatKind, floatKind, "lane_ldexp(%[1]s, %[2]s)"},

	"iadd":   {wordKind, wordKind, "%[1]s + %[2]s"},
	"isub":   {wordKind, wordKind, "%[1]s - %[2]s"},
	"imul":   {wordKind, wordKind, "%[1]s * %[2]s"},
	"imulhi": {wordKind, wordKind, "__umulhi(%[1]s, %[2]s)"},
	"and":    {wordKind, wordKind, "%[1]s & %[2]s"},
	"or":     {wordKind, wordKind, "%[1]s | %[2]s"},
	"xor":    {wordKind, wordKind, "%[1]s ^ %[2]s"},
	"shl":    {wordKind, wordKind, "%[1]s << %[4]d"},
	"shr":    {wordKind, wordKind, "%[1]s >> %[4]d"},
	"sar":    {wordKind, wordKind, "(uint32_t)((int)%[1]s >> %[4]d)"},

	"lt":      {maskKind, floatKind, "%[1]s < %[2]s"},
	"le":      {maskKind, floatKind, "%[1]s <= %[2]s"},
	"eq":      {maskKind, floatKind, "%[1]s == %[2]s"},
	"unord":   {maskKind, floatKind, "%[1]s != %[1]s || %[2]s != %[2]s"},
	"ilt":     {maskKind, wordKind, "(int)%[1]s < (int)%[2]s"},
	"maskand": {maskKind, maskKind, "%[1]s && %[2]s"},
	"maskor":  {maskKind, maskKind, "%[1]s || %[2]s"},
	"masknot": {maskKind, maskKind, "!%[1]s"},
}

// bound is how CUDA C writes a choice between a number other than zero and a value. The value's NaN is then NaN, and a
// tie has the same bits.
var bound = map[string]string{"lesser": "min_nan(%[1]s, %[2]s)", "greater": "max_nan(%[1]s, %[2]s)"}

// Program returns a program as a function of CUDA C with the given name, which gives the same bits as Eval:
//
//	DEV float name(float in0, ..., float u0, ..., float acc0, ..., uint32_t index)
//
// for inputs, scalars, accumulators and, if the program asks for it, the number of the element. A program with several
// results returns nothing and has parameters float &out0, ... at the end. The text needs kernels/cuda/src/lane.cuh.
func Program(p *lane.Program, name string) string { return function(p, name, "") }

// function is Program with a first statement of the function.
func function(p *lane.Program, name, first string) string {
	c := writer{p: p, name: name, kinds: make([]kind, len(p.Insts))}
	return c.tables() + c.head() + first + c.body() + "}\n"
}

// writer writes one program.
type writer struct {
	p     *lane.Program
	name  string
	kinds []kind // of the values
}

// tables declares the tables that lookups read, as bits.
func (c *writer) tables() string {
	var b strings.Builder
	used := map[int32]bool{}
	for _, in := range c.p.Insts {
		used[in.K] = used[in.K] || in.Op == lane.OpLookup
	}
	for k, t := range c.p.Tables {
		if !used[int32(k)] {
			continue
		}
		fmt.Fprintf(&b, "static __constant__ const uint32_t %s_table%d[16] = {\n   ", c.name, k)
		for i, x := range t {
			if i == 8 {
				b.WriteString("\n   ")
			}
			fmt.Fprintf(&b, " %#08x,", math.Float32bits(x))
		}
		b.WriteString("\n};\n")
	}
	return b.String()
}

// head is the first line.
func (c *writer) head() string {
	var parameters []string
	list := func(prefix string, n int) {
		for k := range n {
			parameters = append(parameters, fmt.Sprint(prefix, k))
		}
	}
	list("float in", c.p.Ins)
	list("float u", c.p.Uniforms)
	list("float acc", c.p.Accs)
	for _, in := range c.p.Insts {
		if in.Op.String() == "index" {
			parameters = append(parameters, "uint32_t index")
			break
		}
	}
	result := "float"
	if len(c.p.Outs) != 1 {
		result = "void"
		list("float &out", len(c.p.Outs))
	}
	return fmt.Sprintf("DEV %s %s(%s) {\n", result, c.name, strings.Join(parameters, ", "))
}

// body is a statement for each instruction, and the results.
func (c *writer) body() string {
	var b strings.Builder
	for v, in := range c.p.Insts {
		if text := c.value(lane.Value(v), &in); text != "" {
			fmt.Fprintf(&b, "  const %v v%d = %s;\n", c.kinds[v], v, text)
		}
	}
	for k, o := range c.p.Outs {
		if len(c.p.Outs) == 1 {
			fmt.Fprintf(&b, "  return %s;\n", c.operand(o, floatKind))
		} else {
			fmt.Fprintf(&b, "  out%d = %s;\n", k, c.operand(o, floatKind))
		}
	}
	return b.String()
}

// value sets the kind of value v and returns how it is computed; "" for leaves, which are written where they are used.
func (c *writer) value(v lane.Value, in *lane.Inst) string {
	switch name := in.Op.String(); name {
	case "in", "uniform", "acc", "const":
		return ""
	case "index":
		c.kinds[v] = wordKind
		return ""
	case "lookup":
		return fmt.Sprintf("__uint_as_float(%s_table%d[%s & 15])", c.name, in.K, c.operand(in.Args[0], wordKind))
	case "select":
		y, z := in.Args[1], in.Args[2]
		k := c.kinds[y]
		if c.p.Insts[y].Op == lane.OpConst {
			k = c.kinds[z]
		}
		c.kinds[v] = k
		return fmt.Sprintf("%s ? %s : %s", c.operand(in.Args[0], maskKind), c.operand(y, k), c.operand(z, k))
	default:
		f, ok := forms[name]
		if !ok {
			panic("gencuda: no CUDA text for " + name)
		}
		c.kinds[v] = f.result
		text := f.text
		if x := &c.p.Insts[in.Args[0]]; bound[name] != "" && x.Op == lane.OpConst && x.Bits<<1 != 0 {
			text = bound[name]
		}
		args := []any{"", "", "", in.K}
		for i, a := range in.Args[:in.Op.Args()] {
			args[i] = c.operand(a, f.operands)
		}
		// Arguments that the text does not name are marked at its end.
		text, _, _ = strings.Cut(fmt.Sprintf(text, args...), "%!(EXTRA")
		return text
	}
}

// operand is value v as an expression of kind k.
func (c *writer) operand(v lane.Value, k kind) string {
	in := &c.p.Insts[v]
	var text string
	switch in.Op.String() {
	case "const":
		if k == wordKind {
			return fmt.Sprintf("%#xu", in.Bits)
		}
		return cudaFloat(math.Float32frombits(in.Bits))
	case "in":
		text = fmt.Sprintf("in%d", in.K)
	case "uniform":
		text = fmt.Sprintf("u%d", in.K)
	case "acc":
		text = fmt.Sprintf("acc%d", in.K)
	case "index":
		text = "index"
	default:
		text = fmt.Sprintf("v%d", v)
	}
	switch {
	case c.kinds[v] == floatKind && k == wordKind:
		return "__float_as_uint(" + text + ")"
	case c.kinds[v] == wordKind && k == floatKind:
		return "__uint_as_float(" + text + ")"
	}
	return text
}

// cudaFloat is a constant with exactly the bits of x.
func cudaFloat(x float32) string {
	if x != x || math.IsInf(float64(x), 0) {
		return fmt.Sprintf("__uint_as_float(%#xu)", math.Float32bits(x))
	}
	if math.Signbit(float64(x)) {
		return fmt.Sprintf("(%xf)", x)
	}
	return fmt.Sprintf("%xf", x)
}
