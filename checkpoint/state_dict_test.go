package checkpoint

import (
	"testing"

	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// TestStateDicts loads state dicts of torchvision and PyTorch into the same models and compares the results in
// evaluation: scripts/goldens/state_dicts.py describes the files.
func TestStateDicts(t *testing.T) {
	resnet := nn.NewResNet(nn.ResNetConfig{Classes: 5, Width: 2})
	lstm := nn.NewLSTM(3, 5, nn.Layers(2), nn.Bidirectional())
	for _, c := range []struct {
		path    string
		model   any
		results []string
		run     func(x *tensor.Tensor) []*tensor.Tensor
	}{
		{"testdata/resnet18.pt", resnet, []string{"y"}, func(x *tensor.Tensor) []*tensor.Tensor {
			return []*tensor.Tensor{resnet.Forward(x)}
		}},
		{"testdata/lstm.pt", lstm, []string{"y", "h", "c"}, func(x *tensor.Tensor) []*tensor.Tensor {
			y, after := lstm.Run(x, nn.RecurrentState{}, nil)
			return []*tensor.Tensor{y, after.H, after.C}
		}},
	} {
		dev := device(t, 1)
		if err := nn.Init(dev, c.model); err != nil {
			t.Fatal(err)
		}
		if err := Load(c.model, c.path, Key("model")); err != nil {
			t.Fatal(err)
		}
		want := values(t, c.path)
		err := dev.Eval(func(s *tensor.Scope) error {
			for i, y := range c.run(s.In(want["x"])) {
				if w := want[c.results[i]]; !y.AllClose(w, 1e-5, 1e-5) {
					t.Errorf("%s: %s is\n%v, want\n%v", c.path, c.results[i], y, w)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// values are the tensors of a file on the host.
func values(t *testing.T, path string) map[string]*tensor.Tensor {
	t.Helper()
	w, err := OpenWeights(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	all := map[string]*tensor.Tensor{}
	for x := range w.Tensors() {
		if all[x.Name], err = read(x); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
