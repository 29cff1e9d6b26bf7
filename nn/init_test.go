package nn_test

import (
	"testing"

	"github.com/weft-ml/weft/internal/philox"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// A part that other packages cannot see.
type shy struct {
	Head  *nn.Linear
	body  []*nn.Linear
	extra any
}

// Init fails where it was silent before: a forward pass said later that Init had not been called.
func TestInitUnreached(t *testing.T) {
	dev := open(t)
	m := &shy{nn.NewLinear(2, 2), []*nn.Linear{nn.NewLinear(2, 2, nn.NoBias())}, map[string]*tensor.Tensor{
		"scale": nn.Parameter(nn.Ones, 1)}}
	wantError(t, nn.Init(dev, nn.Sequential(identity{m})), tensor.ErrValue, "init: unexported fields hold parameters",
		"0.shy.body.0.weight, 0.shy.extra.scale;")
	m.extra = m // a cycle, and nothing else
	m.body[0] = m.Head
	initialize(t, dev, m) // reached by another way
	m.body[0] = nn.NewLinear(1, 1)
	initialize(t, dev, m.body[0])
	initialize(t, dev, m) // the part has memory: it is somebody else's
}

type identity struct{ Shy *shy }

func (identity) Forward(x *tensor.Tensor) *tensor.Tensor { return x }

func TestInitMap(t *testing.T) {
	m := map[int]nn.Module{10: nn.NewLinear(1, 1, nn.NoBias()), 9: nn.NewLinear(1, 1, nn.NoBias())}
	initialize(t, open(t), m)
	for i, want := range []string{"9.weight", "10.weight"} {
		if got := names(m)[i]; got != want {
			t.Errorf("name %d is %s, want %s", i, got, want)
		}
	}
}

// A new head gets its full name, and the values that Init of a whole model gives it; the body keeps its own.
func TestOnlyNew(t *testing.T) {
	dev := open(t)
	model := func() *shy { return &shy{Head: nn.NewLinear(2, 3)} }
	type classifier struct{ Body, Head *nn.Linear }
	m := &classifier{nn.NewLinear(2, 2), model().Head}
	initialize(t, dev, m)
	whole := tensor.ToSlice[float32](m.Head.Weight)
	m.Body.Weight.Assign(tensor.Of(float32(7)))
	m.Head = nn.NewLinear(2, 3)
	if err := nn.Init(dev, m, nn.OnlyNew()); err != nil {
		t.Fatal(err)
	}
	if got := m.Head.Weight.Name(); got != "head.weight" {
		t.Errorf("the head is called %s", got)
	}
	if !m.Head.Weight.Detach().AllEqual(tensor.FromSlice(whole, 3, 2)) {
		t.Errorf("the head is %v, want %v", m.Head.Weight, whole)
	}
	if !m.Body.Weight.Detach().AllEqual(tensor.Full(7, tensor.Float32, 2, 2)) {
		t.Errorf("the body is %v", m.Body.Weight)
	}
	if err := nn.Init(dev, m, nn.OnlyNew()); err != nil { // nothing is new
		t.Fatal(err)
	}
}

// Models of one device begin differently, the same programs alike, and named models alike everywhere.
func TestInitModels(t *testing.T) {
	values := func(dev *tensor.Device, opts ...nn.InitOption) *tensor.Tensor {
		l := nn.NewLinear(2, 3)
		initialize(t, dev, l, opts...)
		return l.Weight.Detach()
	}
	a, b := open(t), open(t)
	first, named, second := values(a), values(a, nn.Named("g")), values(a)
	var drawn uint64 // of the stream
	c := open(t)
	initialize(t, c, map[string]*tensor.Tensor{"p": nn.Parameter(
		func(_ []float64, _ []int, r nn.Random) { drawn = r.Uint64(0) }, 1)})
	stream := philox.Source{Key: philox.Derive(engine.Seed(c), "p")}
	if want := stream.Uint64(0); drawn != want {
		t.Errorf("the first model's stream begins with %#x, that of its name with %#x", drawn, want)
	}
	if err := nn.Init(b, &shy{body: []*nn.Linear{nn.NewLinear(1, 1)}}); err == nil {
		t.Fatal("a part was reached")
	}
	if err := nn.Init(b, []*tensor.Tensor{nn.Parameter(nn.Orthogonal(1), 2)}); err == nil {
		t.Fatal("a vector is orthogonal")
	}
	if !first.AllEqual(values(b)) || !second.AllEqual(values(b)) ||
		!named.AllEqual(values(b, nn.Named("g"))) {
		t.Error("another device of the same seed makes other models")
	}
	for i, x := range []*tensor.Tensor{first, second, named, values(a), values(a, nn.Named("h"))} {
		for j, y := range []*tensor.Tensor{first, second, named} {
			if i != j && x.AllEqual(y) {
				t.Errorf("models %d and %d begin alike", i, j)
			}
		}
	}
	if err := engine.Try(func() { nn.Named("") }); err == nil {
		t.Error("a model has no name")
	}
}

// A part of the second model that is replaced gets the second model's values, and counts for none.
func TestOnlyNewModels(t *testing.T) {
	a, b := open(t), open(t)
	var heads [3]*tensor.Tensor
	for i := range heads {
		m := []*nn.Linear{nn.NewLinear(2, 2), nn.NewLinear(2, 3)}
		initialize(t, a, m)
		m[1] = nn.NewLinear(2, 3)
		initialize(t, a, m, nn.OnlyNew())
		heads[i] = m[1].Weight.Detach()
		whole := []*nn.Linear{nn.NewLinear(2, 2), nn.NewLinear(2, 3)}
		initialize(t, b, whole)
		if !heads[i].AllEqual(whole[1].Weight.Detach()) {
			t.Errorf("the new head of model %d has not the values that Init of it all gives", i)
		}
		for j := range i {
			if heads[i].AllEqual(heads[j]) {
				t.Errorf("the new heads of models %d and %d are alike", i, j)
			}
		}
	}
}
