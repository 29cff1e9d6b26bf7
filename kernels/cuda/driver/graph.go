//go:build cuda && cgo && linux

package driver

// #include "shim.h"
import "C"

// Graph is launches that were captured, to be queued together. The zero value is none.
type Graph struct{ handle C.CUgraphExec }

// BeginCapture makes what is queued on a stream from now on part of a graph: it does not run. Until the capture ends,
// by the same thread, that thread may do nothing but launch.
func (c Context) BeginCapture(s Stream) Result {
	return Result(C.weft_capture_begin(c.handle, s.handle))
}

// EndCapture ends a capture. There is no graph if a call was refused meanwhile.
func (c Context) EndCapture(s Stream) (g Graph, rc Result) {
	rc = Result(C.weft_capture_end(c.handle, s.handle, &g.handle))
	return g, rc
}

// LaunchGraph queues the launches of a graph on a stream.
func (c Context) LaunchGraph(g Graph, s Stream) Result {
	return Result(C.weft_graph_launch(c.handle, g.handle, s.handle))
}

// Destroy gives the graph back; launches of it that are queued still run. The context is current: see [Context.Do].
func (g Graph) Destroy() {
	if g.handle != nil {
		C.cuGraphExecDestroy(g.handle)
	}
}
