package expr

import (
	"runtime"
	"sync"
	"weak"
)

// A table holds one value for each key, for as long as somebody else holds it, too: values that are equal are the same
// pointer, and what nobody uses is collected.
type table[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]weak.Pointer[V]
}

// get is the value of key, which create makes if there is none.
func (t *table[K, V]) get(key K, create func() (*V, error)) (*V, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := t.values[key].Value(); v != nil {
		return v, nil
	}
	v, err := create()
	if err != nil {
		return nil, err
	}
	if t.values == nil {
		t.values = map[K]weak.Pointer[V]{}
	}
	t.values[key] = weak.Make(v)
	runtime.AddCleanup(v, t.forget, key)
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
