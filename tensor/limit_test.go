package tensor_test

import (
	"math"
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/tensor"
)

// Limits are bytes or a fraction of the device's memory, of an option or else of the environment; what makes no sense
// is refused.
func TestMemoryLimits(t *testing.T) {
	total := cpu.Backend{}.Memory()
	limit := func(opts ...tensor.OpenOption) (int, error) {
		dev, err := tensor.Open("cpu", opts...)
		if err != nil {
			return 0, err
		}
		defer dev.Close()
		return dev.Stats().Memory.Limit, nil
	}
	for _, bad := range []tensor.OpenOption{tensor.MemoryLimit(-1), tensor.MemoryLimit(-0.5), tensor.MemoryLimit(1.5),
		tensor.MemoryLimit(math.NaN()), tensor.MemoryLimit(math.Inf(1))} {
		_, err := limit(bad)
		wantError(t, err, tensor.ErrValue, "limit_test.go:", "memory limit")
	}
	_, err := tensor.Open("null", tensor.MemoryLimit(0.5))
	wantError(t, err, tensor.ErrValue, "null")
	defer limit(tensor.MemoryLimit(1 << 40)) // for the tests that follow
	for _, c := range []struct {
		env    string
		option tensor.OpenOption
		want   int
	}{
		{"", tensor.MemoryLimit(1 << 30), 1 << 30}, {"", tensor.MemoryLimit(0.5), int(0.5 * float64(total))},
		{"0.25", nil, int(0.25 * float64(total))}, {"3GiB", nil, 3 << 30}, {"2.5GB", nil, 2_500_000_000},
		{"1000000000", nil, 1e9}, {"cuda:0=0.5, cpu=4GB", nil, 4e9}, {"4GB", tensor.MemoryLimit(1 << 30), 1 << 30},
	} {
		t.Setenv("WEFT_MEMORY_LIMIT", c.env)
		var opts []tensor.OpenOption
		if c.option != nil {
			opts = []tensor.OpenOption{c.option}
		}
		if got, err := limit(opts...); err != nil || got != c.want {
			t.Errorf("%q: %d, %v; want %d", c.env, got, err, c.want)
		}
	}
	for _, bad := range []string{"much", "5 apples", "1.5", "-1GB", "NaN", "Inf", "InfGB", "=", "cpu=", "-0.1"} {
		t.Setenv("WEFT_MEMORY_LIMIT", bad)
		_, err := limit()
		wantError(t, err, tensor.ErrValue)
		if err != nil && !strings.HasPrefix(err.Error(), "limit_test.go:") { // not one of strings.SplitSeq
			t.Errorf("%v, which tells another line than the caller's", err)
		}
	}
}
