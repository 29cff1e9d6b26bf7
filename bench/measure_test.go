package bench

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/tensor"
)

var outFile = flag.String("out", "", "append the results to this file, as JSON lines")

func TestMain(m *testing.M) {
	if os.Getenv(serving) != "" {
		serve(os.Stdin, os.Stdout)
		return
	}
	flag.Parse()
	code := m.Run()
	stopProcesses()
	if len(records) > 0 {
		printTable(records)
		if err := save(*outFile, records); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// A call does the work of a line once and returns how long it took, without what it prepares and checks.
type call func() time.Duration

func repeat(c call, warmup, reps int) []float64 {
	for range warmup {
		c()
	}
	s := make([]float64, reps)
	for i := range s {
		s[i] = c().Seconds()
	}
	return s
}

// Each contender has at least minTurns turns; in a turn short calls are repeated for turnTime.
const (
	minTurns = 5
	turnTime = 15 * time.Millisecond
)

// times are the calls of one contender.
type times struct {
	*contender
	seconds []float64
	warmup  int // calls in a turn that do not count: another contender has used the caches since
	reps    int // calls in a turn that count; 0 before the first turn
	err     error
}

func (t *times) turn() {
	if t.err != nil {
		return
	}
	if t.reps == 0 && !t.plan() {
		return
	}
	s, err := t.run(t.warmup, t.reps)
	t.seconds, t.err = append(t.seconds, s...), err
}

// plan fills caches and memory pools and chooses the length of a turn. Short calls run six times, more than peer.py
// needs with --keep-memory; long ones, such as an epoch, warm up themselves.
func (t *times) plan() bool {
	one := time.Duration(math.MaxInt64)
	for i := range 6 {
		begin := time.Now()
		if _, t.err = t.run(0, 1); t.err != nil {
			return false
		}
		took := time.Since(begin)
		if took > 20*turnTime {
			t.reps = 1
			return true
		}
		if i >= 3 {
			one = min(one, took)
		}
	}
	t.reps = int(min(max(turnTime/one, 1), 1000))
	if one < 10*turnTime {
		t.warmup = 1 + t.reps/10
	}
	return true
}

func (t *times) best() float64 { return slices.Min(t.seconds) }

func (t *times) median() float64 {
	s := slices.Sorted(slices.Values(t.seconds))
	return s[len(s)/2]
}

// measure runs one line on a number of threads and reports it to b and to the table.
func measure(b *testing.B, w *workload, threads int) {
	setThreads(threads)
	defer setThreads(0)
	dev := openDevice()
	defer dev.Close()
	var all []*times
	here := func(name string, c call) {
		all = append(all, &times{contender: &contender{name: name, version: "Weft, " + cpu.Tier(),
			run: func(warmup, reps int) ([]float64, error) {
				return repeat(c, warmup, reps), nil
			}}})
	}
	here("Weft", w.weft(dev))
	if w.half != nil {
		here("Weft, bfloat16", w.half(dev, tensor.BFloat16))
		here("Weft, float16", w.half(dev, tensor.Float16))
	}
	for _, c := range w.contenders(threads) {
		all = append(all, &times{contender: c})
	}
	load := loadAverage()
	ceiling := 0.0
	turn := func() {
		for _, t := range all {
			t.turn()
		}
		ceiling = max(ceiling, w.ceiling(threads))
	}
	turns := 0
	for b.Loop() {
		turn()
		turns++
	}
	for ; turns < minTurns; turns++ {
		turn()
	}
	weft := all[0]
	fastest := map[string]float64{} // by the peer's name
	first := len(records)           // Weft's
	for _, t := range all {
		if t.err != nil {
			skip(t.name, t.err)
			continue
		}
		r := w.record(threads, t, load, ceiling)
		if t != weft {
			r.Ratio = r.Best / weft.best()
			if peer, _, _ := strings.Cut(t.name, " "); peer == pyTorch || peer == jaxName {
				if least, ok := fastest[peer]; !ok || r.Ratio < least {
					fastest[peer] = r.Ratio
				}
			}
		}
		records = append(records, r)
	}
	r := records[first]
	b.ReportMetric(1e9*r.Best, "ns/op")
	b.ReportMetric(r.rate(), r.rateUnit())
	if r.Share > 0 {
		b.ReportMetric(r.Share, "of-ceiling")
	}
	r.Ratio, r.JAX = fastest[pyTorch], fastest[jaxName]
	for peer, ratio := range fastest {
		b.ReportMetric(ratio, "x-fastest-"+peer)
	}
	if w.count != nil {
		r.Allocations = w.count(dev)
		b.ReportMetric(r.Allocations, "allocs/op")
	}
}

// setThreads limits this process; 0 is the default.
func setThreads(n int) {
	if n == 0 {
		n = runtime.NumCPU()
	}
	runtime.GOMAXPROCS(n)
}

// peak is the rate of the multiply-add units of several cores at once, in operations a second.
func peak(threads int) float64 {
	rates := make([]float64, threads)
	atOnce(threads, func(i int) { rates[i] = cpu.PeakFLOPS() })
	sum := 0.0
	for _, r := range rates {
		sum += r
	}
	return sum
}

// copyRate is how many bytes a second cores read and write when they copy n float32 from one array to another: the
// better of one long copy, which bypasses the caches, and short ones, which do not.
func copyRate(threads, n int) float64 {
	from, to := copyArray(0, n), copyArray(1, n)
	const passes, short = 4, 1 << 16
	best := math.Inf(1)
	for i := range 6 {
		piece := n
		if i%2 == 1 {
			piece = short
		}
		begin := time.Now()
		atOnce(threads, func(i int) {
			end := (i + 1) * n / threads
			for range passes {
				for lo := i * n / threads; lo < end; lo += piece {
					hi := min(lo+piece, end)
					copy(to[lo:hi], from[lo:hi])
				}
			}
		})
		best = min(best, time.Since(begin).Seconds()/passes)
	}
	return 8 * float64(n) / best
}

var copyArrays [2][]float32

func copyArray(i, n int) []float32 {
	if len(copyArrays[i]) < n {
		copyArrays[i] = make([]float32, n)
		for k := range copyArrays[i] {
			copyArrays[i][k] = 1
		}
	}
	return copyArrays[i][:n]
}

func atOnce(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

// A record is one contender's result at one line.
type record struct {
	Date    string  `json:"date"`
	Commit  string  `json:"commit"`
	Changed bool    `json:"changed"` // the tree differed from the commit
	CPU     string  `json:"cpu"`
	MHz     float64 `json:"mhz,omitempty"`
	Cores   int     `json:"cores"`
	Load    float64 `json:"load"` // average over a minute, before the line
	Go      string  `json:"go"`
	Tier    string  `json:"tier"` // of Weft

	Line    string  `json:"line"`
	Threads int     `json:"threads"`
	Who     string  `json:"who"`
	Version string  `json:"version"`
	Note    string  `json:"note,omitempty"`
	Calls   int     `json:"calls"`
	Best    float64 `json:"best_s"`
	Median  float64 `json:"median_s"`

	Flops       float64 `json:"flops,omitempty"` // of a call
	Bytes       float64 `json:"bytes,omitempty"`
	Ceiling     float64 `json:"ceiling,omitempty"`     // flops or bytes a second
	Share       float64 `json:"share,omitempty"`       // of the ceiling, by the best call
	Ratio       float64 `json:"ratio,omitempty"`       // time over Weft's; for Weft: of the fastest PyTorch
	JAX         float64 `json:"jax_ratio,omitempty"`   // for Weft: the same of the fastest JAX
	Allocations float64 `json:"allocations,omitempty"` // of Go, in a call
	Want        string  `json:"want,omitempty"`
}

var records []*record

// rate is work a second, in the unit of rateUnit.
func (r *record) rate() float64 {
	switch {
	case r.Flops > 0:
		return r.Flops / r.Best / 1e9
	case r.Bytes > 0:
		return r.Bytes / r.Best / 1e9
	}
	return 1 / r.Best
}

func (r *record) rateUnit() string {
	switch {
	case r.Flops > 0:
		return "GFLOP/s"
	case r.Bytes > 0:
		return "GB/s"
	}
	return "ops/s"
}

func (w *workload) record(threads int, t *times, load, ceiling float64) *record {
	r := &record{
		Date: time.Now().UTC().Format(time.RFC3339), CPU: processor("model name"), Cores: runtime.NumCPU(), Load: load,
		Go: runtime.Version(), Tier: cpu.Tier(),
		Line: w.name, Threads: threads, Who: t.name, Version: t.version,
		Calls: len(t.seconds), Best: t.best(), Median: t.median(), Flops: w.flops, Bytes: w.bytes, Ceiling: ceiling,
		Want: w.want,
	}
	if w.note != nil {
		r.Note = w.note()
	}
	r.Commit, r.Changed = commit()
	r.MHz, _ = strconv.ParseFloat(processor("cpu MHz"), 64)
	if t.peak > 0 {
		r.Ceiling = t.peak
	}
	if r.Ceiling > 0 {
		r.Share = max(w.flops, w.bytes) / r.Best / r.Ceiling
	}
	return r
}

// commit is the state of the source tree, where it is in git.
var commit = func() func() (string, bool) {
	type state struct {
		commit  string
		changed bool
	}
	get := sync.OnceValue(func() state {
		head, err := exec.Command("git", "rev-parse", "HEAD").Output()
		if err != nil {
			return state{commit: "unknown"}
		}
		status, _ := exec.Command("git", "status", "--porcelain", "--untracked-files=no").Output()
		return state{strings.TrimSpace(string(head)), len(status) > 0}
	})
	return func() (string, bool) { s := get(); return s.commit, s.changed }
}()

// processor is a field of the first processor in /proc/cpuinfo, "" elsewhere than on Linux.
func processor(field string) string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == field {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func loadAverage() float64 {
	b, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(b), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}

// skipped has the reason why a contender is missing.
var skipped = map[string]error{}

func skip(name string, err error) {
	if skipped[name] == nil {
		skipped[name] = err
	}
}

func save(file string, records []*record) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := json.NewEncoder(f)
	for _, r := range records {
		if err := lines.Encode(r); err != nil {
			return err
		}
	}
	return f.Close()
}

// printTable writes the records for people.
func printTable(records []*record) {
	r := records[0]
	fmt.Printf("\n%s, %d cores, %.0f MHz, %s, tier %s, commit %.12s", r.CPU, r.Cores, r.MHz, r.Go, r.Tier, r.Commit)
	if r.Changed {
		fmt.Print(" with changes")
	}
	fmt.Println()
	for _, name := range slices.Sorted(maps.Keys(skipped)) {
		fmt.Printf("SKIPPED %s: %v\n", name, skipped[name])
	}
	fmt.Printf("\n%-42s %8s %10s %10s %16s %8s %7s\n", "", "calls", "best", "median", "rate", "ceiling", "ratio")
	singles := map[string]*record{}
	last := ""
	for _, r := range records {
		if line := fmt.Sprintf("%s, %d threads", r.Line, r.Threads); line != last {
			last = line
			fmt.Printf("%s", strings.Replace(line, " 1 threads", " 1 thread", 1))
			if r.Want != "" {
				fmt.Printf("  [must reach %s]", r.Want)
			}
			if r.Note != "" {
				fmt.Printf("  (%s)", r.Note)
			}
			fmt.Println()
		}
		who := r.Who
		if r.Who == "Weft" {
			who = r.Version
		}
		fmt.Printf("    %-38s %8d %10s %10s %8.2f %-7s %8s %7s",
			who, r.Calls, duration(r.Best), duration(r.Median), r.rate(), r.rateUnit(),
			ratio("%.3f", r.Share), ratio("%.2fx", r.Ratio))
		if r.JAX > 0 {
			fmt.Printf("  JAX %.2fx", r.JAX)
		}
		if r.Allocations > 0 {
			fmt.Printf("  %g allocations", r.Allocations)
		}
		key := r.Line + r.Who
		if one := singles[key]; one == nil {
			singles[key] = r
		} else if r.Flops > 0 && r.Threads > one.Threads && one.Share > 0 && r.Who == "Weft" {
			fmt.Printf("  %.3f of the peaks' ratio to one thread", r.Share/one.Share)
		}
		fmt.Println()
	}
	fmt.Println("ceiling: share of the multiply-add peak, or of the rate of copying; ratio: best time over Weft's;\n" +
		"beside Weft: of the fastest PyTorch and the fastest JAX, whichever variants those are")
}

func ratio(format string, v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf(format, v)
}

func duration(s float64) string {
	switch {
	case s < 1e-4:
		return fmt.Sprintf("%.3g us", s*1e6)
	case s < 1:
		return fmt.Sprintf("%.4g ms", s*1e3)
	}
	return fmt.Sprintf("%.4g s", s)
}
