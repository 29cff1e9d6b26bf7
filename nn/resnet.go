package nn

import (
	"math"

	"github.com/weft-ml/weft/tensor"
)

// ResNetConfig sizes a [ResNet].
type ResNetConfig struct {
	Classes int    // features of the result
	Width   int    // channels of the first stage; each further one has twice as many
	Blocks  [4]int // of each stage
}

// ResNet is a residual network of basic blocks (He et al. 2016). Names and layouts of its parameters and state are
// those of torchvision's resnet18 and resnet34.
type ResNet struct {
	Conv1                          *Conv2d // 7x7, stride 2, from 3 channels
	BN1                            *BatchNorm
	Layer1, Layer2, Layer3, Layer4 []*BasicBlock
	FC                             *Linear // [classes 8*width]
}

// NewResNet declares a model; without blocks it is ResNet-18, which has two a stage, and without a width it has 64
// channels. As in torchvision, weights of convolutions are normal with deviation sqrt(2/(out*kh*kw)).
func NewResNet(c ResNetConfig) *ResNet {
	if c.Width == 0 {
		c.Width = 64
	}
	if c.Blocks == [4]int{} {
		c.Blocks = [4]int{2, 2, 2, 2}
	}
	for stage, n := range c.Blocks {
		if n < 1 || n > maxLayers {
			engine.Fail(tensor.ErrValue, "resnet", "Blocks[%d] is %d, outside [1, %d]", stage, n, maxLayers)
		}
	}
	want("resnet", "Width", float64(c.Width), c.Width > 0 && c.Width <= 1<<20, "[1, 2^20]")
	want("resnet", "Classes", float64(c.Classes), c.Classes > 0 && c.Classes <= math.MaxInt32, "[1, 2^31)")
	r := &ResNet{Conv1: residualConv(3, c.Width, 7, 2), BN1: NewBatchNorm2d(c.Width),
		FC: NewLinear(8*c.Width, c.Classes)}
	in := c.Width
	for stage, blocks := range []*[]*BasicBlock{&r.Layer1, &r.Layer2, &r.Layer3, &r.Layer4} {
		out, stride := c.Width<<stage, min(stage, 1)+1
		for range c.Blocks[stage] {
			*blocks = append(*blocks, NewBasicBlock(in, out, stride))
			in, stride = out, 1
		}
	}
	return r
}

// Forward maps images [N 3 H W] to logits [N classes]. Height and width are halved five times, rounded up.
func (r *ResNet) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("resnet", "the model", r)
	x = Call("bn1", r.BN1, Call("conv1", r.Conv1, x)).ReLU()
	x = x.MaxPool(tensor.Window{Size: []int{3, 3}, Stride: []int{2}, Padding: []int{1}})
	for _, blocks := range [][]*BasicBlock{r.Layer1, r.Layer2, r.Layer3, r.Layer4} {
		for _, b := range blocks {
			x = Call("block", b, x)
		}
	}
	return Call("fc", r.FC, x.Mean(2, 3))
}

// BasicBlock is relu(f(x) + x), where f is two 3x3 convolutions with batch norms. Where it changes the channels or the
// sizes, a 1x1 convolution with a batch norm does so with x.
type BasicBlock struct {
	Conv1      *Conv2d
	BN1        *BatchNorm
	Conv2      *Conv2d
	BN2        *BatchNorm
	Downsample Module // nil: x as it is
}

// NewBasicBlock declares a block from in to out channels whose first convolution has the given stride.
func NewBasicBlock(in, out, stride int) *BasicBlock {
	b := &BasicBlock{Conv1: residualConv(in, out, 3, stride), BN1: NewBatchNorm2d(out),
		Conv2: residualConv(out, out, 3, 1), BN2: NewBatchNorm2d(out)}
	if stride != 1 || in != out {
		b.Downsample = Sequential(residualConv(in, out, 1, stride), NewBatchNorm2d(out))
	}
	return b
}

// Forward maps [N in H W] to [N out H/stride W/stride], rounded up.
func (b *BasicBlock) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("basic_block", "the block", b)
	y := Call("bn1", b.BN1, Call("conv1", b.Conv1, x)).ReLU()
	y = Call("bn2", b.BN2, Call("conv2", b.Conv2, y))
	if b.Downsample != nil {
		x = Call("downsample", b.Downsample, x)
	}
	return y.Add(x).ReLU()
}

// residualConv is a convolution without bias that keeps sizes but for its stride.
func residualConv(in, out, size, stride int) *Conv2d {
	std := math.Sqrt(2 / max(1, float64(out*size*size)))
	return NewConv2d(in, out, size, Stride(stride), Padding(size/2), NoBias(), WeightInit(Normal(0, std)))
}
