package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
)

// A machine is a GPU as the prediction sees it.
type machine struct {
	sms       int     // multiprocessors
	clock     float64 // Hz
	bandwidth float64 // bytes per second of a large copy, read and written
	latency   float64 // clocks from a load of global memory to its result, while the memory is busy

	// Multiply-adds a clock of one of the four parts of a multiprocessor: of float32, of halves on tensor cores, and of
	// these what mma.sync reaches, or wgmma where there is that.
	float32s, halves, reached float64
}

var machines = map[string]*machine{
	"sm_80":  {108, 1.41e9, 1.75e12, 600, 16, 256, 256},       // A100
	"sm_90":  {132, 1.98e9, 4.3e12, 600, 32, 512, 0.63 * 512}, // H200
	"sm_90a": {132, 1.98e9, 4.3e12, 600, 32, 512, 512},
}

const (
	issued         = 0.75   // of the instructions that schedulers could issue, one each clock, those that they do
	betweenKernels = 0.7e-6 // seconds from the end of a kernel to the start of the next one
)

// share predicts the share of a copy's bandwidth at which warps of a multiprocessor follow a path. Three things take
// time:
//
//	memory   warps * bytes / (bandwidth / (multiprocessors * clock))
//	issue    warps * instructions / (schedulers * issued)
//	latency  waits * latency + instructions
//
// with the bytes of a warp, and the instructions and waits of a thread. What comes from a cache counts as memory's.
func (m *machine) share(p *path, warps int) float64 {
	if p == nil || warps == 0 {
		return 0
	}
	memory := float64(warps*warpSize*(p.loaded+p.stored)) * float64(m.sms) * m.clock / m.bandwidth
	issue := float64(warps*p.instructions) / (schedulers * issued)
	latency := p.waits*m.latency + float64(p.instructions)
	return memory / fourth(memory, issue, latency)
}

// peak predicts the share of the peak of multiply-adds at which a warp does a turn of its loops. Three units take time:
// those that do the multiply-adds, that which does MUFU, for 4 threads a clock, and the scheduler. Shared memory and
// waits do not: tiles are requested a turn ahead, and the emulator counts bank conflicts.
func (m *machine) peak(turn []*sassOp) float64 {
	var float32s, halves, special float64
	for _, o := range turn {
		switch n := float64(products(o)); {
		case o.is("FFMA"):
			float32s += n
		case n > 0:
			halves += n
		case o.is("MUFU"):
			special += warpSize / 4
		}
	}
	best, adds := float32s/m.float32s, float32s/m.float32s
	if halves > 0 { // others are no part of the products
		best, adds = halves/m.halves, halves/m.reached
	}
	if best == 0 {
		return 0
	}
	return best / fourth(adds, special, float64(len(turn))/issued)
}

// fourth is the time that several take which go on at once: the longest decides, and one that is almost as long costs
// some more.
func fourth(times ...float64) float64 {
	sum := 0.0
	for _, t := range times {
		sum += t * t * t * t
	}
	return math.Sqrt(math.Sqrt(sum))
}

// A prediction is a line of predictions.txt: what is expected of an operation, by the kernel that does its work.
type prediction struct {
	kernel string
	what   string             // the operation
	expect float64            // the share on sm_90, which gpucheck shows beside what it measures; 0 is none
	bytes  int                // the path moves this many at most; 0 is any number
	least  map[string]float64 // share of a copy's bandwidth, by target
	ofPeak bool               // it is one of the peak of multiply-adds instead

	// Of an operation that does not fill a GPU, or that is several kernels:
	blocks, launches int
	moved            float64     // bytes
	most             float64     // microseconds on sm_90, from the start of the operation
	before           *prediction // the line before, if it is of the same operation: its time comes first

	// What was found, by target; of the time that of this line alone.
	share, time map[string]float64
}

func (p *project) readPredictions() ([]*prediction, error) {
	text, err := os.ReadFile(filepath.Join(p.images(), "predictions.txt"))
	if err != nil {
		return nil, err
	}
	return parsePredictions(string(text))
}

// parsePredictions reads lines such as
//
//	norm_bf16 bytes=160 sm_90=0.88 sm_80=0.85 : layer norm, bfloat16, rows of 1024
//
// With sm_90.peak=0.6 the share is one of the peak of multiply-adds. Behind another " : " are lines of gpucheck that
// have the share expect=0.97 as their prediction; it is what is found. Lines with the same operation one below the
// other add up. A # begins a comment.
func parsePredictions(text string) ([]*prediction, error) {
	var all []*prediction
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		head, what, _ := strings.Cut(line, " : ")
		what, _, _ = strings.Cut(what, " : ")
		fields := strings.Fields(head)
		if len(fields) == 0 {
			continue
		}
		e := &prediction{kernel: fields[0], what: strings.TrimSpace(what), least: map[string]float64{},
			share: map[string]float64{}, time: map[string]float64{}}
		for _, field := range fields[1:] {
			key, value, _ := strings.Cut(field, "=")
			n, err := strconv.ParseFloat(value, 64)
			if err != nil || !e.set(key, n) {
				return nil, fmt.Errorf("predictions.txt: %s: %s", e.kernel, field)
			}
		}
		if n := len(all); n > 0 && all[n-1].what == e.what && all[n-1].moved > 0 {
			e.before = all[n-1]
		}
		all = append(all, e)
	}
	return all, nil
}

func (e *prediction) set(key string, n float64) bool {
	switch key {
	case "expect":
		e.expect = n
	case "bytes":
		e.bytes = int(n)
	case "blocks":
		e.blocks = int(n)
	case "launches":
		e.launches = int(n)
	case "moved":
		e.moved = n
	case "us":
		e.most = n
	default:
		key, e.ofPeak = strings.CutSuffix(key, ".peak")
		if machines[key] == nil {
			return false
		}
		e.least[key] = n
	}
	return true
}

// predict fills in what is found of a line, whose kernel r is, and holds it against the limits.
func (g *gates) predict(e *prediction, r *row, ops []sassOp) {
	m, p := machines[r.target], r.path
	if e.ofPeak {
		e.share[r.target] = m.peak(productPath(ops))
		g.promised(e, r.target, "the peak of multiply-adds")
		return
	}
	if e.bytes > 0 {
		p = fullPath(ops, e.bytes)
	}
	warps := r.warps(r.target)
	if e.blocks > 0 {
		filled := int(math.Ceil(float64(e.blocks) / float64(m.sms)))
		warps = min(r.blocks, filled) * ((r.threads + warpSize - 1) / warpSize)
	}
	share := m.share(p, warps)
	if e.blocks > 0 && e.blocks < m.sms {
		share *= float64(e.blocks) / float64(m.sms)
	}
	e.share[r.target] = share
	g.promised(e, r.target, "a copy's bandwidth")
	if r.target == "sm_90" && e.expect > 0 && math.Abs(share-e.expect) > 0.01 {
		g.fail("share", e.kernel, r.target, "%s: %.2f of a copy's bandwidth is predicted, predictions.txt expects %.2f",
			e.what, share, e.expect)
	}
	if e.moved == 0 {
		return
	}
	e.time[r.target] = 1e6 * (e.moved/(share*m.bandwidth) + float64(e.launches)*betweenKernels)
}

// promised: the share of a line on a target, of what.
func (g *gates) promised(e *prediction, target, of string) {
	if e.share[target] < e.least[target] {
		g.fail("share", e.kernel, target, "%s: %.2f of %s is predicted, limit %.2f", e.what, e.share[target], of,
			e.least[target])
	}
}

// end is when the kernels of a line are done, in microseconds from the start of the operation on a target; not if some
// were not looked at.
func (e *prediction) end(target string) (time float64, ok bool) {
	for ; e != nil; e = e.before {
		one, found := e.time[target]
		if !found {
			return 0, false
		}
		time += one
	}
	return time, true
}

// inTime holds operations against their limits, when all kernels have been looked at.
func (g *gates) inTime(all []*prediction) {
	for _, e := range all {
		if time, ok := e.end("sm_90"); ok && e.most > 0 && time > e.most {
			g.fail("share", e.kernel, "sm_90", "%s: %.1f us are predicted, limit %.1f", e.what, time, e.most)
		}
	}
}

// printPredictions prints what was found of those lines whose kernels were looked at.
func printPredictions(w io.Writer, all []*prediction) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "operation\tkernel\tH200\tlimit\tA100\tlimit\tH200 us\tlimit\t")
	cell := func(n float64, found bool) string {
		if !found {
			return "-"
		}
		return strconv.FormatFloat(n, 'f', 2, 64)
	}
	for _, e := range all {
		if len(e.share) == 0 {
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t", e.what, e.kernel)
		for _, target := range []string{"sm_90", "sm_80"} {
			if _, special := e.share[target+"a"]; special {
				target += "a"
			}
			share, found := e.share[target]
			limit, limited := e.least[target]
			fmt.Fprintf(t, "%s\t%s\t", cell(share, found), cell(limit, limited))
		}
		time, timed := e.end("sm_90")
		fmt.Fprintf(t, "%s\t%s\t\n", cell(time, timed), cell(e.most, e.most > 0))
	}
	t.Flush()
}
