package crashfs

// A history is what a thing may be after a crash: a value that is on the disk, and all that it got since.
type history[T any] struct {
	values []T  // the last is the one that programs see
	clean  bool // a failed sync has marked it as written
}

func (h *history[T]) now() T { return h.values[len(h.values)-1] }

func (h *history[T]) set(v T) { h.values, h.clean = append(h.values, v), false }

// sync puts the last value on the disk, or, if it fails, nobody knows which, and the next sync does not try again.
func (h *history[T]) sync(fails bool) {
	switch {
	case fails:
		h.clean = true
	case !h.clean:
		h.values = h.values[len(h.values)-1:]
	}
}

// after is a value that a crash leaves.
func (h *history[T]) after(choose Choice) T { return h.values[choose(len(h.values))] }
