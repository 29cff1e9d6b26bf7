//go:build cuda && cgo && linux

package cuda

import (
	"runtime"
	"slices"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/driver"
)

// A graph is op calls that were captured, to be queued together as often as one likes. It has a stream of its own on
// which they were captured and which runs nothing: so their scratch memory and their reports of indices belong to no
// other launch, before or after.
type graph struct {
	*stream
	made driver.Graph
}

// capture makes a graph of what f queues on its stream. f runs twice, first with a submit that queues nothing: while
// launches are captured no kernel can be loaded and no memory taken. The memory of the operands must stay.
func (b *Backend) capture(f func(s *stream, submit func(*call) error) error) (made *graph, err error) {
	s, err := b.newStream()
	if err != nil {
		return nil, err
	}
	g := &graph{stream: s}
	defer func() {
		if made == nil {
			g.free()
		}
	}()
	queue := func(submit func(*call) error) (err error) {
		defer kernels.Catch(&err) // of plans
		return f(s, submit)
	}
	if err := queue(func(*call) error { return nil }); err != nil {
		return nil, err
	}
	if err := s.wait("capture"); err != nil { // for memory of reports, which is filled
		return nil, err
	}
	if s.reports != nil {
		s.reports.next = 0
	}
	runtime.LockOSThread() // a capture ends on the thread that began it
	defer runtime.UnlockOSThread()
	if err := b.check("capture", "beginning to capture", b.ctx.BeginCapture(s.handle)); err != nil {
		return nil, err
	}
	s.capturing = true
	failed := queue((*call).submit)
	var rc driver.Result
	if g.made, rc = b.ctx.EndCapture(s.handle); failed != nil {
		return nil, failed
	}
	if err := b.check("capture", "making a graph", rc); err != nil {
		return nil, err
	}
	return g, nil
}

// launch queues the graph on a stream.
func (g *graph) launch(id kernels.Stream) error {
	s, err := g.b.stream("graph", id)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.indexError(); err != nil {
		return err
	}
	if err := g.b.check("graph", "launching a graph", g.b.ctx.LaunchGraph(g.made, s.handle)); err != nil {
		return err
	}
	if !slices.Contains(s.graphs, g) {
		s.graphs = append(s.graphs, g)
	}
	if mark := s.log.addGraph(&g.log); s.log.markAddr != 0 {
		if _, rc := g.b.ctx.Launch(s.handle, nil, nil, nil, s.log.markAddr, uint32(mark)); rc != driver.Success {
			s.log.dropMarks() // what is wrong with the device, the next call tells
		}
	}
	return nil
}

// free gives the graph back when all that is queued has run; what it has found is lost.
func (g *graph) free() {
	g.b.wait("graph")
	for _, s := range g.b.allStreams() {
		s.mu.Lock()
		s.graphs = slices.DeleteFunc(s.graphs, func(x *graph) bool { return x == g })
		s.mu.Unlock()
	}
	if g.call.spare != nil {
		g.b.Free(g.call.spare)
	}
	if g.reports != nil {
		g.b.Free(g.reports.words)
	}
	g.b.ctx.Do(func() driver.Result {
		g.made.Destroy()
		g.stream.free()
		return driver.Success
	})
}
