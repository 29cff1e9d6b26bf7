package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/tensor"
)

// Requests that come while the model trains are all answered, and afterwards the answers are right.
func TestServer(t *testing.T) {
	dev, err := tensor.Open("cpu", tensor.Seed(1))
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	model, err := newModel(dev)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler(dev, model))
	defer server.Close()
	_, set, err := data.Digits(1)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(i int) (a Answer, digit int) {
		b, err := set.Batch([]int{i})
		if err != nil {
			t.Error(err)
			return
		}
		body, _ := json.Marshal(tensor.ToSlice[float32](b.X))
		r, err := http.Post(server.URL+"/predict", "application/json", bytes.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		defer r.Body.Close()
		text, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(text, &a); err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("status %d: %s", r.StatusCode, text)
		}
		return a, int(b.Y.Item())
	}

	var clients sync.WaitGroup
	var trained atomic.Bool
	var answers atomic.Int64
	for c := range 8 {
		clients.Go(func() {
			for i := c; !trained.Load() && !t.Failed(); i += 8 {
				if a, _ := ask(i % set.Len()); !(0.1 <= a.Probability && a.Probability <= 1) {
					t.Errorf("the answer is %+v", a)
				}
				answers.Add(1)
			}
		})
	}
	const enough = 50 // answers while it trains, which goes on for so long on a busy machine
	for epochs, n := 10, 0; n < 100 && (n == 0 || answers.Load() < enough) && !t.Failed(); epochs, n = 1, n+1 {
		if err := train(context.Background(), dev, model, epochs); err != nil {
			t.Error("training:", err)
		}
	}
	trained.Store(true)
	clients.Wait()
	right := 0
	for i := range set.Len() {
		if a, digit := ask(i); a.Digit == digit {
			right++
		}
	}
	t.Logf("%d answers while training, %d of %d right afterwards", answers.Load(), right, set.Len())
	if right < set.Len()*9/10 || answers.Load() < enough {
		t.Errorf("%d answers while training, %d of %d right afterwards", answers.Load(), right, set.Len())
	}
	r, err := http.Post(server.URL+"/predict", "application/json", bytes.NewReader([]byte("[1]")))
	if err != nil || r.StatusCode != http.StatusBadRequest {
		t.Errorf("one pixel: %v, %v", r, err)
	}
}
