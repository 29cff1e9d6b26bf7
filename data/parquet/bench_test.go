package parquet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	pq "github.com/parquet-go/parquet-go"

	"github.com/weft-ml/weft/data"
)

// measurement is a row of the files of BenchmarkDataParquet.
type measurement struct {
	Name   string    `parquet:"name,dict"`
	Label  int64     `parquet:"label"`
	A      float64   `parquet:"a"`
	B      float32   `parquet:"b"`
	Values []float32 `parquet:"values,list"`
}

// BenchmarkDataParquet reads rows in order, in any order, and in blocks of [data.ShuffleBlocks], beside the reader of
// parquet-go into the same struct, in turn: the ratio of the least times.
func BenchmarkDataParquet(b *testing.B) {
	const n = 50_000
	var all []measurement
	for i := range n {
		all = append(all, measurement{fmt.Sprintf("row %d", i%100), int64(i), float64(i) / 3, float32(i),
			make([]float32, 8)})
	}
	path := table(b, all, pq.MaxRowsPerRowGroup(10_000), pq.Compression(&pq.Snappy))
	rows, err := Open[measurement](path)
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	alone := func() {
		got, err := pq.ReadFile[measurement](path)
		if err != nil || len(got) != n {
			b.Fatal(err)
		}
	}
	at := func(order func(i int) int, n int) func() {
		return func() {
			fresh, err := Open[measurement](path)
			if err != nil {
				b.Fatal(err)
			}
			defer fresh.Close()
			for i := range n {
				if _, err := fresh.At(order(i)); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	numbers := make(data.Slice[int], n)
	for i := range numbers {
		numbers[i] = i
	}
	shuffled := data.ShuffleBlocks(data.From(numbers), rows.RowGroup(), 1, 42)
	batches := data.Batches(shuffled, n, func(x []int) ([]int, error) { return slices.Clone(x), nil })
	it, err := batches.Start(context.Background(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer it.Close()
	var order []int
	for order, err = range it.All() {
		if err != nil {
			b.Fatal(err)
		}
	}
	least := func(f func(), best time.Duration) time.Duration {
		began := time.Now()
		f()
		return min(best, time.Since(began))
	}
	for _, c := range []struct {
		name string
		n    int
		run  func()
	}{
		{"order", n, at(func(i int) int { return i }, n)},
		{"blocks", n, at(func(i int) int { return order[i] }, n)},
		{"random", n, at(func(int) int { return rand.IntN(n) }, n)},
	} {
		b.Run(c.name, func(b *testing.B) {
			reader, ours := time.Hour, time.Hour
			for range b.N + 4 {
				reader, ours = least(alone, reader), least(c.run, ours)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(ours.Nanoseconds())/float64(c.n), "ns/row")
			b.ReportMetric(float64(reader)/float64(ours)*float64(c.n)/n, "of-decoder")
		})
	}
}
