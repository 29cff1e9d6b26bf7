package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/weft-ml/weft/data"
)

// BenchmarkDataHandOver is what three stages that do nothing cost an example, in batches of 128: made by the loop
// itself (0 workers), and ahead of it.
func BenchmarkDataHandOver(b *testing.B) {
	for _, workers := range []int{0, 1, 2} {
		for _, size := range []int{1, 128} {
			b.Run(fmt.Sprintf("workers=%d/batch=%d", workers, size), func(b *testing.B) {
				same := func(_ data.Sample, x int) (int, error) { return x, nil }
				p := data.Map(data.Map(data.From(make(data.Slice[int], 1<<16)), same), same)
				batches := data.Batches(p, size, func(x []int) (int, error) { return len(x), nil },
					data.Epochs(data.Forever), data.Workers(workers), data.Prefetch(8))
				it, err := batches.Start(context.Background(), nil)
				must(err)
				defer it.Close()
				n := 0
				for _, err := range it.All() {
					must(err)
					if n++; n == b.N {
						break
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*size), "ns/example")
			})
		}
	}
}
