//go:build cuda && cgo && linux

package cuda

import (
	"runtime"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/driver"
)

// Graph is work of a stream that was captured, to be queued again and again as a whole: for compiled steps, whose
// launches become one graph.
type Graph struct {
	b      *Backend
	handle driver.Graph
	spare  kernels.Buffer // scratch of its launches
}

// Capture makes a graph of what f queues on a stream, which does not run meanwhile. f must not wait nor take memory
// from the driver, which refuses that to its thread: what f queues has run once before. Its memory must stay. Copies
// to and from the host and operations that report indices are refused. Nobody else may queue work on the stream.
func (b *Backend) Capture(id kernels.Stream, f func() error) (made *Graph, err error) {
	if err := b.usable("capture"); err != nil {
		return nil, err
	}
	s, err := b.stream(id)
	if err != nil {
		return nil, err
	}
	if err := s.wait("capture"); err != nil { // Free does not wait for the stream from now on
		return nil, err
	}
	runtime.LockOSThread() // a capture ends on the thread that began it
	defer runtime.UnlockOSThread()
	if err := b.check("capture", "beginning to capture", b.ctx.BeginCapture(s.handle)); err != nil {
		return nil, err
	}
	s.capturing.Store(true)
	g, captured := &Graph{b: b}, false
	defer func() { // if f panics, too
		s.capturing.Store(false)
		var rc driver.Result
		g.handle, rc = b.ctx.EndCapture(s.handle)
		if captured {
			err = b.check("capture", "making a graph", rc)
		}
		if !captured || err != nil {
			g.destroy()
			made = nil
			return
		}
		g.spare, s.call.spare = s.call.spare, nil
	}()
	if err := f(); err != nil {
		return nil, err
	}
	captured = true
	return g, nil
}

// Launch queues the graph on a stream.
func (g *Graph) Launch(id kernels.Stream) error {
	b := g.b
	if err := b.usable("graph"); err != nil {
		return err
	}
	s, err := b.stream(id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return b.check("graph", "launching a graph", b.ctx.LaunchGraph(g.handle, s.handle))
}

// Free gives the graph back, when no work uses it any more.
func (g *Graph) Free() {
	g.destroy()
	if g.spare != nil {
		g.b.Free(g.spare)
		g.spare = nil
	}
}

// destroy gives the graph without its memory back; launches of it that are queued still run.
func (g *Graph) destroy() {
	g.handle.Destroy()
	g.handle = driver.Graph{}
}
