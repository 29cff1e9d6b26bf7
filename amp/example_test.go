package amp_test

import (
	"encoding/json"
	"fmt"
	"log"
	"strings"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A classifier of points inside and outside a circle, trained in float16.
func Example() {
	dev, err := tensor.Open("cpu", tensor.Seed(3))
	check(err)
	defer dev.Close()
	model := nn.Sequential(nn.NewLinear(2, 16), nn.GELU, nn.NewLinear(16, 2))
	check(nn.Init(dev, model))
	opt := optim.New(optim.AdamW(0.05), model, optim.Clip(1))
	scaler := amp.NewGradScaler()

	points := tensor.Uniform(tensor.Seed(1), -1, 1, 64, 2)
	inside := make([]int64, 64)
	for i, p := 0, tensor.ToSlice[float32](points); i < 64; i++ {
		if p[2*i]*p[2*i]+p[2*i+1]*p[2*i+1] < 0.5 {
			inside[i] = 1
		}
	}
	var loss, first float64
	for step := range 100 {
		check(dev.Step(func(s *tensor.Scope) error {
			l := nn.CrossEntropy(model.Forward(s.In(points)), tensor.FromSlice(inside, 64))
			loss = l.Item()
			autograd.Backward(scaler.Scale(l))
			return scaler.Step(s, opt) // unscale, clip, skip on overflow, update
		}, amp.Autocast(tensor.Float16)))
		if step == 0 {
			first = loss
		}
	}
	st := scaler.State()
	fmt.Println(loss < first/4, st.Scale, st.Skipped)
	// Output:
	// true 65536 0
}

// Matrix products run in half precision, what needs range or sums in float32.
func ExampleAutocast() {
	dev, err := tensor.Open("cpu")
	check(err)
	defer dev.Close()
	x := tensor.Uniform(tensor.Seed(1), -1, 1, 4, 4)
	check(dev.Eval(func(s *tensor.Scope) error {
		product := s.In(x).MatMul(x)
		fmt.Println(product.DType(), product.ReLU().DType(), product.Softmax(-1).DType())
		s.With(func() {
			fmt.Println(s.In(x).MatMul(x).DType())
		}, amp.Autocast(tensor.Float32)) // off
		return nil
	}, amp.Autocast(tensor.BFloat16)))
	// Output:
	// bfloat16 bfloat16 float32
	// float32
}

// An overflow skips the update and halves the scale; the state is saved with the model.
func ExampleGradScaler() {
	dev, err := tensor.Open("cpu")
	check(err)
	defer dev.Close()
	w := nn.ParameterOf("w", tensor.FromSlice([]float32{1}, 1))
	opt, scaler := optim.New(optim.SGD(0.5), w), amp.NewGradScaler(amp.Growth(2, 2))
	for _, slope := range []float64{1, 1, 1e40, 1} {
		check(dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(scaler.Scale(s.In(w).Scale(slope).Sum()))
			return scaler.Step(s, opt)
		}))
		fmt.Println(w.Item(), scaler.State().Scale)
	}
	text, err := json.Marshal(scaler.State())
	check(err)
	fmt.Println(strings.Replace(string(text), ",\"max_skips", ",\n\"max_skips", 1))
	var saved amp.State
	check(json.Unmarshal(text, &saved))
	check(amp.NewGradScaler().Restore(saved))
	// Output:
	// 0.5 65536
	// 0 131072
	// 0 65536
	// -0.5 65536
	// {"scale":65536,"growth_factor":2,"backoff_factor":0.5,"growth_interval":2,"min_scale":0.0000152587890625,
	// "max_skips":50,"off":false,"growth_tracker":1,"skipped":1,"skipped_in_row":0}
}
