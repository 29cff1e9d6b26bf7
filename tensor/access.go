package tensor

import (
	"slices"
	"sync"

	"github.com/weft-ml/weft/internal/caller"
)

// Steps share the values of an arena as transactions share rows of a database: many read them at once, one writes them
// alone. A step takes access when it first uses the values, and gives it back when it ends. Where another step is in
// the way it fails with ErrBusy or, with Wait, queues. Requests are granted in order of arrival, so that nobody
// starves: one that could be granted at once waits behind older ones that it would hold up. It goes ahead of these if
// they wait for it, which would be for ever; and if it would wait for itself without them, too, it fails with ErrBusy.

// Wait makes a step or an evaluation wait for others that use the same parameters or state, where it would fail with
// [ErrBusy]: evaluations wait while an update is written, an update waits for evaluations under way, and steps
// (Device.Step) that use the same parameters run one after the other. They take turns in order of arrival. What would
// wait for ever is an ErrBusy still: a step inside the function of another one that uses the same parameters at odds
// with it, or steps that take two models in opposite order. On processors other than amd64 and arm64 the first of these
// is not found.
func Wait() Option { return Option{func(m *mode) { m.wait = true }} }

// access is how a step uses an arena's values.
type access uint8

const (
	reading  access = 1 << iota
	training        // a step with Wait reads them, and may write: of two such each would wait until the other one ends
	writing
)

// excludes tells whether two steps cannot have x and y at the same time.
func (x access) excludes(y access) bool { return (x|y)&writing != 0 || x&y&training != 0 }

// holder is a step that has access to an arena.
type holder struct {
	step *Scope
	how  access
}

// request is a step that waits for access to an arena.
type request struct {
	arena     *arena
	holder              // what it is to become
	goroutine uintptr   // that waits; 0: unknown
	granted   chan bool // closed then
}

// requests are those of all arenas, the next one first. The lock guards the holders of all arenas, too.
var requests struct {
	sync.Mutex
	queue []*request
}

// touch has the step use the values of a in the given way until it ends.
func (s *Scope) touch(a *arena, how access) {
	have := s.access[a]
	if how == reading && s.top.mode.wait && s.outermost.mode.record {
		how |= training
	}
	if have&how == how {
		return
	}
	if a == nil {
		return // declared, not placed: alive has failed already
	}
	s.take(a, how)
	if s.access == nil {
		s.access = map[*arena]access{}
	}
	s.access[a] = have | how
	if a.torn.Load() {
		fail(ErrDevice, "step", "the device failed while a step wrote %v and what was placed with it; their values "+
			"are lost: place them again, and restore them", a.params[0])
	}
}

// take gets access to a, or fails.
func (s *Scope) take(a *arena, how access) {
	h := holder{s, how}
	requests.Lock()
	if a.ahead(h, nil) == nil {
		a.hold(h)
		requests.Unlock()
		return
	}
	r := &request{a, h, caller.Goroutine(), make(chan bool)}
	wait, endless := s.top.mode.wait, r.enqueue()
	if endless || !wait {
		r.drop()
	}
	requests.Unlock()
	if r.isGranted() {
		return
	}
	switch {
	case endless && wait:
		fail(ErrBusy, "step", "%v is used by a step that cannot end before this one: they would wait for each other; "+
			"end the step around this one first, or have all steps use models in one order", a.params[0])
	case !wait:
		fail(ErrBusy, "step", "%v is updated by one step while another uses it; let evaluation finish before the "+
			"update, evaluate a copy, or give both the option tensor.Wait", a.params[0])
	}
	<-r.granted
}

// hold notes what h has.
func (a *arena) hold(h holder) {
	if i := slices.IndexFunc(a.holders, func(x holder) bool { return x.step == h.step }); i >= 0 {
		a.holders[i].how |= h.how
		return
	}
	a.holders = append(a.holders, h)
}

// ahead are the steps that h, which has made request r, waits for: those that have access to a, and those that stand
// before r in the queue; all in the queue if r is nil.
func (a *arena) ahead(h holder, r *request) (steps []*Scope) {
	for _, x := range a.holders {
		if x.step != h.step && x.how.excludes(h.how) {
			steps = append(steps, x.step)
		}
	}
	for _, q := range requests.queue {
		if q == r {
			break
		}
		if q.arena == a && q.step != h.step && q.how.excludes(h.how) {
			steps = append(steps, q.step)
		}
	}
	return steps
}

// enqueue puts r at the end of the queue or, where it would wait for itself there, at its front. It is true if r would
// wait for itself there, too.
func (r *request) enqueue() (endless bool) {
	requests.queue = append(requests.queue, r)
	if !r.endless() {
		return false
	}
	r.drop()
	requests.queue = slices.Insert(requests.queue, 0, r)
	if r.arena.ahead(r.holder, r) == nil {
		grant()
		return false
	}
	return r.endless()
}

// endless tells whether r waits for itself, through steps that wait for others or belong to a goroutine that does.
func (r *request) endless() bool {
	same := func(x, y uintptr) bool { return x == y && x != 0 }
	seen := map[*Scope]bool{}
	var reaches func(q *request) bool
	reaches = func(q *request) bool {
		for _, s := range q.arena.ahead(q.holder, q) {
			if s == r.step || same(s.goroutine, r.goroutine) {
				return true
			}
			if seen[s] {
				continue
			}
			seen[s] = true
			for _, next := range requests.queue {
				if (next.step == s || same(next.goroutine, s.goroutine)) && reaches(next) {
					return true
				}
			}
		}
		return false
	}
	return reaches(r)
}

// drop takes r out of the queue, if it is there.
func (r *request) drop() {
	requests.queue = slices.DeleteFunc(requests.queue, func(q *request) bool { return q == r })
}

func (r *request) isGranted() bool {
	select {
	case <-r.granted:
		return true
	default:
		return false
	}
}

// grant gives access to all requests that nobody is ahead of.
func grant() {
	for i := 0; i < len(requests.queue); {
		r := requests.queue[i]
		if r.arena.ahead(r.holder, r) != nil {
			i++
			continue
		}
		r.arena.hold(r.holder)
		requests.queue = slices.Delete(requests.queue, i, i+1)
		close(r.granted)
	}
}

// release gives back all access that the step has.
func (s *Scope) release() {
	if len(s.access) == 0 {
		return
	}
	requests.Lock()
	defer requests.Unlock()
	for a := range s.access {
		a.holders = slices.DeleteFunc(a.holders, func(h holder) bool { return h.step == s })
	}
	grant()
}
