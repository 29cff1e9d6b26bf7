//go:build cuda && emu && cgo && linux

package cuda

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/weft-ml/weft/internal/testing/emu"
)

var schedules = flag.Int("schedules", 0, "under how many schedules TestSchedules runs kernels")

// With WEFT_EMU_SCHEDULES, the seed of all, the emulator runs each launch of the tests of kernels in an order of its
// own.
func init() {
	variable := os.Getenv("WEFT_EMU_SCHEDULES")
	if variable == "" {
		return
	}
	var seed uint64
	if _, err := fmt.Sscan(variable, &seed); err != nil {
		panic(fmt.Sprintf("WEFT_EMU_SCHEDULES=%s is no number", variable))
	}
	r := rand.New(rand.NewPCG(seed, 5))
	var driver *emu.Driver
	reschedule = func() {
		var err error
		if driver == nil {
			driver, err = emu.Load(os.Getenv("WEFT_CUDA_DRIVER"))
		}
		for name, values := range map[string][]string{
			"order": {"random", "skewed", "lifo", "fifo"}, "copies": {"early", "late", "random"},
			"streams": {"early", "late", "random"}, "seed": {fmt.Sprint(r.Uint32())},
		} {
			if err == nil {
				err = driver.Set(name, values[r.IntN(len(values))])
			}
		}
		if err != nil {
			panic(err)
		}
		scheduled++
	}
}

// scheduled counts the launches under orders of their own.
var scheduled int

// TestSchedules repeats the tests of kernels, with other operands each time, until -schedules launches have run, each
// under its own schedule: in the checked build no report may come, and no bit may change.
func TestSchedules(t *testing.T) {
	if *schedules == 0 {
		t.Skip("slow: -schedules 10000 with WEFT_EMU_SCHEDULES=1 and the checked build")
	}
	if os.Getenv("WEFT_EMU_SCHEDULES") == "" {
		t.Fatal("-schedules needs WEFT_EMU_SCHEDULES, a seed")
	}
	defer func() { round = 0 }()
	tests := []struct {
		kernels string
		run     func(t *testing.T)
	}{
		{"attention.cu", TestAttention}, {"attention_flash.cu", TestFlash},
		{"matmul_f32.cu", TestMatMul}, {"matmul_f32.cu, large", TestMatMulLarge},
		{"matmul_f32.cu, medium", TestMatMulMedium}, {"matmul_f32.cu, linear", TestLinear},
		{"matmul_half.cu", TestMatMulHalf}, {"norm.cu", TestNorms}, {"norm.cu, residual sums", TestAddNormBits},
		{"norm.cu, long rows", TestLongNorms}, {"row.cuh, long rows", TestLongRows}, {"softmax.cu", TestSoftmax},
		{"cross_entropy.cu, long rows", TestLongCrossEntropy}, {"scan.cu", TestCumSum},
		{"reduce.cu", TestReductions}, {"reduce.cu, sums", TestSums},
		{"reduce_row.cu and softmax.cu, statistics", TestStatistics},
		{"reduce_row.cu, argmax", TestArgExtremes}, {"cross_entropy.cu", TestCrossEntropy},
		{"index.cu", TestIndexed}, {"index.cu, wide", TestEmbedding}, {"index_error.cuh", TestIndexOutside},
		{"copy.cu", TestCopies}, {"copy.cu, pad of every axis", TestPadEveryAxis}, {"copy.cu, wide", TestCopyWide},
		{"copy.cu, transposed", TestTranspose}, {"copies.cu", TestCopiesTogether},
	}
	counts := make([]int, len(tests))
	for ; scheduled < *schedules; round++ {
		for i, test := range tests {
			before := scheduled
			if !t.Run(fmt.Sprint(test.kernels, " ", round), test.run) {
				return
			}
			counts[i] += scheduled - before
		}
	}
	for i, test := range tests {
		t.Logf("%6d launches: %s", counts[i], test.kernels)
	}
	t.Logf("%6d launches, each under its own schedule", scheduled)
}
