package expr

import (
	"slices"
	"strings"
)

// Pullback carries the gradient of the result back to arguments: a [Func] over some of the values that the forward
// computation had, and the gradient of its result.
type Pullback struct {
	Func *Func // a root for each argument; nil: the derivative is zero everywhere
	Uses []int // what Func takes: k < n is argument k of the n, n the gradient of the result, n+1 the result itself
}

// Pullback is the derivative of the first root with respect to argument i, times the gradient of the result. It prefers
// the result to the arguments where that saves keeping one (exp, tanh, sqrt, relu). Parameters keep their positions.
// The result is a function like any other, so derivatives of any order follow.
func (f *Func) Pullback(i int) *Pullback {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pullbacks == nil {
		f.pullbacks = make([]*Pullback, len(f.Args))
	}
	if f.pullbacks[i] == nil {
		f.pullbacks[i] = f.derive(i)
	}
	return f.pullbacks[i]
}

// JointPullback is the derivatives of all arguments in one function, which computes what they share once: the roots of
// [Func.Pullback] for each of them. Func is nil if one of them is zero everywhere.
func (f *Func) JointPullback() *Pullback {
	var roots []*Node
	for i := range f.Args {
		d := f.gradient(i)
		if d == nil {
			return &Pullback{}
		}
		roots = append(roots, d)
	}
	return f.pullback(roots)
}

func (f *Func) derive(i int) *Pullback {
	d := f.gradient(i)
	if d == nil {
		return &Pullback{}
	}
	return f.pullback([]*Node{d})
}

// gradient is the derivative for argument i, of the arguments, the gradient of the result and the result, numbered in
// this order; nil if it is zero everywhere.
func (f *Func) gradient(i int) *Node {
	n, root := len(f.Args), f.Roots[0]
	d := gradient(root, i, argument(n))
	if d == nil {
		return nil
	}
	if s := substitute(d, throughResult(root, argument(n+1))); countArgs(s, n) < countArgs(d, n) {
		d = s
	}
	return d
}

// pullback is the function with these roots, of what they use.
func (f *Func) pullback(roots []*Node) *Pullback {
	n, uses := len(f.Args), argsOf(roots...)
	renumber := map[*Node]*Node{}
	var names []string
	for to, from := range uses {
		renumber[argument(from)] = argument(to)
		switch {
		case from < n:
			names = append(names, f.Args[from])
		case from == n:
			names = append(names, fresh("grad", f.Args, f.Params))
		default:
			names = append(names, fresh("out", f.Args, f.Params))
		}
	}
	p := &Func{Args: names, Params: f.Params}
	for _, d := range roots {
		p.Roots = append(p.Roots, substitute(d, renumber))
	}
	p.Src = p.String()
	return &Pullback{Func: p, Uses: uses}
}

// throughResult are the nodes that can be replaced by the result y of a root: the root itself, and for y = relu(x) the
// condition x <= 0, by y <= 0.
func throughResult(root, y *Node) map[*Node]*Node {
	with := map[*Node]*Node{}
	if root.Op != Arg {
		with[root] = y
	}
	if root.Op == Where {
		c, a, x := root.X[0], root.X[1], root.X[2]
		if c.Op == LE && c.X[0] == x && c.X[1].is(0) && a.is(0) {
			with[c] = apply(LE, y, c.X[1])
		}
	}
	return with
}

// argsOf lists the numbers of the arguments below some roots, ascending.
func argsOf(roots ...*Node) []int {
	var ks []int
	for _, n := range Order(roots...) {
		if n.Op == Arg {
			ks = append(ks, n.K)
		}
	}
	slices.Sort(ks)
	return ks
}

// countArgs counts the arguments below n that root depends on.
func countArgs(root *Node, n int) int {
	count := 0
	for _, k := range argsOf(root) {
		if k < n {
			count++
		}
	}
	return count
}

// fresh is name, with underscores appended until it is new.
func fresh(name string, taken ...[]string) string {
	for strings.Contains(" "+strings.Join(slices.Concat(taken...), " ")+" ", " "+name+" ") {
		name += "_"
	}
	return name
}
