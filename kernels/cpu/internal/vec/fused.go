package vec

import "fmt"

// Fused is the kernel of a whole pointwise operation: one pass over memory, with
// the bits that its instructions give one by one.
type Fused struct {
	Name    string
	Outs    int // results
	Ins     int // operands that are vectors
	Scalars int // parameters, then operands of one element

	run [numTiers]fusedRun
}

type fusedRun = func(outs, ins [][]float32, scalars []float32)

// Pointwise returns the kernel of the operation that expr.Fusions lists under a name, or nil
// if there is none; then its instructions serve.
func Pointwise(name string) *Fused { return fused[name] }

// Run computes outs from ins and scalars. All vectors have the same length; an
// output may be the same slice as an operand, but may not overlap one otherwise.
func (f *Fused) Run(outs, ins [][]float32, scalars []float32) {
	if len(outs) != f.Outs || len(ins) != f.Ins || len(scalars) != f.Scalars {
		panic(fmt.Sprintf("vec: %s: %d outputs, %d operands and %d scalars, want %d, %d and %d", f.Name,
			len(outs), len(ins), len(scalars), f.Outs, f.Ins, f.Scalars))
	}
	n := len(outs[0])
	for _, x := range outs {
		sameLength(f.Name, n, len(x))
	}
	for _, x := range ins {
		sameLength(f.Name, n, len(x))
	}
	f.run[current](outs, ins, scalars)
}
