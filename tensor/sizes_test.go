package tensor_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// huge is a view of one zero: it takes no memory.
func huge(shape ...int) *tensor.Tensor { return hugeOf(tensor.Float32, shape...) }

func hugeOf(dt tensor.DType, shape ...int) *tensor.Tensor { return tensor.Zeros(dt).Expand(shape...) }

// sizes are calls whose results, or scratch memory, no machine has.
var sizes = []struct {
	name string
	call func()
	kind error
	text string
}{
	{"matmul", func() { huge(1<<40, 1).MatMul(huge(1, 1<<40)) }, tensor.ErrShape,
		"matmul: shape [1099511627776 1099511627776] has more than 281474976710656 elements; " +
			"operands: float32[1099511627776 1], float32[1 1099511627776]"},
	{"matmul, 2^64", func() { huge(1<<32, 1).MatMul(huge(1, 1<<32)) }, tensor.ErrShape, "matmul: shape [4294967296 "},
	{"matmul, nothing inside", func() { huge(1<<32, 0).MatMul(huge(0, 1<<32)) }, tensor.ErrShape, "matmul: shape"},
	{"matmul, memory", func() { huge(1<<24, 1).MatMul(huge(1, 1<<24)) }, tensor.ErrMemory, "matmul: 1125899906842624"},
	{"linear", func() { huge(1<<32, 1).Linear(huge(1<<32, 1), nil) }, tensor.ErrShape, "linear: shape"},
	{"linear, bias", func() { huge(1<<40, 1).Linear(huge(1<<40, 1), huge(1<<40)) }, tensor.ErrShape, "linear: shape"},
	{"add", func() { huge(1<<32, 1).Add(huge(1, 1<<32)) }, tensor.ErrShape, "add: shape"},
	{"mul, 2^63", func() { huge(1<<31, 1).Mul(huge(1, 1<<32)) }, tensor.ErrShape, "mul: shape"},
	{"less", func() { huge(1<<40, 1).Less(huge(1, 1<<40)) }, tensor.ErrShape, "less: shape"},
	{"add, memory", func() { huge(1<<20, 1).Add(huge(1, 1<<20)) }, tensor.ErrMemory, "add: 4398046511104 bytes"},
	{"cat", func() { tensor.Cat(0, huge(1<<47), huge(1<<47), huge(1<<47)) }, tensor.ErrShape, "cat: shape"},
	{"cat, 2^64", func() { tensor.Cat(0, slices.Repeat([]*tensor.Tensor{huge(1 << 48)}, 1<<16)...) },
		tensor.ErrShape, "cat: shape"},
	{"cat, memory", func() { tensor.Cat(0, huge(1<<40), huge(1<<40)) }, tensor.ErrMemory, "cat: 8796093022208 bytes"},
	{"stack", func() { tensor.Stack(0, huge(1<<47), huge(1<<47), huge(1<<47)) }, tensor.ErrShape, "stack: shape"},
	{"stack, rank", func() { x := huge(1, 1, 1, 1, 1, 1, 1, 1); tensor.Stack(0, x, x) }, tensor.ErrShape,
		"stack: a shape has 9 axes, [2 1 1 1 1 1 1 1]..., at most 8 are possible; " +
			"operands: float32[1 1 1 1 1 1 1 1], "},
	{"pad", func() { huge(1<<40).Pad(0, [2]int{math.MaxInt, math.MaxInt}) }, tensor.ErrShape, "pad: shape"},
	{"pad, memory", func() { tensor.Zeros(tensor.Int64, 1).Pad(0, [2]int{1 << 40, 0}) }, tensor.ErrMemory, "pad: 8796"},
	{"one-hot", func() { hugeOf(tensor.Int64, 1<<40).OneHot(1 << 40) }, tensor.ErrShape, "one_hot: shape"},
	{"one-hot, negative", func() { hugeOf(tensor.Int64, 1).OneHot(math.MinInt) }, tensor.ErrShape,
		"one_hot: shape [1 -9223372036854775808] has size -9223372036854775808 on axis 1"},
	{"one-hot, rank", func() { hugeOf(tensor.Int64, 1, 1, 1, 1, 1, 1, 1, 1).OneHot(2) }, tensor.ErrShape, "9 axes"},
	{"embedding", func() { huge(1, 1<<40).Embedding(hugeOf(tensor.Int64, 1<<40)) }, tensor.ErrShape,
		"embedding: shape"},
	{"embedding, rank", func() { huge(1, 1).Embedding(hugeOf(tensor.Int64, 1, 1, 1, 1, 1, 1, 1, 1)) },
		tensor.ErrShape, "9 axes"},
	{"index_select", func() { huge(1<<40, 1).IndexSelect(1, hugeOf(tensor.Int64, 1<<40)) }, tensor.ErrShape, "shape"},
	{"gather", func() { huge(1).Gather(0, hugeOf(tensor.Int64, 1<<48)) }, tensor.ErrMemory, "gather: 11258"},
	{"attention", func() {
		huge(1, 1, 1<<40, 1).Attention(huge(1, 1, 1, 1), huge(1, 1, 1, 1<<40), false, 1)
	}, tensor.ErrShape, "attention: shape [1 1099511627776 1 1099511627776]"},
	{"attention, scores", func() {
		huge(1, 1, 1, 1).Attention(huge(1, 1, 1<<44, 1), huge(1, 1, 1<<44, 1), false, 1)
	}, tensor.ErrMemory, "attention: "},
	{"packed attention, 0 heads", func() { huge(1, 2, 6).AttentionPacked(0, true, 1) }, tensor.ErrShape,
		"attention_packed: qkv [1 2 6] has 6 on axis 2, no multiple of 3 * 0 heads"},
	{"packed attention, -1 heads", func() { huge(1, 2, 6).AttentionPacked(-1, true, 1) }, tensor.ErrShape,
		"attention_packed: qkv [1 2 6] has 6 on axis 2, no multiple of 3 * -1 heads"},
	{"packed attention, least heads", func() { huge(1, 2, 6).AttentionPacked(math.MinInt, true, 1) },
		tensor.ErrShape, "heads"},
	{"packed attention, (2^64 + 2) / 3 heads", func() { // 3 times that is 2
		huge(1, 2, 6).AttentionPacked(6148914691236517206, true, 1)
	}, tensor.ErrShape, "attention_packed: qkv [1 2 6] has 6 on axis 2, no multiple of 3 * 6148914691236517206 heads"},
	{"packed attention, most heads", func() { huge(1, 2, 6).AttentionPacked(math.MaxInt, true, 1) },
		tensor.ErrShape, "heads"},
	{"packed attention, no divisor", func() { huge(1, 2, 9).AttentionPacked(2, true, 1) },
		tensor.ErrShape, "attention_packed: qkv [1 2 9] has 9 on axis 2, no multiple of 3 * 2 heads"},
	{"packed attention, no width", func() { huge(1, 1<<40, 0).AttentionPacked(1<<40, true, 1) },
		tensor.ErrShape, "attention_packed: "},
	{"causal attention, 0 heads", func() {
		in(func(s *tensor.Scope) {
			a := nn.NewCausalAttention(2, 1)
			if err := nn.Init(s.Device(), a); err != nil {
				panic(err)
			}
			a.Heads = 0
			a.Forward(s.In(huge(1, 1, 2)))
		})
	}, tensor.ErrShape, "attention_packed: qkv [1 1 6] has 6 on axis 2, no multiple of 3 * 0 heads"},
	{"causal attention, -1 heads", func() { nn.NewCausalAttention(8, -1) }, tensor.ErrValue, "-1 heads"},
	{"causal attention, width", func() { nn.NewCausalAttention(math.MaxInt, 1) }, tensor.ErrShape, "parameter: shape"},
	{"expand", func() { huge(1<<40, 1).Expand(1<<40, 1<<40) }, tensor.ErrShape, "expand: shape"},
	{"expand, empty", func() { huge(0, 1, 1).Expand(0, 1<<40, 1<<40) }, tensor.ErrShape, "expand: shape"},
	{"reshape", func() { huge(0).Reshape(1<<32, 1<<32) }, tensor.ErrShape, "reshape: shape"},
	{"reshape, inferred", func() { huge(6).Reshape(-1, 1<<32, 1<<32) }, tensor.ErrShape, "reshape: shape"},
	{"reshape, two negative", func() { huge(6).Reshape(-2, -3) }, tensor.ErrShape, "has size -2 on axis 0"},
	{"reshape, rank", func() { huge(1).Reshape(1, 1, 1, 1, 1, 1, 1, 1, 1) }, tensor.ErrShape, "9 axes"},
	{"unsqueeze, rank", func() { huge(1, 1, 1, 1, 1, 1, 1, 1).Unsqueeze(0) }, tensor.ErrShape, "9 axes"},
	{"contiguous", func() { huge(1 << 44).Contiguous() }, tensor.ErrMemory, "copy: "},
	{"to", func() { huge(1 << 44).To(tensor.Float64) }, tensor.ErrMemory, "cast: "},
	{"softmax", func() { huge(1<<20, 1<<20).Softmax(-1) }, tensor.ErrMemory, "softmax: "},
	{"sum in half precision", func() { hugeOf(tensor.Float16, 1<<44).Sum() }, tensor.ErrMemory, "sum: "},
	{"cross entropy", func() { huge(1<<44, 2).CrossEntropy(hugeOf(tensor.Int64, 1<<44)) }, tensor.ErrMemory,
		"cross_entropy: "},
	{"index_add", func() {
		huge(2).IndexAdd(0, hugeOf(tensor.Int64, 1<<44), huge(1<<44))
	}, tensor.ErrMemory, "index_add: "},
	{"to_slice", func() { tensor.ToSlice[float64](huge(1 << 44)) }, tensor.ErrMemory, "cast: "},
	{"fetch", func() { huge(1 << 44).Fetch() }, tensor.ErrMemory, "cast: "},
	{"zeros", func() { tensor.Zeros(tensor.Float32, 1<<42) }, tensor.ErrMemory, "zeros: 17592186044416 bytes"},
	{"zeros, bytes", func() { tensor.Zeros(tensor.Float64, 1<<48) }, tensor.ErrMemory, "zeros: 2251799813685248 bytes"},
	{"zeros, elements", func() { tensor.Zeros(tensor.Uint8, 1<<48+1) }, tensor.ErrShape, "zeros: shape"},
	{"zeros, empty", func() { tensor.Zeros(tensor.Uint8, 0, 1<<40, 1<<40) }, tensor.ErrShape, "zeros: shape"},
	{"zeros, rank", func() { tensor.Zeros(tensor.Uint8, make([]int, 1000)...) }, tensor.ErrShape, "1000 axes"},
	{"randn", func() { tensor.Randn(tensor.Seed(1), 1<<40) }, tensor.ErrMemory, "randn: 4398046511104 bytes"},
	{"uniform", func() { tensor.Uniform(tensor.Seed(1), 0, 1, 1<<20, 1<<20) }, tensor.ErrMemory,
		"uniform: 4398046511104 bytes"},
	{"eye", func() { tensor.Eye(tensor.Bool, 1<<20) }, tensor.ErrMemory, "eye: 8796093022208 bytes"},
	{"eye, elements", func() { tensor.Eye(tensor.Bool, math.MaxInt) }, tensor.ErrShape, "eye: shape"},
	{"arange", func() { tensor.Arange(tensor.Int64, 0, 1<<40, 1) }, tensor.ErrMemory, "arange: 8796093022208 bytes"},
	{"arange, infinite", func() { tensor.Arange(tensor.Int64, 0, math.Inf(1), 1) }, tensor.ErrValue, "arange: from 0"},
	{"from_slice", func() { tensor.FromSlice([]int64{}, 1<<32, 1<<32) }, tensor.ErrShape, "from_slice: shape"},
	{"chunk", func() { huge(0).Chunk(0, math.MaxInt) }, tensor.ErrMemory, "chunk: "},
	{"chunk, many", func() { huge(0).Chunk(0, 1<<36) }, tensor.ErrMemory, "chunk: "},
	{"chunk, all", func() { huge(1<<48).Chunk(0, 1<<48) }, tensor.ErrMemory, "chunk: "},
	{"split, 2^64", func() { huge(0).Split(0, slices.Repeat([]int{1 << 48}, 1<<16)...) }, tensor.ErrShape,
		"281474976710656] and others add up to 281474976710657, axis 0 of float32[0] has 0"},
	{"full", func() { in(func(s *tensor.Scope) { s.Full(1, tensor.Float32, 1<<40, 1<<40) }) }, tensor.ErrShape,
		"full: shape"},
	{"full, memory", func() { in(func(s *tensor.Scope) { s.Full(1, tensor.Float32, 1<<42) }) }, tensor.ErrMemory,
		"full: "},
	{"matmul in a step", func() {
		in(func(s *tensor.Scope) { s.In(huge(1<<32, 1)).MatMul(huge(1, 1<<32)) })
	}, tensor.ErrShape, "matmul: shape"},
	{"gradient of matmul", func() {
		in(func(s *tensor.Scope) { autograd.Watch(s, huge(1<<32, 1)).MatMul(huge(1, 1<<32)) })
	}, tensor.ErrShape, "matmul: shape"},
	{"parameters", func() { place(1<<40, 1) }, tensor.ErrMemory, "parameters: "},
	{"parameters, 2^64 bytes", func() { place(1<<48, 1<<13) }, tensor.ErrMemory, "parameters: "},
	{"parameters, 2^64 elements", func() { place(1<<48, 1<<16) }, tensor.ErrMemory, "parameters: "},
	{"linear layer", func() { nn.NewLinear(1<<40, 1<<40) }, tensor.ErrShape, "parameter: shape"},
}

// in runs f in a step, and panics with its error.
func in(f func(s *tensor.Scope)) {
	dev, err := tensor.Open("cpu")
	if err == nil {
		defer dev.Close()
		err = dev.Step(func(s *tensor.Scope) error { f(s); return nil })
	}
	if err != nil {
		panic(err)
	}
}

// place places count parameters of n elements together.
func place(n, count int) {
	dev, err := tensor.Open("cpu")
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	names, params := make([]string, count), make([]*tensor.Tensor, count)
	for i := range params {
		names[i], params[i] = fmt.Sprint(i), nn.Parameter(nil, n)
	}
	if err := engine.Place(dev, "", names, params, tensor.Float32); err != nil {
		panic(err)
	}
}

// Calls of absurd sizes give typed errors that name the operation and the caller's line.
func TestSizes(t *testing.T) {
	for _, c := range sizes {
		t.Run(c.name, func(t *testing.T) {
			wantMisuse(t, c.call, c.kind, c.text, "sizes_test.go:")
		})
	}
	t.Logf("%d calls", len(sizes))
}
