// Package weaktable keeps one value for each key, as long as somebody uses it.
package weaktable

import (
	"runtime"
	"sync"
	"weak"
)

// A Table holds one value for each key, for as long as somebody else holds it, too: values that are equal are the same
// pointer, and what nobody uses is collected, but for the last values that were asked for. The zero value keeps none of
// these. A Table may be used from many goroutines.
type Table[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]weak.Pointer[V]
	last   []*V // used in turn
	asked  int
}

// New makes a table that keeps the last n values that were asked for.
func New[K comparable, V any](n int) *Table[K, V] { return &Table[K, V]{last: make([]*V, n)} }

// Get is the value of key, which create makes if there is none. Its error is that of create, and nothing is kept then.
func (t *Table[K, V]) Get(key K, create func() (*V, error)) (v *V, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v = t.values[key].Value(); v == nil {
		if v, err = create(); err != nil {
			return nil, err
		}
		if t.values == nil {
			t.values = map[K]weak.Pointer[V]{}
		}
		t.values[key] = weak.Make(v)
		runtime.AddCleanup(v, t.forget, key)
	}
	if len(t.last) > 0 {
		t.last[t.asked%len(t.last)] = v
		t.asked++
	}
	return v, nil
}

// Len is the number of values, which may count some that nobody uses and that are not collected yet.
func (t *Table[K, V]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.values)
}

// forget removes a value that was collected, unless there is a new one.
func (t *Table[K, V]) forget(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.values[key].Value() == nil {
		delete(t.values, key)
	}
}
