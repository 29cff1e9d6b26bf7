package main

import (
	"slices"
	"strings"
)

// perElement estimates how many instructions a thread executes for each element of global memory, or returns 0 where
// that says nothing. The way of a thread is the shortest one through one of the widest accesses: around a loop, or,
// where no loop has accesses or 16 bytes are moved outside of them, from the entry to an exit. Elements are those
// stored on that way, or those loaded if none is.
func perElement(ops []sassOp, size int) float64 {
	for _, matrix := range []string{"HMMA", "HGMMA", "LDGSTS", "UTMALDG"} {
		if counts(ops, matrix) > 0 {
			return 0
		}
	}
	if size == 0 {
		return 0
	}
	loops, ways := map[int][]int{}, map[int][]int{} // by the access that they go through
	for i := range ops {
		if width(&ops[i]) == 0 {
			continue
		}
		if way := around(ops, i); way != nil {
			loops[i] = way
		} else if way := through(ops, i); way != nil {
			ways[i] = way
		}
	}
	if len(loops) == 0 || widest(ops, ways) == vector && widest(ops, loops) < vector {
		loops = ways
	}
	best, most := 0.0, widest(ops, loops)
	for i, way := range loops {
		if width(&ops[i]) != most {
			continue
		}
		if cost := float64(len(way)) / elements(ops, way, size); best == 0 || cost < best {
			best = cost
		}
	}
	return best
}

// vector is the width of the widest access.
const vector = 16

// widest is the width of the widest of the accesses that have a way.
func widest(ops []sassOp, ways map[int][]int) int {
	most := 0
	for i := range ways {
		most = max(most, width(&ops[i]))
	}
	return most
}

// width is the number of bytes that an instruction moves between global memory and the registers of a thread.
func width(o *sassOp) int {
	if !o.is("LDG") && !o.is("STG") {
		return 0
	}
	for modifier := range strings.SplitSeq(o.name, ".") {
		switch modifier {
		case "U8", "S8":
			return 1
		case "U16", "S16":
			return 2
		case "64":
			return 8
		case "128":
			return 16
		}
	}
	return 4
}

func elements(ops []sassOp, way []int, size int) float64 {
	loads, stores := 0, 0
	for _, i := range way {
		if ops[i].is("STG") {
			stores += width(&ops[i])
		} else {
			loads += width(&ops[i])
		}
	}
	if stores > 0 {
		return float64(stores) / float64(size)
	}
	return float64(loads) / float64(size)
}

// around is the shortest loop through instruction i, or nil.
func around(ops []sassOp, i int) []int {
	way := shortest(ops, next(ops, i), func(at int) bool { return at == i })
	return way
}

// through is the shortest way from the entry over instruction i to an exit, or nil.
func through(ops []sassOp, i int) []int {
	to := shortest(ops, []int{0}, func(at int) bool { return at == i })
	from := shortest(ops, []int{i}, func(at int) bool { return ops[at].is("EXIT") })
	if to == nil || from == nil {
		return nil
	}
	return append(to, from[1:]...)
}

// shortest is the shortest way from one of several instructions to one that is searched, both included, or nil.
func shortest(ops []sassOp, from []int, found func(at int) bool) []int {
	const unseen = -2
	before := make([]int, len(ops))
	for i := range before {
		before[i] = unseen
	}
	var queue []int
	visit := func(at, origin int) {
		if before[at] == unseen {
			before[at] = origin
			queue = append(queue, at)
		}
	}
	for _, at := range from {
		visit(at, -1)
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		if found(at) {
			var way []int
			for ; at >= 0; at = before[at] {
				way = append(way, at)
			}
			slices.Reverse(way)
			return way
		}
		for _, to := range next(ops, at) {
			visit(to, at)
		}
	}
	return nil
}

// elementSize is the size of the type that a kernel's name ends with, or 0. Those of pointwise operations have the way
// of access behind it.
func elementSize(name string) int {
	for _, way := range []string{"_vector", "_strided", "_strided64"} {
		name = strings.TrimSuffix(name, way)
	}
	switch name[strings.LastIndexByte(name, '_')+1:] {
	case "b16":
		return 16
	case "f64", "i64", "b8":
		return 8
	case "f32", "i32", "b4":
		return 4
	case "f16", "bf16", "b2":
		return 2
	case "u8", "bool", "b1":
		return 1
	}
	return 0
}
