//go:build linux

package attack

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// A program is a sequence of operations. Value k is input k, or the result of operation k - len(Inputs).
type program struct {
	Seed   uint64
	Type   int     // code of the element type of the inputs
	Inputs [][]int // shapes
	Ops    []instruction
}

// An instruction calls a method of Tensor, or Cat or Stack.
type instruction struct {
	Name string
	In   []int     // operands: numbers of earlier values
	Args []float64 // the other arguments in order; those that are tensors are operands
}

// smooth are the operations of programs whose derivatives are compared with differences.
var smooth = strings.Fields(`Add Sub Mul Tanh Sigmoid Sin Cos Erf NormCDF GELU GELUTanh SiLU Mish Softplus Square
	AddScalar Scale Neg MatMul Linear Sum Mean Softmax LogSoftmax LogSumExp LayerNorm RMSNorm
	Transpose Permute Reshape Slice Select Expand SumTo T CumSum Var Cat Stack Flatten Squeeze Unsqueeze Flip
	Clone Tril Triu LogAddExp LogSigmoid Softsign Atan Asinh Prod Lerp
	Conv ConvTranspose AvgPool Im2Col`)

// methods are all operations that a program can have.
var methods = func() (names []string) {
	t := reflect.TypeFor[*tensor.Tensor]()
	for i := range t.NumMethod() {
		m := t.Method(i)
		usable := m.Type.NumOut() > 0 && m.Type.Out(0) == t &&
			!slices.Contains([]string{"Grad", "Keep", "Origin", "SumSquares", "CTC"}, m.Name)
		for k := 1; k < m.Type.NumIn(); k++ {
			switch in := m.Type.In(k); {
			case in == t, in.Kind() == reflect.Int, in.Kind() == reflect.Float64, in.Kind() == reflect.Bool,
				in == reflect.TypeFor[[]int](), in == reflect.TypeFor[tensor.Window](),
				in == reflect.TypeFor[tensor.Target](), in == reflect.TypeFor[[]nn.LossOption]():
			default:
				usable = false
			}
		}
		if usable {
			names = append(names, m.Name)
		}
	}
	return append(names, "Cat", "Stack")
}()

// newProgram draws a program of about n operations that runs.
func newProgram(seed uint64, n int, names []string, dt tensor.DType, large bool) *program {
	rng := rand.New(rand.NewPCG(seed, 77))
	p := &program{Seed: seed, Type: dt.Code()}
	a, b := 1+rng.IntN(3), 1+rng.IntN(4)
	if large {
		a, b = 1+rng.IntN(40), []int{1 + rng.IntN(70), 100 + rng.IntN(300), 2000 + rng.IntN(200)}[rng.IntN(3)]
	}
	p.Inputs = [][]int{{a, b}, {b, a}, {b}, {a, b}}[:2+rng.IntN(3)]
	if !large { // an operand and a weight of convolutions
		p.Inputs = append(p.Inputs, []int{1, a, b + 2}, []int{a, 2, 2})
	}
	dev := must(tensor.Open("cpu", tensor.MemoryLimit(memoryLimit)))
	defer dev.Close()
	must(0, dev.Step(func(s *tensor.Scope) error {
		values := p.inputs(s)
		for tries := 0; tries < 20*n && len(p.Ops) < n; tries++ {
			i := draw(rng, names, values)
			var y *tensor.Tensor
			if err := engine.Try(func() { y = i.run(values) }); err == nil && y.Len() > 0 && y.Len() <= 1<<15 {
				p.Ops = append(p.Ops, i)
				values = append(values, y)
			}
		}
		return nil
	}, tensor.RandomStream(1)))
	return p
}

// draw is an instruction that may fit.
func draw(rng *rand.Rand, names []string, values []*tensor.Tensor) (i instruction) {
	i.Name = names[rng.IntN(len(names))]
	operand := func() int { // more often a late one
		k := max(rng.IntN(len(values)), rng.IntN(len(values)))
		for j := range values { // for operations on bits the latest before it that has such
			if n := (k + len(values) - j) % len(values); i.takesBits(values[n].DType()) {
				return n
			}
		}
		return k
	}
	i.In = []int{operand()}
	if i.Name == "Cat" || i.Name == "Stack" {
		i.In, i.Args = append(i.In, operand()), []float64{float64(rng.IntN(3) - 1)}
		return i
	}
	x := values[i.In[0]]
	m, _ := reflect.TypeFor[*tensor.Tensor]().MethodByName(i.Name)
	for k := 1; k < m.Type.NumIn(); k++ {
		switch in := m.Type.In(k); {
		case i.hasBias() && k == 2:
		case in == reflect.TypeFor[*tensor.Tensor]():
			i.In = append(i.In, operand())
		case in.Kind() == reflect.Int:
			i.Args = append(i.Args, float64(rng.IntN(5)-1))
		case in.Kind() == reflect.Bool:
			i.Args = append(i.Args, float64(rng.IntN(2)))
		case in == reflect.TypeFor[tensor.Window]():
			i.Args = append(i.Args, float64(1+rng.IntN(3)), float64(1+rng.IntN(2)), float64(rng.IntN(2)))
		case in.Kind() == reflect.Float64:
			i.Args = append(i.Args, []float64{0.5, 1, 2, 0.1, 1e-5}[rng.IntN(5)])
		case in == reflect.TypeFor[tensor.Target]():
			i.Args = append(i.Args, float64(rng.IntN(8)))
		case i.Name == "Reshape" || i.Name == "Expand" || i.Name == "SumTo":
			shape := x.Shape()
			switch rng.IntN(4) {
			case 0:
				slices.Reverse(shape)
			case 1:
				shape = []int{x.Len()}
			case 2:
				shape = append([]int{1 + rng.IntN(2)}, shape...)
			case 3:
				shape = shape[min(1, len(shape)):]
			}
			for _, n := range shape {
				i.Args = append(i.Args, float64(n))
			}
		case in == reflect.TypeFor[[]int]():
			for range rng.IntN(3) {
				i.Args = append(i.Args, float64(rng.IntN(4)-1))
			}
			if slices.Contains([]string{"Sum", "Mean", "Var"}, i.Name) && rng.IntN(2) == 0 {
				i.Args = append(i.Args, tensor.KeepDims)
			}
		}
	}
	return i
}

// inputs are random numbers in a step.
func (p *program) inputs(s *tensor.Scope) (xs []*tensor.Tensor) {
	for k, shape := range p.Inputs {
		x := s.In(tensor.Uniform(tensor.Seed(p.Seed+uint64(k)), -2, 2, shape...).To(kernels.DTypeOf(p.Type)))
		xs = append(xs, autograd.Watch(s, x))
	}
	return xs
}

// run applies the instruction to earlier values.
func (i instruction) run(values []*tensor.Tensor) *tensor.Tensor {
	args := i.Args
	if i.Name == "Cat" || i.Name == "Stack" {
		f := map[string]func(int, ...*tensor.Tensor) *tensor.Tensor{"Cat": tensor.Cat, "Stack": tensor.Stack}[i.Name]
		return f(int(args[0]), values[i.In[0]], values[i.In[1]])
	}
	m := reflect.ValueOf(values[i.In[0]]).MethodByName(i.Name)
	var in []reflect.Value
	next := 1
	for k := range m.Type().NumIn() {
		switch t := m.Type().In(k); {
		case i.hasBias() && k == 1:
			in = append(in, reflect.Zero(t))
		case t == reflect.TypeFor[*tensor.Tensor]():
			in = append(in, reflect.ValueOf(values[i.In[next]]))
			next++
		case t == reflect.TypeFor[tensor.Window]():
			in = append(in, reflect.ValueOf(i.window(args)))
			args = args[windowArgs:]
		case t.Kind() == reflect.Bool:
			in = append(in, reflect.ValueOf(args[0] == 1))
			args = args[1:]
		case t.Kind() == reflect.Slice:
			for _, a := range args {
				in = append(in, reflect.ValueOf(int(a)))
			}
		case t == reflect.TypeFor[tensor.Target]():
			in = append(in, reflect.ValueOf(kernels.DTypeOf(int(args[0]))))
		default:
			in = append(in, reflect.ValueOf(args[0]).Convert(t))
			args = args[1:]
		}
	}
	return m.Call(in)[0].Interface().(*tensor.Tensor)
}

// windowArgs is how many arguments make a window: its size, stride and padding along the last axis.
const windowArgs = 3

// hasBias tells that the method is a convolution. Programs have them without bias.
func (i instruction) hasBias() bool { return strings.HasPrefix(i.Name, "Conv") }

// takesBits tells that the method is of bits, and of operands of a type.
func (i instruction) takesBits(dt tensor.DType) bool {
	bit, shift := strings.HasPrefix(i.Name, "Bit"), strings.HasPrefix(i.Name, "Shift")
	return dt.IsInt() && (bit || shift) || dt == tensor.Bool && bit
}

// window is the window that args begin with; convolutions take the sizes of their weight.
func (i instruction) window(args []float64) tensor.Window {
	w := tensor.Window{Size: []int{int(args[0])}, Stride: []int{int(args[1])}, Padding: []int{int(args[2])}}
	if i.hasBias() {
		w.Size = nil
	}
	return w
}

// String is the program in Go.
func (p *program) String() string {
	var b strings.Builder
	for k, shape := range p.Inputs {
		fmt.Fprintf(&b, "x%d := s.Watch(s.In(tensor.Uniform(tensor.Seed(%d), -2, 2, %s).To(%s)))\n", k,
			p.Seed+uint64(k), commas(shape), typeText(p.Type))
	}
	for k, i := range p.Ops {
		var args []string
		for _, x := range i.In {
			args = append(args, fmt.Sprint("x", x))
		}
		receiver := args[0] + "."
		args = args[1:]
		if i.Name == "Cat" || i.Name == "Stack" {
			receiver, args = "tensor.", []string{commas(i.Args), fmt.Sprint("x", i.In[0]), fmt.Sprint("x", i.In[1])}
		} else if i.Name == "To" {
			args = []string{typeText(int(i.Args[0]))}
		} else if len(i.Args) > 0 {
			args = append(args, i.arguments())
		}
		fmt.Fprintf(&b, "x%d := %s%s(%s)\n", len(p.Inputs)+k, receiver, i.Name, strings.Join(args, ", "))
	}
	return b.String()
}

// arguments are those that are no operands, in Go.
func (i instruction) arguments() string {
	m, _ := reflect.TypeFor[*tensor.Tensor]().MethodByName(i.Name)
	var texts []string
	args := i.Args
	for k := 1; k < m.Type.NumIn(); k++ {
		switch t := m.Type.In(k); {
		case i.hasBias() && k == 2:
			texts = append(texts, "nil")
		case t == reflect.TypeFor[*tensor.Tensor]():
		case t == reflect.TypeFor[tensor.Window]():
			w := i.window(args)
			texts, args = append(texts, fmt.Sprintf("tensor.Window{Size: %#v, Stride: %#v, Padding: %#v}", w.Size,
				w.Stride, w.Padding)), args[windowArgs:]
		case t.Kind() == reflect.Bool:
			texts, args = append(texts, fmt.Sprint(args[0] == 1)), args[1:]
		case t.Kind() == reflect.Slice:
			if len(args) > 0 {
				texts = append(texts, commas(args))
			}
		default:
			texts, args = append(texts, fmt.Sprint(args[0])), args[1:]
		}
	}
	return strings.Join(texts, ", ")
}

func commas[T any](v []T) string {
	return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(v), "[]")), ", ")
}

// uses tells for each value whether an operation uses it.
func (p *program) uses() []bool {
	used := make([]bool, len(p.Inputs)+len(p.Ops))
	for _, i := range p.Ops {
		for _, k := range i.In {
			used[k] = true
		}
	}
	return used
}

// A cut divides a program into parts that follow one another; how runs one, in a region or a checkpoint.
type cut struct {
	*rand.Rand
	how func(s *tensor.Scope, f func() []*tensor.Tensor) []*tensor.Tensor
}

func inRegion(s *tensor.Scope, f func() []*tensor.Tensor) []*tensor.Tensor {
	return s.Region("part", f)
}

func inCheckpoint(s *tensor.Scope, f func() []*tensor.Tensor) []*tensor.Tensor {
	return engine.Checkpoint(s, f)
}

// parts appends the values of operations [from, to) to values, by parts and parts of these if c is given. The values
// that only the part itself uses are not returned from it.
func (p *program) parts(s *tensor.Scope, values []*tensor.Tensor, c *cut, from, to int, used []int,
	hashes []string) []*tensor.Tensor {
	for from < to {
		mid := to
		if c != nil {
			mid = from + 1 + c.IntN(to-from)
		}
		if c == nil || mid-from == 1 {
			for ; from < mid; from++ {
				values = append(values, p.Ops[from].run(values))
				hashes[len(values)-1] = hashOf(values[len(values)-1:])
			}
			continue
		}
		known := len(values)
		values = append(values, c.how(s, func() []*tensor.Tensor {
			inner := p.parts(s, slices.Clone(values), c, from, mid, used, hashes)
			for k := known; k < len(inner); k++ {
				if used[k] < mid {
					inner[k] = s.Full(0, tensor.Float32) // not a result of the part
				}
			}
			return inner[known:]
		})...)
		from = mid
	}
	return values
}

// values runs the program, in parts if c is given, and returns all values, their hashes, and the sum, with random
// weights, of those that nothing uses.
func (p *program) values(s *tensor.Scope, xs []*tensor.Tensor, c *cut) (values []*tensor.Tensor, hashes []string,
	loss *tensor.Tensor) {
	used := make([]int, len(xs)+len(p.Ops)) // the last operation that does
	for i := range used {
		used[i] = len(p.Ops)
	}
	for i, op := range p.Ops {
		for _, k := range op.In {
			used[k] = i
		}
	}
	hashes = make([]string, len(used))
	values = p.parts(s, slices.Clone(xs), c, 0, len(p.Ops), used, hashes)
	for k, used := range p.uses() {
		if used || k < len(xs) {
			continue
		}
		if y := values[k]; y.NeedsGrad() {
			w := tensor.Uniform(tensor.Seed(p.Seed+uint64(100+k)), 0.5, 1.5, y.Shape()...).To(y.DType())
			part := y.Mul(w).Sum().To(tensor.Float64)
			if loss != nil {
				part = part.Add(loss)
			}
			loss = part
		}
	}
	return values, hashes, loss
}

// hash is that of values and gradients.
func (p *program) hash(device string, c *cut) (hash string, err error) {
	dev, err := tensor.Open(device, tensor.MemoryLimit(memoryLimit))
	if err != nil {
		return "", err
	}
	defer dev.Close()
	err = dev.Step(func(s *tensor.Scope) error {
		xs := p.inputs(s)
		_, hashes, loss := p.values(s, xs, c)
		if loss != nil {
			hashes = append(hashes, hashOf(autograd.Grad(loss, xs, autograd.AllowUnused())))
		}
		hash = fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(hashes, " "))))
		return nil
	}, tensor.RandomStream(1))
	return hash, err
}

// differs says in which way of running it the program has another hash than on the CPU, if there is one.
func (p *program) differs() string {
	want, err := p.hash("cpu", nil)
	if err != nil {
		return ""
	}
	ways := map[string]func() (string, error){
		"with one thread": func() (string, error) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			return p.hash("cpu", nil)
		},
		"in regions": func() (string, error) {
			return p.hash("cpu", &cut{rand.New(rand.NewPCG(p.Seed, 1)), inRegion})
		},
		"in checkpoints": func() (string, error) {
			return p.hash("cpu", &cut{rand.New(rand.NewPCG(p.Seed, 2)), inCheckpoint})
		},
		"on a device with its own memory":   func() (string, error) { return p.hash("second", nil) },
		"between pages that cannot be read": func() (string, error) { return p.hash("guarded", nil) },
	}
	for way, hash := range ways {
		if got, err := hash(); got != want {
			return fmt.Sprintf("%s: %s, else %s, error %v", way, got, want, err)
		}
	}
	return ""
}

// wrongValue compares the values with those of the references.
func (p *program) wrongValue() string {
	tolerance := 1e-8
	if p.Type == tensor.Float32.Code() {
		tolerance = 1e-3
	}
	fast, err := p.results()
	if err != nil {
		return ""
	}
	defer references()()
	slow, err := p.results()
	if err != nil {
		return err.Error()
	}
	for k := range fast {
		if v, w := fast[k], slow[k]; math.Abs(w) < 1e6 && !(math.Abs(v-w) <= tolerance*(1+math.Abs(w))) {
			return fmt.Sprintf("element %d of the values is %v, by the references %v", k, v, w)
		}
	}
	return ""
}

// references makes operations run on their definitions until restore is called.
func references() (restore func()) {
	var undo []func()
	for _, op := range engine.Ops() {
		if cpu := op.CPU; cpu != nil && op.Ref != nil {
			op.CPU = nil
			undo = append(undo, func() { op.CPU = cpu })
		}
	}
	return func() {
		for _, f := range undo {
			f()
		}
	}
}

// results are the elements of all values.
func (p *program) results() (v []float64, err error) {
	dev := must(tensor.Open("cpu", tensor.MemoryLimit(memoryLimit)))
	defer dev.Close()
	err = dev.Step(func(s *tensor.Scope) error {
		values, _, _ := p.values(s, p.inputs(s), nil)
		for _, y := range values {
			v = append(v, tensor.ToSlice[float64](y)...)
		}
		return nil
	}, tensor.RandomStream(1))
	return v, err
}

// wrongGradient compares the gradient with differences.
func (p *program) wrongGradient() string {
	v, err := p.results()
	if err != nil || slices.ContainsFunc(v, func(x float64) bool { return !(math.Abs(x) < 1e4) }) {
		return "" // differences would be rounding alone
	}
	dev := must(tensor.Open("cpu", tensor.MemoryLimit(memoryLimit)))
	defer dev.Close()
	var inputs []*tensor.Tensor
	for k, shape := range p.Inputs {
		inputs = append(inputs, tensor.Uniform(tensor.Seed(p.Seed+uint64(k)), -2, 2, shape...).To(tensor.Float64))
	}
	err = autograd.Gradcheck(dev, func(xs []*tensor.Tensor) *tensor.Tensor {
		_, _, loss := p.values(xs[0].Scope(), xs, nil)
		if loss == nil {
			return xs[0].Sum()
		}
		return loss
	}, inputs...)
	if err != nil {
		return err.Error()
	}
	return ""
}

// programs checks a program and, with the same seed, a smooth one in float64.
func programs(p *program, say func(string), found func(cause, call string)) (hash string, c counts) {
	q := newProgram(p.Seed, 2+len(p.Ops)/2, smooth, tensor.Float64, false)
	c.examine(q, "gradient", (*program).wrongGradient, say, found)
	c.examine(q, "reference", (*program).wrongValue, say, found)
	q.Type = tensor.Float32.Code()
	c.examine(q, "reference", (*program).wrongValue, say, found)
	c.examine(p, "bits", (*program).differs, say, found)
	hash, _ = p.hash("cpu", nil)
	return hash, c
}

// examine counts what a check says of a program, and reduces one that it finds wrong.
func (c *counts) examine(p *program, name string, check func(*program) string, say func(string),
	found func(cause, call string)) {
	say(name + ":\n" + p.String())
	c.Tried++
	if check(p) == "" {
		c.Fine++
		return
	}
	c.Defects++
	small := p.reduced(func(q *program) bool { return check(q) != "" })
	found(name+" of a program", check(small)+"\n"+small.String())
}

// reduced is the program without the operations that are not needed for it to fail.
func (p *program) reduced(fails func(*program) bool) *program {
	for k := len(p.Ops) - 1; k >= 0; k-- {
		for _, instead := range append([]int{-1}, p.Ops[k].In...) {
			if q := p.without(k, instead); q != nil && fails(q) {
				return q.reduced(fails)
			}
		}
	}
	return p
}

// without is the program without operation k, and value instead where its result was used; nil if instead is -1 and
// there are uses.
func (p *program) without(k, instead int) *program {
	q := &program{}
	must(0, json.Unmarshal(must(json.Marshal(p)), q))
	gone := len(p.Inputs) + k
	q.Ops = slices.Delete(q.Ops, k, k+1)
	for _, i := range q.Ops[k:] {
		for j, x := range i.In {
			switch {
			case x == gone && instead < 0:
				return nil
			case x == gone:
				i.In[j] = instead
			case x > gone:
				i.In[j]--
			}
		}
	}
	return q
}

// typeText is the element type with a code in Go, such as tensor.BFloat16.
func typeText(code int) string {
	name := kernels.DTypeOf(code).String()
	if rest, ok := strings.CutPrefix(name, "bf"); ok {
		return "tensor.BF" + rest
	}
	return "tensor." + strings.ToUpper(name[:1]) + name[1:]
}
