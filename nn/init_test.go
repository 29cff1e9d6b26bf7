package nn_test

import (
	"testing"

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
	m := &shy{nn.NewLinear(2, 2), []*nn.Linear{nn.NewLinear(2, 2, nn.NoBias)}, map[string]*tensor.Tensor{
		"scale": tensor.Parameter(nn.Ones, 1)}}
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
	m := map[int]nn.Module{10: nn.NewLinear(1, 1, nn.NoBias), 9: nn.NewLinear(1, 1, nn.NoBias)}
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
	if err := nn.Init(dev, m, nn.OnlyNew); err != nil {
		t.Fatal(err)
	}
	if got := m.Head.Weight.Name(); got != "head.weight" {
		t.Errorf("the head is called %s", got)
	}
	if !tensor.AllEqual(m.Head.Weight.Detach(), tensor.FromSlice(whole, 3, 2)) {
		t.Errorf("the head is %v, want %v", m.Head.Weight, whole)
	}
	if !tensor.AllEqual(m.Body.Weight.Detach(), tensor.Full(7, tensor.Float32, 2, 2)) {
		t.Errorf("the body is %v", m.Body.Weight)
	}
	if err := nn.Init(dev, m, nn.OnlyNew); err != nil { // nothing is new
		t.Fatal(err)
	}
}
