package nn_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// The names of parameters are PyTorch's.
func TestTransformerNames(t *testing.T) {
	attention := func(prefix string) (names []string) {
		for _, n := range []string{"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"} {
			names = append(names, prefix+n)
		}
		return names
	}
	layers := func(prefix string, names ...string) (all []string) {
		for _, n := range names {
			all = append(all, prefix+n+".weight", prefix+n+".bias")
		}
		return all
	}
	network := []string{"linear1", "linear2", "norm1", "norm2"}
	for what, c := range map[string]struct {
		model any
		want  []string
	}{
		"attention": {nn.NewMultiheadAttention(4, 2), attention("")},
		"attention of other widths": {nn.NewMultiheadAttention(4, 2, nn.KeyWidth(3)), append([]string{"q_proj_weight",
			"k_proj_weight", "v_proj_weight"}, attention("")[1:]...)},
		"attention without bias": {nn.NewMultiheadAttention(4, 2, nn.NoBias()), []string{"in_proj_weight",
			"out_proj.weight"}},
		"encoder": {nn.NewTransformerEncoder(1, 4, 2), append(attention("layers.0.self_attn."),
			layers("layers.0.", network...)...)},
		"decoder": {nn.NewTransformerDecoder(1, 4, 2), append(append(attention("layers.0.self_attn."),
			attention("layers.0.multihead_attn.")...), layers("layers.0.", append(network, "norm3")...)...)},
	} {
		var names []string
		nn.Walk(c.model, func(name string, _ *tensor.Tensor) { names = append(names, name) })
		if !slices.Equal(names, c.want) {
			t.Errorf("%s has the parameters %v, want %v", what, names, c.want)
		}
	}
}

// Weights start as in PyTorch, and options choose other sizes.
func TestTransformerInit(t *testing.T) {
	l := nn.NewTransformerEncoderLayer(64, 4)
	if err := nn.Init(openCPU(t), l); err != nil {
		t.Fatal(err)
	}
	most := func(x *tensor.Tensor) float64 { return x.Detach().Keep().Abs().Max().Item() }
	bound := math.Sqrt(6.0 / (4 * 64))
	if got := most(l.SelfAttn.InProjWeight); got > bound || got < 0.95*bound {
		t.Errorf("weights of in_proj are up to %v, want %v", got, bound)
	}
	if got := most(l.SelfAttn.OutProj.Weight); got > 1.0/8 || got < 0.95/8 {
		t.Errorf("weights of out_proj are up to %v, want 1/8", got)
	}
	if most(l.SelfAttn.InProjBias) != 0 || most(l.SelfAttn.OutProj.Bias) != 0 {
		t.Error("biases of attention are not 0")
	}
	if l.Linear1.Weight.Dim(0) != 2048 || l.Dropout != 0.1 || l.SelfAttn.Dropout != 0.1 || l.NormFirst {
		t.Errorf("defaults are not PyTorch's: %v", l)
	}
	if got := nn.Tree(l); !strings.Contains(got, "self_attn: MultiheadAttention") {
		t.Errorf("the layer prints as\n%s", got)
	}
}

// logitsOf are the logits of tokens, all at once or, with caches, in the given parts.
func logitsOf(t *testing.T, dev *tensor.Device, g *nn.GPT, caches []*nn.KVCache, tokens []int64, parts ...int) (
	logits []float32) {
	t.Helper()
	for _, n := range parts {
		err := dev.Eval(func(s *tensor.Scope) error {
			x := s.In(tensor.FromSlice(tokens[:n], 1, n))
			if caches == nil {
				logits = append(logits, tensor.ToSlice[float32](g.Forward(x))...)
			} else {
				logits = append(logits, tensor.ToSlice[float32](g.ForwardCached(x, caches))...)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		tokens = tokens[n:]
	}
	return logits
}

// Generation with caches has the bits of the whole sequence at once, also after a return to an earlier position.
func TestGPTCached(t *testing.T) {
	dev := openCPU(t)
	g := nn.NewGPT(nn.GPTConfig{Vocab: 11, Context: 40, Width: 24, Heads: 3, Layers: 2})
	if err := nn.Init(dev, g); err != nil {
		t.Fatal(err)
	}
	var tokens []int64
	for i := range int64(40) {
		tokens = append(tokens, i*7%11)
	}
	want := logitsOf(t, dev, g, nil, tokens, 40)
	caches := g.Caches()
	got := logitsOf(t, dev, g, caches, tokens, 5, 1, 1, 30, 1, 2)
	for i, w := range want {
		if math.Float32bits(got[i]) != math.Float32bits(w) {
			t.Fatalf("logit %d is %v with caches, %v without", i, got[i], w)
		}
	}
	for _, c := range caches {
		if c.Len() != 40 {
			t.Fatalf("the cache has %d positions, want 40", c.Len())
		}
		c.Truncate(8)
	}
	if again := logitsOf(t, dev, g, caches, tokens[8:], 3); !slices.Equal(again, want[8*11:11*11]) {
		t.Error("after a return to position 8 logits differ")
	}
	err := dev.Eval(func(s *tensor.Scope) error {
		g.ForwardCached(s.In(tensor.FromSlice(tokens, 1, 40)), caches)
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "at most the context 40 less the 11 positions of the caches") {
		t.Errorf("too many tokens: %v", err)
	}
}

// Multi-head attention of new positions with a cache is that of all positions at once.
// TestCachedGradients: with a cache the keys and values of this call have the gradients that they have without one, and
// those of earlier calls are data.
func TestCachedGradients(t *testing.T) {
	dev, err := tensor.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	random := func(seed uint64) *tensor.Tensor { return tensor.Randn(tensor.Seed(seed), 1, 2, 3, 4) }
	var cache nn.KVCache
	grads := func(old bool, opts ...nn.AttentionOption) (all []float32) {
		if err := dev.Step(func(s *tensor.Scope) error {
			var xs []*tensor.Tensor
			for seed := range uint64(3) {
				xs = append(xs, autograd.Watch(s, random(seed)))
			}
			k, v := xs[1], xs[2]
			if old {
				k, v = tensor.Cat(2, random(1), k), tensor.Cat(2, random(2), v)
			}
			y := nn.ScaledDotProductAttention(xs[0], k, v, append(opts, nn.Causal())...)
			for _, g := range autograd.Grad(y.Square().Sum(), xs) {
				all = append(all, tensor.ToSlice[float32](g)...)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	for call, want := range [][]float32{grads(false), grads(true, nn.Position(3))} {
		if got := grads(false, nn.Cached(&cache)); !slices.Equal(got, want) {
			t.Errorf("call %d: gradients %v, want %v", call, got, want)
		}
	}
}

func TestMultiheadCached(t *testing.T) {
	dev := openCPU(t)
	a := nn.NewMultiheadAttention(8, 2)
	if err := nn.Init(dev, a); err != nil {
		t.Fatal(err)
	}
	x := tensor.Randn(tensor.Seed(1), 2, 9, 8)
	var want []float32
	cache := &nn.KVCache{}
	err := dev.Eval(func(s *tensor.Scope) error {
		xs := s.In(x)
		all := a.Attend(xs, xs, xs, nn.Causal(), nn.Window(4, 0))
		want = tensor.ToSlice[float32](all.Slice(1, 6, 9))
		first := xs.Slice(1, 0, 6)
		a.Attend(first, first, first, nn.Causal(), nn.Window(4, 0), nn.Cached(cache))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = dev.Eval(func(s *tensor.Scope) error {
		last := s.In(x).Slice(1, 6, 9)
		got := tensor.ToSlice[float32](a.Attend(last, last, last, nn.Causal(), nn.Window(4, 0), nn.Cached(cache)))
		if !slices.Equal(got, want) {
			t.Errorf("with a cache %v, want %v", got, want)
		}
		return nil
	})
	if err != nil || cache.Len() != 9 {
		t.Fatalf("%v, %d positions", err, cache.Len())
	}
}

// Dropout of probabilities is that of training steps alone, and AttendWeights multiplies the values by the
// probabilities that it returns.
func TestMultiheadDropout(t *testing.T) {
	dev := openCPU(t)
	a := nn.NewMultiheadAttention(8, 2, nn.DropoutRate(0.5))
	if err := nn.Init(dev, a); err != nil {
		t.Fatal(err)
	}
	x := tensor.Randn(tensor.Seed(1), 1, 30, 8)
	zeros := func(run func(func(*tensor.Scope) error, ...tensor.Option) error) (n int) {
		if err := run(func(s *tensor.Scope) error {
			xs := s.In(x)
			_, w := a.AttendWeights(xs, xs, xs)
			for _, p := range tensor.ToSlice[float32](w) {
				if p == 0 {
					n++
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := zeros(dev.Eval); n != 0 {
		t.Errorf("%d probabilities are 0 in evaluation", n)
	}
	if n := zeros(dev.Step); n < 700 || n > 1100 {
		t.Errorf("%d of 1800 probabilities are dropped, want about half", n)
	}
}

// A rotation keeps lengths, and products of queries and keys depend on the distance of their positions alone.
func TestRotaryIsRelative(t *testing.T) {
	for _, interleaved := range []bool{false, true} {
		r := nn.NewRotaryEmbedding(8, 100, 10000)
		r.Interleaved = interleaved
		q, k := tensor.Randn(tensor.Seed(1), 1, 8), tensor.Randn(tensor.Seed(2), 1, 8)
		near, far := r.At(q, 12).Mul(r.At(k, 5)).Sum().Item(), r.At(q, 92).Mul(r.At(k, 85)).Sum().Item()
		if math.Abs(near-far) > 1e-5 || math.Abs(near-q.Mul(k).Sum().Item()) < 1e-3 {
			t.Errorf("interleaved %v: products are %v and %v", interleaved, near, far)
		}
	}
}

func TestAttentionMisuse(t *testing.T) {
	z := func(shape ...int) *tensor.Tensor { return tensor.Zeros(tensor.Float32, shape...) }
	x := z(2, 3, 4)
	a := nn.NewMultiheadAttention(4, 2)
	attend := func(q, k *tensor.Tensor, opts ...nn.AttentionOption) func() {
		return func() { nn.ScaledDotProductAttention(q, k, k, opts...) }
	}
	x4 := z(2, 2, 3, 4)
	for _, c := range []struct {
		f    func()
		want string
	}{
		{func() { nn.NewMultiheadAttention(5, 2) }, "multihead_attention: width 5 is no multiple of 2 heads"},
		{func() { nn.NewMultiheadAttention(4, 2, nn.DropoutRate(1)) }, "DropoutRate"},
		{func() { nn.NewMultiheadAttention(4, 2, nn.Stride(1)) }, "takes no option Stride"},
		{func() { nn.NewTransformerEncoder(-1, 4, 2) }, "the number of layers is -1"},
		{func() { nn.NewTransformerDecoderLayer(4, 3) }, "width 4 is no multiple of 3 heads"},
		{func() { a.Attend(z(3, 4), x, x) }, "multihead_attention: q float32[3 4] has 2 axes, want three"},
		{func() { a.Attend(x, nil, x) }, "multihead_attention: k is nil"},
		{attend(x4, x4, nn.Window(-1, 0)), "the window of -1 keys before and 0 after position 0 is negative"},
		{attend(x4, x4, nn.Position(-1)), "position -1 is negative"},
		{attend(x4, x4, nn.KeyPadding(z(2, 3))), "the mask of key padding float32[2 3] must be bool"},
		{attend(x4, x4, nn.KeyPadding(z(3).To(tensor.Bool))), "has 1 axes, want two: batch, keys"},
		{attend(x4, x4, nn.KeyPadding(z(2, 5).To(tensor.Bool))), "the mask of key padding bool[2 5] must be [2 3]"},
		{attend(x4, x4, nn.AttentionDropout(-1)), "the probability -1 of dropout is outside [0, 1)"},
		{func() { nn.Mask(nil) }, "mask: the mask is nil"},
		{func() { nn.NewRotaryEmbedding(3, 4, 10000) }, "rotary: width 3 must be even"},
		{func() { nn.NewRotaryEmbedding(4, 4, 0) }, "base"},
		{func() { nn.NewRotaryEmbedding(4, 4, 10000).At(x4, 2) }, "positions [2, 5) are outside [0, 4)"},
		{func() { nn.NewRotaryEmbedding(8, 4, 10000).Forward(x4) }, "the last of 8 or more"},
		{func() { nn.ALiBi(tensor.Float32, 0, 1, 1, 0) }, "alibi: 0 heads"},
		{func() { (&nn.KVCache{}).Truncate(1) }, "1 positions are outside [0, 0]"},
		{func() { (&nn.GPT{}).ForwardCached(x, []*nn.KVCache{{}}) }, "1 caches for 0 blocks"},
	} {
		if err := failure(c.f); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// failure is what f panics with.
func failure(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err, _ = r.(*tensor.Error)
		}
	}()
	f()
	return nil
}

func openCPU(t *testing.T) *tensor.Device {
	dev, err := tensor.Open("cpu", tensor.Seed(3))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

func ExampleMultiheadAttention() {
	dev, _ := tensor.Open("cpu")
	defer dev.Close()
	attention := nn.NewMultiheadAttention(8, 2)
	_ = nn.Init(dev, attention)
	_ = dev.Step(func(s *tensor.Scope) error {
		x := autograd.Watch(s, tensor.Full(1, tensor.Float32, 2, 3, 8))
		padding := s.In(tensor.FromSlice([]bool{false, false, true, false, false, false}, 2, 3))
		y, weights := attention.AttendWeights(x, x, x, nn.Causal(), nn.KeyPadding(padding))
		fmt.Println(y.Shape(), tensor.ToSlice[float32](weights.Select(1, 0).Select(1, 2)))
		return nil
	})
	// Output: [2 3 8] [0.5 0.5 0 0.33333334 0.33333334 0.33333334]
}
