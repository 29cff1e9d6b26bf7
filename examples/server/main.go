// Server learns to read handwritten digits and answers requests meanwhile. A request has the 64 pixels of an image of
// 8x8, from 0 to 1:
//
//	go run ./examples/server &
//	curl -d "[$(seq -s, 0 63 | sed 's/[0-9]\+/0.5/g')]" localhost:8080/predict
//
// Training and requests use the same weights: with tensor.Wait() they take turns, so that no request fails.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"net/http"
	"slices"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "address to listen on")
	epochs := flag.Int("epochs", 100, "passes over the images")
	flag.Parse()
	if *epochs < 1 || flag.NArg() > 0 {
		log.Fatalf("-epochs is %d, %q are left; 1 or more, and nothing, are wanted", *epochs, flag.Args())
	}
	dev, err := tensor.Open("auto", tensor.Seed(1))
	if err != nil {
		log.Fatal(err)
	}
	model, err := newModel(dev)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		if err := train(context.Background(), dev, model, *epochs); err != nil {
			log.Fatal(err)
		}
		log.Print("training is done")
	}()
	log.Print("listening on ", *addr)
	log.Fatal(http.ListenAndServe(*addr, handler(dev, model)))
}

func newModel(dev *tensor.Device) (nn.Module, error) {
	model := nn.Sequential(nn.NewLinear(64, 64), nn.GELU, nn.NewLinear(64, 10))
	return model, nn.Init(dev, model)
}

func train(ctx context.Context, dev *tensor.Device, model nn.Module, epochs int) error {
	set, _, err := data.Digits(1)
	if err != nil {
		return err
	}
	opt := optim.New(optim.AdamW(3e-3), model)
	loader := &data.Loader{Dataset: set, BatchSize: 32, Shuffle: true, Seed: 1, Epochs: epochs}
	for b, err := range loader.Batches(ctx) {
		if err != nil {
			return err
		}
		err = dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(nn.CrossEntropy(model.Forward(s.In(b.X)), s.In(b.Y)))
			return opt.Step(s)
		}, tensor.Wait())
		if err != nil {
			return err
		}
	}
	return nil
}

// Answer is what a request gets.
type Answer struct {
	Digit       int     // the most probable one
	Probability float64 // of it
}

func handler(dev *tensor.Device, model nn.Module) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /predict", func(w http.ResponseWriter, r *http.Request) {
		var pixels []float32
		body := http.MaxBytesReader(w, r.Body, 1<<16)
		beyond := func(p float32) bool { return !(0 <= p && p <= 1) }
		err := json.NewDecoder(body).Decode(&pixels)
		if err != nil || len(pixels) != 64 || slices.ContainsFunc(pixels, beyond) {
			http.Error(w, "a request is a list of 64 numbers from 0 to 1", http.StatusBadRequest)
			return
		}
		answer, err := predict(dev, model, pixels)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(answer)
	})
	return mux
}

func predict(dev *tensor.Device, model nn.Module, pixels []float32) (a Answer, err error) {
	err = dev.Eval(func(s *tensor.Scope) error {
		p := model.Forward(s.In(tensor.FromSlice(pixels, 1, 64))).Softmax(-1)
		a.Digit, a.Probability = int(p.ArgMax(-1).Item()), p.Max().Item()
		return nil
	}, tensor.Wait())
	return a, err
}
