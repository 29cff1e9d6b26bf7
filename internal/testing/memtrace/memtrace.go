// Package memtrace has what allocators of device memory are compared on: traces of training and inference, and models
// of other allocators. Names of steps and sizes are those of common networks.
package memtrace

import (
	"math"
	"math/rand/v2"

	"github.com/weft-ml/weft/internal/plan"
)

// Trace is what a program asks of an allocator.
type Trace struct {
	Name string
	run  func(p *program)
}

// program runs a trace on an allocator.
type program struct {
	alloc      func(n int) (free func())
	rng        *rand.Rand
	live, peak int
	ops        int
}

// Run runs the trace on an allocator and returns the largest number of live bytes and the number of allocations.
func (t Trace) Run(alloc func(n int) (free func())) (peak, ops int) {
	p := &program{alloc: alloc, rng: rand.New(rand.NewPCG(1, 2))}
	t.run(p)
	return p.peak, p.ops
}

// Blocks are the lifetimes of the trace's memory, counted in allocations; what it does not free lives to the end.
func (t Trace) Blocks() (blocks []plan.Block) {
	now := 0
	t.Run(func(n int) func() {
		i := len(blocks)
		blocks = append(blocks, plan.Block{Size: n, First: now, Last: math.MaxInt - 1})
		now++
		return func() { blocks[i].Last = now - 1 }
	})
	return blocks
}

// take is n bytes of live memory.
func (p *program) take(n int) (free func()) {
	release := p.alloc(n)
	p.ops++
	p.live += n
	p.peak = max(p.peak, p.live)
	return func() { p.live -= n; release() }
}

// All are the traces.
func All() []Trace {
	fixed := func(*program) (batch, tokens int) { return 16, 256 }
	varying := func(p *program) (batch, tokens int) { return 1 + p.rng.IntN(16), 32 + p.rng.IntN(481) }
	return []Trace{
		{Name: "gpt", run: func(p *program) { p.train(gpt, 20, fixed, false) }},
		{Name: "gpt, varying lengths", run: func(p *program) { p.train(gpt, 60, varying, false) }},
		{Name: "gpt, recomputed", run: func(p *program) { p.train(gpt, 20, fixed, true) }},
		{Name: "gpt, recomputed, varying", run: func(p *program) { p.train(gpt, 60, varying, true) }},
		{Name: "cnn, varying batch", run: func(p *program) {
			p.train(cnn, 60, func(p *program) (int, int) { return 1 + p.rng.IntN(64), 64 }, false)
		}},
		{Name: "cnn, last batch smaller", run: func(p *program) {
			i := 0
			p.train(cnn, 40, func(*program) (int, int) { i++; return 64 - 23*(i%10/9), 64 }, false)
		}},
		{Name: "decoding", run: decode},
	}
}

// network is the bytes of parameters and of what forward saves and does not save, layer by layer.
type network struct {
	params []int
	layers func(batch, tokens int) (saved, temporary [][]int)
}

var gpt = network{
	params: repeat(12, 4*384*3*384, 4*3*384, 4*384*384, 4*384, 4*4*384*384, 4*4*384, 4*4*384*384, 4*384, 4*384, 4*384),
	layers: func(b, t int) (saved, temporary [][]int) {
		x := 4 * b * t * 384
		for range 12 {
			saved = append(saved, []int{x, 8 * b * t, 3 * x, 4 * b * 6 * t, x, x, 8 * b * t, 4 * x, 4 * x, x})
			temporary = append(temporary, []int{x, 4 * b * 6 * t * t, x})
		}
		saved = append(saved, []int{x, 4 * b * t * 65, 4 * b * t})
		return saved, append(temporary, []int{4 * b * t * 65})
	},
}

var cnn = network{
	params: []int{4 * 64 * 3 * 49, 4 * 64 * 64 * 9, 4 * 64 * 64 * 9, 4 * 128 * 64 * 9, 4 * 128 * 128 * 9,
		4 * 256 * 128 * 9, 4 * 256 * 256 * 9, 4 * 512 * 256 * 9, 4 * 512 * 512 * 9, 4 * 512 * 10, 256, 256, 512, 512,
		1024, 1024, 2048, 2048, 40},
	layers: func(b, size int) (saved, temporary [][]int) {
		for _, channels := range []int{64, 64, 128, 256, 512} {
			x := 4 * b * channels * size * size
			for range 2 {
				saved = append(saved, []int{x, x, 4 * channels, 4 * channels, x})
				temporary = append(temporary, []int{x * 9 / 8, x})
			}
			size /= 2
		}
		return append(saved, []int{4 * b * 512, 4 * b * 10}), append(temporary, []int{4 * b * 512})
	},
}

func repeat(times int, sizes ...int) (all []int) {
	for range times {
		all = append(all, sizes...)
	}
	return all
}

// train is steps of training with AdamW.
func (p *program) train(n network, steps int, shape func(*program) (batch, tokens int), recompute bool) {
	for range 3 {
		for _, bytes := range n.params {
			defer p.take(bytes)()
		}
	}
	var grads []func()
	for range steps {
		saved, temporary := n.layers(shape(p))
		held := make([][]func(), len(saved))
		input := p.take(saved[0][0])
		forward := func(i int, keep bool) {
			var all, short []func()
			for j, bytes := range saved[i] {
				all = append(all, p.take(bytes))
				if j < len(temporary[i]) {
					short = append(short, p.take(temporary[i][j]))
				}
				if len(short) > 1 {
					short[0]()
					short = short[1:]
				}
			}
			free(short)
			if !keep { // but the result
				free(all[:len(all)-1])
				all = all[len(all)-1:]
			}
			held[i] = append(held[i], all...)
		}
		for i := range saved {
			forward(i, !recompute)
		}
		for _, bytes := range n.params { // flat gradients are made once a step
			grads = append(grads, p.take(bytes))
		}
		for i := len(saved) - 1; i >= 0; i-- {
			if recompute {
				forward(i, true)
			}
			g := p.take(saved[i][0])
			for _, bytes := range saved[i][1:] {
				next := p.take(bytes)
				g()
				g = next
			}
			g()
			free(held[i])
		}
		input()
		free(grads)
		grads = grads[:0]
	}
}

func free(all []func()) {
	for i := len(all) - 1; i >= 0; i-- {
		all[i]()
	}
}

// decode makes text for several prompts, whose caches of keys and values grow.
func decode(p *program) {
	for range 6 {
		caches := make([]func(), 24)
		prompt := 20 + p.rng.IntN(200)
		for token := range 150 {
			n := prompt
			if token > 0 {
				n = 1
			}
			for i := range caches {
				x := 4 * 4 * n * 384
				grown := p.take(4 * 4 * 384 * (prompt + token))
				if caches[i] != nil {
					caches[i]()
				}
				caches[i] = grown
				a, b := p.take(x), p.take(4*x)
				a()
				c := p.take(x)
				b()
				c()
			}
		}
		free(caches)
	}
}
