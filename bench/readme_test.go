package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var remake = flag.Bool("update", false, "make the README's table of speed anew, from "+published)

// published is the run of all lines that the README shows.
const published = "results/2026-11-30-emerald-rapids.jsonl"

// A summary is a row of the README's table: a line, or the geometric mean of those that match.
type summary struct{ what, lines string }

// elementwise are the operations on many numbers at once.
const elementwise = `^(gelu|gelu_tanh|exp|softmax|layer_norm|cross_entropy|adamw|add)( forward| backward)?/n=`

var summaries = []summary{
	{"an MLP on Fashion-MNIST, an epoch", `^fashion epoch$`},
	{"a GPT on characters, a step", `^chargpt step$`},
	{"a CNN on Fashion-MNIST, a step", `^cnn_fashion step$`},
	{"ResNet-18 on 32x32 pixels, a step", `^resnet18 step$`},
	{"an LSTM of two layers, a step", `^lstm `},
	{"matrix products, 512 to 2048", `^sgemm/`},
	{"convolutions and their gradients", `^conv `},
	{"attention with masks", `^attention`},
	{"batch norm and max pooling", `^(batch norm|max pool) `},
	{"pointwise and rows, 10^6 numbers", elementwise + `1e\+06$`},
	{"pointwise and rows, 1.6*10^7", elementwise + `1.6e\+07$`},
	{"sorting, topk, einsum", `^(sort|topk|einsum)`},
}

// row is the summary in Markdown, of records of Weft with one and two threads: the time, and how many times as fast as
// PyTorch and JAX that is.
func (s *summary) row(all []*record) string {
	lines := regexp.MustCompile(s.lines)
	cells := [3][2]string{} // times, ratios to PyTorch, ratios to JAX
	count := 0
	for i := range 2 {
		var some []*record
		for _, r := range all {
			if r.Who == "Weft" && r.Threads == i+1 && lines.MatchString(r.Line) {
				some = append(some, r)
			}
		}
		if count = len(some); count == 1 {
			cells[0][i] = fmt.Sprintf("%.3g ms", 1e3*some[0].Best)
		}
		cells[1][i] = ratios(some, func(r *record) float64 { return r.Ratio })
		cells[2][i] = ratios(some, func(r *record) float64 { return r.JAX })
	}
	what := s.what
	if count > 1 {
		what += fmt.Sprintf(" (%d lines)", count)
	}
	row := "| " + what
	for _, pair := range cells {
		row += " | " + strings.Trim(pair[0]+", "+pair[1], ", ")
	}
	return row + " |\n"
}

// ratios is the geometric mean of those that there are, "" for none.
func ratios(all []*record, of func(*record) float64) string {
	sum, n := 0.0, 0
	for _, r := range all {
		if x := of(r); x > 0 {
			sum, n = sum+math.Log(x), n+1
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", math.Exp(sum/float64(n)))
}

// speedTable is the table in Markdown, and what it was measured on.
func speedTable(all []*record) string {
	table := "| one, two threads | Weft | of PyTorch's speed | of compiled JAX's |\n|---|---|---|---|\n"
	for i := range summaries {
		table += summaries[i].row(all)
	}
	r := all[0]
	date, _ := time.Parse(time.RFC3339, r.Date)
	versions := []string{r.Go}
	for _, r := range all {
		if v := r.Version; !strings.HasPrefix(v, "Weft") && v != "gonum" && !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	return table + fmt.Sprintf("\n%s with %s, %d cores, %s, commit %.7s; %s ([all lines](bench/%s)).\n", r.CPU, r.Tier,
		r.Cores, date.Format("2 January 2006"), r.Commit, strings.Join(versions, "; "), published)
}

// The README's table is made of the run that it names.
func TestREADME(t *testing.T) {
	const path, begin, end = "../README.md", "<!-- bench: begin -->\n", "<!-- bench: end -->\n"
	f, err := os.Open(published)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []*record
	for lines := bufio.NewScanner(f); lines.Scan(); {
		r := &record{}
		if err := json.Unmarshal(lines.Bytes(), r); err != nil {
			t.Fatal(err)
		}
		if all = append(all, r); r.Changed || r.Commit != all[0].Commit {
			t.Errorf("%s is of another tree than the first line: %s, changed %v", r.Line, r.Commit, r.Changed)
		}
	}
	readme, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := bytes.Cut(readme, []byte(begin))
	table, after, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		t.Fatalf("the README has no %q and %q", begin, end)
	}
	want := speedTable(all)
	if strings.Contains(want, "|  |  |  |") {
		t.Errorf("a row without lines:\n%s", want)
	}
	if *remake {
		if err := os.WriteFile(path, slices.Concat(before, []byte(begin+want+end), after), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if string(table) != want {
		t.Errorf("the README's table is not that of %s; go test ./bench -run README -update makes it:\n%s", published,
			want)
	}
}
