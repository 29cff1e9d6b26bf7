package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// A shared is a step that goroutines share.
type shared struct {
	s    *tensor.Scope
	x, y *tensor.Tensor
	w    *tensor.Tensor
	opt  *optim.Optimizer
	m    nn.Module
	norm nn.Module
}

// A call is one of those that goroutines make at the same time.
type call struct {
	name string
	f    func(h *shared)
}

func keep(ts ...*tensor.Tensor) []*tensor.Tensor { return ts }

// short calls are uses of the step's records; long ones run more than one of those.
var short = []call{
	{"operation", func(h *shared) { h.x.Mul(h.x) }},
	{"operation with a parameter", func(h *shared) { h.x.Add(h.w) }},
	{"view", func(h *shared) { h.x.Reshape(4).Slice(0, 0, 2) }},
	{"view of a parameter", func(h *shared) { h.x.Mul(h.w.T()) }},
	{"in", func(h *shared) { h.s.In(h.w) }},
	{"watch", func(h *shared) { autograd.Watch(h.s, h.x) }},
	{"full", func(h *shared) { h.s.Full(1, tensor.Float32, 3) }},
	{"detach", func(h *shared) { h.x.Detach() }},
	{"cast", func(h *shared) { h.x.To(tensor.BFloat16) }},
	{"several outputs", func(h *shared) { h.norm.Forward(h.x) }},
	{"training", func(h *shared) { h.s.Training() }},
	{"autocasting", func(h *shared) { engine.Autocasting(h.s) }},
	{"has grad", func(h *shared) { engine.HasGrad(h.s, h.w) }},
	{"grads", func(h *shared) { a, _, _ := engine.Arena(h.w); engine.Grads(h.s, a) }},
	{"take grads", func(h *shared) { engine.TakeGrads(h.s, h.w) }},
	{"claim", func(h *shared) { a, _, _ := engine.Arena(h.w); engine.Claim(h.s, a) }},
	{"assign", func(h *shared) { h.w.Assign(h.x) }},
	{"hook", func(h *shared) { autograd.Hook(h.y, func(g *tensor.Tensor) *tensor.Tensor { return nil }) }},
	{"on commit", func(h *shared) { engine.OnCommit(h.s, func() {}) }},
}

var long = []call{
	{"region", func(h *shared) {
		h.s.Region("r", func() []*tensor.Tensor { return keep(h.x.Square(), h.x.Exp()) })[1].Sum()
	}},
	{"mode", func(h *shared) { h.s.With(func() { h.x.Square().Sum() }, tensor.NoGrad()) }},
	{"autocast", func(h *shared) { h.s.With(func() { h.x.MatMul(h.w) }, engine.Autocast(tensor.BFloat16)) }},
	{"keep", func(h *shared) { h.x.Square().Keep() }},
	{"item", func(h *shared) { h.x.Sum().Item() }},
	{"fetch", func(h *shared) { h.x.Fetch()() }},
	{"tower", func(h *shared) { nn.Call("tower", h.m, h.x).Sum() }},
	{"backward", func(h *shared) { autograd.Backward(h.x.Mul(h.w).Sum()) }},
	{"grad", func(h *shared) { autograd.Grad(h.x.Mul(h.w).Sum(), keep(h.w)) }},
	{"update", func(h *shared) {
		autograd.Backward(h.x.Mul(h.w).Sum())
		h.opt.Step(h.s)
	}},
}

// begin makes the parameters for a shared step.
func begin(t *testing.T, dev *tensor.Device) *shared {
	h := &shared{w: place(t, dev, "w", tensor.Float32, 2, 2), m: nn.Sequential(nn.NewLinear(2, 2), nn.Tanh),
		norm: nn.NewLayerNorm(2)}
	must(t, nn.Init(dev, []any{h.m, h.norm}))
	h.opt = optim.New(optim.AdamW(0.1), h.w, optim.Clip(1))
	return h
}

// in is the shared step s.
func (h *shared) in(s *tensor.Scope) {
	h.s = s
	h.x = s.Full(2, tensor.Float32, 2, 2)
	h.y = h.x.Mul(h.w)
}

// soon ends the test if f hangs.
func soon(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan bool)
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		stacks := make([]byte, 1<<16)
		t.Fatalf("%s hangs:\n%s", what, stacks[:runtime.Stack(stacks, true)])
	}
}

// try is the error of f, also if that is a panic without type.
func try(f func()) (err error) {
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("panic %v", e)
		}
	}()
	return engine.Try(f)
}

// TestGoroutinesOverlap: while a call of one goroutine is under way any call of another is refused, and the step fails.
func TestGoroutinesOverlap(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("goroutines cannot be told apart")
	}
	dev := open(t)
	within := map[string]func(h *shared, f func()){
		"region": func(h *shared, f func()) { h.s.Region("a", func() []*tensor.Tensor { f(); return nil }) },
		"mode":   func(h *shared, f func()) { h.s.With(f, tensor.NoGrad()) },
		"backward": func(h *shared, f func()) {
			autograd.Hook(h.y, func(*tensor.Tensor) *tensor.Tensor { f(); return nil })
			autograd.Backward(h.y.Sum())
		},
		"custom operation": func(h *shared, f func()) {
			autograd.Custom("custom", func(_ *autograd.Ctx, xs ...*tensor.Tensor) *tensor.Tensor {
				f()
				return xs[0].Square()
			}, nil, h.x)
		},
	}
	var c counts
	for name, run := range within {
		for _, other := range append(short, long...) {
			h := begin(t, dev)
			before := tensor.ToSlice[float32](h.w)
			var inner error
			var err error
			soon(t, name+" beside "+other.name, func() {
				err = dev.Step(func(s *tensor.Scope) error {
					h.in(s)
					run(h, func() {
						var wg sync.WaitGroup
						wg.Go(func() { inner = try(func() { other.f(h) }) })
						wg.Wait()
					})
					return nil
				})
			})
			c.tried++
			if errors.Is(inner, tensor.ErrBusy) && errors.Is(err, tensor.ErrBusy) {
				c.typed++
			} else {
				t.Errorf("%s beside %s: error %v, of the step %v", other.name, name, inner, err)
			}
			if after := tensor.ToSlice[float32](h.w); after[0] == before[0] && dev.Stats().Memory.Blocks == 0 {
				c.fine++
			} else {
				t.Errorf("%s beside %s: %v became %v, %d blocks live", other.name, name, before, after,
					dev.Stats().Memory.Blocks)
			}
		}
	}
	t.Log(c)
}

// TestGoroutinesTakeTurns: goroutines that use a step one after the other do what one would do.
func TestGoroutinesTakeTurns(t *testing.T) {
	dev := open(t)
	var all []call
	for _, c := range append(short, long...) {
		switch c.name {
		case "assign", "update", "take grads": // a parameter that is updated cannot be used again
		default:
			all = append(all, c)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		h := begin(t, dev)
		soon(t, "taking turns", func() {
			must(t, dev.Step(func(s *tensor.Scope) error {
				h.in(s)
				for range 30 {
					var err error
					var wg sync.WaitGroup
					wg.Go(func() { err = try(func() { all[rng.IntN(len(all))].f(h) }) })
					wg.Wait()
					if err != nil {
						return err
					}
				}
				return nil
			}))
		})
	}
}

// TestGoroutinesBeside: a goroutine that hangs in a step which has ended holds up no other step of the device. When it
// ends, the memory of its step comes back.
func TestGoroutinesBeside(t *testing.T) {
	if inner != "cpu" {
		t.Skip("the call that hangs is one of the CPU")
	}
	dev := open(t)
	want := undisturbed(t, mlp, 3)
	running, end, ended := make(chan bool), make(chan bool), make(chan error)
	slow := engine.NewOp(kernels.Op{Name: "slow", CPU: func(*kernels.Launch) { running <- true; <-end }},
		tensor.Float32, 2)
	soon(t, "a training beside a call that hangs", func() {
		err := dev.Step(func(s *tensor.Scope) error {
			x := s.Full(1, tensor.Float32, 2)
			go func() {
				ended <- try(func() {
					y := engine.Apply(slow, []*tensor.Tensor{x}, nil, nil)
					s.Region("late", func() []*tensor.Tensor { return keep(y.Square()) })
				})
			}()
			<-running
			return nil
		})
		if !errors.Is(err, tensor.ErrBusy) {
			t.Errorf("the step ended with %v", err)
		}
		if again := undisturbed(t, mlp, 3); again.hashes[2] != want.hashes[2] {
			t.Error("a training beside ends elsewhere")
		}
		end <- true
		if err := <-ended; !errors.Is(err, tensor.ErrStep) {
			t.Errorf("the late goroutine ended with %v", err)
		}
	})
	if n := dev.Stats().Memory.Blocks; n != 0 {
		t.Errorf("%d blocks are live", n)
	}
}

// TestGoroutinesKeep: calls of several operations are one call. A step whose function returns while one is between two
// of them, held up there by an observer, waits for it with what it made.
func TestGoroutinesKeep(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("goroutines cannot be told apart")
	}
	for name, read := range map[string]func(x *tensor.Tensor) []float32{
		"keep":     func(x *tensor.Tensor) []float32 { return tensor.ToSlice[float32](x.Keep()) },
		"to slice": func(x *tensor.Tensor) []float32 { return tensor.ToSlice[float32](x) },
	} {
		dev := open(t)
		var held atomic.Bool
		running, returned := make(chan bool), make(chan bool)
		var got []float32
		ended := make(chan error)
		soon(t, name, func() {
			err := dev.Step(func(s *tensor.Scope) error {
				x := s.Full(3, tensor.Float32, 4, 2).Slice(1, 0, 1)
				held.Store(true)
				go func() { ended <- try(func() { got = read(x) }) }()
				<-running
				return nil
			}, engine.Observe(func(string, seam.Applied[*tensor.Op, *tensor.Tensor]) {
				if held.Swap(false) {
					running <- true
					<-returned
				}
			}))
			must(t, dev.Step(func(s *tensor.Scope) error { // takes memory that is free
				for range 8 {
					s.Full(7, tensor.Float32, 4)
				}
				close(returned)
				if e := <-ended; e != nil || !errors.Is(err, tensor.ErrBusy) {
					t.Errorf("%s: error %v, of the step %v", name, e, err)
				}
				return nil
			}))
		})
		if !slices.Equal(got, []float32{3, 3, 3, 3}) {
			t.Errorf("%s: %v, want 3", name, got)
		}
		if n := dev.Stats().Memory.Blocks; n > 1 { // what was kept, until it is collected
			t.Errorf("%s: %d blocks are live", name, n)
		}
	}
}

// makeAll makes calls one after the other and returns an error of them, ErrBusy if there is one.
func (h *shared) makeAll(calls []call) (err error) {
	for _, c := range calls {
		if e := try(func() { c.f(h) }); e != nil && (err == nil || errors.Is(e, tensor.ErrBusy)) {
			err = fmt.Errorf("%s: %w", c.name, e)
		}
	}
	return err
}

// TestGoroutines: two goroutines make random calls in one step, some of them after its end. No run hangs, all errors
// are typed, and a step in which calls overlapped fails with ErrBusy and changes nothing.
func TestGoroutines(t *testing.T) {
	runs := 1000
	if testing.Short() {
		runs = 100
	}
	host, err := tensor.Open("cpu")
	must(t, err)
	defer host.Close()
	devices := []*tensor.Device{open(t), host}
	all := append(append([]call{}, short...), long...)
	var c counts
	busy := 0
	for run := 0; run < runs || busy == 0 && run < 20*runs; run++ { // on a busy machine turns are long
		dev := devices[run%2]
		rng := rand.New(rand.NewPCG(uint64(run), 7))
		h := begin(t, dev)
		before := tensor.ToSlice[float32](h.w)
		errs := make([]error, 2)
		var wg, start sync.WaitGroup
		start.Add(2)
		tower := func(k int, calls []call) {
			start.Done()
			start.Wait()
			errs[k] = h.makeAll(calls)
		}
		var calls [2][]call
		for k := range calls {
			for range 1 + rng.IntN(20) {
				calls[k] = append(calls[k], all[rng.IntN(len(all))])
			}
		}
		outlive := rng.IntN(4) == 0 // the second goroutine does not end with the step
		var err error
		soon(t, fmt.Sprint("run ", run), func() {
			err = dev.Step(func(s *tensor.Scope) error {
				h.in(s)
				wg.Go(func() { tower(1, calls[1]) })
				tower(0, calls[0])
				if !outlive {
					wg.Wait()
				}
				return nil
			})
			wg.Wait()
		})
		c.tried++
		var typed *tensor.Error
		for _, e := range append(errs, err) {
			if e != nil && !errors.As(e, &typed) {
				c.defects++
				t.Errorf("run %d: error %v", run, e)
			}
		}
		overlapped := errors.Is(errs[0], tensor.ErrBusy) || !outlive && errors.Is(errs[1], tensor.ErrBusy)
		after := tensor.ToSlice[float32](h.w)
		switch {
		case overlapped && !errors.Is(err, tensor.ErrBusy):
			c.defects++
			t.Errorf("run %d: errors %v, and the step ended with %v", run, errs, err)
		case err != nil && after[0] != before[0]:
			c.defects++
			t.Errorf("run %d: a failed step changed %v to %v", run, before, after)
		case dev.Stats().Memory.Blocks != 0:
			c.defects++
			t.Fatalf("run %d: %d blocks are live", run, dev.Stats().Memory.Blocks)
		default:
			c.fine++
		}
		if err != nil {
			c.typed++
		}
		if errors.Is(err, tensor.ErrBusy) {
			busy++
		}
	}
	if busy == 0 {
		t.Error("no calls overlapped")
	}
	t.Logf("%d steps shared by two goroutines, %d busy: %v", runs, busy, c)
}
