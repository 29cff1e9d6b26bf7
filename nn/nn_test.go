package nn_test

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

func open(t testing.TB, opts ...tensor.OpenOption) *tensor.Device {
	t.Helper()
	dev, err := tensor.Open("cpu", append([]tensor.OpenOption{tensor.Seed(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

func initialize(t testing.TB, dev *tensor.Device, model any, opts ...nn.InitOption) {
	t.Helper()
	if err := nn.Init(dev, model, opts...); err != nil {
		t.Fatal(err)
	}
}

// values are all parameters and state of a model by name.
func values(model any) map[string][]float64 {
	m := map[string][]float64{}
	nn.Walk(model, func(name string, p *tensor.Tensor) { m[name] = tensor.ToSlice[float64](p) })
	return m
}

func names(model any) []string {
	var all []string
	nn.Walk(model, func(name string, _ *tensor.Tensor) { all = append(all, name) })
	return all
}

func wantError(t *testing.T, err, kind error, parts ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error %v is not of kind %v", err, kind)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q lacks %q", err, p)
		}
	}
}

// near tells whether two values agree within rounding.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-12*max(1, math.Abs(b)) }

func TestStateDictNames(t *testing.T) {
	chain := nn.Sequential(nn.NewLinear(2, 3), nn.ReLU, nn.NewLayerNorm(3), nn.NewLinear(3, 1, nn.NoBias()))
	if got, want := fmt.Sprint(names(chain)), "[0.weight 0.bias 2.weight 2.bias 3.weight]"; got != want {
		t.Errorf("names %v, want %v", got, want)
	}
	gpt := nn.NewGPT(nn.GPTConfig{Vocab: 5, Context: 4, Width: 6, Heads: 2, Layers: 1})
	want := "tok.weight pos.weight blocks.0.ln1.weight blocks.0.ln1.bias blocks.0.attn.qkv.weight " +
		"blocks.0.attn.qkv.bias blocks.0.attn.proj.weight blocks.0.attn.proj.bias blocks.0.ln2.weight " +
		"blocks.0.ln2.bias blocks.0.mlp.fc1.weight blocks.0.mlp.fc1.bias blocks.0.mlp.fc2.weight " +
		"blocks.0.mlp.fc2.bias norm.weight norm.bias head.weight"
	if got := strings.Join(names(gpt), " "); got != want {
		t.Errorf("names %v,\nwant %v", got, want)
	}
}

func TestTiedWeightsAreNamedOnce(t *testing.T) {
	dev := open(t)
	free, tied := newGPT(false), newGPT(true)
	initialize(t, dev, tied)
	if got := names(tied); slices.Contains(got, "head.weight") || !slices.Contains(got, "tok.weight") ||
		!slices.Contains(got, "head.bias") {
		t.Errorf("names %v", got)
	}
	if n := tied.Head.Weight.Name(); n != "tok.weight" {
		t.Errorf("the weight of the head is called %q", n)
	}
	if got, want := nn.CountParameters(tied), nn.CountParameters(free)-gptWidth*gptVocab; got != want {
		t.Errorf("%d parameters, want %d", got, want)
	}
}

// The first values of a parameter depend on the seed and its name alone.
func TestInitialValues(t *testing.T) {
	small := func() *nn.Chain { return nn.Sequential(nn.NewLinear(3, 4), nn.ReLU, nn.NewLinear(4, 2)) }
	large := nn.Sequential(nn.NewLinear(3, 4), nn.NewLinear(4, 4), nn.NewLinear(4, 2), nn.NewEmbedding(3, 3, 1))
	a, b, other := small(), small(), small()
	initialize(t, open(t), a)
	initialize(t, open(t), b)
	initialize(t, open(t), large)
	initialize(t, open(t, tensor.Seed(2)), other)
	first := values(a)
	for name, v := range first {
		if !slices.Equal(v, values(b)[name]) {
			t.Errorf("%s differs between two devices of one seed", name)
		}
		if !slices.Equal(v, values(large)[name]) {
			t.Errorf("%s changes when layers are added", name)
		}
		if slices.Equal(v, values(other)[name]) {
			t.Errorf("%s is the same for another seed", name)
		}
	}
	if slices.Equal(first["0.bias"], first["2.bias"]) {
		t.Error("two names have the same values")
	}
	for _, v := range first["0.weight"] {
		if math.Abs(v) > 1/math.Sqrt(3) {
			t.Errorf("weight %v is outside 1/sqrt(3)", v)
		}
	}
}

func TestInitTwice(t *testing.T) {
	dev := open(t)
	model := nn.Sequential(nn.NewLinear(2, 2))
	initialize(t, dev, model)
	first := values(model)
	opt := optim.New(optim.SGD(1), model)
	err := dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(model.Forward(s.Full(1, tensor.Float32, 1, 2)).Sum())
		return opt.Step(s)
	})
	if err != nil {
		t.Fatal(err)
	}
	if slices.Equal(values(model)["0.weight"], first["0.weight"]) {
		t.Error("the step changed nothing")
	}
	initialize(t, dev, model)
	if !slices.Equal(values(model)["0.weight"], first["0.weight"]) {
		t.Error("the second Init does not start afresh")
	}
	initialize(t, dev, model, nn.DType(tensor.Float64))
	if p := nn.Parameters(model)[0]; p.DType() != tensor.Float64 {
		t.Errorf("%v is not float64", p)
	}
}

func TestCountParameters(t *testing.T) {
	model := nn.Sequential(nn.NewLinear(784, 256), nn.GELU, nn.NewLinear(256, 10))
	if got, want := nn.CountParameters(model), 784*256+256+256*10+10; got != want {
		t.Errorf("%d parameters, want %d", got, want)
	}
	if got := len(nn.Parameters(model)); got != 4 {
		t.Errorf("%d tensors, want 4", got)
	}
}

func TestSummary(t *testing.T) {
	dev := open(t)
	model := nn.Sequential(nn.NewLinear(3, 8), nn.ReLU, nn.NewLinear(8, 2, nn.NoBias()))
	initialize(t, dev, model)
	report, err := nn.Summary(dev, model, tensor.Zeros(tensor.Float32, 5, 3))
	if err != nil {
		t.Fatal(err)
	}
	want := []nn.Layer{
		{Path: "0", Output: []int{5, 8}, Parameters: 32, Bytes: 128, FLOPs: 2 * 5 * 8 * 3},
		{Path: "0/linear", Output: []int{5, 8}, Parameters: 32, Bytes: 128, FLOPs: 2 * 5 * 8 * 3},
		{Path: "1", Output: []int{5, 8}, FLOPs: 5 * 8},
		{Path: "2", Output: []int{5, 2}, Parameters: 16, Bytes: 64, FLOPs: 2 * 5 * 2 * 8},
		{Path: "2/linear", Output: []int{5, 2}, Parameters: 16, Bytes: 64, FLOPs: 2 * 5 * 2 * 8},
		{Path: "total", Output: []int{5, 2}, Parameters: 48, Bytes: 192, FLOPs: 2*5*8*3 + 5*8 + 2*5*2*8},
	}
	total := report.Total
	total.Path = "total"
	got := append(slices.Clone(report.Layers), total)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("report\n%v\nwant\n%v", got, want)
	}
	text := report.String()
	for _, part := range []string{"layer", "FLOPs", "2/linear", "[5 2]", "192"} {
		if !strings.Contains(text, part) {
			t.Errorf("the table lacks %q:\n%s", part, text)
		}
	}
	gpt := newGPT(true)
	initialize(t, dev, gpt)
	if report, err = nn.Summary(dev, gpt, tensor.Zeros(tensor.Int64, 2, 8)); err != nil {
		t.Fatal(err)
	}
	if got, want := report.Total.Parameters, nn.CountParameters(gpt); got != want {
		t.Errorf("%d parameters of the GPT, want %d", got, want)
	}
	if text := report.String(); !strings.Contains(text, "blocks.1/mlp ") || !strings.Contains(text, "[2 8 17]") {
		t.Errorf("the table of the GPT lacks a layer or the output:\n%s", text)
	}
	if _, err := nn.Summary(dev, model, tensor.Zeros(tensor.Float32, 5, 4)); err == nil {
		t.Error("a summary of the wrong input has no error")
	}
}

func TestMisuse(t *testing.T) {
	dev := open(t)
	x := tensor.Zeros(tensor.Float32, 4, 5)
	forward := func(m nn.Module, x *tensor.Tensor) error {
		return dev.Step(func(s *tensor.Scope) error { m.Forward(s.In(x)); return nil })
	}
	model := nn.Sequential(nn.NewLinear(3, 2))
	wantError(t, forward(model, x), tensor.ErrStep, "nn.Init", "float32[2 3]", "nn_test.go:")
	initialize(t, dev, model)
	wantError(t, forward(model, x), tensor.ErrShape, "linear: inner sizes differ", "[4 5]", "[2 3]", "in 0/linear",
		"nn_test.go:")

	gpt := newGPT(false)
	initialize(t, dev, gpt)
	wantError(t, forward(gpt, tensor.Zeros(tensor.Int64, 1, 9)), tensor.ErrShape, "gpt", "[1 9]", "context 8",
		"nn_test.go:")
	wantError(t, forward(gpt, tensor.Zeros(tensor.Int64, 8)), tensor.ErrShape, "[B T]")
	wantError(t, forward(gpt, tensor.FromSlice([]int64{gptVocab}, 1, 1)), tensor.ErrIndex, "embedding", "17")

	wantError(t, engine.Try(func() { nn.NewCausalAttention(10, 3) }), tensor.ErrValue, "width 10", "3 heads")
	wantError(t, engine.Try(func() { nn.KaimingNormal(1)(make([]float64, 3), []int{3}, nn.Random{}) }),
		tensor.ErrShape, "[3]")
	for name, loss := range map[string]func(x, y *tensor.Tensor, opts ...nn.LossOption) *tensor.Tensor{
		"mse": nn.MSE, "l1": nn.L1, "bce_with_logits": nn.BCEWithLogits, "kl_div": nn.KLDiv,
		"huber": func(x, y *tensor.Tensor, opts ...nn.LossOption) *tensor.Tensor {
			return nn.Huber(x, y, 1, opts...)
		},
	} {
		err := engine.Try(func() { loss(tensor.Zeros(tensor.Float32, 3, 1), tensor.Zeros(tensor.Float32, 3)) })
		wantError(t, err, tensor.ErrShape, name, "[3 1]", "[3]", "nn_test.go:")
	}
}

func TestDropout(t *testing.T) {
	dev := open(t)
	d := nn.NewDropout(0.25)
	x := tensor.FromSlice(slices.Repeat([]float32{3}, 4000), 4000)
	run := func(step func(func(*tensor.Scope) error, ...tensor.Option) error) (out []float64) {
		if err := step(func(s *tensor.Scope) error {
			out = tensor.ToSlice[float64](d.Forward(s.In(x)))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := run(dev.Eval); slices.ContainsFunc(out, func(v float64) bool { return v != 3 }) {
		t.Error("dropout changes values in evaluation")
	}
	out := run(dev.Step)
	zeros := 0
	for _, v := range out {
		switch v {
		case 0:
			zeros++
		case 4: // 3/(1-p)
		default:
			t.Fatalf("value %v, want 0 or 4", v)
		}
	}
	if zeros < 850 || zeros > 1150 {
		t.Errorf("%d of 4000 values dropped with probability 0.25", zeros)
	}
	if slices.Equal(out, run(dev.Step)) {
		t.Error("two steps drop the same values")
	}
	wantError(t, dev.Step(func(s *tensor.Scope) error { s.In(x).Dropout(1); return nil }), tensor.ErrValue,
		"dropout", "1")
}

// The losses against their formulas, written out.
func TestLosses(t *testing.T) {
	x := []float64{0.5, -1.2, 2, 0, 3.5, -0.3}
	y := []float64{0.2, 0.9, 0.4, 1, 0, 0.6}
	of := func(v []float64) *tensor.Tensor { return tensor.FromSlice(v, 2, 3) }
	mean := func(f func(x, y float64) float64) float64 {
		sum := 0.0
		for i := range x {
			sum += f(x[i], y[i])
		}
		return sum / float64(len(x))
	}
	huber := func(delta float64) float64 {
		return mean(func(x, y float64) float64 {
			if d := math.Abs(x - y); d > delta {
				return delta * (d - delta/2)
			}
			return (x - y) * (x - y) / 2
		})
	}
	targets := tensor.FromSlice([]int64{2, 0}, 2)
	logProb := func(row, class int) float64 {
		sum := 0.0
		for _, v := range x[3*row : 3*row+3] {
			sum += math.Exp(v)
		}
		return x[3*row+class] - math.Log(sum)
	}
	cross := -(logProb(0, 2) + logProb(1, 0)) / 2
	kl := 0.0
	for i, p := range y {
		if p > 0 {
			kl += p * (math.Log(p) - x[i]) / 2
		}
	}
	for _, c := range []struct {
		name string
		got  *tensor.Tensor
		want float64
	}{
		{"mse", nn.MSE(of(x), of(y)), mean(func(x, y float64) float64 { return (x - y) * (x - y) })},
		{"l1", nn.L1(of(x), of(y)), mean(func(x, y float64) float64 { return math.Abs(x - y) })},
		{"huber 1", nn.Huber(of(x), of(y), 1), huber(1)},
		{"huber 0.5", nn.Huber(of(x), of(y), 0.5), huber(0.5)},
		{"bce", nn.BCEWithLogits(of(x), of(y)), mean(func(x, y float64) float64 {
			p := 1 / (1 + math.Exp(-x))
			return -y*math.Log(p) - (1-y)*math.Log(1-p)
		})},
		{"bce, large", nn.BCEWithLogits(tensor.FromSlice([]float64{1000, -1000, 1000}, 3),
			tensor.FromSlice([]float64{1, 0, 0}, 3)), 1000. / 3},
		{"cross-entropy", nn.CrossEntropy(of(x), targets), cross},
		{"cross-entropy, ignoring", nn.CrossEntropy(of(x), targets, nn.IgnoreIndex(0)), -logProb(0, 2)},
		{"nll", nn.NLL(of(x).LogSoftmax(-1), targets), cross},
		{"kl", nn.KLDiv(of(x), of(y)), kl},
	} {
		if got := c.got.Item(); c.got.Rank() != 0 || !near(got, c.want) {
			t.Errorf("%s is %v%v, want %v", c.name, got, c.got.Shape(), c.want)
		}
	}
}

func TestInitializers(t *testing.T) {
	const rows, columns = 60, 40
	draw := func(f nn.Initializer, shape ...int) []float64 {
		p := nn.Parameter(f, shape...)
		initialize(t, open(t), p, nn.DType(tensor.Float64))
		return tensor.ToSlice[float64](p)
	}
	moments := func(v []float64) (mean, deviation, largest float64) {
		for _, x := range v {
			mean += x / float64(len(v))
			largest = max(largest, math.Abs(x))
		}
		for _, x := range v {
			deviation += (x - mean) * (x - mean) / float64(len(v))
		}
		return mean, math.Sqrt(deviation), largest
	}
	kaiming, xavier := math.Sqrt2/math.Sqrt(columns), math.Sqrt(2./(rows+columns))
	for _, c := range []struct {
		name      string
		init      nn.Initializer
		mean, std float64
		bound     float64
	}{
		{"uniform", nn.Uniform(1, 3), 2, 2 / math.Sqrt(12), 3},
		{"normal", nn.Normal(-1, 0.5), -1, 0.5, 4},
		{"kaiming uniform", nn.KaimingUniform(math.Sqrt2), 0, kaiming, kaiming * math.Sqrt(3)},
		{"kaiming normal", nn.KaimingNormal(math.Sqrt2), 0, kaiming, 6 * kaiming},
		{"xavier uniform", nn.XavierUniform(1), 0, xavier, xavier * math.Sqrt(3)},
		{"xavier normal", nn.XavierNormal(1), 0, xavier, 6 * xavier},
		{"ones", nn.Ones, 1, 0, 1},
		{"zeros", nn.Zeros, 0, 0, 0},
	} {
		mean, std, largest := moments(draw(c.init, rows, columns))
		if math.Abs(mean-c.mean) > 0.1*c.std+1e-12 || math.Abs(std-c.std) > 0.05*c.std+1e-12 || largest > c.bound {
			t.Errorf("%s: mean %.3f, deviation %.4f, largest %.3f; want %.3f, %.4f and at most %.3f",
				c.name, mean, std, largest, c.mean, c.std, c.bound)
		}
	}
	for _, shape := range [][]int{{3, 5}, {5, 3}, {4, 4}, {2, 3, 2}} {
		orthogonal(t, draw(nn.Orthogonal(2), shape...), shape[0])
	}
}

// orthogonal checks that the shorter side of a matrix holds orthogonal vectors of length 2.
func orthogonal(t *testing.T, v []float64, rows int) {
	t.Helper()
	n := len(v) / rows
	at := func(i, k int) float64 { return v[i*n+k] } // vector i, element k
	vectors, length := rows, n
	if n < rows {
		vectors, length = n, rows
		at = func(i, k int) float64 { return v[k*n+i] }
	}
	for i := range vectors {
		for j := range vectors {
			dot, want := 0.0, 0.0
			for k := range length {
				dot += at(i, k) * at(j, k)
			}
			if i == j {
				want = 4
			}
			if math.Abs(dot-want) > 1e-12 {
				t.Errorf("%d by %d: product of vectors %d and %d is %v, want %v", rows, n, i, j, dot, want)
			}
		}
	}
}

// Logits of a position depend on no later token.
func TestGPTIsCausal(t *testing.T) {
	dev := open(t)
	g := newGPT(false)
	initialize(t, dev, g)
	logits := func(tokens ...int64) (out []float64) {
		if err := dev.Eval(func(s *tensor.Scope) error {
			out = tensor.ToSlice[float64](g.Forward(s.In(tensor.FromSlice(tokens, 1, len(tokens)))))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	a, b := logits(3, 1, 4, 1), logits(3, 1, 4, 15)
	if !slices.Equal(a[:3*gptVocab], b[:3*gptVocab]) {
		t.Error("a later token changes earlier logits")
	}
	if slices.Equal(a[3*gptVocab:], b[3*gptVocab:]) {
		t.Error("the last token changes nothing")
	}
	if short := logits(3, 1); len(short) != 2*gptVocab {
		t.Errorf("%d logits for two tokens", len(short))
	}
}

// A module that runs in a region of its own holds less memory afterwards than one that is called directly.
func TestCallReturnsMemory(t *testing.T) {
	dev := open(t)
	inner := nn.Func(func(x *tensor.Tensor) *tensor.Tensor {
		for range 50 {
			x = x.Tanh()
		}
		return x
	})
	x := tensor.Zeros(tensor.Float32, 1<<16)
	grown := func(run func(x *tensor.Tensor) *tensor.Tensor) int {
		t.Helper()
		var n int
		if err := dev.Eval(func(s *tensor.Scope) error {
			before := dev.Stats().Memory.Allocated
			run(s.In(x))
			n = dev.Stats().Memory.Allocated - before
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	direct := grown(inner.Forward)
	called := grown(func(x *tensor.Tensor) *tensor.Tensor { return nn.Call("inner", inner, x) })
	if called*40 > direct {
		t.Errorf("%d bytes stay with Call, %d without", called, direct)
	}
}

// The sums of a GPT, also those between blocks, are operations together with the norm that follows. Memory for
// inference does not grow with the number of blocks: a block gives back what the block before it left.
func TestGPTSums(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // what is collected meanwhile would not count
	var peaks []int
	for _, layers := range []int{0, 1, 2, 6} {
		dev, err := tensor.Open("null") // whose memory no other test uses
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		model := nn.NewGPT(nn.GPTConfig{Vocab: 11, Context: 64, Width: 32, Heads: 2, Layers: layers})
		if err := nn.Init(dev, model); err != nil {
			t.Fatal(err)
		}
		before := dev.Stats().Memory
		ops, peak := map[string]int{}, 0
		err = dev.Eval(func(s *tensor.Scope) error {
			model.Forward(s.In(tensor.Zeros(tensor.Int64, 2, 64)))
			return nil
		}, engine.Observe(func(_ string, c seam.Applied[*tensor.Op, *tensor.Tensor]) {
			ops[c.Op.Name]++
			now := dev.Stats().Memory // without what earlier tests kept, which Go's collector frees
			peak = max(peak, now.InSteps()-before.InSteps())
		}))
		if err != nil {
			t.Fatal(err)
		}
		if ops["add"] != 1 || ops["layer_norm"] != 1 || ops["add_layer_norm"] != 2*layers {
			t.Errorf("%d blocks: operations %v", layers, ops)
		}
		peaks = append(peaks, peak)
	}
	if peaks[2] != peaks[3] {
		t.Errorf("peaks of memory for 0, 1, 2 and 6 blocks: %v", peaks)
	}
}

// Hyperparameters of initializers, layers and losses are refused where they are given.
func TestHyperparameters(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	x := tensor.Zeros(tensor.Float32, 2)
	tried := 0
	refused := func(f func(), parts ...string) {
		t.Helper()
		tried++
		wantError(t, engine.Try(f), tensor.ErrValue, append(parts, "nn_test.go:")...)
	}
	gains := map[string]func(float64) nn.Initializer{"kaiming_uniform": nn.KaimingUniform, "orthogonal": nn.Orthogonal,
		"kaiming_normal": nn.KaimingNormal, "xavier_uniform": nn.XavierUniform, "xavier_normal": nn.XavierNormal}
	for _, v := range []float64{nan, inf, -inf, -0.5} {
		for name, f := range gains {
			refused(func() { f(v) }, name, "gain is", "[0, +Inf)")
		}
		refused(func() { nn.Normal(0, v) }, "normal", "std is")
		refused(func() { nn.NewEmbedding(2, 2, v) }, "normal", "std is")
		refused(func() { nn.Huber(x, x, v) }, "huber", "delta is", "(0, +Inf)")
		refused(func() { nn.NewDropout(v) }, "dropout", "P is", "[0, 1)")
		refused(func() { nn.NewGPT(nn.GPTConfig{Dropout: v}) }, "gpt", "Dropout is")
		refused(func() { nn.CrossEntropy(x, x, nn.LabelSmoothing(v)) }, "cross_entropy", "smoothing")
		if v != -0.5 {
			refused(func() { nn.Constant(v) }, "constant", "the value is")
			refused(func() { nn.Normal(v, 1) }, "normal", "mean is")
			refused(func() { nn.Uniform(v, 1) }, "uniform")
			refused(func() { nn.Uniform(-1, v) }, "uniform")
		}
	}
	refused(func() { nn.Uniform(1, 0.5) }, "uniform", "lo is 1")
	refused(func() { nn.Uniform(-1e308, 1e308) }, "uniform", "width")
	refused(func() { nn.NewGPT(nn.GPTConfig{Layers: -1}) }, "gpt", "Layers is -1")
	refused(func() { nn.NewGPT(nn.GPTConfig{Layers: 1 << 40}) }, "gpt", "Layers is")
	refused(func() { nn.NewDropout(1) }, "dropout", "P is 1")
	refused(func() { nn.Huber(x, x, 0) }, "huber", "delta is 0")
	t.Logf("%d tried and typed", tried)
}
