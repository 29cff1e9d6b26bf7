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
	wantGPT = "c3503d2ca585dcd3e8f41059af4a25365a0661f280349e032fe6cf505b60183d"

	// The GPT under autocast.
	wantBFloat16 = "a85acedad8f541a938d6b1c92b5c7141533cf0160d9ee71ff563a10188d1fb6c"
	wantFloat16  = "9b01dc31b58a161ee5b0285b44b52638fc949365a00afb55c9e29312fc849ffe"
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
