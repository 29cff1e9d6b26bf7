package expr

import (
	"fmt"
	"slices"
)

// A Fusion is a function of which the CPU has a kernel of its own, one loop in the place of one for each instruction, with
// the same bits. internal/tools/genvec makes the kernels from this list, and package vec finds them by name.
type Fusion struct {
	Name    string // of the operation, such as "gelu", "gelu_grad_x" or "adamw"
	Func    *Func
	Uniform uint64 // bit k: argument k is one element for all
}

// fusions are filled by init functions of package tensor and package optim, and read only afterwards.
var fusions struct {
	all    []*Fusion
	byRoot map[*Node][]*Fusion // by the first result: nodes are equal if and only if the mathematics is
}

// Fuse asks for a kernel of f where the arguments in uniform, and no others, are one element for all. Only init functions
// of the library call it, for operations that are worth their code. It does nothing where there is such a kernel: for an
// instruction without scalars, and for a function that is fused already under another name.
//
// It panics if the name is taken: a kernel belongs to one function, and no other can get it.
func (f *Func) Fuse(name string, uniform ...string) {
	fusion := &Fusion{Name: name, Func: f}
	for _, arg := range uniform {
		fusion.Uniform |= 1 << slices.Index(f.Args, arg)
	}
	if f.isInstruction() && fusion.Uniform == 0 || f.Fusion(fusion.Uniform) != nil {
		return
	}
	for _, other := range fusions.all {
		if other.Name == name {
			panic(fmt.Sprintf("expr: two functions are fused under the name %s", name))
		}
	}
	if fusions.byRoot == nil {
		fusions.byRoot = map[*Node][]*Fusion{}
	}
	fusions.all = append(fusions.all, fusion)
	fusions.byRoot[f.Roots[0]] = append(fusions.byRoot[f.Roots[0]], fusion)
}

// isInstruction tells whether f is at most one instruction, without parameters.
func (f *Func) isInstruction() bool {
	instructions := 0
	for _, n := range f.Order() {
		if n.Op == Param {
			return false
		}
		if n.Op.Arity() > 0 {
			instructions++
		}
	}
	return instructions <= 1
}

// Fusions lists the functions that are fused.
func Fusions() []*Fusion { return fusions.all }

// Fusion is the fused function that is f, where the arguments in set uniform are one element; nil if there is none. What it
// is called does not matter, only the mathematics: f may be a function of a user, and have further arguments.
func (f *Func) Fusion(uniform uint64) *Fusion {
	for _, fusion := range fusions.byRoot[f.Roots[0]] {
		g := fusion.Func
		if fusion.Uniform == uniform && slices.Equal(g.Roots, f.Roots) &&
			len(g.Args) <= len(f.Args) && len(g.Params) == len(f.Params) {
			return fusion
		}
	}
	return nil
}
