package onehash

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// The hashes that every platform must reach. A change of them is a change of the library's arithmetic: it
// needs an entry in the changelog.
const (
	wantMLP = "8bcd29f942d2d255944f7c282ddaa0be6519ce5844b647d7c87789ec9fbf8d98"
	wantGPT = "e59a5500e89071342520d88f6b1c1682866e6c0061d1ea7642e51ba09d2898de"

	// The GPT under autocast.
	wantBFloat16 = "7edcff2182f710db3bf2d2ab17d1edf3770343c5aee3a56de542cb37ca6efc0c"
	wantFloat16  = "7f9232a8f803e64ec46edd34029f2d0a8c3dafb49b6dc360218e0704195457ed"
)

const (
	steps     = 200
	halfSteps = 40
)

// corpus is text that the model learns; the test must not depend on a Go installation's files.
var corpus = strings.Repeat("the loom holds the warp and the weft goes over and under; a cloth is made of crossings. ", 40)

func TestMain(m *testing.M) {
	if os.Getenv("WEFT_ONEHASH") != "" {
		all, err := hashes()
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(strings.Join(all, " "))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func hashes() (all []string, err error) {
	for _, train := range []func() (string, error){
		trainMLP,
		func() (string, error) { return trainGPT(tensor.Float32, steps) },
		func() (string, error) { return trainGPT(tensor.BFloat16, halfSteps) },
		func() (string, error) { return trainGPT(tensor.Float16, halfSteps) },
	} {
		hash, err := train()
		if err != nil {
			return nil, err
		}
		all = append(all, hash)
	}
	return all, nil
}

// trainMLP learns the digits with dropout, so that the random streams take part.
func trainMLP() (string, error) {
	dev, err := tensor.Open("cpu", tensor.Seed(7))
	if err != nil {
		return "", err
	}
	set, _, err := data.Digits(7)
	if err != nil {
		return "", err
	}
	model := nn.Sequential(nn.NewLinear(64, 48), nn.GELU, nn.NewDropout(0.1), nn.NewLinear(48, 10))
	if err := nn.Init(dev, model); err != nil {
		return "", err
	}
	opt := optim.New(optim.AdamW{LR: 3e-3}, model)
	loader := &data.Loader{Dataset: set, BatchSize: 50, Shuffle: true, Seed: 7, Epochs: data.Forever}
	for k := range steps {
		n := loader.BatchesPerEpoch()
		b, err := loader.Batch(k/n, k%n)
		if err != nil {
			return "", err
		}
		if err := dev.Step(func(s *tensor.Scope) error {
			autograd.Backward(nn.CrossEntropy(model.Forward(s.In(b.X)), s.In(b.Y)))
			return opt.Step(s)
		}); err != nil {
			return "", err
		}
	}
	return opt.Hash(), nil
}

// trainGPT runs a number of steps with products in type dt; the loss of float16 is scaled, at first so high that updates are skipped.
func trainGPT(dt tensor.DType, steps int) (string, error) {
	dev, err := tensor.Open("cpu", tensor.Seed(7))
	if err != nil {
		return "", err
	}
	text, err := data.NewText([]byte(corpus), data.Chars)
	if err != nil {
		return "", err
	}
	model := nn.NewGPT(nn.GPTConfig{Vocab: text.VocabSize(), Context: 33, Width: 24, Heads: 3, Layers: 2, Dropout: 0.1})
	if err := nn.Init(dev, model); err != nil {
		return "", err
	}
	opt := optim.New(optim.AdamW{LR: 3e-3, WeightDecay: 0.1}, model, optim.Clip(1), optim.NoDecay(optim.Vectors))
	rate := optim.WarmupCosine(3e-3, 3e-4, 20, steps)
	scaler := amp.NewGradScaler(amp.InitScale(1<<24), amp.Growth(2, 10), amp.Enabled(dt == tensor.Float16))
	for k := range steps {
		b, err := text.Batch(3, 33, 7, k)
		if err != nil {
			return "", err
		}
		opt.LR.Set(rate(k))
		if err := dev.Step(func(s *tensor.Scope) error {
			loss := nn.CrossEntropy(model.Forward(s.In(b.X)), s.In(b.Y))
			autograd.Backward(scaler.Scale(loss))
			return scaler.Step(s, opt)
		}, amp.Autocast(dt)); err != nil {
			return "", err
		}
	}
	if st := scaler.State(); !st.Off && st.Skipped == 0 {
		return "", fmt.Errorf("no update was skipped: %+v", st)
	}
	return opt.Hash(), nil
}

func TestOneHash(t *testing.T) {
	for _, tier := range []string{"", "portable", "avx2", "avx512"} {
		for _, threads := range []string{"1", "2", "7"} {
			if tier != "" && threads == "2" { // the tiers share the split into threads
				continue
			}
			t.Run(fmt.Sprintf("tier=%s/threads=%s", tier, threads), func(t *testing.T) {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), "WEFT_ONEHASH=1", "GOMAXPROCS="+threads)
				if tier != "" {
					cmd.Env = append(cmd.Env, "WEFT_CPU="+tier)
				}
				out, err := cmd.CombinedOutput()
				got := strings.TrimSpace(string(out))
				if err != nil && strings.Contains(got, "this processor cannot run") {
					t.Skipf("this processor lacks the tier: %.200s", got)
				}
				if err != nil {
					t.Fatalf("%v\n%s", err, got)
				}
				if want := strings.Join([]string{wantMLP, wantGPT, wantBFloat16, wantFloat16}, " "); got != want {
					t.Errorf("on %s/%s the hashes are\n%s, want\n%s", runtime.GOOS, runtime.GOARCH, got, want)
				}
			})
		}
	}
}
