package bench

import (
	"fmt"
	"math"
	"time"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/linalg"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// This file has the lines of layers, sorting and einsum.

const tie = "1.0x PyTorch's speed"

func layerTable() (ws []workload) {
	for _, c := range []conv{
		{"3x3 64x56x56", 64, 56, 64, 3, 1, 1}, {"3x3 128x28x28", 128, 28, 128, 3, 1, 1},
		{"3x3 512x7x7", 512, 7, 512, 3, 1, 1}, {"7x7 stride 2", 3, 224, 64, 7, 2, 1},
		{"1x1 64x56x56", 64, 56, 256, 1, 1, 1}, {"depthwise 3x3 128x56x56", 128, 56, 128, 3, 1, 128},
		{"depthwise 3x3 512x14x14", 512, 14, 512, 3, 1, 512},
	} {
		for _, pass := range []string{"forward", "backward x", "backward weight"} {
			ws = append(ws, c.workload(pass))
		}
	}
	for _, c := range [][2]int{{64, 56}, {128, 28}, {512, 7}} {
		ws = append(ws, batchNorm(c[0], c[1]))
	}
	ws = append(ws, maxPool(2, 2, 0, 56), maxPool(3, 2, 1, 112), attention("causal"), attention("additive"),
		attention("bool"), sorting("sort"), sorting("topk"), einsum())
	ws = append(ws, steps("resnet18", "1.1x PyTorch's speed", resnet18), steps("cnn_digits", "1.1x PyTorch's speed",
		func() (nn.Module, *tensor.Tensor, *tensor.Tensor) { return cnn(8, 16, 32) }),
		steps("cnn_fashion", "1.1x PyTorch's speed",
			func() (nn.Module, *tensor.Tensor, *tensor.Tensor) { return cnn(28, 32, 128) }), lstm())
	return append(ws, addition(1_000_000), addition(16_000_000))
}

// layer is a line whose peer is the benchmark of that name with the given parameters.
func layer(name, bench, want string, params map[string]any) workload {
	params["bench"] = bench
	return workload{name: name, want: want, peer: params}
}

// bothPasses is f forward and the backward pass of its sum by xs.
func bothPasses(dev *tensor.Device, f func(xs []*tensor.Tensor) *tensor.Tensor, xs ...*tensor.Tensor) call {
	return timed(func() {
		must(dev.Step(func(s *tensor.Scope) error {
			watched := make([]*tensor.Tensor, len(xs))
			for i, x := range xs {
				watched[i] = autograd.Watch(s, x)
			}
			autograd.Grad(f(watched).Sum(), watched)
			return nil
		}))
	})
}

// conv is a convolution of 16 square images with padding size/2.
type conv struct {
	name                                string
	in, side, out, size, stride, groups int
}

func (c conv) workload(pass string) workload {
	const images = 16
	w := layer(fmt.Sprintf("conv %s, %s", c.name, pass), "conv", "1.0x PyTorch's speed, geometric mean; each 0.8x",
		map[string]any{"images": images, "inputs": c.in, "side": c.side, "outputs": c.out, "size": c.size,
			"stride": c.stride, "groups": c.groups, "pass": pass})
	side := (c.side+2*(c.size/2)-c.size)/c.stride + 1
	w.flops = 2 * float64(images*c.out*side*side) * float64(c.in/c.groups*c.size*c.size)
	w.weft = func(dev *tensor.Device) call {
		x := onDevice(dev, randn(images, c.in, c.side, c.side))
		weight := onDevice(dev, randn(c.out, c.in/c.groups, c.size, c.size))
		g := onDevice(dev, randn(images, c.out, side, side))
		window := tensor.Window{Stride: []int{c.stride}, Padding: []int{c.size / 2}, Groups: c.groups}
		if pass == "forward" {
			return forward(dev, func(x *tensor.Tensor) *tensor.Tensor { return x.Conv(weight, nil, window) }, x)
		}
		return func() (d time.Duration) {
			must(dev.Step(func(s *tensor.Scope) error {
				x, weight := s.In(x), s.In(weight)
				wanted := &x
				if pass == "backward weight" {
					wanted = &weight
				}
				*wanted = autograd.Watch(s, *wanted)
				y, seed := x.Conv(weight, nil, window), s.In(g)
				begin := time.Now()
				autograd.Grad(y, []*tensor.Tensor{*wanted}, autograd.GradOutput(seed))
				d = time.Since(begin)
				return nil
			}))
			return d
		}
	}
	return w
}

// batchNorm is forward and backward in training, of a norm and a product, without which its gradient would be 0.
func batchNorm(channels, side int) workload {
	w := layer(fmt.Sprintf("batch norm %dx%dx%d", channels, side, side), "batch_norm", tie,
		map[string]any{"channels": channels, "side": side})
	w.weft = func(dev *tensor.Device) call {
		norm := nn.NewBatchNorm2d(channels)
		must(nn.Init(dev, norm))
		return bothPasses(dev, func(xs []*tensor.Tensor) *tensor.Tensor { return norm.Forward(xs[0]).Mul(xs[1]) },
			onDevice(dev, randn(16, channels, side, side)), onDevice(dev, randn(16, channels, side, side)))
	}
	return w
}

// maxPool is forward and backward.
func maxPool(size, stride, padding, side int) workload {
	w := layer(fmt.Sprintf("max pool %dx%d, 64x%dx%d", size, size, side, side), "max_pool", tie,
		map[string]any{"size": size, "stride": stride, "padding": padding, "side": side})
	w.weft = func(dev *tensor.Device) call {
		window := tensor.Window{Size: []int{size, size}, Stride: []int{stride}, Padding: []int{padding}}
		return bothPasses(dev, func(xs []*tensor.Tensor) *tensor.Tensor { return xs[0].MaxPool(window) },
			onDevice(dev, randn(16, 64, side, side)))
	}
	return w
}

// attention is forward and backward of 8 heads of 64 numbers, 256 queries, batch 8. PyTorch 1.13 has no fused one.
func attention(mask string) workload {
	const batch, heads, length, width = 8, 8, 256, 64
	w := layer("attention, mask "+mask, "attention", tie, map[string]any{"mask": mask})
	w.weft = func(dev *tensor.Device) call {
		var qkv []*tensor.Tensor
		for range 3 {
			qkv = append(qkv, onDevice(dev, randn(batch, heads, length, width)))
		}
		m, first, last := (*tensor.Tensor)(nil), math.MinInt, math.MaxInt
		switch mask {
		case "causal":
			last = 0
		case "additive":
			m = onDevice(dev, randn(length, length))
		case "bool":
			m = randn(length, length).GreaterScalar(-1)
		}
		return bothPasses(dev, func(x []*tensor.Tensor) *tensor.Tensor {
			return x[0].MaskedAttention(x[1], x[2], m, first, last, 0, 1/math.Sqrt(width))
		}, qkv...)
	}
	return w
}

// sorting is sort of 10^6 numbers, or their 100 largest.
func sorting(bench string) workload {
	const n = 1_000_000
	w := layer(fmt.Sprintf("%s/n=%.2g", bench, float64(n)), bench, tie, map[string]any{"n": n})
	w.weft = func(dev *tensor.Device) call {
		return forward(dev, func(x *tensor.Tensor) *tensor.Tensor {
			values, _ := x.Sort(0, false)
			return values
		}, onDevice(dev, randn(n)))
	}
	if bench == "topk" {
		w.weft = func(dev *tensor.Device) call {
			return forward(dev, func(x *tensor.Tensor) *tensor.Tensor {
				values, _ := x.TopK(100, 0, true)
				return values
			}, onDevice(dev, randn(n)))
		}
	}
	return w
}

// network is a ring of four tensors, each with an open axis.
const network = "aib,bjc,ckd,dla->ijkl"

func einsum() workload {
	const n = 24
	w := layer("einsum "+network, "einsum", tie, map[string]any{"equation": network, "n": n})
	w.weft = func(dev *tensor.Device) call {
		var operands []*tensor.Tensor
		for range 4 {
			operands = append(operands, onDevice(dev, randn(n, n, n)))
		}
		return timed(func() {
			must(dev.Eval(func(s *tensor.Scope) error {
				linalg.Einsum(network, s.In(operands[0]), operands[1], operands[2], operands[3])
				return nil
			}))
		})
	}
	return w
}

// steps is a line of training steps with AdamW.
func steps(bench, want string, make func() (model nn.Module, x, y *tensor.Tensor)) workload {
	w := layer(bench+" step", bench, want, map[string]any{})
	w.weft = func(dev *tensor.Device) call {
		model, x, y := make()
		must(nn.Init(dev, model))
		opt := optim.New(optim.AdamW(1e-3), model)
		return timed(func() {
			must(dev.Step(func(s *tensor.Scope) error { return train(s, model, opt, x, y) }))
		})
	}
	return w
}

func resnet18() (model nn.Module, x, y *tensor.Tensor) {
	return nn.NewResNet(nn.ResNetConfig{Classes: 10}), randn(64, 3, 32, 32), classes(64, 10)
}

// cnn is the network of examples/cnn without its dropout.
func cnn(side, width, batch int) (model nn.Module, x, y *tensor.Tensor) {
	conv := func(in, out, stride int) nn.Module {
		return nn.NewConv2d(in, out, 3, nn.Padding(1), nn.Stride(stride))
	}
	model = nn.Sequential(conv(1, width, 1), nn.ReLU, conv(width, width, 2), nn.ReLU, conv(width, 2*width, 1), nn.ReLU,
		conv(2*width, 2*width, 2), nn.ReLU, nn.Flatten, nn.NewLinear(2*width*(side/4)*(side/4), 128), nn.ReLU,
		nn.NewLinear(128, 10))
	return model, randn(batch, 1, side, side), classes(batch, 10)
}

// lstm is forward and backward of 2 layers with 256 features, 64 times, batch 32.
func lstm() workload {
	const times, batch, features = 64, 32, 256
	w := layer("lstm 2x256", "lstm", "1.5x PyTorch's speed", map[string]any{})
	w.weft = func(dev *tensor.Device) call {
		model := nn.NewLSTM(features, features, nn.Layers(2))
		must(nn.Init(dev, model))
		x := onDevice(dev, randn(times, batch, features))
		return timed(func() {
			must(dev.Step(func(s *tensor.Scope) error {
				autograd.Backward(model.Forward(autograd.Watch(s, x)).Sum())
				return nil
			}))
		})
	}
	return w
}

func addition(n int) workload {
	w := line("add", "", n, 12)
	w.want = tie
	w.weft = func(dev *tensor.Device) call {
		y := onDevice(dev, randn(n))
		return forward(dev, func(x *tensor.Tensor) *tensor.Tensor { return x.Add(y) }, onDevice(dev, randn(n)))
	}
	return w
}
