package nn_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/testing/golden"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// A moduleCase is a module of scripts/goldens/modules.py and how Weft makes and calls it.
type moduleCase struct {
	name string
	make func() any
	call func(m any, x []*tensor.Tensor) []*tensor.Tensor
}

// goldenModules compares modules with the cases of a golden file, of which there must be no others.
func goldenModules(t *testing.T, file string, cases []moduleCase) {
	f, err := golden.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	arrays := 0
	for _, c := range cases {
		arrays += len(f.Under(c.name + "/"))
		for _, p := range precisions {
			t.Run(c.name+"/"+p.label, func(t *testing.T) {
				m := &moduleTrial{f: f, moduleCase: c, precision: p, dev: open(t)}
				m.run(t)
			})
		}
	}
	if n := len(f.Names()); arrays != n {
		t.Errorf("the cases have %d of the %d arrays of %s", arrays, n, file)
	}
}

// A moduleTrial is one module in one precision.
type moduleTrial struct {
	f *golden.File
	moduleCase
	precision
	dev   *tensor.Device
	model any
}

// run takes the steps.
func (m *moduleTrial) run(t *testing.T) {
	m.model = m.make()
	if err := nn.Init(m.dev, m.model, nn.DType(m.dtype)); err != nil {
		t.Fatal(err)
	}
	var names []string
	nn.Walk(m.model, func(name string, p *tensor.Tensor) {
		names = append(names, name)
		v, shape := m.f.Float32(m.name + "/init/" + name)
		p.Assign(tensor.FromSlice(v, shape...))
	})
	slices.Sort(names)
	if want := m.f.Under(m.name + "/init/"); !slices.Equal(names, want) {
		t.Fatalf("parameters %v, PyTorch has %v", names, want)
	}
	step := 0
	for ; m.f.Has(fmt.Sprintf("%s/%d/w0", m.name, step)); step++ {
		m.step(t, fmt.Sprintf("%s/%d", m.name, step))
	}
	at := fmt.Sprintf("%s/%d", m.name, step)
	if err := m.dev.Eval(func(s *tensor.Scope) error { m.forward(t, s, at); return nil }); err != nil {
		t.Fatal(err)
	}
	m.states(t, at)
}

// forward compares results.
func (m *moduleTrial) forward(t *testing.T, s *tensor.Scope, at string) (x, y []*tensor.Tensor) {
	x = m.list(s, at+"/x")
	y = m.call(m.model, x)
	for i, y := range y {
		m.compare(t, fmt.Sprintf("%s/y%d", at, i), y)
	}
	return x, y
}

// list is the numbered arrays of that name.
func (m *moduleTrial) list(s *tensor.Scope, name string) (all []*tensor.Tensor) {
	for i := 0; m.f.Has(fmt.Sprint(name, i)); i++ {
		v, shape := m.f.Float32(fmt.Sprint(name, i))
		all = append(all, s.In(tensor.FromSlice(v, shape...).To(m.dtype)))
	}
	return all
}

// step is a training step, with the gradients of operands and parameters.
func (m *moduleTrial) step(t *testing.T, at string) {
	err := m.dev.Step(func(s *tensor.Scope) error {
		var x []*tensor.Tensor
		outer := m.call
		defer func() { m.call = outer }()
		m.call = func(model any, in []*tensor.Tensor) []*tensor.Tensor {
			for _, v := range in {
				x = append(x, autograd.Watch(s, v))
			}
			return outer(model, x)
		}
		_, y := m.forward(t, s, at)
		var total *tensor.Tensor
		for i, w := range m.list(s, at+"/w") {
			if part := y[i].Mul(w).Sum(); total == nil {
				total = part
			} else {
				total = total.Add(part)
			}
		}
		wanted := append(slices.Clone(x), nn.Parameters(m.model)...)
		for i, g := range autograd.Grad(total, wanted) {
			name := fmt.Sprintf("x%d", i)
			if i >= len(x) {
				name = wanted[i].Name()
			}
			m.compare(t, at+"/grad/"+name, g)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	m.states(t, at)
}

// states compares buffers.
func (m *moduleTrial) states(t *testing.T, at string) {
	nn.Walk(m.model, func(name string, p *tensor.Tensor) {
		if !p.Trainable() {
			m.compare(t, at+"/state/"+name, p)
		}
	})
}

// compare checks a tensor against a golden value: shape and elements.
func (m *moduleTrial) compare(t *testing.T, name string, got *tensor.Tensor) {
	t.Helper()
	want, shape := m.f.Values(name)
	if !slices.Equal(got.Shape(), shape) {
		t.Fatalf("%s: shape %v, want %v", name, got.Shape(), shape)
	}
	for i, v := range tensor.ToSlice[float64](got) {
		if e := math.Abs(v-want[i]) / max(1, math.Abs(want[i])) / m.after; !(e <= 1) {
			t.Fatalf("%s, element %d: got %.17g, want %.17g", name, i, v, want[i])
		}
	}
}

// layer calls a module of one operand.
func layer(m any, x []*tensor.Tensor) []*tensor.Tensor {
	return []*tensor.Tensor{m.(nn.Module).Forward(x[0])}
}

func TestGoldenNorms(t *testing.T) {
	batch := []func(int, ...nn.LayerOption) *nn.BatchNorm{1: nn.NewBatchNorm1d, nn.NewBatchNorm2d, nn.NewBatchNorm3d}
	instance := []func(int, ...nn.LayerOption) *nn.InstanceNorm{1: nn.NewInstanceNorm1d, nn.NewInstanceNorm2d,
		nn.NewInstanceNorm3d}
	var cases []moduleCase
	add := func(name string, f func() any) { cases = append(cases, moduleCase{name, f, layer}) }
	for axes, channels := range []int{1: 3, 2: 2, 3: 3} {
		if axes == 0 {
			continue
		}
		b, i := batch[axes], instance[axes]
		add(fmt.Sprintf("batch%dd", axes), func() any { return b(channels) })
		add(fmt.Sprintf("batch%dd other", axes), func() any {
			return b(channels, nn.Eps(1e-2), nn.Momentum(0.3), nn.Affine(false), nn.TrackRunningStats(false))
		})
		add(fmt.Sprintf("instance%dd", axes), func() any { return i(channels) })
		add(fmt.Sprintf("instance%dd other", axes), func() any {
			return i(channels, nn.Eps(1e-2), nn.Momentum(0.3), nn.Affine(true), nn.TrackRunningStats(true))
		})
	}
	add("batch1d no axes", func() any { return nn.NewBatchNorm1d(3) })
	add("batch1d cumulative", func() any { return nn.NewBatchNorm1d(3, nn.CumulativeAverage()) })
	add("batch1d momentum 0", func() any { return nn.NewBatchNorm1d(3, nn.Momentum(0)) })
	add("batch1d momentum 1", func() any { return nn.NewBatchNorm1d(3, nn.Momentum(1)) })
	add("batch2d offset", func() any { return nn.NewBatchNorm2d(2) })
	add("batch2d one", func() any { return nn.NewBatchNorm2d(2) })
	add("instance2d plain statistics", func() any { return nn.NewInstanceNorm2d(3, nn.TrackRunningStats(true)) })
	add("group", func() any { return nn.NewGroupNorm(3, 6) })
	add("group of all", func() any { return nn.NewGroupNorm(1, 4, nn.Eps(1e-3)) })
	add("group of one", func() any { return nn.NewGroupNorm(3, 3, nn.Affine(false)) })
	goldenModules(t, "norms.json.gz", cases)
}
