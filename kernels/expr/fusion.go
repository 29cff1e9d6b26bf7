package expr

import "slices"

// A Fusion is a function of which the CPU has a kernel of its own, one loop in the place of one for each instruction,
// with the same bits. internal/tools/genvec makes the kernels from this list, and package vec finds them by name.
type Fusion struct {
	Name    string // of the operation, such as "gelu", "gelu_grad_x" or "adamw"
	Func    *Func
	Uniform uint64 // bit k: argument k is one element for all
}

var fusions []*Fusion

// Fusions lists the functions that are fused.
func Fusions() []*Fusion { return fusions }

// Fuse asks for a kernel of f where the arguments in uniform, and no others, are one element for all. Only init
// functions of the library call it, for operations that are worth their code. It does nothing where there is such a
// kernel: for an instruction without scalars, and for a function that is fused already under another name.
//
// It panics if the name is taken: a kernel belongs to one function.
func (f *Func) Fuse(name string, uniform ...string) {
	g := &Fusion{Name: name, Func: f}
	for _, arg := range uniform {
		g.Uniform |= 1 << slices.Index(f.Args, arg)
	}
	if f.isInstruction() && g.Uniform == 0 || f.Fusion(g.Uniform) != nil {
		return
	}
	if slices.ContainsFunc(fusions, func(other *Fusion) bool { return other.Name == name }) {
		panic("expr: two functions are fused under the name " + name)
	}
	fusions = append(fusions, g)
}

// isInstruction tells whether f is at most one instruction, without parameters.
func (f *Func) isInstruction() bool {
	instructions := 0
	for _, n := range f.Order() {
		if n.Op.Arity() > 0 || n.Op == Param {
			instructions++
		}
	}
	return instructions <= 1
}

// Fusion is the fused function that is f, where the arguments in set uniform are one element; nil if there is none.
// Equal mathematics has equal nodes, so what it is called does not matter: f may be a function of a user. It may have
// further arguments.
func (f *Func) Fusion(uniform uint64) *Fusion {
	for _, g := range fusions {
		if g.Uniform == uniform && slices.Equal(g.Func.Roots, f.Roots) &&
			len(g.Func.Args) <= len(f.Args) && len(g.Func.Params) == len(f.Params) {
			return g
		}
	}
	return nil
}
