//go:build cuda && cgo && linux

package cuda

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
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

// reaches tells whether b copies from a directly. The first time it asks the driver to allow that, and makes it prove
// that it can: there are machines on which the driver promises it, every call succeeds, and other bytes arrive. Where
// it cannot, copies go through the host, and that is logged once.
func (b *Backend) reaches(a *Backend) (bool, error) {
	if !slices.Contains(b.gpu.Peers, a.gpu.Ordinal) {
		return false, nil
	}
	b.peersMu.Lock()
	defer b.peersMu.Unlock()
	if direct, known := b.peers[a]; known {
		return direct, nil
	}
	same, rc := false, b.ctx.EnablePeer(a.ctx)
	if rc == driver.Success {
		same, rc = b.tryPeer(a)
	}
	why := rc.String()
	switch {
	case rc == driver.Success:
		why = "other bytes arrived than were sent"
	case rc.Class() == driver.NoMemory:
		return false, nil // it is tried again
	case rc.Class() != driver.CallFailed:
		return false, b.failed("copy", "reaching "+a.Name(), rc)
	}
	if !same {
		slog.Warn("weft: GPUs copy through the host", "from", a.Name(), "to", b.Name(), "why", why)
	}
	if b.peers == nil {
		b.peers = map[*Backend]bool{}
	}
	b.peers[a] = same
	return same, nil
}

// forgetPeer follows the end of a.
func (b *Backend) forgetPeer(a *Backend) {
	b.peersMu.Lock()
	defer b.peersMu.Unlock()
	delete(b.peers, a)
}

// tryPeer copies random bytes from the host to a, from there to b, and back to the host, and tells whether they are the
// same.
func (b *Backend) tryPeer(a *Backend) (same bool, rc driver.Result) {
	const n = 1 << 20
	host, _, rc := b.ctx.AllocHost(2 * n)
	if rc != driver.Success {
		return false, rc
	}
	defer b.ctx.Do(func() driver.Result { driver.FreeHost(host); return driver.Success })
	from, _, rc := a.ctx.Alloc(n)
	if rc != driver.Success {
		return false, rc
	}
	defer a.ctx.Free(from)
	to, _, rc := b.ctx.Alloc(n)
	if rc != driver.Success {
		return false, rc
	}
	defer b.ctx.Free(to)
	out, rc := a.ctx.NewStream()
	if rc != driver.Success {
		return false, rc
	}
	defer a.ctx.Do(func() driver.Result { out.Destroy(); return driver.Success })
	defer a.ctx.Synchronize(out)
	in, rc := b.ctx.NewStream()
	if rc != driver.Success {
		return false, rc
	}
	defer b.ctx.Do(func() driver.Result { in.Destroy(); return driver.Success })
	defer b.ctx.Synchronize(in)
	sent, rc := a.ctx.NewEvent()
	if rc != driver.Success {
		return false, rc
	}
	defer a.ctx.Do(func() driver.Result { sent.Destroy(); return driver.Success })
	arrived, rc := b.ctx.NewEvent()
	if rc != driver.Success {
		return false, rc
	}
	defer b.ctx.Do(func() driver.Result { arrived.Destroy(); return driver.Success })

	bytesOf := unsafe.Slice((*byte)(host), 2*n)
	rand.NewChaCha8([32]byte{byte(a.gpu.Ordinal), byte(b.gpu.Ordinal)}).Read(bytesOf[:n])
	for _, step := range []func() driver.Result{
		func() driver.Result { return a.ctx.CopyIn(out, from, host, n, sent) },
		func() driver.Result { return b.ctx.Fill(in, to, 0, n) }, // what an earlier attempt left
		func() driver.Result { return b.ctx.StreamWait(in, sent) },
		func() driver.Result { return b.ctx.CopyPeer(in, to, a.ctx, from, n) },
		func() driver.Result { return b.ctx.CopyOut(in, unsafe.Add(host, n), to, n, arrived) },
		func() driver.Result { return b.ctx.Wait(arrived) },
	} {
		if rc = step(); rc != driver.Success {
			return false, rc
		}
	}
	return bytes.Equal(bytesOf[:n], bytesOf[n:]), driver.Success
}
