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
	wantMLP = "313cbec1e3d6637cb2c04e1e1a8f1f0c7da73b1def99bf90a1cc2863f7d749d4"
	wantGPT = "313afb2e1939cc3c18dccfff8f56219bdb6637945b3b9f105b102f172b5c1a6c"

	// The GPT under autocast.
	wantBFloat16 = "e771a466bf237bb9cc7c8f16abbb845f1ae8c161af3fc424785c6f07b43b4182"
	wantFloat16  = "81777eba514a0abd29a9a7875d79556d0aa66a7fbe90724797970492cb82a156"
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

// TestMLP is the least of TestOneHash, in this process: what an emulator of a processor has time for.
func TestMLP(t *testing.T) {
	got, err := hash("cpu", mlp, steps)
	if err != nil || got != wantMLP {
		t.Errorf("on %s/%s the hash is %s, %v, want %s", runtime.GOOS, runtime.GOARCH, got, err, wantMLP)
	}
}

func TestOneHash(t *testing.T) {
	for _, tier := range []string{"", "portable", "neon", "avx2", "avx512"} {
		for _, threads := range []string{"1", "2", "7"} {
			if tier != "" && threads != "7" { // the tiers share the split into threads
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
