package tensor_test

import (
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

type node struct {
	Weight *tensor.Tensor
	Next   *node
}

// grown has children without end, each as the last one.
type grown struct{ depth, breadth bool }

func (g grown) Children() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for yield("child", map[bool]any{true: g, false: 1}[g.depth]) && g.breadth {
		}
	}
}

type childless struct{}

func (childless) Children() iter.Seq2[string, any] { return nil }

type nested []nested

// Models without end, or larger than any model, are errors that say where.
func TestWalkEnds(t *testing.T) {
	self := []any{nil}
	self[0] = self
	inside := nested{nil}
	inside[0] = inside
	var long *node
	for range 1_000_000 {
		long = &node{Next: long}
	}
	for name, c := range map[string]struct {
		model any
		want  string
	}{
		"slice in itself": {struct{ Layers []any }{self}, `deep at ".layers.0.0.0`},
		"nested slices":   {inside, "deep at"},
		"long list":       {long, `deep at ".next.next`},
		"deep container":  {grown{depth: true}, `deep at ".child.child`},
		"wide container":  {grown{breadth: true}, `more than 1000000 values, the last of them at ".child"`},
		"no children":     {childless{}, "childless"},
	} {
		start := time.Now()
		err := engine.Try(func() { nn.Parameters(c.model) })
		wantError(t, err, tensor.ErrValue, "model_test.go:", c.want)
		if n := len(err.Error()); n > 1300 {
			t.Errorf("%s: an error of %d bytes", name, n)
		}
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%s: %v", name, d)
		}
	}
}

// Cycles of pointers end, and what holds no tensors is not visited.
func TestWalkCyclesAndNumbers(t *testing.T) {
	a := &node{Weight: nn.Parameter(nil, 2)}
	a.Next = &node{Weight: nn.Parameter(nil, 2), Next: a}
	model := struct {
		List    *node
		Any     []any
		Lists   [][]*tensor.Tensor
		Numbers []float32
		Rows    [][]float64
		Points  []struct{ X, Y int }
	}{a, []any{nn.State(nil, 2)}, [][]*tensor.Tensor{{nn.State(nil, 2)}}, make([]float32, 20_000_000),
		make([][]float64, 20_000_000), make([]struct{ X, Y int }, 20_000_000)}
	var names []string
	nn.Walk(&model, func(name string, _ *tensor.Tensor) { names = append(names, name) })
	if got := strings.Join(names, " "); got != "list.weight list.next.weight any.0 lists.0.0" {
		t.Error(got)
	}
}
