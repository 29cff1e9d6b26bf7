package data

import (
	"context"
	"runtime"
	"time"
)

// Limits of what a tuner chooses.
const (
	tunedAhead  = 1 << 10 // batches
	leastWindow = 8       // batches that a setting is measured for,
	leastTime   = 5 * time.Millisecond
	watched     = 4   // windows as long as that, to see whether the best setting still is as good;
	longer      = 4   // both are up to so many times as long, and this times itself, while nothing better is found
	waits       = .02 // of the loop's time: more are worth another worker
	gain        = .97 // of the time between batches is what a setting with more must have,
	noLoss      = 1.01
	worse       = 1.2 // and of the best setting's time makes the search begin again
)

// mostTuned is how many workers a tuner tries: examples that wait for files or others need more than there are
// processors.
func mostTuned() int { return min(max(32, 4*runtime.GOMAXPROCS(0)), maxWorkers) }

// tuner chooses the number of workers and how far they are ahead, by hill climbing on the time between batches as the
// loop sees it. Each setting is measured from the first batch on that was begun with it.
type tuner struct {
	crew                   *crew
	ready                  func() int // batches that are made
	freeWorkers, freeAhead bool       // which of the two it chooses

	now, best setting
	settled   bool
	tried     int // of moves, from best
	searches  int // that found nothing, since the last one that did
	skip      int // batches that were begun with an earlier setting

	begun      time.Time
	asked, got time.Time // by the loop; zero before the first
	had        int       // batches that had been made when it asked
	window     periods   // of the present setting
	total      periods
}

// setting is what a tuner chooses, and the time between batches that it leads to.
type setting struct {
	workers, ahead int
	period         time.Duration
	waits          bool // the loop, for more than can be neglected
}

// periods are the times of so many batches.
type periods struct {
	batches      int
	wait, period time.Duration // of the loop: for batches, and between them
	ready        int           // batches that had been made when the loop asked
	first, last  int           // of these numbers
}

// lasting is the time between batches when none are left that had been made before.
func (w periods) lasting() time.Duration {
	return w.period / time.Duration(max(w.batches-max(w.first-w.last, 0), 1))
}

// share of the time that the loop waits.
func (w periods) waited() float64 { return float64(w.wait) / float64(max(w.period, 1)) }

// tuner is a tuner for these numbers, with its crew.
func (c config) tuner(ctx context.Context) *tuner {
	bytes := int64(c.budget)
	if bytes == 0 {
		bytes = min(int64(engine.Free())/8, 1<<30)
	}
	t := &tuner{freeWorkers: c.workers == Auto, freeAhead: c.prefetch == Auto && c.workers != 0}
	t.now = setting{workers: c.workers, ahead: c.prefetch}
	mostWorkers, mostAhead := c.workers, c.prefetch
	if t.freeWorkers {
		t.now.workers, mostWorkers = 1, mostTuned()
	}
	if t.freeAhead {
		t.now.ahead, mostAhead = 4*t.now.workers, max(tunedAhead, 4*mostWorkers)
	}
	t.settled, t.begun = !t.freeWorkers && !t.freeAhead, time.Now()
	t.crew = newCrew(ctx, t.now.workers, t.now.ahead, mostAhead, bytes)
	return t
}

// moves are the settings that are tried from the best one, in order, until one is better: more if the loop waits, fewer
// workers if it does not.
var moves = []struct {
	workers, ahead float64
	more           bool
}{{2, 1, true}, {1.5, 1, true}, {1, 2, true}, {.5, 1, false}, {.75, 1, false}}

// move is the next setting to try, or the best one if ok is false.
func (t *tuner) move() (s setting, ok bool) {
	for ; t.tried < len(moves); t.tried++ {
		m := moves[t.tried]
		s = t.best
		s.workers = int(float64(s.workers) * m.workers)
		if t.freeAhead {
			s.ahead = min(max(int(float64(s.ahead)*m.workers*m.ahead), s.workers), tunedAhead)
		}
		s.workers = min(max(s.workers, 1), mostTuned())
		allowed := t.best.waits == m.more && (t.freeWorkers || m.workers == 1)
		if allowed && (s.workers != t.best.workers || s.ahead != t.best.ahead && m.ahead != 1) {
			t.tried++
			return s, true
		}
	}
	return t.best, false
}

// use goes on with a setting.
func (t *tuner) use(s setting) {
	t.now = s
	t.skip = t.crew.unfinished()
	t.crew.resize(s.workers, s.ahead)
	t.window = periods{}
}

// asks notes that the loop asks for a batch.
func (t *tuner) asks() {
	t.asked = time.Now()
	t.had = t.ready()
}

// gets notes that the loop has what it asked for, so many bytes.
func (t *tuner) gets(bytes int64) {
	t.crew.memory.change(-bytes, 0, 0)
	now := time.Now()
	if !t.got.IsZero() {
		step := periods{1, now.Sub(t.asked), now.Sub(t.got), t.had, t.had, t.had}
		t.total.add(step)
		if t.skip > 0 {
			t.skip--
		} else {
			t.window.add(step)
		}
	}
	t.got = now
	if !t.freeWorkers && !t.freeAhead {
		return
	}
	batches := min(1<<t.searches, longer) * leastWindow
	if t.settled {
		batches = min(1<<t.searches, longer*longer) * leastWindow * watched
	}
	batches = (batches + t.now.workers - 1) / t.now.workers * t.now.workers // workers may end together
	if t.window.batches >= batches && t.window.period >= leastTime {
		t.measured()
	}
}

func (w *periods) add(step periods) {
	if w.batches == 0 {
		w.first = step.first
	}
	w.last = step.last
	w.ready += step.ready
	w.batches += step.batches
	w.wait += step.wait
	w.period += step.period
}

// measured goes on with another setting, or with the present one, when a window is over.
func (t *tuner) measured() {
	w := t.window
	t.window = periods{}
	t.now.period, t.now.waits = w.lasting(), w.waited() > waits
	ratio := float64(t.now.period) / float64(max(t.best.period, 1))
	if t.settled && ratio < worse && ratio > 1/worse && !t.now.waits {
		return
	}
	if more := t.now.workers > t.best.workers || t.now.ahead > t.best.ahead; t.settled || t.best.period == 0 ||
		ratio <= gain || ratio <= noLoss && !more {
		if !t.settled && (ratio <= gain || ratio > worse) {
			t.searches = 0
		}
		t.best, t.tried = t.now, 0 // where it was settled, the search begins here
	}
	next, ok := t.move()
	if t.settled = !ok; !ok {
		t.searches = min(t.searches+1, longer)
	}
	if ok || t.now.workers != next.workers || t.now.ahead != next.ahead {
		t.use(next)
	}
}
