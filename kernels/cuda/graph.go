//go:build cuda && cgo && linux

package cuda

// #include "shim.h"
import "C"

import (
	"runtime"

	"github.com/weft-ml/weft/kernels"
)

// Graph is work of a stream that was captured, to be queued again and again as a whole.
type Graph struct {
	b      *Backend
	handle C.CUgraphExec
}

// Capture makes a graph of what f queues on a stream, which does not run meanwhile. f must not wait nor take memory from
// the driver, which refuses that to its thread, and its memory must stay. Nobody else may queue work on the stream.
func (b *Backend) Capture(id kernels.Stream, f func() error) (*Graph, error) {
	if err := b.usable("capture"); err != nil {
		return nil, err
	}
	s, err := b.stream(id)
	if err != nil {
		return nil, err
	}
	s.flush()
	runtime.LockOSThread() // a capture ends on the thread that began it
	defer runtime.UnlockOSThread()
	if err := b.check("capture", "beginning to capture", int(C.weft_capture_begin(b.ctx.handle, s.handle))); err != nil {
		return nil, err
	}
	s.capturing.Store(true)
	err = f()
	s.capturing.Store(false)
	g := &Graph{b: b}
	rc := int(C.weft_capture_end(b.ctx.handle, s.handle, &g.handle))
	if err != nil {
		g.Free()
		return nil, err
	}
	if err := b.check("capture", "making a graph", rc); err != nil {
		return nil, err
	}
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
	s.lock()
	defer s.mu.Unlock()
	return b.check("graph", "launching a graph", int(C.weft_graph_launch(b.ctx.handle, g.handle, s.handle)))
}

// Free gives the graph back; launches of it that are queued still run.
func (g *Graph) Free() {
	if g.handle != nil {
		C.cuGraphExecDestroy(g.handle)
		g.handle = nil
	}
}
