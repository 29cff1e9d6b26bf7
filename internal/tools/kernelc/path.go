package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A path is what a thread executes where all elements of its row or chunk exist. Code is from entry to exit, loops
// once. The rest is of its steady part: of the loops that move most of its bytes, one turn of each, or else of all.
type path struct {
	code, instructions int
	loaded, stored     int     // bytes
	results            int     // of the stored ones: those of the width by which most are stored
	width              int     // at least half of the bytes move in accesses of this many, or more
	waits              float64 // how often the thread waits for memory, one latency each

	parts []part // what is steady, until the waits are counted
}

// A part is instructions of a path in order, of one turn if they are those of a loop.
type part struct {
	ops   []*sassOp
	loops bool
}

// fullPath is the path of a kernel that moves the most bytes, but not more than most; 0 is any number. If another one
// has wider accesses and moves at least half as many, it is that, as the first one is then for rows that are not
// aligned. It is nil for kernels whose copies or products do not go through registers, and for those that move nothing.
func fullPath(ops []sassOp, most int) *path {
	for _, matrix := range []string{"HMMA", "HGMMA", "LDGSTS", "UTMALDG"} {
		if counts(ops, matrix) > 0 {
			return nil
		}
	}
	if !slices.ContainsFunc(ops, func(o sassOp) bool { return width(&o) > 0 }) {
		return nil
	}
	g := newGraph(ops)
	var best *path
	bytes := 0
	for _, w := range g.ways() {
		if w.bytes == 0 || most > 0 && w.bytes > most || 2*w.bytes < bytes {
			continue
		}
		bytes = max(bytes, w.bytes)
		if p := g.path(w); best == nil || p.width > best.width {
			best = p
		}
	}
	if best == nil {
		return nil
	}
	for _, part := range best.parts {
		best.waits += waits(part.ops, part.loops)
	}
	best.parts = nil
	return best
}

// productPath is the instructions of one turn of each loop in which a kernel does most of its multiply-adds, with all
// turns of the loops inside whose number is constant, and without what only some turns do.
func productPath(ops []sassOp) []*sassOp {
	g := newGraph(ops)
	order := g.mostProducts()
	on := map[int]bool{}
	for _, at := range order {
		on[at] = true
	}
	counted := map[int]int{} // turns, by header
	others := &graph{ops: g.ops, blocks: g.blocks}
	for _, l := range g.loops {
		if n := g.turns(l); n > 0 {
			counted[l.header] = n
		} else {
			others.loops = append(others.loops, l)
		}
	}
	var turn []*sassOp
	for _, part := range others.steady(on, loop{-1, on}, func(b *block) int { return b.products }) {
		for _, at := range order {
			if !part.body[at] {
				continue
			}
			n := 1
			for _, l := range g.loops {
				if l.body[at] {
					n *= max(1, counted[l.header])
				}
			}
			for range n {
				turn = append(turn, g.among([]int{at}, part.body)...)
			}
		}
	}
	return turn
}

// path is a way without its waits.
func (g *graph) path(w *way) *path {
	p := &path{code: w.count}
	on := map[int]bool{}
	var order []int
	for ; w != nil; w = w.rest {
		on[w.block] = true
		order = append(order, w.block)
	}
	var widths []int
	stores := map[int]int{} // bytes, by width
	off := g.off(order)
	for _, l := range g.steady(on, loop{-1, on}, func(b *block) int { return b.bytes }) {
		ops := g.among(order, l.body)
		p.instructions += len(ops)
		ops = slices.DeleteFunc(ops, func(o *sassOp) bool { return off[o] })
		p.parts = append(p.parts, part{ops, l.header >= 0})
		for _, o := range ops {
			n := width(o)
			if n > 0 {
				widths = append(widths, n)
			}
			if o.is("STG") {
				p.stored += n
				stores[n] += n
				p.results = max(p.results, stores[n])
			} else {
				p.loaded += n
			}
		}
	}
	slices.Sort(widths)
	for moved := 0; 2*moved < p.loaded+p.stored; {
		p.width = widths[len(widths)-1]
		moved, widths = moved+p.width, widths[:len(widths)-1]
	}
	return p
}

// among are the instructions of those blocks of a path that are in a body.
func (g *graph) among(order []int, body map[int]bool) []*sassOp {
	var ops []*sassOp
	for _, at := range order {
		if body[at] {
			for i := g.blocks[at].first; i < g.blocks[at].end; i++ {
				ops = append(ops, &g.ops[i])
			}
		}
	}
	return ops
}

// steady are the parts of a path in which a thread does its work, of which blocks have so much. Inside a part these are
// the outermost loops, if one turn of each does at least an eighth of its work. A loop that does a quarter of what
// another one does, or less, is for the few elements that remain.
func (g *graph) steady(on map[int]bool, part loop, work func(*block) int) []loop {
	of := func(l loop) (sum int) {
		for at := range l.body {
			if on[at] {
				sum += work(&g.blocks[at])
			}
		}
		return sum
	}
	var loops []loop
	sum, most := 0, 0
	covered := map[int]bool{}
	for _, l := range slices.Backward(g.loops) {
		if !on[l.header] || l.header == part.header || !part.body[l.header] || covered[l.header] || of(l) == 0 {
			continue
		}
		loops = append(loops, l)
		for at := range l.body {
			covered[at] = true
		}
		sum, most = sum+of(l), max(most, of(l))
	}
	if 8*sum < of(part) || len(loops) == 0 {
		return []loop{part}
	}
	var parts []loop
	for _, l := range slices.Backward(loops) {
		if 4*of(l) > most {
			parts = append(parts, g.steady(on, l, work)...)
		}
	}
	return parts
}

// Registers of operands. What has only predicates for results reads all of its registers.
var (
	registerName = regexp.MustCompile(`\bR(\d+)\b`)
	resultName   = regexp.MustCompile(`^(?:U?P[T0-6], *)*R(\d+)(?:\.reuse)?(?:,|$)`)
	noResult     = regexp.MustCompile(`^(ST|STG|STS|RED|BAR|BRA|BRX|R2P|FCHK|PLOP3|VOTE|[A-Z]+SETP\d?)(\.|$)`)
)

// waits is how many latencies of memory a thread waits in a sequence of instructions: each load arrives one latency
// after it was issued, the first instruction that reads its result waits until then, and nothing else takes time. Loads
// of less than a quarter of the widest are single numbers, which a cache has. Of a loop it is the mean of turns behind
// the first ones.
func waits(ops []*sassOp, isLoop bool) float64 {
	const before, turns = 4, 4
	arrives := map[int]float64{} // by register
	clock, start := 0.0, 0.0
	widest := 0
	for _, o := range ops {
		if o.is("LDG") {
			widest = max(widest, width(o))
		}
	}
	turn := func() {
		for _, o := range ops {
			result := -1
			operands := o.operands
			if m := resultName.FindStringSubmatch(operands); m != nil && !noResult.MatchString(o.name) {
				result, _ = strconv.Atoi(m[1])
				operands = operands[strings.Index(operands, m[0])+len(m[0]):]
			}
			size := width(o)
			for _, m := range registerName.FindAllStringSubmatch(operands, -1) {
				r, _ := strconv.Atoi(m[1])
				clock = max(clock, arrives[r])
				if o.is("STG") && strings.HasSuffix(operands, m[0]) {
					for k := r; k < r+(size+3)/4; k++ {
						clock = max(clock, arrives[k])
					}
				}
			}
			if result < 0 {
				continue
			}
			delete(arrives, result)
			if o.is("LDG") && 4*size >= widest {
				for k := result; k < result+(size+3)/4; k++ {
					arrives[k] = clock + 1
				}
			}
		}
	}
	if !isLoop {
		turn()
		return clock
	}
	for range before {
		turn()
	}
	start = clock
	for range turns {
		turn()
	}
	return (clock - start) / turns
}

// elements is the number of elements of a path: those it stores, without statistics of another width, unless that is
// less than a third of what it loads, as of a sum.
func (p *path) elements(size int) float64 {
	if p == nil || size == 0 {
		return 0
	}
	if 3*p.results >= p.loaded {
		return float64(p.results) / float64(size)
	}
	return float64(p.loaded) / float64(size)
}

// perElement is how many instructions of a path are for one element, or 0 where that says nothing.
func (p *path) perElement(size int) float64 {
	if n := p.elements(size); n > 0 {
		return float64(p.instructions) / n
	}
	return 0
}

// elementSize is the size of the type that a kernel's name ends with, or 0. Those of pointwise operations have the way
// of access behind it.
func elementSize(name string) int {
	for _, way := range []string{"_vector", "_strided"} {
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
