package expr

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/weft-ml/weft/internal/weaktable"
)

// Func is a pointwise operation: one value, or several, at each element of its operands. Make it with [New].
// It may be used from many goroutines and must not be changed or copied.
type Func struct {
	Src    string   // the text it was made from
	Args   []string // names of the tensor operands
	Params []string // names of the scalars
	Roots  []*Node  // the results

	once  sync.Once
	order []*Node       // all nodes, operands first
	index map[*Node]int // of a node in order
	key   string
	weak  weak.Pointer[Func]

	mu        sync.Mutex
	pullbacks []*Pullback

	compiled atomic.Pointer[compiled]
}

// functions are those in use, by source: a call site that makes its function anew each time gets the same one. One
// that nobody holds any more is collected, with its derivatives and what backends have compiled it to. The last ones
// asked for are held, as many as [Kept].
var functions = weaktable.New[string, Func](Kept)

// Kept is how many functions live although nobody holds them: those that were asked for last. A program that makes
// more expressions than these, and holds none, has them compiled anew.
const Kept = 256

// New reads an expression; the package comment describes the language. The error is a [*SyntaxError].
func New(src string, args, params []string) (*Func, error) {
	return functions.Get(fmt.Sprintf("%q %q %q", src, args, params), func() (*Func, error) {
		roots, err := parse(src, args, params)
		return &Func{Src: src, Args: slices.Clone(args), Params: slices.Clone(params), Roots: roots}, err
	})
}

// Must is [New] for expressions in program text: it panics on an error.
func Must(src string, args, params []string) *Func {
	f, err := New(src, args, params)
	if err != nil {
		panic(err)
	}
	return f
}

// Guard is f with one more argument, the last, called name: where it is not 0, result i is the argument old[i] instead.
// It panics unless old names an argument for each result.
func (f *Func) Guard(name string, old []string) *Func {
	id := fmt.Sprintf("%q %q %q guard %q %q", f.Src, f.Args, f.Params, name, old)
	g, _ := functions.Get(id, func() (*Func, error) {
		g := &Func{Args: append(slices.Clone(f.Args), name), Params: f.Params}
		for i, r := range f.Roots {
			k := slices.Index(f.Args, old[i])
			if k < 0 {
				panic("expr: no argument is called " + old[i])
			}
			g.Roots = append(g.Roots, apply(Where, argument(len(f.Args)), argument(k), r))
		}
		g.Src = strings.Join(g.statements(), "\n")
		return g, nil
	})
	return g
}

func (f *Func) prepare() {
	f.once.Do(func() {
		f.order = Order(f.Roots...)
		f.index = make(map[*Node]int, len(f.order))
		for i, n := range f.order {
			f.index[n] = i
		}
		f.key = f.makeKey()
		f.weak = weak.Make(f)
	})
}

// Weak tells f from all other functions, those of the past included, without keeping it. To ask takes no time.
func (f *Func) Weak() weak.Pointer[Func] {
	f.prepare()
	return f.weak
}

// Order lists the nodes of all roots, each once, operands first. The caller must not change it.
func (f *Func) Order() []*Node {
	f.prepare()
	return f.order
}

// Identity tells whether the function returns its only operand as it is.
func (f *Func) Identity() bool { return len(f.Args) == 1 && len(f.Roots) == 1 && f.Roots[0].Op == Arg }

// Streams lists the random streams that f draws from, ascending.
func (f *Func) Streams() []int {
	var ks []int
	for _, n := range f.Order() {
		if n.Op == Rand && !slices.Contains(ks, n.K) {
			ks = append(ks, n.K)
		}
	}
	slices.Sort(ks)
	return ks
}

// Eval computes the results at one element in float64: the reference that all devices are tested against.
// rand returns the random numbers of the streams and may be nil if there are none.
func (f *Func) Eval(args, params []float64, rand func(k int) float64) []float64 {
	f.prepare()
	v := make([]float64, len(f.order))
	for i, n := range f.order {
		switch n.Op {
		case Arg:
			v[i] = args[n.K]
		case Param:
			v[i] = params[n.K]
		case Const:
			v[i] = n.C
		case Rand:
			v[i] = rand(n.K)
		default:
			var x [3]float64
			for j, o := range n.Operands() {
				x[j] = v[f.index[o]]
			}
			v[i] = n.Op.Eval(x[0], x[1], x[2])
		}
	}
	out := make([]float64, len(f.Roots))
	for i, r := range f.Roots {
		out[i] = v[f.index[r]]
	}
	return out
}

// Key is a text that is equal for two functions if and only if their roots are the same mathematics as written:
// operands count by position, not by name. Example: "%0=mul(a0,a1);%1=add(%0,p0);%1".
func (f *Func) Key() string {
	f.prepare()
	return f.key
}

func (f *Func) makeKey() string {
	var b strings.Builder
	names := make(map[*Node]string, len(f.order))
	temps := 0
	for _, n := range f.order {
		switch n.Op {
		case Arg:
			names[n] = "a" + strconv.Itoa(n.K)
		case Param:
			names[n] = "p" + strconv.Itoa(n.K)
		case Rand:
			names[n] = "r" + strconv.Itoa(n.K)
		case Const:
			names[n] = strconv.FormatFloat(n.C, 'g', -1, 64)
		default:
			names[n] = "%" + strconv.Itoa(temps)
			temps++
			var xs []string
			for _, x := range n.Operands() {
				xs = append(xs, names[x])
			}
			fmt.Fprintf(&b, "%s=%v(%s);", names[n], n.Op, strings.Join(xs, ","))
		}
	}
	for i, r := range f.Roots {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(names[r])
	}
	return b.String()
}
