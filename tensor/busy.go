package tensor

import (
	"errors"

	"github.com/weft-ml/weft/internal/caller"
	"github.com/weft-ml/weft/kernels"
)

// A step is used by one goroutine at a time. Goroutines may take turns; of calls that overlap at least one fails, with
// ErrBusy, and the step fails too. Every call takes the step's flag for as long as it uses the records of the step. A
// call that runs a function, such as Region, With or Backward, lasts longer: its region belongs to its goroutine, and
// calls of others are refused while it is the innermost one.

// The states of a step, besides 0.
const (
	inUse = 1 << iota // a call uses the records
	left              // the function of the step has returned; calls of other goroutines are under way
	ended             // alone: nothing changes any more
)

// enter begins a use of the step's records. It fails when the step is over or another goroutine is inside.
func (s *Scope) enter(op string) {
	if !s.state.CompareAndSwap(0, inUse) {
		s.refuse(op)
	}
	if owner := s.top.owner; owner != 0 && owner != caller.Goroutine() {
		s.leave()
		s.refuse(op)
	}
	s.closeGivenUp(nil)
}

// leave ends it.
func (s *Scope) leave() {
	if !s.state.CompareAndSwap(inUse, 0) {
		s.settle()
	}
}

// finish ends the step, or lets the last call of another goroutine that is under way do that.
func (s *Scope) finish() {
	for !s.state.CompareAndSwap(0, inUse|left) {
		if s.state.CompareAndSwap(inUse, inUse|left) {
			return
		}
	}
	s.settle()
}

// settle releases what the step owns, if its function has returned and no other goroutine has a region open. The caller
// has entered the step, and leaves it.
func (s *Scope) settle() {
	for r := s.top; r != nil; r = r.up {
		if r.owner != 0 && r.owner != s.goroutine && !r.givenUp.Load() {
			s.state.Store(left)
			return
		}
	}
	s.end()
	s.state.Store(ended)
}

// refuse fails because the step is over, or in use.
func (s *Scope) refuse(op string) {
	if s.over() {
		fail(ErrStep, op, "the step of this tensor or scope, on %s, has ended; Keep takes a tensor out of its step",
			s.home.Name())
	}
	e := kernels.Errorf(ErrBusy, op, "two goroutines use one step at the same time; give each its own Step or Eval")
	e.Site = caller.Site()
	cause := *e // the regions on the way out write to e
	s.abort(&cause)
	panic(e)
}

// over tells whether the step has ended.
func (s *Scope) over() bool { return s.state.Load() == ended }

// resume enters the step to end region r. If another call is under way r is given up, and fails.
func (s *Scope) resume(r *region) {
	if s.state.CompareAndSwap(0, inUse) || s.state.CompareAndSwap(left, inUse|left) {
		s.closeGivenUp(r)
		if s.top == r {
			return
		}
		s.leave()
	}
	r.givenUp.Store(true)
	if s.state.CompareAndSwap(left, inUse|left) {
		s.settle()
	}
	s.refuse("region")
}

// closeGivenUp ends the innermost regions of the goroutine, up to r, that were given up; of the outermost one only its
// owner goes. No other goroutine does that: what fails on the way out still uses them.
func (s *Scope) closeGivenUp(r *region) {
	for s.top != r && s.top.givenUp.Load() {
		if s.top == s.outermost {
			s.top.owner = 0
			s.top.givenUp.Store(false)
			return
		}
		s.pop(s.top, nil)
	}
}

// alone runs f, which uses the step in several calls, as one call. In a region all calls are of its goroutine; the
// outermost region gets one for as long.
func (s *Scope) alone(f func()) {
	if s == nil || s.over() || !s.own() {
		f()
		return
	}
	defer func() {
		s.resume(s.outermost)
		s.outermost.owner = 0
		s.leave()
	}()
	f()
}

// own makes the innermost region belong to the goroutine. It is false if that does already.
func (s *Scope) own() bool {
	s.enter("step")
	defer s.leave()
	if s.top.owner != 0 {
		return false
	}
	s.top.owner = caller.Goroutine()
	return s.top.owner != 0
}

// outcome is the error of a step whose function has returned err: the first ErrBusy comes before what follows from it.
func (s *Scope) outcome(err error) error {
	fault := s.fault.Load()
	if fault == nil {
		return err
	}
	var typed *Error
	if err == nil || errors.Is(*fault, ErrBusy) && errors.As(err, &typed) {
		return *fault
	}
	return err
}
