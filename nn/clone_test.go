package nn_test

import (
	"fmt"
	"log"
	"maps"
	"reflect"
	"testing"

	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// knot has all that a model may be made of.
type knot struct {
	*nn.Chain
	Table  *nn.Embedding
	tied   *tensor.Tensor // the weight of Table
	ByName map[string]nn.Module
	hidden []*nn.Linear
	Scale  [1]*tensor.Tensor
	buffer []float64
	Data   *tensor.Tensor
	self   any
}

func newKnot() *knot {
	k := &knot{Chain: nn.Sequential(nn.NewLinear(3, 3), nn.GELU, nn.NewLinear(3, 2)), Table: nn.NewEmbedding(4, 3, 1),
		ByName: map[string]nn.Module{"norm": nn.NewLayerNorm(3)}, Scale: [1]*tensor.Tensor{nn.State(nn.Ones, 2)},
		buffer: []float64{1}, Data: tensor.Ones(tensor.Float32, 2)}
	k.hidden = []*nn.Linear{k.Children0()}
	k.tied, k.self = k.Table.Weight, k
	return k
}

// Children0 is the first layer.
func (k *knot) Children0() *nn.Linear {
	for _, m := range k.Chain.Children() {
		return m.(*nn.Linear)
	}
	return nil
}

// parts is what Walk sees: the methods of the embedded chain would hide the fields.
func (k *knot) parts() any { return []any{k.Chain, k.Table, k.ByName, k.Scale} }

func TestClone(t *testing.T) {
	dev, other := open(t), open(t)
	k := newKnot()
	initialize(t, dev, k.parts())
	nn.Freeze(k.Table)
	k.Table.Weight.Assign(tensor.Of(float32(7)))
	want := values(k.parts())
	c, err := nn.Clone(other, k)
	if err != nil {
		t.Fatal(err)
	}
	if got := values(c.parts()); !reflect.DeepEqual(got, want) {
		t.Errorf("the copy has %v, want %v", got, want)
	}
	if c.tied != c.Table.Weight || c.hidden[0] != c.Children0() || c.self != c || c.tied == k.tied {
		t.Error("ties are lost")
	}
	if c.tied.NeedsGrad() || !c.Children0().Weight.NeedsGrad() || c.Scale[0].Trainable() || c.Data != k.Data {
		t.Error("frozen parameters, states or data became others")
	}
	if c.tied.Name() != "1.weight" || c.tied.Device() != other {
		t.Errorf("%v is on %v", c.tied, c.tied.Device())
	}
	c.buffer[0] = 2
	nn.Walk(c.parts(), func(_ string, p *tensor.Tensor) { p.Assign(tensor.Of(float32(-1))) })
	if got := values(k.parts()); !reflect.DeepEqual(got, want) || k.buffer[0] != 1 {
		t.Errorf("writes to the copy changed the original: %v, %v", got, k.buffer)
	}
	initialize(t, other, c.parts()) // the initializers are there
	if got := values(c.Chain); !reflect.DeepEqual(got, values(k.Chain)) {
		t.Errorf("the copy placed afresh has %v", got)
	}
}

// A copy trains as its original does, to the bit: parameters have the same order in memory.
func TestCloneTrains(t *testing.T) {
	dev := open(t)
	model := nn.Sequential(nn.NewLinear(3, 4), nn.GELU, nn.NewLinear(4, 2))
	initialize(t, dev, model)
	c, err := nn.Clone(dev, model)
	if err != nil {
		t.Fatal(err)
	}
	var hashes []string
	for _, m := range []*nn.Chain{model, c} {
		opt := optim.New(optim.AdamW(0.1), m, optim.Clip(1))
		train(t, dev, m, opt, 3)
		hashes = append(hashes, opt.Hash())
	}
	if hashes[0] != hashes[1] {
		t.Error("the copy trained to other values")
	}
}

func TestCloneErrors(t *testing.T) {
	dev := open(t)
	_, err := nn.Clone(dev, nn.NewLinear(2, 2))
	wantError(t, err, tensor.ErrStep, "has not been placed")
	m := &identity{&shy{Head: nn.NewLinear(2, 2)}}
	initialize(t, dev, m)
	m.Shy.extra = m.Shy.Head.Weight.T()
	_, err = nn.Clone(dev, m)
	wantError(t, err, tensor.ErrValue, "a view", "Forward")
	averaged := &struct {
		Head *nn.Linear
		Mean *optim.EMA
	}{Head: m.Shy.Head}
	averaged.Mean, err = optim.NewEMA(dev, averaged.Head, 0.9)
	if err != nil {
		t.Fatal(err)
	}
	_, err = nn.Clone(dev, averaged)
	wantError(t, err, tensor.ErrValue, "map[*tensor.Tensor]", "optim.EMA")
	names := &struct {
		Head  *nn.Linear
		Names map[any]string
	}{m.Shy.Head, map[any]string{"a": "b", 3: "c"}}
	if c, err := nn.Clone(dev, names); err != nil || c.Names[3] != "c" {
		t.Errorf("keys without tensors: %v", err)
	}
	_, err = nn.Clone[nn.Module](dev, nil)
	wantError(t, err, tensor.ErrValue, "the model is nil")
	_, err = nn.Clone(nil, m.Shy.Head)
	wantError(t, err, tensor.ErrDevice, "nil")
}

func TestCopyTo(t *testing.T) {
	dev := open(t)
	src, dst := nn.NewLinear(2, 3), nn.NewLinear(2, 3)
	initialize(t, dev, src)
	initialize(t, dev, dst, nn.DType(tensor.Float64))
	dst.Weight.Assign(tensor.Of(0.5))
	if err := nn.CopyTo(dst, src); err != nil {
		t.Fatal(err)
	}
	want := values(src)
	if got := values(dst); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	layer := func(in, out int) *nn.Linear { l := nn.NewLinear(in, out); initialize(t, dev, l); return l }
	err := nn.CopyTo(map[string]any{"a": dst, "b": dst.Bias, "c": layer(1, 1)},
		map[string]any{"a": layer(2, 1), "d": layer(1, 1)})
	wantError(t, err, tensor.ErrValue, "src lacks [c.weight, c.bias]", "dst lacks [d.bias, d.weight]",
		"weight float64[3 2] from weight float32[1 2]")
	wantError(t, nn.CopyTo(dst, layer(2, 1)), tensor.ErrShape, "float64[3 2] from weight float32[1 2]", "bias")
	wantError(t, nn.CopyTo(dst, nil), tensor.ErrValue, "src is nil")
	if got := values(dst); !maps.EqualFunc(got, want, func(x, y []float64) bool { return reflect.DeepEqual(x, y) }) {
		t.Errorf("failed copies wrote %v", got)
	}
}

// A target network follows the one that learns.
func ExampleClone() {
	dev, err := tensor.Open("cpu")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	model := nn.NewLinear(1, 1, nn.WeightInit(nn.Ones))
	if err := nn.Init(dev, model); err != nil {
		log.Fatal(err)
	}
	target, err := nn.Clone(dev, model)
	if err != nil {
		log.Fatal(err)
	}
	model.Weight.Assign(tensor.Of(float32(3)))
	fmt.Println(target.Weight.Item())
	if err := nn.CopyTo(target, model); err != nil {
		log.Fatal(err)
	}
	fmt.Println(target.Weight.Item())
	// Output:
	// 1
	// 3
}
