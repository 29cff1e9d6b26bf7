//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"math"
	"sync"
	"unsafe"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/driver"
)

// The GPU copies from and to host memory on its own, while the program goes on; that memory must stay where it is,
// which Go does not promise, and be pinned, which is slow to arrange. So every copy goes through a ring of pinned
// memory: to the device it is filled by the host and emptied by the device, from the device the other way round.
// Where the ring is full, the host waits for its oldest chunk.
//
// Work of one stream runs in order, and a large copy over the bus takes as long as many kernels. So a ring has a
// bounce buffer of its size on the device and a copy stream, which moves large copies between the two while kernels
// run. Only the copy between the bounce buffer and its destination, inside the device, is queued among the kernels: it
// takes a few hundredths of the time. Events of chunks order all of it, so that memory of the program is accessed in
// the order of its own stream.

// ringBytes is the size of each of the two rings and bounce buffers. overlapBytes is the least that goes over a copy
// stream: a smaller copy is over before streams have waited for each other. Variables so that tests can make them
// small.
var ringBytes, overlapBytes = 16 << 20, 256 << 10

// Copies on the side stream wait for nothing that others have queued: they have a ring of their own and need no second
// stream. So do those on the stream kernels.Ahead, in whose ring a goroutine of its own waits for room.

// The copy streams of the two rings have numbers that no program's streams have.
const inCopies, outCopies kernels.Stream = math.MaxUint32 - 1, math.MaxUint32

// ring is pinned memory, used round and round.
type ring struct {
	b  *Backend
	id kernels.Stream // of the copy stream

	bounceMu sync.Mutex
	bounce   kernels.Buffer // nil before the first large copy

	mu     sync.Mutex
	mem    []byte
	filled uint64  // bytes ever taken, including those skipped at the end of mem
	idle   uint64  // bytes ever given back; what lies between is in use
	chunks []chunk // in use, oldest first
}

// chunk is a piece of a ring that a copy uses.
type chunk struct {
	s      *stream
	bounce driver.Ptr   // of mem; 0 if the copy goes directly
	end    uint64       // value of filled after it
	event  driver.Event // after the copy; none once the content is where it belongs
	mem    []byte
	dst    []byte // where the host wants the content; nil for copies to the device
}

// alignment of chunks, a cache line.
const chunkAlignment = 64

// take returns n bytes of the ring, at most a quarter of it, and where they begin; r.mu is held.
func (r *ring) take(n int) (mem []byte, offset int, err error) {
	if r.mem == nil {
		p, _, rc := r.b.ctx.AllocHost(ringBytes)
		if rc != driver.Success {
			return nil, 0, r.b.failed("copy", "pinning "+itoa(ringBytes)+" bytes", rc)
		}
		r.mem = unsafe.Slice((*byte)(p), ringBytes)
	}
	size := uint64(len(r.mem))
	need := uint64(n+chunkAlignment-1) &^ (chunkAlignment - 1)
	if at := r.filled % size; at+need > size {
		r.filled += size - at // the piece would wrap: skip the rest
	}
	for r.filled+need-r.idle > size {
		if len(r.chunks) == 0 {
			r.idle = r.filled
			break
		}
		if err := r.retire(); err != nil {
			return nil, 0, err
		}
	}
	at := r.filled % size
	r.filled += need
	return r.mem[at : at+uint64(n)], int(at), nil
}

// retire waits for the oldest chunk and gives it back.
func (r *ring) retire() error {
	p := &r.chunks[0]
	if p.event != none {
		if r.id != kernels.Ahead && p.s.b.ctx.Query(p.event) == driver.NotReady {
			r.b.waits.Note("for room in the staging buffer")
		}
		if err := r.end(p, "waiting for pinned memory", p.s.b.ctx.Wait(p.event)); err != nil {
			return err
		}
	}
	r.idle = p.end
	r.chunks[0] = chunk{}
	r.chunks = r.chunks[1:]
	return nil
}

// end finishes a chunk, for whose copy the driver has answered rc. If a device has died that another one sent the copy
// to, that is no failure of the other's: the dead one does not touch the chunk any more.
func (r *ring) end(p *chunk, doing string, rc driver.Result) error {
	if rc == driver.Success {
		p.finish()
		return nil
	}
	user := p.s.b
	err := user.failed("copy", doing, rc)
	if user == r.b || user.fault.Load() == nil {
		return err
	}
	p.event = none
	return nil
}

// finish gives the content of a chunk to the host, if it is for it: the copy is done.
func (p *chunk) finish() {
	copy(p.dst, p.mem)
	p.s.b.events.put(p.event)
	p.dst, p.event = nil, none
}

// ask finishes a chunk if its copy is done, without waiting for it.
func (r *ring) ask(p *chunk) error {
	if p.event == none {
		return nil
	}
	rc := p.s.b.ctx.Query(p.event)
	if rc == driver.NotReady {
		return nil
	}
	return r.end(p, "asking for progress", rc)
}

// reclaim gives the oldest chunks back as far as their copies are done, so that a few events serve all copies.
func (r *ring) reclaim() error {
	for len(r.chunks) > 0 {
		if err := r.ask(&r.chunks[0]); err != nil || r.chunks[0].event != none {
			return err
		}
		if err := r.retire(); err != nil {
			return err
		}
	}
	return nil
}

// deliver finishes those copies of a stream that are done. r.mu is held.
func (r *ring) deliver(s *stream) error {
	for i := range r.chunks {
		if p := &r.chunks[i]; p.s == s {
			if err := r.ask(p); err != nil {
				return err
			}
		}
	}
	return r.reclaim()
}

// arrived is deliver for who has waited.
func (r *ring) arrived(s *stream) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.deliver(s)
}

// settle ends the copies on streams of b, which has been waited for.
func (r *ring) settle(b *Backend) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.chunks {
		if p := &r.chunks[i]; p.s.b == b && p.event != none {
			p.finish()
		}
	}
}

// drain waits for the copies, also those of other devices, unless a device fails.
func (r *ring) drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.chunks) > 0 && r.retire() == nil {
	}
}

// free gives the memory to the driver. The context is current.
func (r *ring) free() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mem != nil {
		driver.FreeHost(unsafe.Pointer(&r.mem[0]))
	}
	r.mem, r.chunks = nil, nil
}

// CopyIn queues a copy from the host to byte off of dst. src may be reused on return.
func (b *Backend) CopyIn(id kernels.Stream, dst kernels.Buffer, off int, src []byte) error {
	s, err := b.stream("copy in", id)
	if err == nil {
		r := b.in
		if id == kernels.Ahead {
			r = b.ahead
		}
		_, err = r.copy("copy in", s, b.at("copy in", dst, off, len(src)), src)
	}
	return err
}

// CopyOut queues a copy from byte off of src to the host. dst is valid after Synchronize.
func (b *Backend) CopyOut(id kernels.Stream, dst []byte, src kernels.Buffer, off int) error {
	s, err := b.stream("copy out", id)
	if err == nil {
		_, err = b.outOf(s).copy("copy out", s, b.at("copy out", src, off, len(dst)), dst)
	}
	return err
}

// outOf is the ring of a stream's copies to the host.
func (b *Backend) outOf(s *stream) *ring {
	if s.id == kernels.Side {
		return b.side
	}
	return b.out
}

// Copy queues a copy within the device, or between the device and pinned memory of the host.
func (b *Backend) Copy(id kernels.Stream, dst kernels.Buffer, off int, src kernels.Buffer, srcOff, n int) error {
	s, err := b.stream("copy", id)
	if err != nil {
		return err
	}
	to, from := b.at("copy", dst, off, n), b.at("copy", src, srcOff, n)
	e, err := b.events.get(b)
	if err != nil {
		return err
	}
	defer b.events.put(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	rc := driver.Success
	if host := src.(*buffer).host; host != nil {
		rc = b.ctx.CopyIn(s.handle, to, unsafe.Add(host, srcOff), n, e)
	} else if host := dst.(*buffer).host; host != nil {
		rc = b.ctx.CopyOut(s.handle, unsafe.Add(host, off), from, n, e)
	} else {
		rc = b.ctx.CopyWithin(s.handle, to, from, n, e)
	}
	return b.check("copy", "copying "+itoa(n)+" bytes", rc)
}

// copy queues a copy between data, of the host, and the device. It returns the stream on which the copy ends.
func (r *ring) copy(op string, s *stream, addr driver.Ptr, data []byte) (*stream, error) {
	copies, err := r.copyStream(len(data))
	if err != nil {
		return s, err
	}
	err = r.each(s, copies, len(data), func(p *chunk, at int) error {
		if content := data[at : at+len(p.mem)]; r.toDevice() {
			copy(p.mem, content)
		} else {
			p.dst = content
		}
		if rc := r.queue(p, copies, addr+driver.Ptr(at)); rc != driver.Success {
			return s.b.failed(op, "copying "+itoa(len(p.mem))+" bytes", rc)
		}
		return nil
	})
	if copies != nil && r.id == outCopies {
		s = copies
	}
	return s, err
}

// queue queues the copy of a chunk to the device, or from it: directly, or by way of the bounce buffer, where the copy
// stream has the copy over the bus. Waits are for what the event of the chunk marks then: it is recorded again.
func (r *ring) queue(p *chunk, copies *stream, addr driver.Ptr) driver.Result {
	ctx, s, bus, host, n := r.b.ctx, p.s.handle, p.s.handle, unsafe.Pointer(&p.mem[0]), len(p.mem)
	at, rc := addr, driver.Success
	if copies != nil {
		at, bus = p.bounce, copies.handle
	}
	if r.toDevice() {
		rc = ctx.CopyIn(bus, at, host, n, p.event)
		if copies != nil && rc == driver.Success {
			rc = ctx.StreamWait(s, p.event)
		}
		if copies != nil && rc == driver.Success {
			rc = ctx.CopyWithin(s, addr, at, n, p.event)
		}
		return rc
	}
	if copies != nil {
		rc = ctx.CopyWithin(s, at, addr, n, p.event)
	}
	if copies != nil && rc == driver.Success {
		rc = ctx.StreamWait(bus, p.event)
	}
	if rc == driver.Success {
		rc = ctx.CopyOut(bus, host, at, n, p.event)
	}
	return rc
}

// toDevice tells in which direction a ring copies.
func (r *ring) toDevice() bool { return r.id == inCopies || r.id == kernels.Ahead }

// copyStream is the copy stream if it shall move a copy of n bytes; nil if the copy goes directly, as small ones do,
// those on Side and Ahead, and all as long as the device has no memory for the bounce buffer.
func (r *ring) copyStream(n int) (*stream, error) {
	if n < overlapBytes || r.id == kernels.Side || r.id == kernels.Ahead {
		return nil, nil
	}
	copies, err := r.b.stream("copy", r.id)
	if err != nil {
		return nil, err
	}
	r.bounceMu.Lock()
	defer r.bounceMu.Unlock()
	if r.bounce == nil {
		bounce, err := r.b.Alloc(ringBytes)
		if errors.Is(err, kernels.ErrMemory) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		r.bounce = bounce
	}
	return copies, nil
}

// each copies n bytes on a stream, in pieces of at most a quarter of the ring: start queues the copy of the piece
// that begins at byte at.
func (r *ring) each(s, copies *stream, n int, start func(p *chunk, at int) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.reclaim(); err != nil {
		return err
	}
	for at := 0; at < n; {
		mem, offset, err := r.take(min(n-at, ringBytes/4))
		if err != nil {
			return err
		}
		p := chunk{s: s, mem: mem, end: r.filled}
		if copies != nil {
			p.bounce = r.b.at("copy", r.bounce, offset, len(mem))
		}
		if p.event, err = s.b.events.get(s.b); err != nil {
			return err
		}
		s.mu.Lock()
		err = start(&p, at)
		s.mu.Unlock()
		if err != nil { // the next to use the chunk must not meet what has been queued of the copy
			for _, user := range [...]*stream{s, copies} {
				if user != nil {
					user.wait("copy") // if this fails, so will all
				}
			}
			s.b.events.put(p.event)
			return err
		}
		r.chunks = append(r.chunks, p)
		at += len(mem)
	}
	return nil
}

// Fill sets all bytes of m, after what is queued on stream 0. It is how memory is poisoned.
func (b *Backend) Fill(m kernels.Buffer, value byte) {
	s, err := b.stream("fill", 0)
	if err != nil {
		b.postpone(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.postpone(b.check("fill", "filling "+itoa(m.Bytes())+" bytes",
		b.ctx.Fill(s.handle, b.at("fill", m, 0, m.Bytes()), value, m.Bytes())))
}
