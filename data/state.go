package data

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	wrong := func(what string, found, want any, cause error) error {
		return &FormatError{File: "state of a loader", Offset: -1, What: what, Found: fmt.Sprint(found),
			Want: fmt.Sprint(want), Err: cause}
	}
	var st loaderState
	d := json.NewDecoder(bytes.NewReader(state))
	d.DisallowUnknownFields()
	err := d.Decode(&st)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = errors.New("more than one value")
		}
	}
	if err != nil {
		return wrong("text", fmt.Sprintf("%.100q", state), "what State returned", err)
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
		return wrong("batches", st.Batches, most, nil)
	case st.Examples != have.Examples:
		return wrong("examples", st.Examples, have.Examples, nil)
	case st.BatchSize != have.BatchSize:
		return wrong("batch size", st.BatchSize, have.BatchSize, nil)
	case st.Shuffle != have.Shuffle:
		return wrong("shuffle", st.Shuffle, have.Shuffle, nil)
	case st.Seed != have.Seed:
		return wrong("seed", st.Seed, have.Seed, nil)
	case st.DropLast != have.DropLast:
		return wrong("drop last", st.DropLast, have.DropLast, nil)
	}
	l.Start = st.Batches
	atomic.StoreInt64(&l.delivered, int64(st.Batches))
	return nil
}
