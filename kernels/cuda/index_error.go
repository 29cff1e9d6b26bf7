//go:build cuda && cgo && linux

package cuda

import (
	"cmp"
	"strconv"
	"sync/atomic"
	"unsafe"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/driver"
)

// Kernels check indices, and the host does not wait for them: a kernel records an index outside its axis, skips it and
// goes on (index_error.cuh). The host reads a word of its own memory when it queues more work and when it has waited;
// only if that is set, it waits and asks which operation it was.

// reportCount is the number of operations with indices that may be in flight; a driver queues no more.
const reportCount = logSize

// reports are what kernels of a stream found.
type reports struct {
	// on the device: for each operation the word that index_error.cuh describes, all ones for none
	words    kernels.Buffer
	host     []uint64   // pinned memory for a copy of the words, and behind them the word that tells of any
	seen     driver.Ptr // that word for the device
	operands [reportCount]indexed
	next     uint64 // number of the next operation
}

// indexed are the indices of an operation.
type indexed struct {
	op     string
	site   string // of the caller, known when it is queued
	step   uint64 // as [kernels.Launch.Step]
	rank   int
	shape  [kernels.MaxDims]int
	size   int                  // of the axis
	of     [kernels.MaxDims]int // the shape with the axis, of so many axes; none for classes
	ofRank int
	axis   int
	target bool
	ignore int // for targets of a loss
}

// indexErrors is the struct IndexErrors of index_error.cuh.
type indexErrors struct{ first, seen uint64 }

// any is the word that tells of an index outside its axis.
func (r *reports) any() *uint32 { return (*uint32)(unsafe.Pointer(&r.host[reportCount])) }

// indexedAlong is for indices along an axis of x.
func indexedAlong(x *kernels.Arg, axis int) indexed {
	i := indexed{size: x.Shape[axis], axis: axis}
	i.ofRank = copy(i.of[:], x.Shape)
	return i
}

// report is where the kernels of this call record indices outside an axis of the given size. All kernels of a call
// share one record.
func (c *call) report(a *kernels.Arg, x indexed) indexErrors {
	s := c.stream
	if s.reports == nil {
		if err := s.openReports(); err != nil {
			panic(err)
		}
	}
	r := s.reports
	if s.capturing && !c.reports && r.next == reportCount {
		c.refuse("a graph takes %d operations with indices, not more", reportCount)
	}
	if !c.reports {
		c.reports = true
		x.op, x.step, x.rank = c.op, c.step, copy(x.shape[:], a.Shape)
		r.operands[r.next%reportCount] = x
		r.next++
	}
	at := 8 * int((r.next-1)%reportCount)
	return indexErrors{uint64(c.b.at(c.op, r.words, at, 8)), uint64(r.seen)}
}

// openReports makes the memory for reports.
func (s *stream) openReports() error {
	words, err := s.b.scratch(s.call.op, 8*reportCount)
	if err != nil {
		return err
	}
	r := &reports{words: words}
	const bytes = 8*reportCount + 8
	p, addr, rc := s.b.ctx.AllocHost(bytes)
	if rc != driver.Success {
		return s.b.failed(s.call.op, "pinning "+itoa(bytes)+" bytes", rc)
	}
	r.host, r.seen = unsafe.Slice((*uint64)(p), reportCount+1), addr+8*reportCount
	s.reports = r
	return s.clearReports(r)
}

// clearReports queues that all words become ones. Nothing has been found.
func (s *stream) clearReports(r *reports) error {
	for i := range r.host {
		r.host[i] = ^uint64(0)
	}
	atomic.StoreUint32(r.any(), 0)
	return s.copyReports(r, "clearing reports", func(words driver.Ptr, event driver.Event) driver.Result {
		return s.b.ctx.CopyIn(s.handle, words, unsafe.Pointer(&r.host[0]), 8*reportCount, event)
	})
}

// copyReports queues a copy of all words.
func (s *stream) copyReports(r *reports, doing string,
	start func(words driver.Ptr, event driver.Event) driver.Result) error {
	event, err := s.b.events.get(s.b)
	if err != nil {
		return err
	}
	defer s.b.events.put(event)
	return s.b.check("report", doing, start(s.b.at("report", r.words, 0, 8*reportCount), event))
}

// indexError returns the error for the first operation of the stream, since the last call, that met an index outside
// its axis; of its indices it names the first. Those of graphs come behind. s.mu is held.
func (s *stream) indexError() error {
	err := s.reported(s.reports)
	for _, g := range s.graphs {
		err = cmp.Or(err, s.reported(g.reports))
	}
	return err
}

// reported is the same for one list of operations, whose kernels ran on this stream.
func (s *stream) reported(r *reports) error {
	if r == nil || atomic.LoadUint32(r.any()) == 0 {
		return nil
	}
	if e := s.copyReports(r, "asking for reports", func(words driver.Ptr, event driver.Event) driver.Result {
		return s.b.ctx.CopyOut(s.handle, unsafe.Pointer(&r.host[0]), words, 8*reportCount, event)
	}); e != nil {
		return e
	}
	if err := s.wait("report"); err != nil {
		return err
	}
	found := kernels.Errorf(kernels.ErrIndex, "report", "an index is outside its axis")
	in := "an earlier operation"
	for i := r.next - min(r.next, reportCount); i < r.next; i++ {
		if word := r.host[i%reportCount]; word != ^uint64(0) {
			x := &r.operands[i%reportCount]
			if found = x.outside(int(word>>32), int(int32(word))); x.step > 0 {
				in += " of step " + strconv.FormatUint(x.step, 10)
			}
			break
		}
	}
	if e := s.clearReports(r); e != nil {
		return e
	}
	if !s.b.sync { // whoever asks now did other work
		found.In = in
	}
	return found
}

// outside is the error for index number k, which is v.
func (x *indexed) outside(k, v int) *kernels.Error {
	var of []int
	if x.ofRank > 0 {
		of = x.of[:x.ofRank]
	}
	e := kernels.IndexError(x.op, x.shape[:x.rank], k, v, x.size, of, x.axis)
	if x.target {
		e = kernels.TargetError(x.op, x.shape[:x.rank], k, v, x.size, x.ignore)
	}
	e.Site = x.site
	return e
}

// free gives the pinned memory back. The context is current.
func (r *reports) free() {
	if r != nil {
		driver.FreeHost(unsafe.Pointer(&r.host[0]))
	}
}
