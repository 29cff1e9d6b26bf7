// Lstm learns to write numbers in English words, or a text of your own, character by character: an embedding, an LSTM
// and a linear layer predict the next one.
//
//	go run ./examples/lstm
//	go run ./examples/lstm -data FILE -steps 3000
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
	"github.com/weft-ml/weft/train"
)

func main() {
	os.Exit(train.Main(train.Options{Steps: 500, Seed: 42, Halves: true, Data: "text file (default: numbers)"}, learn))
}

const rate, batch, length, width, hidden = 5e-3, 32, 64, 32, 128

var sampleOf = flag.Int("sample", 1500, "characters to write at the end")

type model struct {
	Embedding *nn.Embedding
	LSTM      *nn.Recurrent
	Head      *nn.Linear
}

// run is the logits [B T V] of the characters after x, [B T], and the state after them.
func (m *model) run(x *tensor.Tensor, from nn.RecurrentState) (*tensor.Tensor, nn.RecurrentState) {
	h, after := m.LSTM.Run(m.Embedding.Forward(x), from, nil)
	return m.Head.Forward(h), after
}

func learn(ctx context.Context, r *train.Run) error {
	dev, err := r.Open()
	if err != nil {
		return err
	}
	defer dev.Close()
	if *sampleOf < 0 || *sampleOf > 1<<20 {
		return fmt.Errorf("-sample %d is not 0 to %d", *sampleOf, 1<<20)
	}
	numbers := allNumbers()
	text, err := data.NewText([]byte(strings.Join(numbers, "\n")), data.Chars)
	if r.Data != "" {
		text, err = data.ReadText(r.Data, data.Chars)
	}
	if err != nil {
		return err
	}
	v := text.VocabSize()
	m := &model{nn.NewEmbedding(v, width, 1), nn.NewLSTM(width, hidden, nn.BatchFirst()), nn.NewLinear(hidden, v)}
	if err := nn.Init(dev, m); err != nil {
		return err
	}
	opt := optim.New(optim.AdamW(rate), m, optim.Clip(1))
	r.Expect(r.Steps, "characters")
	for i := 0; i < r.Steps && ctx.Err() == nil; i++ {
		b, err := text.Batch(batch, length, r.Seed, i)
		if err != nil {
			return err
		}
		opt.LR.Set(optim.WarmupCosine(rate, rate/50, min(20, r.Steps), r.Steps)(i))
		var loss float64
		err = r.TrainStep(batch, func(s *tensor.Scope) error {
			loss = r.Backward(s, b.X, b.Y, func(x, y *tensor.Tensor) *tensor.Tensor {
				logits, _ := m.run(x, nn.RecurrentState{})
				return nn.CrossEntropy(logits, y)
			}).Item()
			return opt.Step(s)
		})
		if err != nil {
			return err
		}
		r.Step(loss, batch*length)
	}
	if r.Hash {
		r.Metric("hash", opt.Hash())
	}
	sample, err := m.write(ctx, dev, text, r.Seed)
	if err != nil {
		return err
	}
	lines, right := count(sample, numbers)
	r.Metric("lines", lines)
	r.Metric("numbers", right)
	r.Printf("\n%s", sample)
	return nil
}

// write samples characters from the model, one after the other, each from the state that the last has left.
func (m *model) write(ctx context.Context, dev *tensor.Device, text *data.Text, seed uint64) (string, error) {
	random, state := rand.New(rand.NewPCG(seed, 0)), nn.RecurrentState{}
	tokens := []int64{0} // the first character of the vocabulary, the line break
	for range *sampleOf {
		err := dev.Eval(func(s *tensor.Scope) error {
			logits, after := m.run(s.In(tensor.FromSlice(tokens[len(tokens)-1:], 1, 1)), state)
			p := tensor.ToSlice[float64](logits.Flatten(0, -1).Scale(1 / 0.8).Softmax(-1))
			u, next := random.Float64(), 0
			for ; next < len(p)-1 && u >= p[next]; next++ {
				u -= p[next]
			}
			tokens = append(tokens, int64(next))
			state = nn.RecurrentState{H: after.H.Keep(), C: after.C.Keep()}
			return nil
		})
		if err := cmp.Or(err, ctx.Err()); err != nil {
			return "", err
		}
	}
	return text.Decode(tokens[1:]...), nil
}
