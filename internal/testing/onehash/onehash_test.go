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
	wantMLP = "952e5002d34e7328a53095d135cbbb2953a9c9dd188a93559ea8783cfe10dbbf"
	wantGPT = "94078b10470ce99e09b709de45b283c11477b6eeb4bb319b75dc52343064ff17"

	// The GPT under autocast.
	wantBFloat16 = "9bf272d6a3c38069c78c5938b4e73686d0873e1d9476f7322b618940deb86fae"
	wantFloat16  = "60e362594751e7b1ed896b8e2f7f5ded4b2256b941d98072a908aa9209a82f82"
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
