//go:build cuda && cgo && linux

package cuda

import (
	"maps"
	"sync/atomic"
)

// cowMap is a map that every launch reads, without a lock, and that few calls change: each copies it. The caller of
// add and remove holds a lock.
type cowMap[K comparable, V any] struct{ entries atomic.Pointer[map[K]V] }

// all is the entries now, not to be changed.
func (t *cowMap[K, V]) all() map[K]V {
	if m := t.entries.Load(); m != nil {
		return *m
	}
	return nil
}

// get is the entry of k, the zero value if there is none.
func (t *cowMap[K, V]) get(k K) V { return t.all()[k] }

// add sets the entry of k.
func (t *cowMap[K, V]) add(k K, v V) {
	m := make(map[K]V, len(t.all())+1)
	maps.Copy(m, t.all())
	m[k] = v
	t.entries.Store(&m)
}

// remove removes the entries that a condition holds for.
func (t *cowMap[K, V]) remove(of func(K, V) bool) {
	m := maps.Clone(t.all())
	if maps.DeleteFunc(m, of); len(m) < len(t.all()) {
		t.entries.Store(&m)
	}
}
