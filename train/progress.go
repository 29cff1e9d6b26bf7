package train

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// progress is the line "step 120/2000  loss 2.3456  51230 tokens/s  1m10s left". On a terminal it is
// one line that is written over; elsewhere it is a new line every two seconds.
type progress struct {
	total int    // expected steps
	unit  string // what a step consumes: "examples", "tokens"
	at    int    // steps done
	first int    // those that a resumed run had done before

	out              io.Writer
	tty              bool
	now              func() time.Time
	started, printed time.Time
	width            int // of the line that is on the terminal now

	items       int
	sum, weight float64 // smoothed loss is sum/weight
}

// smoothing is the weight of the past in the smoothed loss.
const smoothing = 0.95

// start begins the measurement of time.
func (p *progress) start(out *output, now func() time.Time) {
	p.out, p.now, p.unit, p.started = out, now, "steps", now()
	if f, ok := out.Writer.(*os.File); ok {
		info, err := f.Stat()
		p.tty = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
}

// Expect says how many steps there will be and what each consumes, "examples" or "tokens"; time is
// measured from here.
func (p *progress) Expect(steps int, unit string) {
	p.total, p.unit, p.started = steps, unit, p.now()
}

// step counts a step and tells whether the line is due: at the first and the last step, and every so often.
func (p *progress) step(loss float64, items int) bool {
	p.at++
	p.items += items
	if math.IsNaN(p.sum) || math.IsInf(p.sum, 0) {
		p.sum, p.weight = 0, 0 // a loss that was not finite would stay for ever
	}
	p.sum = smoothing*p.sum + (1-smoothing)*loss
	p.weight = smoothing*p.weight + (1 - smoothing)
	every := 2 * time.Second
	if p.tty {
		every = 100 * time.Millisecond
	}
	now := p.now()
	due := p.at == p.first+1 || p.at == p.total || now.Sub(p.printed) >= every
	if due {
		p.printed = now
	}
	return due
}

// print writes the line, with more values at its end.
func (p *progress) print(more map[string]float64) {
	line := fmt.Sprintf("step %d", p.at)
	if p.total > 0 {
		line += fmt.Sprintf("/%d", p.total)
	}
	line += fmt.Sprintf("  loss %.4f  %.0f %s/s", p.smooth(), p.rate(), p.unit)
	for _, name := range slices.Sorted(maps.Keys(more)) {
		line += fmt.Sprintf("  %s %.4g", strings.ReplaceAll(name, "_", " "), more[name])
	}
	if left := p.total - p.at; left > 0 {
		d := time.Duration(p.seconds() / float64(p.at-p.first) * float64(left) * float64(time.Second))
		line += fmt.Sprintf("  %v left", d.Round(time.Second))
	}
	if !p.tty {
		fmt.Fprintln(p.out, line)
		return
	}
	fmt.Fprintf(p.out, "\r%-*s", p.width, line) // spaces cover what is left of a longer line
	p.width = len(line)
}

// clear removes the line from a terminal.
func (p *progress) clear() {
	if p.width > 0 {
		fmt.Fprintf(p.out, "\r%*s\r", p.width, "")
		p.width = 0
	}
}

// smooth is the exponentially weighted mean of the losses, free of a bias towards the first sum of 0.
func (p *progress) smooth() float64 { return p.sum / p.weight }

// seconds is the time since training began.
func (p *progress) seconds() float64 { return p.now().Sub(p.started).Seconds() }

// rate is the number of examples or tokens a second.
func (p *progress) rate() float64 { return float64(p.items) / max(p.seconds(), 1e-9) }

// jsonLine is the fields and the event's name as a JSON object. A float that JSON cannot represent becomes a
// string: "NaN", "+Inf"; so does a value that has such a float in it.
func jsonLine(name string, fields map[string]any) string {
	line := map[string]any{"event": name}
	for k, v := range fields {
		var odd *json.UnsupportedValueError
		if _, err := json.Marshal(v); errors.As(err, &odd) {
			v = fmt.Sprint(v)
		}
		line[k] = v
	}
	text, err := json.Marshal(line)
	if err != nil {
		return jsonLine("error", map[string]any{"message": err.Error()})
	}
	return string(text)
}
