//go:build linux

package attack

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// memoryLimit is that of the devices.
const memoryLimit = 64 << 20

// A second device computes on the CPU, but its memory counts as its own.
type second struct{ kernels.Backend }

func (second) Name() string { return "second" }

// closed devices.
var closedCPU, closedNull, closedSecond *tensor.Device

func init() {
	kernels.Register("second", func(int) (kernels.Backend, error) {
		b, err := kernels.Open("cpu")
		return second{b}, err
	})
	for name, d := range map[string]**tensor.Device{"cpu": &closedCPU, "null": &closedNull, "second": &closedSecond} {
		*d = must(tensor.Open(name))
		if err := (*d).Close(); err != nil {
			panic(err)
		}
	}
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// A world is what calls are made in: a device, models, and steps.
type world struct {
	rng       *rand.Rand
	dev, null *tensor.Device
	foreign   *tensor.Scope // a step that is open all the time
	step      *tensor.Scope // nil between steps
	ended     *tensor.Scope
	pool      map[reflect.Type][]value
	good      []value // tensors that operations can use, of no step
	loss      *tensor.Tensor
	odd       []value // tensors that may not be used
	opened    []*tensor.Device
	strings   []string
	things    []value
	calls     int // of functions of the attacker, in one call

	params []*tensor.Tensor
	opt    *optim.Optimizer
	scaler *amp.GradScaler
	lasts  bool // a call has an effect that does not wait for the step

	say    func(call string) // before each call
	counts counts
	found  func(cause, call string)
}

// counts are those of calls: of all, of those that ended with a typed error, and of those that did what they can.
type counts struct{ Tried, Typed, Fine, Defects int }

func (c *counts) add(d counts) {
	c.Tried, c.Typed, c.Fine, c.Defects = c.Tried+d.Tried, c.Typed+d.Typed, c.Fine+d.Fine, c.Defects+d.Defects
}

func (c counts) String() string {
	return fmt.Sprintf("tried %d, typed %d, fine %d, defects %d", c.Tried, c.Typed, c.Fine, c.Defects)
}

// attack makes the calls of one world.
func (w *world) attack(calls []target) {
	kind := []string{"cpu", "second", "guarded"}[w.rng.IntN(3)]
	w.dev = must(tensor.Open(kind, tensor.MemoryLimit(memoryLimit), tensor.Seed(w.rng.Uint64())))
	w.null = must(tensor.Open("null"))
	err := w.recovered(func() error {
		return w.dev.Eval(func(s *tensor.Scope) error {
			w.foreign = s
			w.begin()
			for len(calls) > 0 {
				n := min(5+w.rng.IntN(20), len(calls))
				if w.rng.IntN(3) == 0 {
					w.callAll(calls[:n])
				} else {
					w.inStep(calls[:n])
				}
				calls = calls[n:]
			}
			return nil
		})
	})
	w.judge(err, "the step around all")
	w.end()
}

// begin makes models and values that are always there.
func (w *world) begin() {
	chain := nn.Sequential(nn.NewLinear(3, 3), nn.NewLayerNorm(3), nn.GELU)
	v := nn.Parameter(nn.Ones, 2, 3)
	half := nn.Parameter(nn.Ones, 3)
	state := nn.State(nn.Ones, 3)
	for _, err := range []error{nn.Init(w.dev, []any{chain, v, state}), nn.Init(w.dev, half,
		nn.DType(tensor.BFloat16))} {
		if err != nil {
			panic(err)
		}
	}
	elsewhere := must(engine.NewState(w.null, "elsewhere", tensor.Float32, 2, 3))
	w.params = append(nn.Parameters(chain), v, half, state)
	w.opt = optim.New(optim.AdamW(0.1, optim.Betas(0.9, 0.99), optim.Eps(1e-8)), []any{chain, v}, optim.Clip(1))
	w.scaler = amp.NewGradScaler()
	attention, gpt := nn.NewCausalAttention(6, 2), nn.NewGPT(nn.GPTConfig{Vocab: 5, Context: 4, Width: 6, Heads: 2,
		Layers: 1})
	conv, transposed := nn.NewConv1d(2, 4, 3, nn.Groups(2)), nn.NewConvTranspose2d(2, 3, 2, nn.Stride(2))
	normed, spectral := nn.NewWeightNorm(nn.NewLinear(3, 2)), nn.NewSpectralNorm(nn.NewLinear(3, 2))
	resnet := nn.NewResNet(nn.ResNetConfig{Classes: 2, Width: 1, Blocks: [4]int{1, 1, 1, 1}})
	if err := nn.Init(w.dev, []any{attention, gpt, conv, transposed, normed, spectral, resnet}); err != nil {
		panic(err)
	}
	reader := os.Getenv(testFiles) + "/"
	picture := data.Picture{Name: "x", Width: 3, Height: 2, Pix: make([]uint8, 18)}
	for _, x := range []any{chain, w.opt, w.scaler, attention, conv, transposed, normed, spectral,
		gpt, gpt.Blocks[0], gpt.Blocks[0].MLP, resnet, resnet.Layer2[0],
		tensor.NewScalar(1),
		must(data.NewText(text, data.Chars)), must(data.NewArrays([]float32{1, 2, 3, 4}, []int{2}, []int64{0, 1}, nil)),
		must(data.DecodeIDX("x", idx)), must(data.OpenTar(reader + "shard.tar")),
		must(data.OpenTFRecord(reader + "examples.tfrecord")), must(data.OpenNPY[float32](reader + "rows.npy")),
		must(data.OpenTokens([]string{reader + "plain.bin"}, 3)), must(data.ImageFolder(reader + "pictures")), picture,
		w.params[0], w.params[1], v, v.T(), v.Slice(1, 0, 2), half, state,
		tensor.Randn(tensor.Seed(1), 2, 3), tensor.Randn(tensor.Seed(2), 3), tensor.Zeros(tensor.Int64, 3),
		tensor.FromSlice([]bool{true, false},
			2),
		tensor.Randn(tensor.Seed(3), 3, 2).T(), tensor.Zeros(tensor.Float32, 0, 3), tensor.Of(2.0),
		tensor.Randn(tensor.Seed(4), 1, 2, 6)} {
		w.add(is(describe(x), x))
	}
	square := tensor.Randn(tensor.Seed(5), 3, 3)
	for _, t := range []*tensor.Tensor{square, square, square.T(), w.params[0], w.params[0], w.params[1], v,
		tensor.Randn(tensor.Seed(7), 3), tensor.FromSlice([]int64{0, 2, 1}, 3), tensor.Zeros(tensor.Int64, 3, 3),
		square.Greater(square.T()), tensor.Randn(tensor.Seed(8), 1, 2, 4, 6)} {
		w.good = append(w.good, is(describe(t), t))
	}
	a, _, _ := engine.Arena(v)
	w.add(is("an arena", a))
	w.things = append(w.things, is("a chain", chain), is("an optimizer", w.opt), is("models", []any{chain, v}),
		is("the device", w.dev), is("a closed device", closedCPU), is("bfloat16", tensor.BFloat16))
	w.odd = []value{is("nil", (*tensor.Tensor)(nil)), is("a zero Tensor", &tensor.Tensor{}),
		is("a parameter without values", nn.Parameter(nn.Ones, 2, 3)), is("state of another device", elsewhere),
		is("a tensor of another step", w.foreign.Full(1, tensor.Float32, 2, 3))}
}

func describe(x any) string {
	if t, ok := x.(*tensor.Tensor); ok {
		switch {
		case t.Scope() != nil:
			return t.String() + " of a step"
		case !t.IsContiguous():
			return t.String() + " strided"
		}
		return t.String()
	}
	return fmt.Sprintf("%T", x)
}

// tensor is one of the step, of the host, a parameter, or one that may not be used.
func (w *world) tensor() value {
	have := w.pool[reflect.TypeFor[*tensor.Tensor]()]
	switch w.rng.IntN(8) {
	case 0:
		have = w.odd
	case 1, 2, 3, 4:
		have = w.good
	case 5:
		if w.step != nil {
			return is("the loss", w.loss)
		}
	}
	return have[w.rng.IntN(len(have))]
}

// inStep makes calls in one step, which then fails or commits. If it fails all is as it was.
func (w *world) inStep(calls []target) {
	w.lasts = false
	before := w.hash()
	boom := errors.New("boom")
	err := w.recovered(func() error {
		return w.dev.Step(func(s *tensor.Scope) error {
			w.step = s
			x := s.In(tensor.Randn(tensor.Seed(w.rng.Uint64()), 2, 3))
			y := s.In(w.params[0]).Square()
			for _, t := range []*tensor.Tensor{x, x.T(), x.To(tensor.Int32), x.To(tensor.Float16),
				autograd.Watch(s, x), y,
				x.Greater(x), s.Full(1, tensor.Int64, 2), s.Full(2, tensor.Float32), s.Full(0.5, tensor.Float32, 1, 2,
					6)} {
				w.add(is(describe(t), t))
			}
			s.Region("released", func() []*tensor.Tensor {
				w.odd = append(w.odd, is("a released tensor", x.Exp()))
				return nil
			})
			w.loss = w.begun(s)
			w.callAll(calls)
			if w.rng.IntN(2) == 0 {
				return boom
			}
			return nil
		})
	})
	w.ended, w.step = w.step, nil
	w.retire()
	if err != nil {
		w.judge(err, "the step")
		if before == "" { // it could not be read
			return
		}
		if after := w.hash(); !w.lasts && before != after {
			w.defect("a failed step has changed something: "+errorKind(err), "the last step")
		}
	}
}

// begun is the loss of a step, which is scaled or has been differentiated sometimes, so that an update can follow.
func (w *world) begun(s *tensor.Scope) (loss *tensor.Tensor) {
	loss = s.Full(0, tensor.Float32)
	for _, p := range w.params {
		if p.Trainable() {
			loss = loss.Add(s.In(p).Square().Sum().To(tensor.Float32))
		}
	}
	how := w.rng.IntN(4)
	if how == 0 {
		loss = w.scaler.Scale(loss)
	}
	if how < 2 {
		autograd.Backward(loss, autograd.Retain())
	}
	return loss
}

// retire moves the tensors of the step to those that may not be used.
func (w *world) retire() {
	t := reflect.TypeFor[*tensor.Tensor]()
	var stay []value
	for _, x := range w.pool[t] {
		if y := x.v.Interface().(*tensor.Tensor); y.Scope() == nil {
			stay = append(stay, x)
		} else if len(w.odd) < 20 {
			w.odd = append(w.odd, value{x.v, x.text + " that has ended"})
		}
	}
	w.pool[t] = append(stay, is("float32[2 3]", tensor.Randn(tensor.Seed(w.rng.Uint64()), 2, 3)))
}

// hash is of what a failed step must not change; "" if that cannot be read.
func (w *world) hash() string {
	var b strings.Builder
	if err := w.recovered(func() error {
		for _, p := range w.params {
			fmt.Fprintln(&b, bitsOf(p))
			if g := p.Grad(); g != nil {
				fmt.Fprintln(&b, "gradient", bitsOf(g))
			}
		}
		fmt.Fprintln(&b, w.opt.Hash(), w.opt.GradNorm(), w.opt.LR.Value())
		fmt.Fprintln(&b, w.scaler.State())
		return nil
	}); err != nil {
		return ""
	}
	return b.String()
}

func bitsOf(t *tensor.Tensor) (bits []uint64) {
	for _, v := range tensor.ToSlice[float64](t) {
		bits = append(bits, math.Float64bits(v))
	}
	return bits
}

// lasting are the calls whose effect does not wait for the end of a step, and those that may run steps of their own.
var lasting = regexp.MustCompile(
	`^tensor\.(Tensor\.(Assign|ClearGrads|OnGrad|SetNeedsGrad)|Scalar\.Set|Open)$|` +
		`^tensor\.(raw\.WriteAt|Device\.(Step|Close)|engine\.(Place|SetCounters))$|` +
		`^nn\.(Init|Summary|Freeze|Unfreeze)$|OnCommit$|^amp\.GradScaler\.Restore$|^data\.Loader\.Restore$|check$|` +
		`^autograd\.(Accumulate|Custom)|Initializer`)

func (w *world) callAll(calls []target) {
	for _, c := range calls {
		w.call(c)
	}
}

// call makes one call and judges how it ends.
func (w *world) call(c target) {
	in, texts, ok := w.arguments(c)
	if !ok {
		return
	}
	call := c.name + "(" + strings.Join(texts, ", ") + ")"
	w.say(call)
	w.calls = 0
	w.lasts = w.lasts || lasting.MatchString(c.name) || strings.Contains(call, "another step")
	var out []reflect.Value
	err := w.recovered(func() error {
		if c.f.Type().IsVariadic() {
			out = c.f.CallSlice(in)
		} else {
			out = c.f.Call(in)
		}
		for _, r := range out {
			w.use(r, call)
		}
		return nil
	})
	w.counts.Tried++
	if c.name == "tensor.Open" { // the limit is one for all users
		must(tensor.Open(w.dev.Name(), tensor.MemoryLimit(memoryLimit))).Close()
	}
	for _, r := range out {
		if e, ok := r.Interface().(error); ok && err == nil {
			err = e
		}
	}
	w.judge(err, call)
}

// testFiles is the environment variable with the folder of files that data are read from.
const testFiles = "WEFT_ATTACK_FILES"

// notNil are the types of which nil has no methods: an error that is nil is none.
var notNil = []reflect.Type{reflect.TypeFor[*data.FormatError]()}

// mustNotBeNil tells whether c is a method of such a type.
func mustNotBeNil(c target) bool {
	return slices.ContainsFunc(notNil, func(t reflect.Type) bool { return strings.HasPrefix(c.name, typeName(t)+".") })
}

func isNil(v reflect.Value) bool {
	return (v.Kind() == reflect.Pointer || v.Kind() == reflect.Func || v.Kind() == reflect.Interface) && v.IsNil()
}

// arguments are drawn for c; ok is false if there is no receiver for it. Tensors are often the same as the one before.
func (w *world) arguments(c target) (in []reflect.Value, texts []string, ok bool) {
	again := w.rng.IntN(4) == 0
	for i := range c.f.Type().NumIn() {
		x := w.arg(c.f.Type().In(i), 0)
		for tries := 0; i == 0 && tries < 20 && mustNotBeNil(c) && isNil(x.v); tries++ {
			x = w.arg(c.f.Type().In(i), 0)
		}
		if c.name == "tensor.Device.Close" && x.v.Interface() == w.dev {
			x = is("nil", (*tensor.Device)(nil))
		}
		if i == 0 && mustNotBeNil(c) && isNil(x.v) {
			return nil, nil, false
		}
		if k := i - 1; again && k >= 0 && in[k].Type() == x.v.Type() {
			x = value{in[k], texts[k]}
		}
		in, texts = append(in, x.v), append(texts, x.text)
	}
	return in, texts, true
}

// use keeps a result for later calls; functions that a caller would call are called.
func (w *world) use(r reflect.Value, call string) {
	t := r.Type()
	held, _ := r.Interface().(interface{ Free() }) // a snapshot has memory of the device until it is given back
	switch {
	case held != nil:
		if !r.IsNil() {
			held.Free()
		}
	case t.Kind() == reflect.Func && !r.IsNil() && t.NumIn() == 0:
		r.Call(nil)
	case t.Kind() == reflect.Func && !r.IsNil() && t.NumIn() == 1 && t.In(0).Kind() == reflect.Func:
		n := 0
		r.Call([]reflect.Value{reflect.MakeFunc(t.In(0), func([]reflect.Value) []reflect.Value {
			n++
			return []reflect.Value{reflect.ValueOf(n < 3)}
		})})
	case t.Kind() == reflect.Slice && t.Elem() == reflect.TypeFor[*tensor.Tensor]():
		for i := range min(r.Len(), 3) {
			w.use(r.Index(i), call)
		}
	case t.Kind() == reflect.Interface && !r.IsNil():
		w.use(r.Elem(), call)
	case t == reflect.TypeFor[*tensor.Device]():
		if !r.IsNil() {
			w.opened = append(w.opened, r.Interface().(*tensor.Device))
		}
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Func || t.Kind() == reflect.Struct:
		if t.Kind() != reflect.Func || !r.IsNil() {
			w.add(value{r, fmt.Sprintf("the result of %.60s", call)})
		}
	}
}

// An untyped panic is a defect, unless it is the attacker's.
type untyped struct {
	what  any
	where string // the innermost function of the library
}

func (u *untyped) Error() string { return fmt.Sprintf("%s: %v", u.where, u.what) }

// recovered is the error of f, or that of its panic.
func (w *world) recovered(f func() error) (err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case userPanic:
			err = errUser
		case *tensor.Error:
			if err = e; !strings.Contains(e.Site, "_test.go:") {
				err = &untyped{"an error without the caller's line", library()}
			}
		default:
			err = &untyped{e, library()}
		}
	}()
	return f()
}

var errUser = errors.New("a panic of the attacker's own")

// library is the innermost function of the library that panicked first.
func library() string {
	pcs := make([]uintptr, 200)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs)])
	where := ""
	for {
		f, more := frames.Next()
		switch name, ours := strings.CutPrefix(f.Function, "github.com/weft-ml/weft/"); {
		case f.Function == "runtime.gopanic":
			where = "" // below it is what panicked
		case where == "" && ours && name != "tensor.fail" && name != "tensor.engine.Fail" &&
			!strings.Contains(name, "/attack."):
			where = name
		}
		if !more {
			return where
		}
	}
}

// judge counts how a call ended.
func (w *world) judge(err error, call string) {
	var u *untyped
	var r runtime.Error
	switch {
	case err == nil || errors.Is(err, errUser):
		w.counts.Fine++
	case errors.As(err, &u):
		w.defect(u.Error(), call)
	case errors.As(err, &r):
		w.defect(err.Error(), call)
	default:
		w.counts.Typed++
	}
}

var numbers = regexp.MustCompile(`0x[0-9a-f]+|-?[0-9]+`)

// errorKind is a message without its numbers.
func errorKind(err error) string { return numbers.ReplaceAllString(err.Error(), "N") }

func (w *world) defect(cause, call string) {
	w.counts.Defects++
	w.found(cause, call)
}

// end closes all, after a step that must work.
func (w *world) end() {
	var sum float64
	err := w.recovered(func() error {
		return w.dev.Step(func(s *tensor.Scope) error {
			x := autograd.Watch(s, s.In(tensor.FromSlice([]float32{1, 2, 3}, 3)))
			y := x.Square().Sum()
			sum = autograd.Grad(y, []*tensor.Tensor{x})[0].Sum().Item() + y.Item()
			return nil
		})
	})
	if err != nil || sum != 26 {
		w.defect(fmt.Sprintf("the device is out of order: %v, %v", sum, err), "the end of the world")
	}
	if n := w.dev.Stats().Memory.Blocks; n != 0 {
		w.defect("blocks are live at the end", "the end of the world")
	}
	for _, d := range append(w.opened, w.dev, w.null) {
		if err := d.Close(); err != nil {
			w.defect("close: "+err.Error(), "the end of the world")
		}
	}
}

// files are written to an empty folder, the current one.
func files() error {
	images, labels := []byte{0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28}, []byte{0, 0, 8, 1, 0, 0, 0, 1, 9}
	err := errors.Join(os.WriteFile("idx", idx, 0o600), os.WriteFile("text", text, 0o600))
	for _, part := range []string{"train", "t10k"} {
		err = errors.Join(err, os.WriteFile(part+"-labels-idx1-ubyte", labels, 0o600),
			os.WriteFile(part+"-images-idx3-ubyte", append(images, make([]byte, 28*28)...), 0o600))
	}
	return err
}
