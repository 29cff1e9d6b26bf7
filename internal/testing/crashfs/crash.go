package crashfs

import (
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
)

// A Choice picks one of n possibilities: 0 is what is surely on the disk, n-1 what was done last.
type Choice func(n int) int

// Crash returns what is on the disk if the power fails now, as a file system of its own.
func (f *FS) Crash(choose Choice) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	after := New()
	after.root = survive(f.root, choose, map[node]node{}).(*folder)
	return after
}

// survive is what a crash leaves of a node. A file with two names survives once: copies are by node.
func survive(n node, choose Choice, copies map[node]node) node {
	if c := copies[n]; c != nil {
		return c
	}
	switch n := n.(type) {
	case *folder:
		to := newFolder()
		copies[n] = to
		for _, name := range slices.Sorted(maps.Keys(n.names)) {
			if c := survive(n.names[name].after(choose), choose, copies); c != nil {
				to.names[name] = &history[node]{values: []node{c}}
			}
		}
		return to
	case *file:
		to := &file{size: &history[int64]{values: []int64{n.size.after(choose)}}}
		copies[n] = to
		for _, s := range n.sectors {
			to.sectors = append(to.sectors, &history[*[Sector]byte]{values: []*[Sector]byte{s.after(choose)}})
		}
		return to
	}
	return nil
}

// States yields all states that a crash can leave now. There are many: 2^10 for ten sectors that are not synced.
func (f *FS) States() iter.Seq[*FS] {
	return func(yield func(*FS) bool) {
		for choose := range every() {
			if !yield(f.Crash(choose)) {
				return
			}
		}
	}
}

// every yields choices until each sequence of choices has been made, as an odometer counts. What is asked for may
// depend on the choices before it.
func every() iter.Seq[Choice] {
	return func(yield func(Choice) bool) {
		type wheel struct{ at, n int }
		var wheels []wheel
		for {
			k := 0
			choose := func(n int) int {
				if k == len(wheels) {
					wheels = append(wheels, wheel{0, n})
				}
				k++
				return wheels[k-1].at
			}
			if !yield(choose) {
				return
			}
			for k = len(wheels) - 1; k >= 0 && wheels[k].at == wheels[k].n-1; k-- {
			}
			if k < 0 {
				return
			}
			wheels = wheels[:k+1]
			wheels[k].at++
		}
	}
}

// Random returns choices for one crash. Some crashes lose all that was not synced, some nothing, and some almost all or
// almost nothing: what goes wrong often needs one part to be lost, or one to survive.
func Random(rng *rand.Rand) Choice {
	lose := rng.IntN(2) == 0
	stray := []float64{0, 0.05, 1}[rng.IntN(3)]
	return func(n int) int {
		switch {
		case rng.Float64() < stray:
			return rng.IntN(n)
		case lose:
			return 0
		}
		return n - 1
	}
}
