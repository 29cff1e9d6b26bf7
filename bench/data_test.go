package bench

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

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

// measurement is a row of the files of BenchmarkDataRows.
type measurement struct {
	Name   string
	Values []float64 `csv:"v0..v7"`
}

// BenchmarkDataRows reads the rows of CSV and JSONL files in order through [data.Rows], beside the decoder alone over
// the whole file with the same values at the end, in turn: the ratio of the least times.
func BenchmarkDataRows(b *testing.B) {
	const n = 20_000
	var table, lines strings.Builder
	table.WriteString("name,v0,v1,v2,v3,v4,v5,v6,v7\n")
	for i := range n {
		m := measurement{fmt.Sprintf("row %d", i), make([]float64, 8)}
		table.WriteString(m.Name)
		for k := range m.Values {
			m.Values[k] = float64(i*k) / 7
			fmt.Fprintf(&table, ",%v", m.Values[k])
		}
		table.WriteString("\n")
		text, err := json.Marshal(m)
		must(err)
		fmt.Fprintf(&lines, "%s\n", text)
	}
	dir := b.TempDir()
	path := func(name, text string) string {
		name = filepath.Join(dir, name)
		must(os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	tables, err := data.OpenCSV[measurement](path("x.csv", table.String()))
	must(err)
	defer tables.Close()
	objects, err := data.OpenJSONL[measurement](path("x.jsonl", lines.String()))
	must(err)
	defer objects.Close()
	for _, c := range []struct {
		name  string
		rows  *data.Rows[measurement]
		alone func()
	}{{"csv", tables, func() { decodeCSV(filepath.Join(dir, "x.csv")) }},
		{"jsonl", objects, func() { decodeJSONL(filepath.Join(dir, "x.jsonl")) }}} {
		b.Run(c.name, func(b *testing.B) {
			alone, rows := time.Hour, time.Hour
			for range b.N + 4 {
				alone = min(alone, timed(c.alone)())
				rows = min(rows, timed(func() {
					for i := range n {
						_, err := c.rows.At(i)
						must(err)
					}
				})())
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(rows.Nanoseconds())/n, "ns/row")
			b.ReportMetric(float64(alone)/float64(rows), "of-decoder")
		})
	}
}

func decodeCSV(path string) {
	file, err := os.Open(path)
	must(err)
	defer file.Close()
	r := csv.NewReader(file)
	r.ReuseRecord = true
	_, err = r.Read()
	must(err)
	for {
		record, err := r.Read()
		if err != nil {
			return
		}
		m := measurement{record[0], make([]float64, 8)}
		for i := range m.Values {
			m.Values[i], err = strconv.ParseFloat(record[i+1], 64)
			must(err)
		}
	}
}

func decodeJSONL(path string) {
	file, err := os.Open(path)
	must(err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var m measurement
		must(json.Unmarshal(lines.Bytes(), &m))
	}
}
