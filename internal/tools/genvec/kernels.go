package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weft-ml/weft/kernels/expr"
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

// reductions are the ways to reduce, by name.
var reductions = map[string]*reduction{"sum": sum, "prod": product, "max": maximum, "min": minimum}

// fused makes a kernel from an expression in the language of package expr. Its
// roots are the values of the outputs, then those that the results reduce. Lists of
// names are separated by spaces; a result is called like its reduction.
func fused(name, outs, ins, scalars, results, src, doc string) *kernel {
	k := &kernel{name: name, doc: doc, outs: strings.Fields(outs), ins: strings.Fields(ins), uniforms: strings.Fields(scalars)}
	f := expr.Must(src, k.ins, k.uniforms)
	p, err := f.Lower(0)
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

// pointwise makes the kernel of a pointwise operation, which package vec finds by
// expr.Func.Variant. The arguments named in uniform are one element for all.
func pointwise(src, args, params, uniform string) *kernel {
	f := expr.Must(src, strings.Fields(args), strings.Fields(params))
	var set uint64
	for i, a := range f.Args {
		if slices.Contains(strings.Fields(uniform), a) {
			set |= 1 << i
		}
	}
	return pointwiseFunc(f, set)
}

func pointwiseFunc(f *expr.Func, uniform uint64) *kernel {
	p, err := f.Lower(uniform)
	if err != nil {
		panic(err)
	}
	k := &kernel{variant: f.Variant(uniform), prog: p}
	k.uniforms = append(k.uniforms, f.Params...)
	for i, a := range f.Args {
		if uniform>>i&1 == 1 {
			k.uniforms = append(k.uniforms, a)
		} else {
			k.ins = append(k.ins, a)
		}
	}
	for _, s := range f.Streams() {
		k.ins = append(k.ins, fmt.Sprintf("rand%d", s))
	}
	for i := range f.Roots {
		k.outs = append(k.outs, fmt.Sprintf("dst%d", i))
	}
	return k
}

// fusedKernels is the table of the named kernels. A new one is one line: its name,
// outputs, inputs, scalars, results, expression and documentation.
func fusedKernels() []*kernel {
	return []*kernel{
		fused("fill", "dst", "", "v", "", "v", "sets every element of dst to v."),
		fused("scale", "dst", "x", "a", "", "x*a", "computes dst = x*a."),
		fused("axpy", "dst", "x y", "a", "", "a*x + y", "computes dst = a*x + y, with both roundings."),

		fused("sum", "", "x", "", "sum", "x", "is the canonical sum of x."),
		fused("prod", "", "x", "", "prod", "x", "is the product of x in the canonical order."),
		fused("max", "", "x", "", "max", "x", "is the largest element, a NaN if there is one, +0 above -0; -Inf of nothing."),
		fused("min", "", "x", "", "min", "x", "is the smallest element, a NaN if there is one, -0 below +0; +Inf of nothing."),
		fused("absMax", "", "x", "", "max", "abs(x)", "is the largest |x|, a NaN if there is one; -Inf of nothing."),
		fused("dot", "", "x y", "", "sum", "x*y", "is the canonical sum of the rounded products x*y."),
		fused("sumSquares", "", "x", "a", "sum", "d = x*a; d*d", "is the canonical sum of (x*a)²."),
		fused("sumSub", "", "x", "c", "sum", "x - c", "is the canonical sum of x - c."),
		fused("sumSquaresSub", "", "x", "c", "sum", "(x - c)*(x - c)", "is the canonical sum of (x - c)²."),

		fused("expSub", "dst", "x", "m", "", "exp(x - m)", "computes dst = exp(x - m)."),
		fused("sumExpSub", "", "x", "m", "sum", "exp(x - m)", "is the canonical sum of exp(x - m)."),
		fused("expSubSum", "dst", "x", "m", "sum", "e = exp(x - m); e; e", "computes dst = exp(x - m) and its canonical sum."),
		fused("softmaxGrad", "dst", "y g", "dot", "", "y*(g - dot)", "computes dst = y*(g - dot)."),
		fused("subSub", "dst", "x", "m s", "", "(x - m) - s", "computes dst = (x - m) - s."),
		fused("logSoftmaxGrad", "dst", "y g", "s", "", "g - exp(y)*s", "computes dst = g - exp(y)*s."),
		fused("crossEntropyGrad", "dst", "x", "m inv off scale", "", "(exp(x - m)*inv - off)*scale",
			"computes dst = (exp(x - m)*inv - off)*scale."),

		fused("norm", "dst", "x", "c r", "", "(x - c)*r", "computes dst = (x - c)*r."),
		fused("normWeight", "dst", "x w", "c r", "", "(x - c)*r*w", "computes dst = (x - c)*r*w."),
		fused("normWeightBias", "dst", "x w b", "c r", "", "(x - c)*r*w + b", "computes dst = (x - c)*r*w + b."),
		fused("normGradSums", "", "g x", "c r", "sum sum", "g; g*((x - c)*r)",
			"gives the canonical sums of g and of g*h with h = (x - c)*r."),
		fused("normWeightGradSums", "", "g x w", "c r", "sum sum", "k = g*w; k; k*((x - c)*r)",
			"gives the canonical sums of k = g*w and of k*h with h = (x - c)*r."),
		fused("normGrad", "dst", "g x", "c r p q", "", "((g - p) - (x - c)*r*q)*r",
			"computes dst = ((g - p) - h*q)*r with h = (x - c)*r."),
		fused("normWeightGrad", "dst", "g x w", "c r p q", "", "((g*w - p) - (x - c)*r*q)*r",
			"computes dst = ((g*w - p) - h*q)*r with h = (x - c)*r."),
		fused("addNormProduct", "dst", "acc g x", "c r", "", "acc + g*((x - c)*r)", "computes dst = acc + g*h with h = (x - c)*r."),
		fused("addNormProducts", "dst sum", "acc accsum g x", "c r", "", "acc + g*((x - c)*r); accsum + g",
			"computes dst = acc + g*h with h = (x - c)*r, and sum = accsum + g."),
	}
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
	}
}

// uniformKernel makes the uniform numbers of a random stream, four in each block. Its
// scalars are the words of lane.Stream.
func uniformKernel() *kernel {
	b := lane.NewBuilder()
	s := lane.Stream{CounterLo: b.Uniform(0), CounterHi: b.Uniform(1), Number: b.Uniform(2), KeyLo: b.Uniform(3), KeyHi: b.Uniform(4)}
	var outs []lane.Value
	for _, word := range s.Block(b, b.Index()) {
		outs = append(outs, lane.Unit(b, word))
	}
	return &kernel{
		name: "uniform", piece: &piece{interleaved: true},
		outs: []string{"dst"}, uniforms: []string{"counterLo", "counterHi", "number", "keyLo", "keyHi"}, prog: b.Program(outs...),
	}
}

// activations are the functions of one operand whose forward and backward kernels
// are made.
var activations = []string{
	"exp(x)", "log(x)", "sqrt(x)", "x*x", "tanh(x)", "sigmoid(x)", "relu(x)", "gelu(x)", "gelu_tanh(x)", "silu(x)", "softplus(x)", "mish(x)",
}

// dropout is the expression of package tensor.
const dropout = "where(rand(0) < p, 0, x*(1/(1-p)))"

// adamW and the other updates are the expressions of package optim.
const (
	adamW = `g = grad*gradscale
		m1 = beta1*m + rest1*g
		v1 = beta2*v + rest2*(g*g)
		where(skip, p, p*(1-lr*decay) - lr/c1*(m1/(sqrt(v1)/sqrt(c2) + eps))); where(skip, m, m1); where(skip, v, v1)`
	sgd         = "g = grad*gradscale; where(skip, p, p - lr*(g + decay*p))"
	sgdMomentum = "g = grad*gradscale; b1 = momentum*b + (g + decay*p); where(skip, p, p - lr*b1); where(skip, b, b1)"
	lion        = `g = grad*gradscale
		where(skip, p, p*(1-lr*decay) - lr*sign(beta1*m + rest1*g)); where(skip, m, beta2*m + rest2*g)`
)

// pointwiseKernels is the table of the kernels of whole pointwise operations. An
// expression that is not here runs instruction by instruction, with the same bits.
func pointwiseKernels() []*kernel {
	ks := []*kernel{
		pointwise("x*a", "x", "a", ""), // scale
		pointwise("x+a", "x", "a", ""), // add a scalar
		pointwise("x*y", "x y", "", "y"),
		pointwise("x+y", "x y", "", "y"),
		pointwise("gelu(x + b)", "x b", "", ""),
		pointwise("gelu_tanh(x + b)", "x b", "", ""),
		pointwise("relu(x + b)", "x b", "", ""),
		pointwise(adamW, "p grad m v c1 c2 gradscale skip", "lr beta1 rest1 beta2 rest2 eps decay", "c1 c2 gradscale skip"),
		pointwise(sgd, "p grad gradscale skip", "lr momentum decay", "gradscale skip"),
		pointwise(lion, "p grad m gradscale skip", "lr beta1 rest1 beta2 rest2 decay", "gradscale skip"),
		pointwise(sgdMomentum, "p grad b gradscale skip", "lr momentum decay", "gradscale skip"),
	}
	for _, src := range activations {
		ks = append(ks, bothWays(expr.Must(src, []string{"x"}, nil))...)
	}
	ks = append(ks, bothWays(expr.Must(dropout, []string{"x"}, []string{"p"}))...)
	return distinct(ks)
}

// bothWays makes the kernels of f and of its derivative.
func bothWays(f *expr.Func) []*kernel {
	ks := []*kernel{pointwiseFunc(f, 0)}
	if b := f.Pullback(0); b.Func != nil {
		ks = append(ks, pointwiseFunc(b.Func, 0))
	}
	return ks
}

// distinct leaves out programs of one instruction, which have their kernel, and
// those that were there before, and names the rest.
func distinct(ks []*kernel) []*kernel {
	seen := map[string]bool{}
	var out []*kernel
	for _, k := range ks {
		if seen[k.variant] || strings.Count(k.variant, "=") == 1 && len(k.uniforms) == 0 {
			continue
		}
		seen[k.variant] = true
		k.name = fmt.Sprintf("fused%d", len(out))
		out = append(out, k)
	}
	return out
}
