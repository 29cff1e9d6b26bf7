package faults

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// A training is a model, what trains it, and its steps.
type training struct {
	name       string
	params     []*tensor.Tensor
	state      []*tensor.Tensor
	optimizers []*optim.Optimizer
	scaler     *amp.GradScaler
	step       func(s *tensor.Scope, k int) error
	opts       []tensor.Option
}

// hash is that of all that outlives a step.
func (tr *training) hash(dev *tensor.Device) string {
	h := sha256.New()
	for _, p := range append(tr.params, tr.state...) {
		fmt.Fprintln(h, p.Name(), tensor.ToSlice[float64](p))
		if g := p.Grad(); g != nil {
			fmt.Fprintln(h, "gradient", tensor.ToSlice[float64](g))
		}
	}
	for _, o := range tr.optimizers {
		fmt.Fprintln(h, o.Hash(), o.GradNorm())
	}
	if tr.scaler != nil {
		fmt.Fprintln(h, tr.scaler.State())
	}
	st := dev.Stats()
	fmt.Fprintln(h, st.Steps, st.Evals)
	return fmt.Sprintf("%x", h.Sum(nil))
}

func (tr *training) run(dev *tensor.Device, k int) error {
	return dev.Step(func(s *tensor.Scope) error { return tr.step(s, k) }, tr.opts...)
}

// counts are those of a test.
type counts struct{ tried, typed, fine, defects int }

func (c counts) String() string {
	return fmt.Sprintf("tried %d, typed %d, fine %d, defects %d", c.tried, c.typed, c.fine, c.defects)
}

// TestFaults: of each step of each training, every allocation, launch and copy fails once. The error is typed, nothing
// has changed, and the step that is tried again at last does what it does undisturbed.
func TestFaults(t *testing.T) {
	steps := 4
	if testing.Short() {
		steps = 2
	}
	var all counts
	seen := [kinds]int{}
	for _, begin := range trainings {
		want := undisturbed(t, begin, steps)
		t.Run(want.name, func(t *testing.T) {
			dev := open(t)
			tr := begin(t, dev)
			var c counts
			for k := range steps {
				disturb(t, dev, tr, k, &c)
				if got := tr.hash(dev); got != want.hashes[k] {
					t.Errorf("step %d ends elsewhere than undisturbed", k)
					c.defects++
				}
				for kind, n := range faulty.seen {
					seen[kind] += n
				}
			}
			if c.fine+c.defects < c.tried || c.typed != c.tried || c.tried == 0 {
				t.Errorf("%v", c)
			}
			t.Log(c)
			all.tried, all.typed, all.fine, all.defects = all.tried+c.tried, all.typed+c.typed, all.fine+c.fine,
				all.defects+c.defects
		})
	}
	t.Logf("%d trainings, %d steps each, %d allocations, %d launches, %d copies: %v", len(trainings), steps,
		seen[allocation], seen[launch], seen[transfer], all)
	if all.defects > 0 || seen[allocation] == 0 || seen[launch] == 0 || seen[transfer] == 0 {
		t.Errorf("%v, %v", all, seen)
	}
}

// disturb makes step k fail at everything that may fail, one after the other, until it succeeds.
func disturb(t *testing.T, dev *tensor.Device, tr *training, k int, c *counts) {
	before := tr.hash(dev)
	for n := 1; ; n++ {
		faulty.arm(n)
		err := tr.run(dev, k)
		faulty.disarm()
		if faulty.failed == none {
			if err != nil {
				t.Fatalf("step %d: %v", k, err)
			}
			return
		}
		c.tried++
		var typed *tensor.Error
		if errors.As(err, &typed) && (errors.Is(err, tensor.ErrMemory) || errors.Is(err, tensor.ErrDevice)) {
			c.typed++
		} else {
			t.Errorf("step %d, %v %d: the error is %v", k, faulty.failed, n, err)
		}
		if s := dev.Stats(); s.Memory.Blocks+s.Pinned.Blocks != 0 {
			t.Errorf("step %d, %v %d: %d blocks are live afterwards, %d in the host's memory", k, faulty.failed, n,
				s.Memory.Blocks, s.Pinned.Blocks)
		}
		if tr.hash(dev) != before {
			t.Fatalf("step %d, %v %d failed and changed something: %v", k, faulty.failed, n, err)
		}
		c.fine++
	}
}

// TestWarm: a step that runs to warm up changes nothing, prepares what it would write, and the steps that follow end as
// undisturbed. It fails as the step would.
func TestWarm(t *testing.T) {
	prepared := 0
	for _, begin := range trainings {
		want := undisturbed(t, begin, 2)
		t.Run(want.name, func(t *testing.T) {
			dev := open(t)
			tr := begin(t, dev)
			for k := range 2 {
				before := tr.hash(dev)
				warm := func(failAt int) error {
					faulty.arm(failAt)
					defer faulty.disarm()
					err := dev.Warm(func(s *tensor.Scope) error { return tr.step(s, k) }, tr.opts...)
					for _, n := range faulty.prepared {
						prepared += n
					}
					return err
				}
				if err := warm(1); !errors.Is(err, tensor.ErrMemory) && !errors.Is(err, tensor.ErrDevice) {
					t.Errorf("step %d fails with %v", k, err)
				}
				if err := warm(0); err != nil {
					t.Error(err)
				}
				if tr.hash(dev) != before || dev.Stats().Memory.Blocks != 0 {
					t.Errorf("step %d: something has changed, or is left", k)
				}
				if err := tr.run(dev, k); err != nil || tr.hash(dev) != want.hashes[k] {
					t.Errorf("step %d ends elsewhere than undisturbed, error %v", k, err)
				}
			}
		})
	}
	if prepared == 0 {
		t.Error("no write was prepared")
	}
}

// TestFaultsOfFunctions: a step whose function fails, by an error or a panic, after each of its parts.
func TestFaultsOfFunctions(t *testing.T) {
	var c counts
	boom := errors.New("boom")
	for _, begin := range trainings {
		want := undisturbed(t, begin, 2)
		t.Run(want.name, func(t *testing.T) {
			dev := open(t)
			tr := begin(t, dev)
			for k := range 2 {
				before := tr.hash(dev)
				for _, panics := range []bool{false, true} {
					err := func() (err error) {
						defer func() {
							if e := recover(); e != nil {
								err = e.(error)
							}
						}()
						return dev.Step(func(s *tensor.Scope) error {
							if err := tr.step(s, k); err != nil {
								return err
							}
							if panics {
								panic(boom)
							}
							return boom
						}, tr.opts...)
					}()
					c.tried++
					if errors.Is(err, boom) {
						c.typed++
					}
					if errors.Is(err, boom) && tr.hash(dev) == before {
						c.fine++
						continue
					}
					c.defects++
					t.Errorf("step %d, a panic: %v: error %v, changed: %v", k, panics, err, tr.hash(dev) != before)
				}
				if err := tr.run(dev, k); err != nil || tr.hash(dev) != want.hashes[k] {
					t.Errorf("step %d ends elsewhere than undisturbed, error %v", k, err)
				}
			}
		})
	}
	t.Log(c)
}

// Of two arenas whose gradients a step commits, either both get theirs or none, and nothing is written: a step that ran
// inside has changed one.
func TestFaultsOfCommits(t *testing.T) {
	dev := open(t)
	w, v := place(t, dev, "w", tensor.Float32, 3), place(t, dev, "v", tensor.Float64, 3)
	mean, err := engine.NewState(dev, "mean", tensor.Float32, 1)
	must(t, err)
	add := func(ps ...*tensor.Tensor) func(s *tensor.Scope) error {
		return func(s *tensor.Scope) error {
			for _, p := range ps {
				autograd.Backward(s.In(p).Sum())
			}
			return nil
		}
	}
	for _, order := range [][]*tensor.Tensor{{w, v}, {v, w}} {
		err := dev.Step(func(s *tensor.Scope) error {
			if err := add(order...)(s); err != nil {
				return err
			}
			mean.Assign(s.Full(1, tensor.Float32, 1))
			return dev.Step(add(v))
		})
		if !errors.Is(err, tensor.ErrBusy) || w.Grad() != nil || v.Grad() == nil || mean.Item() != 0 {
			t.Errorf("error %v, gradients %v and %v, state %v", err, w.Grad(), v.Grad(), mean.Item())
		}
		v.ClearGrads()
	}
}

// A device that is lost at the first write of a commit has changed nothing; later, what the step wrote is out of use.
func TestFaultsOfDevice(t *testing.T) {
	dev := open(t)
	for at := 1; ; at++ {
		tr := clipped(t, dev)
		before := tr.hash(dev)
		faulty.lostAt = at
		err := tr.run(dev, 0)
		if faulty.lostAt > 0 {
			if faulty.lostAt = 0; at < 5 || err != nil {
				t.Errorf("%d writes, error %v", at-1, err)
			}
			return
		}
		if !errors.Is(err, tensor.ErrDevice) || at == 1 && tr.hash(dev) != before {
			t.Errorf("lost at write %d: error %v, changed: %v", at, err, tr.hash(dev) != before)
		}
		again := tr.run(dev, 0)
		if lost := errors.Is(again, tensor.ErrDevice); lost != (at > 1) {
			t.Errorf("lost at write %d, and the next step ends with %v", at, again)
		}
	}
}

// An update that fails where the step's function looks away is not half of a step: the step fails, too.
func TestFaultsOfCaughtErrors(t *testing.T) {
	dev := open(t)
	tr := twoOptimizers(t, dev)
	before := tr.hash(dev)
	second := optim.New(optim.SGD(1), place(t, dev, "other", tensor.Float32, 2))
	err := dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(tr.scaler.Scale(s.In(tr.params[0]).Sum()))
		if err := engine.Try(func() { tr.scaler.Step(s, tr.optimizers[0], second) }); !errors.Is(err, tensor.ErrGrad) {
			t.Errorf("error %v", err)
		}
		return nil
	})
	if !errors.Is(err, tensor.ErrStep) || tr.hash(dev) != before {
		t.Errorf("error %v; changed: %v", err, tr.hash(dev) != before)
	}
}

// What a step has updated is not read before it is written.
func TestFaultsOfReading(t *testing.T) {
	dev := open(t)
	p, u := place(t, dev, "p", tensor.Float32, 2, 2), place(t, dev, "u", tensor.Float32, 2, 2)
	opt := optim.New(optim.SGD(1), p, optim.Clip(1))
	var c counts
	var loss *tensor.Tensor // made before the update
	for name, read := range map[string]func(s *tensor.Scope, before *tensor.Tensor){
		"gradient": func(*tensor.Scope, *tensor.Tensor) { autograd.Backward(loss) },
		"update of gradients": func(s *tensor.Scope, _ *tensor.Tensor) {
			a, lo, hi := engine.Arena(p)
			g, _ := engine.Grads(s, a)
			engine.Update(s, double, lo, hi, []*tensor.Tensor{g}, []*tensor.Tensor{g}, nil)
		},
		"operand":   func(s *tensor.Scope, _ *tensor.Tensor) { s.Full(1, tensor.Float32, 2, 2).Mul(p) },
		"in":        func(s *tensor.Scope, _ *tensor.Tensor) { s.In(p) },
		"alias":     func(_ *tensor.Scope, before *tensor.Tensor) { before.Square() },
		"view":      func(s *tensor.Scope, _ *tensor.Tensor) { s.In(p.T()) },
		"values":    func(s *tensor.Scope, _ *tensor.Tensor) { a, _, _ := engine.Arena(p); s.In(a) },
		"to_slice":  func(*tensor.Scope, *tensor.Tensor) { tensor.ToSlice[float32](p) },
		"fetch":     func(*tensor.Scope, *tensor.Tensor) { p.Fetch() },
		"keep":      func(_ *tensor.Scope, before *tensor.Tensor) { before.Keep() },
		"norm":      func(*tensor.Scope, *tensor.Tensor) { opt.GradNorm() },
		"hash":      func(*tensor.Scope, *tensor.Tensor) { opt.Hash() },
		"assign to": func(_ *tensor.Scope, before *tensor.Tensor) { u.Assign(before) },
		"backward":  func(_ *tensor.Scope, before *tensor.Tensor) { autograd.Backward(before.Sum()) },
		"update": func(s *tensor.Scope, before *tensor.Tensor) {
			engine.Update(s, double, 0, 4, []*tensor.Tensor{s.Full(0, tensor.Float32, 4)}, []*tensor.Tensor{p}, nil)
		},
	} {
		err := dev.Step(func(s *tensor.Scope) error {
			before := s.In(p)
			loss = before.Sum()
			autograd.Backward(loss, autograd.Retain())
			if err := opt.Step(s); err != nil {
				return err
			}
			read(s, before)
			return nil
		})
		c.tried++
		var typed *tensor.Error
		if errors.As(err, &typed) && errors.Is(err, tensor.ErrVersion) && typed.Site != "" {
			c.typed++
		} else {
			t.Errorf("%s: %v", name, err)
		}
		if sum := tensor.ToSlice[float32](p); sum[0] == 1 && p.Grad() == nil && len(opt.State().Tensors) == 0 {
			c.fine++
		} else {
			t.Errorf("%s: changed to %v", name, sum)
		}
	}
	t.Log(c)
}

var double = tensor.MustPointwise("double", "2*x", []string{"x"})
