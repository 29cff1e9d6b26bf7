package main

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
)

// A block is a run of instructions that a thread executes one after the other.
type block struct {
	first, end int   // its instructions
	next       []int // the blocks that may follow it
	bytes      int   // that it moves between global memory and registers
	wide       int   // and, by 16 at a time, between global memory and registers or shared memory
	calls      int   // of subroutines, which compute what is seldom needed, such as quotients near zero
	work       int   // instructions that compute with elements
	products   int   // multiply-adds of a warp
}

// A loop is the blocks that a thread executes again and again; the header is the first of them.
type loop struct {
	header int
	body   map[int]bool
}

// A graph is the blocks of a kernel; the last one is empty and follows every exit.
type graph struct {
	ops    []sassOp
	blocks []block
	loops  []loop // inner ones before outer ones
}

// newGraph finds the blocks and the loops of a kernel.
func newGraph(ops []sassOp) *graph {
	begins := map[int]bool{0: true, len(ops): true}
	for i := range ops {
		if ops[i].branches() {
			begins[i+1] = true
		}
		for _, to := range ops[i].targets {
			begins[to] = true
		}
	}
	g := &graph{ops: ops}
	number := map[int]int{} // of the block that begins at an instruction
	for i := range len(ops) + 1 {
		if begins[i] {
			number[i] = len(g.blocks)
			g.blocks = append(g.blocks, block{first: i, end: i})
		}
	}
	leave := len(g.blocks) - 1
	for i := range g.blocks[:leave] {
		b := &g.blocks[i]
		b.end = g.blocks[i+1].first
		for k := b.first; k < b.end; k++ {
			b.bytes += width(&ops[k])
			if wide.MatchString(ops[k].name) {
				b.wide += 16
			}
			if ops[k].is("CALL") && !ops[k].branches() {
				b.calls++
			}
			if ops[k].works() {
				b.work++
			}
			b.products += products(&ops[k])
		}
		last := &ops[b.end-1]
		if last.continues() {
			b.next = append(b.next, i+1)
		}
		if last.is("EXIT") {
			b.next = append(b.next, leave)
		}
		for _, to := range last.targets {
			if n := number[to]; !slices.Contains(b.next, n) {
				b.next = append(b.next, n)
			}
		}
	}
	g.findLoops()
	return g
}

// findLoops collects the blocks of each loop: its header, and what leads back to it.
func (g *graph) findLoops() {
	const unseen, open, done = 0, 1, 2
	state := make([]int, len(g.blocks))
	before := make([][]int, len(g.blocks))
	latches := map[int][]int{} // by header, the blocks that lead back
	var visit func(at int)
	visit = func(at int) {
		state[at] = open
		for _, to := range g.blocks[at].next {
			before[to] = append(before[to], at)
			switch state[to] {
			case unseen:
				visit(to)
			case open:
				latches[to] = append(latches[to], at)
			}
		}
		state[at] = done
	}
	visit(0)
	for header, todo := range latches {
		l := loop{header, map[int]bool{header: true}}
		for len(todo) > 0 {
			at := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if !l.body[at] {
				l.body[at] = true
				todo = append(todo, before[at]...)
			}
		}
		g.loops = append(g.loops, l)
	}
	slices.SortFunc(g.loops, func(a, b loop) int {
		return cmp.Or(cmp.Compare(len(a.body), len(b.body)), cmp.Compare(a.header, b.header))
	})
}

// once returns the blocks that follow each block where every loop is left after one turn.
func (g *graph) once() [][]int {
	next := make([][]int, len(g.blocks))
	for i := range g.blocks {
		next[i] = slices.Clone(g.blocks[i].next)
	}
	for _, l := range g.loops {
		var exits []int
		for at := range g.blocks {
			for _, to := range next[at] {
				if l.body[at] && !l.body[to] && !slices.Contains(exits, to) {
					exits = append(exits, to)
				}
			}
		}
		for at := range l.body {
			if i := slices.Index(next[at], l.header); i >= 0 {
				if next[at] = slices.Delete(next[at], i, i+1); len(next[at]) == 0 {
					next[at] = slices.Clone(exits)
				}
			}
		}
	}
	return next
}

// turns is how many turns of a loop a thread does, where it is left when a register that counts from zero, or from less
// than a step, in constant steps reaches a constant; 0 of other loops.
func (g *graph) turns(l loop) int {
	for at := range l.body {
		b := &g.blocks[at]
		if !slices.ContainsFunc(b.next, func(to int) bool { return !l.body[to] }) {
			continue
		}
		register, _ := g.ops[b.end-1].guard()
		for i := b.end - 2; i >= b.first; i-- {
			if o := &g.ops[i]; slices.Contains(o.sets(), register) {
				if m := comparison.FindStringSubmatch(o.operands); m != nil && o.is("ISETP") {
					if step := g.step(l, m[1]); step > 0 {
						return (number(m[2]) + step - 1) / step
					}
				}
				break
			}
		}
	}
	return 0
}

// step is what a loop adds to a register, if that is a constant; else 0.
func (g *graph) step(l loop, register string) int {
	for at := range l.body {
		for i := g.blocks[at].first; i < g.blocks[at].end; i++ {
			m := addition.FindStringSubmatch(g.ops[i].operands)
			if m != nil && m[1] == register && m[2] == register && (g.ops[i].is("VIADD") || g.ops[i].is("IADD3")) {
				return number(m[3])
			}
		}
	}
	return 0
}

var (
	comparison = regexp.MustCompile(`^P\d, PT, (R\d+)(?:\.reuse)?, (0x[0-9a-f]+), PT$`)
	addition   = regexp.MustCompile(`^(R\d+), (R\d+)(?:\.reuse)?, (0x[0-9a-f]+)(?:, RZ)?$`)
)

func number(hex string) int {
	n, _ := strconv.ParseInt(hex, 0, 32) // 0 where it is a negative number
	return int(n)
}

// wide are accesses of global memory by 16 bytes, as copies of tiles have.
var wide = regexp.MustCompile(`^(LDG|STG|LDGSTS)\..*128`)

// mostProducts are the blocks, in order, of the path with the most multiply-adds; of several that with the most wide
// accesses, by the fewest instructions. Loops are left after one turn.
func (g *graph) mostProducts() []int {
	next := g.once()
	type sum struct{ products, wide, count, next int }
	best := make([]*sum, len(g.blocks))
	var from func(at int) *sum
	from = func(at int) *sum {
		if best[at] != nil {
			return best[at]
		}
		best[at] = &sum{next: -1}
		for _, to := range next[at] {
			if s := from(to); best[at].next < 0 || cmp.Or(cmp.Compare(s.products, best[at].products),
				cmp.Compare(s.wide, best[at].wide), -cmp.Compare(s.count, best[at].count)) > 0 {
				*best[at] = sum{s.products, s.wide, s.count, to}
			}
		}
		best[at].wide += g.blocks[at].wide
		best[at].products += g.blocks[at].products
		best[at].count += g.blocks[at].end - g.blocks[at].first
		return best[at]
	}
	from(0)
	var order []int
	for at := 0; at >= 0; at = best[at].next {
		order = append(order, at)
	}
	return order
}

// A way is blocks from one to the end of the kernel.
type way struct {
	block                     int
	rest                      *way
	bytes, calls, work, count int // as of its blocks; instructions
}

// manyWays is how many ways from a block are kept, of different bytes.
const manyWays = 16

// ways returns full ways from the entry, those that move the most bytes first; of those that move the same, one. Where
// a branch skips instructions, a full way has them, unless they move nothing and call a subroutine or compute nothing
// but offsets. Where it chooses between two pieces of code, there are ways over both; of those that move the same
// bytes, that with the fewest subroutines and instructions.
func (g *graph) ways() []*way {
	next := g.once()
	reached := make([][]bool, len(g.blocks))
	var reach func(at int) []bool
	reach = func(at int) []bool {
		if reached[at] == nil {
			all := make([]bool, len(g.blocks))
			all[at], reached[at] = true, all
			for _, to := range next[at] {
				for k, yes := range reach(to) {
					all[k] = all[k] || yes
				}
			}
		}
		return reached[at]
	}
	full := make([][]*way, len(g.blocks))
	seen := make([]bool, len(g.blocks))
	var from func(at int) []*way
	from = func(at int) []*way {
		if seen[at] {
			return full[at]
		}
		seen[at] = true
		rest := []*way{}
		if at == len(g.blocks)-1 {
			rest = []*way{nil}
		}
		for i, to := range next[at] {
			more := from(to)
			switch {
			case i == 0 || len(rest) == 0:
				rest = more
			case len(more) == 0:
			case reach(next[at][0])[to]:
				rest = taken(rest, more)
			case reach(to)[next[at][0]]:
				rest = taken(more, rest)
			default:
				rest = either(rest, more)
			}
		}
		for _, r := range rest {
			full[at] = append(full[at], g.extend(at, r))
		}
		return full[at]
	}
	return from(0)
}

// extend puts a block before a way.
func (g *graph) extend(at int, rest *way) *way {
	b := &g.blocks[at]
	w := &way{at, rest, b.bytes, b.calls, b.work, b.end - b.first}
	if rest != nil {
		w.bytes += rest.bytes
		w.calls += rest.calls
		w.work += rest.work
		w.count += rest.count
	}
	return w
}

// taken chooses between the ways over instructions that a branch may skip, and the ways without them.
func taken(over, without []*way) []*way {
	a, b := over[0], without[0]
	if a.bytes == b.bytes && (a.calls > b.calls || a.work == b.work) {
		return either(over, without)
	}
	return over
}

// either are the ways of two pieces of code.
func either(a, b []*way) []*way {
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, func(a, b *way) int {
		return cmp.Or(-cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.calls, b.calls), cmp.Compare(a.count, b.count))
	})
	all = slices.CompactFunc(all, func(a, b *way) bool { return a.bytes == b.bytes })
	return all[:min(len(all), manyWays)]
}
