package data

import (
	"fmt"
	"strings"
	"time"
)

// Report tells how an iteration has gone so far, what limits it, and what was chosen.
type Report struct {
	Batches  int           // that the loop has had
	Time     time.Duration // from the first one to the last
	Waited   time.Duration // of it, by the loop, for batches
	Workers  int           // now
	Prefetch int           // now
	Settled  bool          // Auto looks for nothing better at the moment
	Ready    float64       // batches that were made when the loop asked for one, in the mean
	Bytes    int64         // of examples and batches that were made and not delivered: now,
	Most     int64         // at the most,
	Budget   int64         // and those allowed
	Stages   []StageReport // in the order of the description
	Padding  float64       // share of the tokens of batches of variable length
	Limit    string        // the stage that takes the most time if the loop waits, else "the loop"
}

// StageReport is the part of a [Report] that is about a stage with a function: a source, [Map], [Filter], [Batches].
type StageReport struct {
	Name    string
	Example time.Duration // that its function takes for one, in the mean of those that were timed
	Workers float64       // that were busy with it, in the mean
}

// Report tells how the iteration has gone.
func (it *Iterator[B]) Report() Report {
	it.given("report")
	r := it.tuner.report()
	r.Padding = it.crew.padding.share()
	seen := map[*stage]bool{}
	examples := r.examples
	var most time.Duration
	for _, s := range it.of.stage.all() {
		t := it.crew.times.get(s)
		if seen[s] || t.examples == 0 {
			continue
		}
		seen[s] = true
		one := StageReport{Name: s.name, Example: t.time / time.Duration(t.examples)}
		one.Workers = float64(one.Example) * float64(examples) / float64(max(it.tuner.got.Sub(it.tuner.begun), 1))
		r.Stages = append(r.Stages, one)
		if float64(r.Waited) > waits*float64(r.Time) && one.Example >= most {
			r.Limit, most = s.name, one.Example
		}
	}
	return r.Report
}

// report is what the tuner knows of a report, and how many examples were made.
func (t *tuner) report() (r struct {
	Report
	examples int64
}) {
	r.Report = Report{Time: t.total.period, Waited: t.total.wait, Workers: t.now.workers, Prefetch: t.crew.ahead,
		Settled: t.settled, Limit: "the loop"}
	if !t.got.IsZero() {
		r.Batches = t.total.batches + 1
		r.Ready = float64(t.total.ready) / float64(r.Batches)
	}
	m := &t.crew.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Bytes, r.Most, r.Budget, r.examples = m.used, m.most, m.limit, m.examples
	return r
}

// all is s and the stages that it reads, those that are read first.
func (s *stage) all() (out []*stage) {
	for _, f := range s.from {
		out = append(out, f.all()...)
	}
	return append(out, s)
}

// String is the report in lines.
func (r Report) String() string {
	var s strings.Builder
	share := func(part, whole float64) float64 { return 100 * part / max(whole, 1) }
	fmt.Fprintf(&s, "%d batches in %v, waited %v (%.1f %%): %s limits\n", r.Batches, r.Time, r.Waited,
		share(float64(r.Waited), float64(r.Time)), r.Limit)
	if r.Padding > 0 {
		fmt.Fprintf(&s, "%.1f %% of the tokens are padding\n", 100*r.Padding)
	}
	fmt.Fprintf(&s, "%d workers, prefetch %d, %.1f batches ready; %d bytes in flight, at most %d of %d\n", r.Workers,
		r.Prefetch, r.Ready, r.Bytes, r.Most, r.Budget)
	for _, stage := range r.Stages {
		fmt.Fprintf(&s, "%12v an example, %5.2f workers  %s\n", stage.Example, stage.Workers, stage.Name)
	}
	return s.String()
}
