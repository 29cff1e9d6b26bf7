package expr

import (
	"runtime"
	"sync"
	"weak"
)

// A table holds one value for each key, for as long as somebody else holds it, too: values that are equal are the same
// pointer, and what nobody uses is collected, but for the last values that were asked for.
type table[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]weak.Pointer[V]
	last   []*V // used in turn
	asked  int
}

// get is the value of key, which create makes if there is none.
func (t *table[K, V]) get(key K, create func() (*V, error)) (v *V, err error) {
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

// forget removes a value that was collected, unless there is a new one.
func (t *table[K, V]) forget(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.values[key].Value() == nil {
		delete(t.values, key)
	}
}
