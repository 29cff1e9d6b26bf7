package autograd_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// A counted device is a CPU that counts op calls; on a batched one launches take time.
type counted struct {
	cpu.Backend
	name string
}
type batched struct{ counted }

var opCalls = map[string]int{}

func init() { // tests that look at memory have a device for themselves
	kernels.Register("plain", func(int) (kernels.Backend, error) { return &counted{name: "plain"}, nil })
	for _, name := range []string{"batched", "batched alone"} {
		kernels.Register(name, func(int) (kernels.Backend, error) {
			return &batched{counted{name: name}}, nil
		})
	}
}

func (c *counted) Name() string { return c.name }
func (b *batched) Batches()     {}

func (c *counted) Run(l *kernels.Launch) error {
	opCalls[l.Op.Name]++
	return c.Backend.Run(l)
}

// blocks are linear layers between norms, the last of which has no bias.
type blocks struct {
	First  *nn.Linear
	Norm   *nn.LayerNorm
	Second *nn.Linear
	RMS    *nn.RMSNorm
	Third  *nn.Linear
	part   part
}

func newBlocks(t *testing.T, dev *tensor.Device, p part) *blocks {
	t.Helper()
	m := &blocks{nn.NewLinear(8, 12), nn.NewLayerNorm(12), nn.NewLinear(12, 12), nn.NewRMSNorm(12),
		nn.NewLinear(12, 5), p}
	if err := nn.Init(dev, m); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *blocks) Forward(x *tensor.Tensor) *tensor.Tensor {
	x = m.First.Forward(x)
	for range 2 { // parameters that are used twice
		x = m.part(func(x *tensor.Tensor) *tensor.Tensor {
			return nn.Call("second", m.Second, m.Norm.Forward(x).GELU())
		}, x)
	}
	return m.Third.Forward(m.RMS.Forward(x))
}

// TestSumsTogether: where launches take time, the sums of columns that are gradients of parameters are computed
// together, with the bits of before, whoever looks at them, and when.
func TestSumsTogether(t *testing.T) {
	failure := errors.New("planned")
	loss := func(s *tensor.Scope, m *blocks) *tensor.Tensor {
		return m.Forward(s.In(tensor.Randn(tensor.Seed(3), 130, 8))).Square().Mean()
	}
	for name, f := range map[string]func(s *tensor.Scope, m *blocks, see func(x *tensor.Tensor)) error{
		"backward": func(s *tensor.Scope, m *blocks, see func(*tensor.Tensor)) error {
			autograd.Backward(loss(s, m))
			return nil
		},
		"twice": func(s *tensor.Scope, m *blocks, see func(*tensor.Tensor)) error {
			autograd.Backward(loss(s, m))
			autograd.Backward(loss(s, m).Scale(3), autograd.Retain())
			return nil
		},
		"accumulate": func(s *tensor.Scope, m *blocks, see func(*tensor.Tensor)) error {
			autograd.Accumulate(s, 3, 2, func(i int) *tensor.Tensor { return loss(s, m).Scale(float64(i)) })
			return nil
		},
		"only": func(s *tensor.Scope, m *blocks, see func(*tensor.Tensor)) error {
			autograd.Backward(loss(s, m), autograd.Only(m.First.Bias, m.Norm.Weight))
			return nil
		},
		"grad": func(s *tensor.Scope, m *blocks, see func(*tensor.Tensor)) error {
			y := loss(s, m)
			for _, g := range autograd.Grad(y, []*tensor.Tensor{s.In(m.First.Bias), s.In(m.Norm.Bias)}) {
				see(g)
			}
			autograd.Backward(y)
			return nil
		},
		"of gradients": func(s *tensor.Scope, m *blocks, see func(*tensor.Tensor)) error {
			y := loss(s, m)
			g := autograd.Grad(y, []*tensor.Tensor{s.In(m.First.Bias)}, autograd.CreateGraph())
			autograd.Backward(g[0].Square().Sum())
			return nil
		},
		"hooks": func(s *tensor.Scope, m *blocks, see func(*tensor.Tensor)) error {
			autograd.Hook(s.In(m.Second.Bias), func(g *tensor.Tensor) *tensor.Tensor { see(g); return g.Scale(2) })
			bias := s.In(m.First.Bias)
			y := m.First.Forward(s.In(tensor.Randn(tensor.Seed(3), 130, 8)))
			autograd.Hook(y, func(*tensor.Tensor) *tensor.Tensor { // one more while the pass runs
				autograd.Hook(bias, func(g *tensor.Tensor) *tensor.Tensor { see(g); return nil })
				return nil
			})
			autograd.Backward(m.Second.Forward(m.RMS.Forward(y)).Square().Mean())
			return nil
		},
		"hooks of parameters": func(s *tensor.Scope, m *blocks, see func(*tensor.Tensor)) error {
			defer m.First.Bias.OnGrad(see)()
			defer m.Norm.Bias.OnGrad(see)()
			autograd.Backward(loss(s, m))
			return nil
		},
		"what makes a parameter": func(s *tensor.Scope, m *blocks, see func(*tensor.Tensor)) error {
			bias := s.In(m.Second.Bias).Tanh()
			x := s.In(tensor.Randn(tensor.Seed(3), 130, 12))
			autograd.Backward(x.Linear(s.In(m.Second.Weight), bias).LayerNorm(bias, bias, 1e-5).Square().Mean())
			return nil
		},
		"one column, no rows": func(s *tensor.Scope, m *blocks, see func(*tensor.Tensor)) error {
			w, b := m.Second.Weight, m.Second.Bias.Slice(0, 0, 1)
			x := s.In(tensor.Randn(tensor.Seed(3), 130, 12))
			one, none := x.Linear(w.Slice(0, 0, 1), b), x.Slice(0, 0, 0).Linear(w, m.Second.Bias)
			autograd.Backward(one.Sum().Add(none.Sum()).Add(m.Norm.Forward(x.Slice(0, 0, 0)).Sum()))
			return nil
		},
		"anomaly": func(s *tensor.Scope, m *blocks, see func(*tensor.Tensor)) error {
			s.With(func() { autograd.Backward(loss(s, m)) }, tensor.Anomaly())
			return nil
		},
		"autocast": func(s *tensor.Scope, m *blocks, see func(*tensor.Tensor)) error {
			s.With(func() { autograd.Backward(loss(s, m)) }, amp.Autocast(tensor.BFloat16))
			return nil
		},
		"failure": func(s *tensor.Scope, m *blocks, see func(*tensor.Tensor)) error {
			x := s.In(tensor.Randn(tensor.Seed(3), 130, 8))
			autograd.Hook(m.First.Forward(x), func(*tensor.Tensor) *tensor.Tensor { return nil })
			y := m.First.Forward(x)
			autograd.Hook(y, func(*tensor.Tensor) *tensor.Tensor { panic(failure) })
			func() {
				defer func() {
					if e := recover(); e != failure {
						panic(e)
					}
				}()
				autograd.Backward(m.Third.Forward(m.RMS.Forward(y)).Sum())
			}()
			return failure
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i, p := range []part{direct, autograd.Checkpoint} {
				var hash [2]string
				for k, device := range []string{"cpu", "batched"} {
					dev, err := tensor.Open(device, tensor.Seed(1), tensor.Poison())
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { dev.Close() })
					m := newBlocks(t, dev, p)
					opt := optim.New(optim.AdamW(1e-2), m, optim.Clip(1))
					var seen []*tensor.Tensor
					for range 2 {
						err := dev.Step(func(s *tensor.Scope) error {
							return f(s, m, func(g *tensor.Tensor) {
								seen = append(seen, tensor.FromSlice(tensor.ToSlice[float64](g), g.Shape()...))
							})
						})
						if err != nil && !errors.Is(err, failure) {
							t.Fatal(err)
						}
						if err := dev.Step(func(s *tensor.Scope) error {
							autograd.Backward(loss(s, m))
							opt.Step(s)
							return nil
						}); err != nil {
							t.Fatal(err)
						}
					}
					hash[k] = hashOf(append(seen, nn.Parameters(m)...)...)
				}
				if hash[0] != hash[1] {
					t.Errorf("part %d: other bits where sums wait", i)
				}
			}
		})
	}
}

// TestSumsObserved: Anomaly finds what overflows in a sum.
func TestSumsObserved(t *testing.T) {
	dev, err := tensor.Open("batched")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	m := newBlocks(t, dev, direct)
	err = dev.Step(func(s *tensor.Scope) error {
		y := s.Full(0, tensor.Float32, 4, 8).Linear(m.First.Weight, m.First.Bias)
		autograd.Backward(y, autograd.GradOutput(s.Full(3e38, tensor.Float32, 4, 12)))
		return nil
	}, tensor.Anomaly())
	wantError(t, err, tensor.ErrValue, "sum")
}

// TestSumsCounted: a backward pass sums once, and as often as needed to keep no more than 8 MiB alive for that.
func TestSumsCounted(t *testing.T) {
	const layers, width = 12, 128
	run := func(device string, rows int) (sums, peak int) {
		dev, err := tensor.Open(device)
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		m := make([]*nn.Linear, layers) // side by side, with little to multiply
		for i := range m {
			m[i] = nn.NewLinear(1, width)
		}
		if err := nn.Init(dev, m); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { runtime.KeepAlive(m) }) // what it holds does not become free while others run
		clear(opCalls)
		dev.ResetPeak()
		before := dev.Stats().Memory.Allocated
		if err := dev.Step(func(s *tensor.Scope) error {
			loss := s.Full(0, tensor.Float32)
			for _, l := range m {
				loss = loss.Add(l.Forward(s.Full(1, tensor.Float32, rows, 1)).Square().Mean())
			}
			autograd.Backward(loss)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return opCalls["sums"], dev.PeakMemory() - before
	}
	for _, c := range []struct{ rows, sums, mib int }{ // gradients of a half, 2 and 6 MiB, and of 32
		{1024, 1, 6}, {4096, 4, 8}, {12288, 12, 8}, {65536, 0, 1},
	} {
		_, least := run("plain", c.rows)
		sums, peak := run("batched alone", c.rows)
		if sums != c.sums || peak > least+c.mib<<20 {
			t.Errorf("%d rows: %d launches for sums, want %d; %d bytes more at the peak", c.rows, sums, c.sums,
				peak-least)
		}
	}
}
