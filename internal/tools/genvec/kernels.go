package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/weft-ml/weft/internal/tools/lower"
	"github.com/weft-ml/weft/kernels/expr"
	"github.com/weft-ml/weft/kernels/expr/lane"
	_ "github.com/weft-ml/weft/optim" // and package tensor: their init functions say what is fused
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

// nonTemporal are the kernels that memory limits on large arrays. They are made a second time, with non-temporal
// stores, for results that begin with a cache line.
var nonTemporal = []string{"instrAdd", "instrSub", "instrMul", "instrDiv", "instrNeg", "instrAbs", "instrMin",
	"instrMax", "instrExp", "instrSqrt", "instrWhere", "softmaxGrad", "normWeightGradAdd"}

func nonTemporalKernels(all []*kernel) (ks []*kernel) {
	for _, k := range all {
		if !slices.Contains(nonTemporal, k.name) {
			continue
		}
		p := *k
		p.name += "NonTemporal"
		for p.nonTemporal < len(p.outs) && !slices.Contains(p.ins, p.outs[p.nonTemporal]) { // others are in the caches
			p.nonTemporal++
		}
		if p.doc != "" {
			p.doc = strings.TrimSuffix(p.doc, ".") + "; dst begins with a cache line and has non-temporal stores."
		}
		ks = append(ks, &p)
	}
	return ks
}

// reductions are the ways to reduce, by name.
var reductions = map[string]*reduction{"sum": sum, "prod": product, "max": maximum, "min": minimum}

// named makes a kernel from an expression in the language of package expr. Its
// roots are the values of the outputs, then those that the results reduce. Lists of
// names are separated by spaces; a result is called like its reduction.
func named(name, outs, ins, scalars, results, src, doc string) *kernel {
	k := &kernel{name: name, doc: doc, outs: strings.Fields(outs), ins: strings.Fields(ins),
		uniforms: strings.Fields(scalars)}
	f := expr.Must(src, k.ins, k.uniforms)
	p, err := lower.Expression(f, 0)
	if err != nil {
		panic(err)
	}
	b := lane.NewBuilder()
	var x, u []lane.Value
	for i := range k.ins {
		x = append(x, b.In(i))
	}
	for i := range k.uniforms {
		u = append(u, b.Uniform(i))
	}
	v := b.Inline(p, x, u)
	for i, r := range strings.Fields(results) {
		kind := reductions[r]
		at := len(k.outs) + i
		v[at] = kind.combine(b, b.Acc(i), v[at])
		k.results = append(k.results, result{fmt.Sprintf("%s%d", r, i), kind})
	}
	k.prog = b.Program(v...)
	return k
}

// namedKernels is the table of the named kernels. A new one is one line: its name,
// outputs, inputs (one with the name of an output is overwritten), scalars, results, expression and documentation.
func namedKernels() []*kernel {
	all := []*kernel{
		named("fill", "dst", "", "v", "", "v", "sets every element of dst to v."),
		named("scale", "dst", "x", "a", "", "x*a", "computes dst = x*a."),
		named("shift", "dst", "x", "a", "", "x + a", "computes dst = x + a."),
		named("axpy", "dst", "x y", "a", "", "a*x + y", "computes dst = a*x + y, with both roundings."),

		named("sum", "", "x", "", "sum", "x", "is the canonical sum of x."),
		named("prod", "", "x", "", "prod", "x", "is the product of x in the canonical order."),
		named("max", "", "x", "", "max", "x",
			"is the largest element, a NaN if there is one, +0 above -0; -Inf of nothing."),
		named("min", "", "x", "", "min", "x",
			"is the smallest element, a NaN if there is one, -0 below +0; +Inf of nothing."),
		named("absMax", "", "x", "", "max", "abs(x)", "is the largest |x|, a NaN if there is one; -Inf of nothing."),
		named("absMin", "", "x", "", "min", "abs(x)", "is the smallest |x|, a NaN if there is one; +Inf of nothing."),
		named("dot", "", "x y", "", "sum", "x*y", "is the canonical sum of the rounded products x*y."),
		named("sumSquares", "", "x", "a", "sum", "d = x*a; d*d", "is the canonical sum of (x*a)²."),
		named("sumSub", "", "x", "c", "sum", "x - c", "is the canonical sum of x - c."),
		named("sumSquaresSub", "", "x", "c", "sum", "(x - c)*(x - c)", "is the canonical sum of (x - c)²."),

		named("addEight", "dst", "a b c d e f g h", "start", "", "start + a + b + c + d + e + f + g + h",
			"adds a to start, then b, and so on to h."),
		named("mulEight", "dst", "a b c d e f g h", "start", "", "start * a * b * c * d * e * f * g * h",
			"multiplies start by a, then by b, and so on to h."),
		named("maxEight", "dst", "a b c d e f g h", "start", "",
			"max(max(max(max(max(max(max(max(start, a), b), c), d), e), f), g), h)",
			"computes the largest of start and a to h, as Max."),
		named("minEight", "dst", "a b c d e f g h", "start", "",
			"min(min(min(min(min(min(min(min(start, a), b), c), d), e), f), g), h)",
			"computes the smallest of start and a to h, as Min."),

		named("expSub", "dst", "x", "m", "", "exp(x - m)", "computes dst = exp(x - m)."),
		named("sumExpSub", "", "x", "m", "sum", "exp(x - m)", "is the canonical sum of exp(x - m)."),
		named("expSubSum", "dst", "x", "m", "sum", "e = exp(x - m); e; e",
			"computes dst = exp(x - m) and its canonical sum."),
		named("softmaxGrad", "dst", "y g", "dot", "", "y*(g - dot)", "computes dst = y*(g - dot)."),
		named("subSub", "dst", "x", "m s", "", "(x - m) - s", "computes dst = (x - m) - s."),
		named("logSoftmaxGrad", "dst", "y g", "s", "", "g - exp(y)*s", "computes dst = g - exp(y)*s."),
		named("crossEntropyGrad", "dst", "x", "m inv off scale", "", "(exp(x - m)*inv - off)*scale",
			"computes dst = (exp(x - m)*inv - off)*scale."),
		named("crossEntropyGradOn", "dst", "x m inv scale", "on", "", "(exp(x - m)*inv - on)*scale",
			"computes dst = (exp(x - m)*inv - on)*scale, each element of a row of its own."),

		named("norm", "dst", "x", "c r", "", "(x - c)*r", "computes dst = (x - c)*r."),
		named("normWeight", "dst", "x w", "c r", "", "(x - c)*r*w", "computes dst = (x - c)*r*w."),
		named("normWeightBias", "dst", "x w b", "c r", "", "(x - c)*r*w + b", "computes dst = (x - c)*r*w + b."),
		named("normGradSums", "", "g x", "c r", "sum sum", "g; g*((x - c)*r)",
			"gives the canonical sums of g and of g*h with h = (x - c)*r."),
		named("normWeightGradSums", "", "g x w", "c r", "sum sum", "k = g*w; k; k*((x - c)*r)",
			"gives the canonical sums of k = g*w and of k*h with h = (x - c)*r."),
		named("normGrad", "dst", "g x", "c r p q", "", "((g - p) - (x - c)*r*q)*r",
			"computes dst = ((g - p) - h*q)*r with h = (x - c)*r."),
		named("normWeightGrad", "dst", "g x w", "c r p q", "", "((g*w - p) - (x - c)*r*q)*r",
			"computes dst = ((g*w - p) - h*q)*r with h = (x - c)*r."),
		named("addNormProduct", "dst", "acc g x", "c r", "", "acc + g*((x - c)*r)",
			"computes dst = acc + g*h with h = (x - c)*r."),
		named("addNormProducts", "dst sum", "acc accsum g x", "c r", "", "acc + g*((x - c)*r); accsum + g",
			"computes dst = acc + g*h with h = (x - c)*r, and sum = accsum + g."),
		normWeightGradAdd(),
	}
	return append(all, nonTemporalKernels(all)...)
}

// normWeightGradAdd is normWeightGrad of two rows, with the sums of addNormProducts in place.
func normWeightGradAdd() *kernel {
	return named("normWeightGradAdd", "dst0 dst1 sum0 sum1", "g0 x0 g1 x1 w sum0 sum1", "c0 r0 p0 q0 c1 r1 p1 q1", "",
		"h0 = (x0 - c0)*r0; h1 = (x1 - c1)*r1; ((g0*w - p0) - h0*q0)*r0; ((g1*w - p1) - h1*q1)*r1; "+
			"sum0 + g0*h0 + g1*h1; sum1 + g0 + g1",
		"computes dst = ((g*w - p) - h*q)*r of two rows, with h = (x - c)*r, and adds g*h to sum0, g to sum1.")
}

// overRows are the named kernels that are made for many rows, too: for short ones, where
// the call of a kernel for each takes as long as its work. They have at most one scalar
// and one result.
var overRows = []string{"max", "dot", "scale", "expSubSum", "softmaxGrad"}

func rowKernels(named []*kernel) []*kernel {
	var ks []*kernel
	for _, k := range named {
		if slices.Contains(overRows, k.name) {
			r := *k
			r.rows, r.name = true, k.name+"Rows"
			ks = append(ks, &r)
		}
	}
	return ks
}

// pieceKernels is the table of the kernels that handwritten functions of package vec call.
// Their portable twins are in that package, too.
func pieceKernels() []*kernel {
	convert := func(name string, in, out elem, f func(b *lane.Builder, x lane.Value) lane.Value) *kernel {
		b := lane.NewBuilder()
		return &kernel{
			name: name, piece: &piece{in: in, out: out},
			outs: []string{"dst"}, ins: []string{"src"}, prog: b.Program(f(b, b.In(0))),
		}
	}
	same := func(_ *lane.Builder, x lane.Value) lane.Value { return x }
	return []*kernel{
		uniformKernel(),
		convert("fromFloat16", half, single, same),
		convert("toFloat16", single, half, same),
		convert("fromBFloat16", brain, single, same),
		convert("toBFloat16", single, brain, lane.BFloat16),
		convert("fromUint8", octet, single, same),
	}
}

// uniformKernel makes the uniform numbers of a random stream, four in each block. Its
// scalars are the words of lower.Stream.
func uniformKernel() *kernel {
	b := lane.NewBuilder()
	s := lower.Stream{CounterLo: b.Uniform(0), CounterHi: b.Uniform(1), Number: b.Uniform(2), KeyLo: b.Uniform(3),
		KeyHi: b.Uniform(4)}
	var outs []lane.Value
	for _, word := range s.Block(b, b.Index()) {
		outs = append(outs, lower.Unit(b, word))
	}
	return &kernel{
		name: "uniform", piece: &piece{interleaved: true},
		outs: []string{"dst"}, uniforms: []string{"counterLo", "counterHi", "number", "keyLo", "keyHi"},
		prog: b.Program(outs...),
	}
}

// A fusion is a pointwise operation with the kernel that it has.
type fusion struct {
	name string
	*kernel
}

// fusions are the kernels of whole pointwise operations: those that the table of package tensor and the rules of
// package optim ask for. An operation with the program of a named kernel, or of one before it, has that kernel. One
// that is not here runs instruction by instruction, with the same bits.
func fusions(named []*kernel) (all []fusion, made []*kernel) {
	for _, f := range expr.Fusions() {
		k := fusedKernel(f)
		earlier := slices.Concat(named, made)
		if at := slices.IndexFunc(earlier, k.same); at >= 0 {
			k = earlier[at]
		} else {
			made = append(made, k)
		}
		all = append(all, fusion{f.Name, k})
	}
	return all, made
}

// same tells whether two kernels differ in names alone.
func (k *kernel) same(other *kernel) bool {
	return len(k.results)+len(other.results) == 0 && len(k.outs) == len(other.outs) && len(k.ins) == len(other.ins) &&
		len(k.uniforms) == len(other.uniforms) && reflect.DeepEqual(k.prog, other.prog)
}

// fusedKernel makes the kernel of a whole pointwise operation.
func fusedKernel(f *expr.Fusion) *kernel {
	p, err := lower.Expression(f.Func, f.Uniform)
	if err != nil {
		panic(err)
	}
	k := &kernel{name: camel(f.Name), prog: p, doc: "computes " + f.Func.String()}
	k.uniforms = append(k.uniforms, f.Func.Params...)
	for i, a := range f.Func.Args {
		if f.Uniform>>i&1 == 1 {
			k.uniforms = append(k.uniforms, a)
		} else {
			k.ins = append(k.ins, a)
		}
	}
	for _, s := range f.Func.Streams() {
		k.ins = append(k.ins, fmt.Sprintf("rand%d", s))
	}
	for i := range f.Func.Roots {
		k.outs = append(k.outs, fmt.Sprintf("dst%d", i))
	}
	return k
}

// camel is the name of an operation as one of Go: geluGradX for gelu_grad_x.
func camel(name string) string {
	words := strings.Split(name, "_")
	for i := range words[1:] {
		words[i+1] = title(words[i+1])
	}
	return strings.Join(words, "")
}
