//go:build cuda && cgo && linux

package driver

// #include "shim.h"
import "C"

// Graphs are for compiled steps: all launches of a step queued as one graph.

// Graph is captured work. The zero value is none.
type Graph struct{ handle C.CUgraphExec }

// BeginCapture makes what is queued on a stream part of a graph; it does not run. The capture ends on the thread that
// began it.
func (c Context) BeginCapture(s Stream) Result {
	return Result(C.weft_capture_begin(c.handle, s.handle))
}

// EndCapture ends a capture.
func (c Context) EndCapture(s Stream) (g Graph, rc Result) {
	rc = Result(C.weft_capture_end(c.handle, s.handle, &g.handle))
	return g, rc
}

// LaunchGraph queues a graph on a stream.
func (c Context) LaunchGraph(g Graph, s Stream) Result {
	return Result(C.weft_graph_launch(c.handle, g.handle, s.handle))
}

// Destroy gives the graph back; launches of it that are queued still run.
func (g Graph) Destroy() {
	if g.handle != nil {
		C.cuGraphExecDestroy(g.handle)
	}
}
