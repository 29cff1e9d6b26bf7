package main

import (
	"strings"

	"github.com/weft-ml/weft/kernels/expr/lane"
)

// instrKernels makes one kernel of each instruction of package lane.
func instrKernels() []*kernel {
	var ks []*kernel
	for i := range lane.Instrs {
		in := &lane.Instrs[i]
		ks = append(ks, &kernel{
			name: "instr" + title(in.Name), instr: in.Name,
			outs: []string{"dst"}, ins: []string{"a", "b", "c"}[:in.Args], prog: in.Program(),
		})
	}
	return ks
}

// A term is an expression of the inputs x[0], x[1], ... and the scalars u[0], ...
type term func(b *lane.Builder, x, u []lane.Value) lane.Value

// fused makes a kernel from its expressions: first those of the outputs, then
// those that the results reduce. Names are separated by spaces.
func fused(name, outs, ins, uniforms string, results []result, doc string, terms ...term) *kernel {
	k := &kernel{
		name: name, doc: doc, results: results,
		outs: strings.Fields(outs), ins: strings.Fields(ins), uniforms: strings.Fields(uniforms),
	}
	b := lane.NewBuilder()
	var x, u, out []lane.Value
	for i := range k.ins {
		x = append(x, b.In(i))
	}
	for i := range k.uniforms {
		u = append(u, b.Uniform(i))
	}
	for i, t := range terms {
		v := t(b, x, u)
		if i >= len(k.outs) {
			r := i - len(k.outs)
			v = results[r].kind.combine(b, b.Acc(r), v)
		}
		out = append(out, v)
	}
	k.prog = b.Program(out...)
	return k
}

func one(name string, kind *reduction) []result { return []result{{name, kind}} }

// fusedKernels is the table of the fused kernels. A new one is one entry: its
// name, outputs, inputs, scalars, results, documentation and expressions.
func fusedKernels() []*kernel {
	return []*kernel{
		fused("fill", "dst", "", "v", nil, "sets every element of dst to v.",
			func(b *lane.Builder, x, u []lane.Value) lane.Value { return u[0] }),
		fused("absMax", "", "x", "", one("m", maximum), "is the largest |x|, a NaN if there is one; -Inf of nothing.",
			func(b *lane.Builder, x, u []lane.Value) lane.Value { return lane.Abs(b, x[0]) }),
	}
}
