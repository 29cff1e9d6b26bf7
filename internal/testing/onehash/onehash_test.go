package onehash

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// The hashes that every platform must reach. A change of them is a change of the library's arithmetic: it
// needs an entry in the changelog.
const (
	wantMLP = "c448e7dcdb70d1b1b89d3ee49bc877df65dc8d4af8d86b73325cd2cd8f7c4376"
	wantGPT = "71dcc9931bb241dd3493f8398724e43c40627d46043e4176ac762e5be136c14b"

	// The GPT under autocast.
	wantBFloat16 = "5e4970c5b8d2c4a0135cc60eeef7b27a2f0d56a6a4632545f665d8ef92557a31"
	wantFloat16  = "1ea54a3b57d341f4e92228e45fc061ff1f9577103010f84955e631bfb684c07b"
)

const (
	steps     = 200
	halfSteps = 40
)

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

// A maker makes a training on a device.
type maker func(dev *tensor.Device) (*Training, error)

func mlp(dev *tensor.Device) (*Training, error) { return MLP(dev) }

func gpt(dt tensor.DType, steps int) maker {
	return func(dev *tensor.Device) (*Training, error) { return GPT(dev, dt, steps) }
}

func hashes() (all []string, err error) {
	for _, c := range []struct {
		begin maker
		steps int
	}{
		{mlp, steps}, {gpt(tensor.Float32, steps), steps},
		{gpt(tensor.BFloat16, halfSteps), halfSteps}, {gpt(tensor.Float16, halfSteps), halfSteps},
	} {
		h, err := hash("cpu", c.begin, c.steps)
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
}

// hash is that of a training on a device after n steps.
func hash(device string, begin maker, n int) (string, error) {
	dev, err := Open(device)
	if err != nil {
		return "", err
	}
	defer dev.Close()
	t, err := begin(dev)
	if err != nil {
		return "", err
	}
	return t.Hash(n)
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
