package nn_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// base is a part that others embed.
type base struct{ In *nn.Linear }

type twoTowers struct {
	base
	*nn.LayerNorm
	Towers  map[string]nn.Module
	Tied    *nn.Linear
	Up      *twoTowers // makes a cycle
	Count   *tensor.Tensor
	Width   int
	Missing *nn.Linear
	Notes   struct{ Text any }
	cache   *tensor.Tensor
}

func (m *twoTowers) Forward(x *tensor.Tensor) *tensor.Tensor { return m.In.Forward(x) }

func newTwoTowers() *twoTowers {
	m := &twoTowers{cache: tensor.Zeros(tensor.Float32, 2), base: base{nn.NewLinear(2, 3)},
		LayerNorm: nn.NewLayerNorm(3), Width: 3,
		Towers: map[string]nn.Module{"right": nn.NewDropout(0.5),
			"left": nn.Sequential(nn.NewLinear(3, 3, nn.NoBias()))},
		Count: nn.State(nn.Zeros, 1)}
	m.Tied, m.Up = m.In, m
	m.Notes.Text = "no part"
	return m
}

func TestTree(t *testing.T) {
	m := newTwoTowers()
	want := `
twoTowers                       weight [3], bias [3], eps 1e-05, count [1], width 3  24 parameters
  in: Linear                    weight [3 2], bias [3]                               9 parameters
  towers: map[string]nn.Module                                                       9 parameters
    left: Chain                                                                      9 parameters
      0: Linear                 weight [3 3]                                         9 parameters
    right: Dropout              p 0.5
  tied: Linear                  the same as in
  up: twoTowers                 the same as the whole`[1:]
	if got := nn.Tree(m); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	dev := open(t)
	m.Up = nil
	initialize(t, dev, m)
	if got := strings.Join(names(m), " "); got != "in.weight in.bias weight bias towers.left.0.weight count" {
		t.Errorf("the names are %s", got)
	}
	if n := nn.CountParameters(m); n != 24 {
		t.Errorf("%d parameters, the tree says 24", n)
	}
	gpt := newGPT(true)
	want = fmt.Sprintf("%d parameters\n", nn.CountParameters(gpt))
	if got := nn.Tree(gpt); !strings.Contains(got, want) {
		t.Errorf("the first line is not %s of\n%s", want, got)
	}
	for _, model := range []any{nil, (*nn.Linear)(nil), 3, "text"} {
		nn.Tree(model) // does not panic
	}
}

func ExampleTree() {
	model := nn.Sequential(nn.NewLinear(784, 256), nn.GELU, nn.NewDropout(0.1), nn.NewLinear(256, 10, nn.NoBias()))
	fmt.Println(nn.Tree(model)) // the same as fmt.Println(model)
	// Output:
	// Chain                                       203520 parameters
	//   0: Linear   weight [256 784], bias [256]  200960 parameters
	//   1: GELU
	//   2: Dropout  p 0.1
	//   3: Linear   weight [10 256]               2560 parameters
}
