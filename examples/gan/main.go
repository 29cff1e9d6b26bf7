// Gan trains a generative adversarial network, WGAN-GP (Gulrajani et al. 2017), on points of the plane: a ring of 8
// clouds. A generator G maps random numbers to points, a critic D scores points, high where real ones are:
//
//	loss of D = mean D(fake) - mean D(real) + λ mean (|∇D(x)| - 1)²,  loss of G = -mean D(fake)
//
// x lies at random between a real and a fake point. D learns by second derivatives: the penalty has a gradient in it.
// Reported is mean D(real) - mean D(fake).
//
//	go run ./examples/gan
package main

import (
	"context"
	"math"
	"os"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
	"github.com/weft-ml/weft/train"
)

func main() { os.Exit(train.Main(train.Options{Steps: 1500, Seed: 42}, learn)) }

const (
	batch, updates = 128, 4  // points in a step; updates of the critic for one of the generator
	noise, λ       = 4, 0.3  // random numbers for a point; weight of the penalty
	clouds, spread = 8, 0.05 // on a circle of radius 1; deviation of a cloud
)

// ring is the middles [n 2] of clouds [n 1], by number.
func ring(cloud *tensor.Tensor) *tensor.Tensor {
	angle := cloud.To(tensor.Float32).Scale(2 * math.Pi / clouds)
	return tensor.Cat(1, angle.Cos(), angle.Sin())
}

// sample is n points [n 2] of the ring.
func sample(s *tensor.Scope, n int) *tensor.Tensor {
	return ring(s.RandInt(0, clouds, n, 1)).Add(s.Randn(n, 2).Scale(spread))
}

type gan struct{ G, D *nn.Chain }

// fake is n points [n 2] of G.
func (m *gan) fake(s *tensor.Scope, n int) *tensor.Tensor { return m.G.Forward(s.Randn(n, noise)) }

// criticLoss is the loss of D, mean D(real) - mean D(fake), and the mean of |∇D(x)|.
func (m *gan) criticLoss(s *tensor.Scope) (loss, distance, slope *tensor.Tensor) {
	x, y := sample(s, batch), m.fake(s, batch).Detach()
	between := autograd.Watch(s, x.Lerp(y, s.Uniform(0, 1, batch, 1)))
	grad := autograd.Grad(m.D.Forward(between).Sum(), []*tensor.Tensor{between}, autograd.CreateGraph())[0]
	norm := grad.Square().Sum(1).AddScalar(1e-12).Sqrt()
	distance = m.D.Forward(x).Mean().Sub(m.D.Forward(y).Mean())
	return norm.AddScalar(-1).Square().Mean().Scale(λ).Sub(distance), distance, norm.Mean()
}

func learn(ctx context.Context, r *train.Run) error {
	dev, err := r.Open()
	if err != nil {
		return err
	}
	defer dev.Close()
	network := func(in, out int) *nn.Chain {
		return nn.Sequential(nn.NewLinear(in, 64), nn.ReLU, nn.NewLinear(64, 64), nn.ReLU, nn.NewLinear(64, out))
	}
	model := &gan{G: network(noise, 2), D: network(2, 1)}
	if err := nn.Init(dev, model); err != nil {
		return err
	}
	adam := optim.AdamW(2e-3, optim.Betas(0, 0.9), optim.WeightDecay(0))
	optG, optD := optim.New(adam, model.G), optim.New(adam, model.D)
	r.Expect(r.Steps, "steps")
	var slope float64
	for step := 0; step < r.Steps && ctx.Err() == nil; step++ {
		var loss float64
		for range updates {
			err := dev.Step(func(s *tensor.Scope) error {
				l, distance, norm := model.criticLoss(s)
				autograd.Backward(l)
				loss, slope = distance.Item(), norm.Item()
				return optD.Step(s)
			}, r.Mode()...)
			if err != nil {
				return err
			}
		}
		err := dev.Step(func(s *tensor.Scope) error { // a step of its own: D's update is in memory
			autograd.Backward(model.D.Forward(model.fake(s, batch)).Mean().Neg(),
				autograd.Only(nn.Parameters(model.G)...))
			return optG.Step(s)
		}, r.Mode()...)
		if err != nil {
			return err
		}
		r.Step(loss, 1)
	}
	if r.Hash {
		r.Metric("hash", optG.Hash()+optD.Hash())
	}
	r.Metric("slope", slope)
	return dev.Eval(func(s *tensor.Scope) error {
		full, share := near(model.fake(s, 4096))
		r.Metric("clouds", int(full))
		r.Metric("share_near_clouds", share)
		return nil
	})
}

// near tells how many clouds have half of their points or more within 4 deviations, and which share of all points is
// so near to a cloud: of real points 8 and 1.
func near(points *tensor.Tensor) (full, share float64) {
	middle := ring(tensor.Arange(tensor.Int64, 0, clouds, 1).Reshape(clouds, 1))
	distance := points.Unsqueeze(1).Sub(middle).Square().Sum(-1).Sqrt()
	counts := distance.LessScalar(4 * spread).CountNonzero(0).To(tensor.Float32).Scale(1 / float64(points.Dim(0)))
	return counts.GreaterEqualScalar(0.5 / clouds).CountNonzero().Item(), counts.Sum().Item()
}
