package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sync/atomic"
)

// Resumable is a source of batches that a later run can go on with. A checkpoint saves State after a step, and gives it
// to Restore of a source that was made the same way: its next batch is the one after the last that the step had seen.
type Resumable interface {
	State() ([]byte, error)
	Restore(state []byte) error
}

// loaderState is a Loader's state: how many batches were used, and all that decides what these were.
type loaderState struct {
	Batches   int    `json:"batches"` // over all epochs
	Examples  int    `json:"examples"`
	BatchSize int    `json:"batch_size"`
	Shuffle   bool   `json:"shuffle"`
	Seed      uint64 `json:"seed"`
	DropLast  bool   `json:"drop_last"`
}

// state is l's. The fields of l are right.
func (l *Loader) state() loaderState {
	n := int(atomic.LoadInt64(&l.delivered))
	if n == 0 {
		n = l.Start
	}
	return loaderState{n, l.Dataset.Len(), l.BatchSize, l.Shuffle, l.Seed, l.DropLast}
}

// State tells, as JSON, how many batches [Loader.Batches] has delivered, those before Start included, and what decides
// their order. Within the loop over the batches the present one counts. Of several iterations it is that of the last
// one to deliver a batch. It fails if the fields are wrong.
func (l *Loader) State() ([]byte, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	return json.Marshal(l.state())
}

// Restore sets Start to where the loader with the given state was, so that the next [Loader.Batches] goes on with the
// batch after. The state must be of a loader with the same number of examples and the same BatchSize, Shuffle, Seed and
// DropLast: else the batches would be others. What does not fit is a [*FormatError], and changes nothing. It may not
// run beside an iteration.
func (l *Loader) Restore(state []byte) error {
	if err := l.check(); err != nil {
		return err
	}
	wrong := func(what string, found, want any) error { return wrongState("loader", what, found, want, nil) }
	var st loaderState
	if err := parseState(state, "loader", &st); err != nil {
		return err
	}
	have := l.state()
	most := "0 or more"
	past := false
	if l.Epochs != Forever {
		n := max(l.Epochs, 1) * l.BatchesPerEpoch()
		most, past = fmt.Sprintf("at most %d, as many as there are", n), st.Batches > n
	}
	switch {
	case st.Batches < 0 || past:
		return wrong("batches", st.Batches, most)
	case st.Examples != have.Examples:
		return wrong("examples", st.Examples, have.Examples)
	case st.BatchSize != have.BatchSize:
		return wrong("batch size", st.BatchSize, have.BatchSize)
	case st.Shuffle != have.Shuffle:
		return wrong("shuffle", st.Shuffle, have.Shuffle)
	case st.Seed != have.Seed:
		return wrong("seed", st.Seed, have.Seed)
	case st.DropLast != have.DropLast:
		return wrong("drop last", st.DropLast, have.DropLast)
	}
	l.Start = st.Batches
	atomic.StoreInt64(&l.delivered, int64(st.Batches))
	return nil
}

// wrongState is the error of a state of a loader or a pipeline, as of says.
func wrongState(of, what string, found, want any, cause error) error {
	return &FormatError{File: "state of a " + of, Offset: -1, What: what, Found: fmt.Sprint(found),
		Want: fmt.Sprint(want), Err: cause}
}

// parseState reads what State returned into st.
func parseState(state []byte, of string, st any) error {
	d := json.NewDecoder(bytes.NewReader(state))
	d.DisallowUnknownFields()
	err := d.Decode(st)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errors.New("more than one value")
		}
	}
	if err != nil {
		return wrongState(of, "text", fmt.Sprintf("%.100q", state), "what State returned", err)
	}
	return nil
}

// batchedState is the state of a pipeline in batches, with all that decides what these are.
type batchedState struct {
	position
	Stages []string `json:"stages"`
}

// mostStages is how many bytes the names of stages may have in a state; longer ones are hashed.
const mostStages = 3 << 10

// stages are the names of the stages, or their hash.
func (s *stage) stages() []string {
	names := s.describe()
	text, err := json.Marshal(names)
	if err != nil || len(text) > mostStages { // strings do not fail
		return []string{fmt.Sprintf("%d stages, sha256 %x", len(names), sha256.Sum256(text))}
	}
	return names
}

// state is the state at a position.
func (b *Batched[B]) state(at position) []byte {
	text, err := json.Marshal(batchedState{at, b.stages()})
	if err != nil {
		panic(err) // integers and strings are JSON
	}
	return text
}

// State is [Iterator.State] of the iteration that delivered a batch last, else of where [Batched.Start] begins.
func (b *Batched[B]) State() ([]byte, error) {
	if b == nil || b.stage == nil {
		return nil, errors.New("data: batches are nil")
	}
	if b.err != nil {
		return nil, b.err
	}
	var at position
	if p := b.position.Load(); p != nil {
		at = *p
	}
	return b.state(at), nil
}

// Restore makes the next [Batched.Start] without a state begin as it would with this one. A state that does not fit is
// a [*FormatError], and changes nothing.
func (b *Batched[B]) Restore(state []byte) error {
	if b == nil || b.stage == nil {
		return errors.New("data: batches are nil")
	}
	if b.err != nil {
		return b.err
	}
	at, err := b.parse(state)
	if err == nil {
		b.position.Store(&at)
		b.restored.Store(&at)
	}
	return err
}

// parse is the position of a state.
func (b *Batched[B]) parse(state []byte) (position, error) {
	var st batchedState
	if err := parseState(state, "pipeline", &st); err != nil {
		return position{}, err
	}
	have := b.stages()
	for i, name := range have {
		found := ""
		if i < len(st.Stages) {
			found = st.Stages[i]
		}
		if found != name {
			return position{}, wrongState("pipeline", fmt.Sprintf("stage %d", i), found, name, nil)
		}
	}
	wrong := func(what string, found, most int) error {
		return wrongState("pipeline", what, found, fmt.Sprintf("0 to %d", most), nil)
	}
	epochs := b.config.epochs
	if epochs == Forever {
		epochs = math.MaxInt - 1
	}
	switch at := st.position; {
	case len(st.Stages) > len(have):
		return at, wrongState("pipeline", "stages", len(st.Stages), len(have), nil)
	case at.Epoch < 0 || at.Epoch > epochs:
		return at, wrong("epoch", at.Epoch, epochs)
	case at.Slot < 0 || at.Slot > b.end():
		return at, wrong("position", at.Slot, b.end())
	case at.Batch < 0 || at.Batch > at.Slot+min(at.Longest, 1) && !b.cuts:
		return at, wrong("batch", at.Batch, at.Slot)
	case at.Longest < 0 || at.Longest > b.end() || at.Longest > 0 && !b.joins:
		return at, wrong("longest", at.Longest, b.end())
	case at.LeftOut < 0:
		return at, wrong("left out", at.LeftOut, math.MaxInt)
	}
	waiting, err := readWaiting(st.Waiting, st.Slot)
	if err != nil || len(st.Waiting) > 0 && !b.joins {
		return st.position, wrongState("pipeline", "waiting", fmt.Sprintf("%.100x", st.Waiting),
			"what State returned", err)
	}
	first := st.Slot // that Cursor is before
	if len(waiting) > 0 {
		first = waiting[0].position
	}
	if from := b.from[0]; (b.seq == nil || first == 0) != (st.Cursor == nil) || b.seq != nil && !from.fits(st.Cursor) {
		text, _ := json.Marshal(st.Cursor)
		return st.position, wrongState("pipeline", "cursor", fmt.Sprintf("%.200s", text), "what State returned", nil)
	}
	return st.position, nil
}
