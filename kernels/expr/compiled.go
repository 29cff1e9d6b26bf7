package expr

// compiled is one of the things that a function was compiled to: for a type, and a set of arguments that are one
// element. They are few, so they are a list, which is read without a lock.
type compiled struct {
	next *compiled
	made any // *madeFor
}

type madeFor[K comparable, V any] struct {
	key K
	v   *V
}

// Compiled is what f was compiled to for key by [Compile]; nil if that was not done. A backend tells its own by the
// types.
func Compiled[V any, K comparable](f *Func, key K) *V {
	for c := f.compiled.Load(); c != nil; c = c.next {
		if m, ok := c.made.(*madeFor[K, V]); ok && m.key == key {
			return m.v
		}
	}
	return nil
}

// Compile keeps v for [Compiled], as long as f lives, and returns it. If another goroutine was faster it returns what
// that one has made.
func Compile[V any, K comparable](f *Func, key K, v *V) *V {
	f.mu.Lock()
	defer f.mu.Unlock()
	if first := Compiled[V](f, key); first != nil {
		return first
	}
	f.compiled.Store(&compiled{f.compiled.Load(), &madeFor[K, V]{key, v}})
	return v
}
