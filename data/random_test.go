package data

import "testing"

func TestStreamsDiffer(t *testing.T) {
	seen := map[uint64]string{}
	add := func(name string, u use, seed, index, i uint64) {
		word := source(u, seed, index).Uint64(i)
		if other, ok := seen[word]; ok {
			t.Errorf("%s gives the same word as %s", name, other)
		}
		seen[word] = name
	}
	add("base", forShuffle, 1, 1, 1)
	add("use", forText, 1, 1, 1)
	add("seed", forShuffle, 2, 1, 1)
	add("seed and use exchanged", forText-1, 2, 1, 1)
	add("seed, upper half", forShuffle, 1|1<<40, 1, 1)
	add("index", forShuffle, 1, 2, 1)
	add("index, upper half", forShuffle, 1, 1|1<<40, 1)
	add("word", forShuffle, 1, 1, 2)
	add("zeros", forShuffle, 0, 0, 0)
}
