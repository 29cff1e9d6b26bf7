//go:build cuda && cgo && linux

package cuda

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/driver"
)

var _ kernels.Peer = (*Backend)(nil)

// peerMu is held by who locks streams of two devices.
var peerMu sync.Mutex

// CopyPeer queues a copy from another GPU: directly where the two reach each other, through pinned memory otherwise.
func (b *Backend) CopyPeer(id kernels.Stream, dst kernels.Buffer, off int, src kernels.Buffer, srcOff, n int) (bool,
	error) {
	m, ok := src.(*buffer)
	if !ok || m.b == nil {
		return false, nil
	}
	return true, b.copyPeer(id, dst, off, m, srcOff, n)
}

func (b *Backend) copyPeer(id kernels.Stream, dst kernels.Buffer, off int, src *buffer, srcOff, n int) error {
	a := src.b
	out, err := a.stream("copy", id)
	if err != nil {
		return err
	}
	in, err := b.stream("copy", id)
	if err != nil {
		return err
	}
	to, from := b.at("copy", dst, off, n), a.at("copy", src, srcOff, n)
	direct, err := b.reaches(a)
	if err != nil {
		return err
	}
	if direct {
		if err := in.after(out); err != nil {
			return err
		}
		in.mu.Lock()
		rc := b.ctx.CopyPeer(in.handle, to, a.ctx, from, n)
		in.mu.Unlock()
		if rc != driver.Success {
			return b.failed("copy", "copying "+itoa(n)+" bytes from "+a.Name(), rc)
		}
		return out.after(in) // what reuses the memory waits
	}
	peerMu.Lock()
	defer peerMu.Unlock()
	return a.out.each(in, nil, n, func(p *chunk, at int) error {
		mem, step := unsafe.Pointer(&p.mem[0]), driver.Ptr(at)
		arrived, err := a.events.get(a)
		if err != nil {
			return err
		}
		defer a.events.put(arrived)
		out.mu.Lock()
		rc := a.ctx.CopyOut(out.handle, mem, from+step, len(p.mem), arrived)
		out.mu.Unlock()
		if rc != driver.Success {
			out.wait("copy") // the next to use the memory must not meet what a still writes there
			return a.failed("copy", "copying "+itoa(len(p.mem))+" bytes for "+b.Name(), rc)
		}
		rc = b.ctx.StreamWait(in.handle, arrived)
		if rc == driver.Success {
			rc = b.ctx.CopyIn(in.handle, to+step, mem, len(p.mem), p.event)
		}
		if rc != driver.Success {
			out.wait("copy")
			return b.failed("copy", "copying "+itoa(len(p.mem))+" bytes from "+a.Name(), rc)
		}
		return nil
	})
}

// after makes what is queued on s from now on wait for what is queued on other, a stream of any device.
func (s *stream) after(other *stream) error {
	a := other.b
	e, err := other.mark("copy")
	if err != nil {
		return err
	}
	defer a.events.put(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.check("copy", "waiting for "+a.Name(), s.b.ctx.StreamWait(s.handle, e))
}

// reaches tells whether b copies from a directly. The first time it asks the driver to allow that.
func (b *Backend) reaches(a *Backend) (bool, error) {
	if !slices.Contains(b.gpu.Peers, a.gpu.Ordinal) {
		return false, nil
	}
	b.peersMu.Lock()
	defer b.peersMu.Unlock()
	if slices.Contains(b.peers, a) {
		return true, nil
	}
	if err := b.check("copy", "reaching "+a.Name(), b.ctx.EnablePeer(a.ctx)); err != nil {
		return false, err
	}
	b.peers = append(b.peers, a)
	return true, nil
}
