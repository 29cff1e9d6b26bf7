//go:build cuda && cgo && linux

package driver

// #include "shim.h"
import "C"

import "gorgonia.org/cu"

// Stream is a queue of work of a context.
type Stream struct{ handle C.CUstream }

// Event is a mark in a stream. The zero value is none.
type Event struct{ handle C.CUevent }

// NewStream makes a stream that does not wait for the default stream.
func (c Context) NewStream() (s Stream, rc Result) {
	rc = c.do(func() error {
		made, err := cu.MakeStream(cu.NonBlocking)
		s.handle = handleOf[C.CUstream](made)
		return err
	})
	return s, rc
}

// Destroy gives the stream back when its work is done. The context is current: see [Context.Do].
func (s Stream) Destroy() { C.cuStreamDestroy(s.handle) }

// Synchronize waits for the work of a stream.
func (c Context) Synchronize(s Stream) Result {
	return c.call(func() C.CUresult { return C.cuStreamSynchronize(s.handle) })
}

// NewEvent makes an event without a clock.
func (c Context) NewEvent() (e Event, rc Result) {
	rc = c.do(func() error {
		made, err := cu.MakeEvent(c.event)
		e.handle = handleOf[C.CUevent](made)
		return err
	})
	return e, rc
}

// Destroy gives the event back. The context is current: see [Context.Do].
func (e Event) Destroy() { C.cuEventDestroy(e.handle) }

// Record marks the end of what is queued on a stream.
func (c Context) Record(e Event, s Stream) Result {
	return Result(C.weft_event_record(c.handle, e.handle, s.handle))
}

// Query is Success if the work before the mark is done, else NotReady.
func (c Context) Query(e Event) Result { return Result(C.weft_event_query(c.handle, e.handle)) }

// Wait waits for the work before the mark.
func (c Context) Wait(e Event) Result {
	return c.call(func() C.CUresult { return C.cuEventSynchronize(e.handle) })
}

// StreamWait makes what is queued on a stream from now on wait for an event of any device, as it is marked now.
func (c Context) StreamWait(s Stream, e Event) Result {
	return Result(C.weft_stream_wait(c.handle, s.handle, e.handle))
}
