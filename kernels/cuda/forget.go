//go:build cuda && cgo && linux

package cuda

import (
	"runtime"

	"github.com/weft-ml/weft/kernels/cuda/driver"
	"github.com/weft-ml/weft/kernels/expr"
)

// What NVRTC has compiled of an expression lives as long as the expression, which package expr keeps as long as
// somebody holds it, and the last [expr.Kept]. What is left behind is unloaded when another expression is compiled, and
// no launch of it can be in flight any more. Images of the build stay.

// leaving is the compiled images of expressions that were collected. The loader's mu guards it.
type leaving struct {
	images map[*image]map[*stream]uint64 // by stream, the launches that must be finished before an image is unloaded
	due    int                           // so many compiled images loaded, and garbage is collected
}

// forget unloads the compiled images that nobody can use any more. Expressions are garbage of a few kilobytes each, on
// which no collection of Go would wait, so every 256 of them there is one. mu is held.
func (l *loader) forget(b *Backend) {
	if l.unload(b) < max(l.leaving.due, expr.Kept) {
		return
	}
	runtime.GC()
	loaded := l.unload(b)
	if len(l.leaving.images) >= expr.Kept { // the host is far ahead of the device
		b.waits.Note("to unload kernels of expressions")
		for _, s := range b.allStreams() {
			if err := s.wait("load"); err != nil {
				b.postpone(err)
				return
			}
		}
		for _, queued := range l.leaving.images {
			clear(queued) // what was launched of them before they were garbage
		}
		loaded = l.unload(b)
	}
	l.leaving.due = loaded + expr.Kept
}

// unload unloads the compiled images whose expressions were collected and whose launches are finished. It returns how
// many are loaded still.
func (l *loader) unload(b *Backend) (loaded int) {
	l.expressions.remove(func(k pointwiseKey, _ *pointwiseFamily) bool { return k.f.Value() == nil })
	used := map[*image]bool{}
	for _, f := range l.expressions.all() {
		used[f.image] = true
	}
	b.ctx.Do(func() driver.Result {
		for m, module := range l.modules {
			switch {
			case !m.compiled:
			case used[m]:
				delete(l.leaving.images, m)
				loaded++
			case l.left(b, m):
				module.Unload()
				delete(l.modules, m)
				delete(l.leaving.images, m)
			default:
				loaded++
			}
		}
		return driver.Success
	})
	return loaded
}

// left tells whether no launch of an image that no expression uses is in flight.
func (l *loader) left(b *Backend, m *image) bool {
	queued := l.leaving.images[m]
	if queued == nil {
		queued = map[*stream]uint64{}
		for _, s := range b.allStreams() {
			queued[s] = s.log.queued()
		}
		if l.leaving.images == nil {
			l.leaving.images = map[*image]map[*stream]uint64{}
		}
		l.leaving.images[m] = queued
	}
	for s, n := range queued {
		if !s.log.finished(n) {
			return false
		}
	}
	return true
}
