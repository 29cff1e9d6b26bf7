//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"
	"unsafe"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/driver"
)

// Constants of probe.cu, and of how it is run.
const (
	probeThreads = 256
	probeLine    = 128 // bytes of a line of the cache
	probeFill    = 0x5a
	probeRuns    = 4  // of each measurement, of which the least time counts
	probeRows    = 64 // of products by wgmma
	probeColumns = 256
	probeDepth   = 64
)

var probeLimit = 30 * time.Second // what would begin later is left out

// probe measures what units of a GPU, and the driver, do by themselves.
type probe struct {
	b       *Backend
	s       *stream
	small   bool
	x, out  kernels.Buffer // what kernels read, and a word for each of their threads
	figures map[string]any
}

// Probe measures what units of the device and the driver do by themselves, some seconds in all: figures by names that
// end with their unit. With small it is a rehearsal, whose figures mean nothing. Each kernel's result is checked, and
// one that is wrong is an error. The list "left out" names what would have begun too late.
func (b *Backend) Probe(small bool) (figures map[string]any, err error) {
	defer kernels.Catch(&err)
	p := &probe{b: b, s: must(b.stream("probe", 0)), small: small, figures: map[string]any{}}
	p.x = must(b.Alloc(p.size(256<<20, 1<<16)))
	defer b.Free(p.x)
	p.out = must(b.Alloc(4 * probeThreads * max(1, b.gpu.SMs) * 8))
	defer b.Free(p.out)
	start, left := time.Now(), []string{}
	for _, part := range []struct {
		name    string
		measure func()
	}{{"latency", p.latency}, {"loads", p.loads}, {"products", p.products}, {"fma", p.multiplyAdds},
		{"launch", p.launches}, {"graphs", p.graphs}, {"modules", p.modules}, {"allocation", p.allocation},
		{"copies", p.copies}} {
		if time.Since(start) > probeLimit {
			left = append(left, part.name)
			continue
		}
		part.measure()
	}
	if len(left) > 0 {
		p.figures["left out"] = left
	}
	p.figures["gpu"], p.figures["multiprocessors"], p.figures["clock, MHz"] = b.gpu.Name, b.gpu.SMs, b.gpu.ClockMHz
	p.figures["seconds"] = short(time.Since(start).Seconds())
	return p.figures, nil
}

// size is n, or for a rehearsal least.
func (p *probe) size(n, least int) int {
	if p.small {
		return least
	}
	return n
}

// short is a figure with four digits.
func short(x float64) float64 {
	y, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64) // it is a number
	return y
}

func (p *probe) check(doing string, rc driver.Result) {
	if err := p.b.check("probe", doing, rc); err != nil {
		panic(err)
	}
}

// least is the least time of f, in seconds.
func (p *probe) least(f func()) float64 {
	least := math.Inf(1)
	for range p.size(probeRuns, 1) {
		start := time.Now()
		f()
		least = min(least, time.Since(start).Seconds())
	}
	return least
}

// run runs a kernel some times, one after the other, and waits. arguments appends those of a launch.
func (p *probe) run(times int, symbol string, blocks, threads int, arguments func(c *call)) {
	p.runShared(times, symbol, blocks, threads, 0, arguments)
}

// runShared is run with so many bytes of dynamic shared memory.
func (p *probe) runShared(times int, symbol string, blocks, threads, shared int, arguments func(c *call)) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	c := &p.s.call
	c.reset("probe")
	for range times {
		c.startShared(symbol, dim{uint32(blocks), 1, 1}, uint32(threads), shared)
		arguments(c)
	}
	if err := c.submit(); err != nil {
		panic(err)
	}
	p.check("waiting", p.b.ctx.Synchronize(p.s.handle))
}

// words are the results of threads.
func (p *probe) words(n int) []uint32 {
	data, words := make([]byte, 4*n), make([]uint32, n)
	if err := p.b.Read(0, data, p.out, 0); err != nil {
		panic(err)
	}
	for i := range words {
		words[i] = binary.NativeEndian.Uint32(data[4*i:])
	}
	return words
}

// expect fails if the result of a kernel is another one than it should be.
func expect[T comparable](symbol string, got, want T) {
	if got != want {
		panic(kernels.Errorf(kernels.ErrDevice, "probe", "%s gives %v, not %v", symbol, got, want))
	}
}

// address appends where memory begins.
func (p *probe) address(c *call, m kernels.Buffer) { arg(c, uint64(p.b.at("probe", m, 0, 0))) }

// chase appends the arguments of probe_chase, which loads so often; without a load it does next to nothing.
func (p *probe) chase(c *call, loads int) {
	p.address(c, p.out)
	p.address(c, p.x)
	arg(c, uint32(loads))
}

// ring makes the first n bytes of x a ring of lines; it returns the number of lines and the step from one to the next.
func (p *probe) ring(n int) (lines, step int) {
	lines = n / probeLine
	step = lines*5/8 | 1 // far, and every line has its turn
	p.run(1, "probe_ring", ceilDiv(lines, probeThreads), probeThreads, func(c *call) {
		p.address(c, p.x)
		arg(c, uint32(lines))
		arg(c, uint32(step))
	})
	return lines, step
}

// latency: a load that waits for the one before, from each cache and from memory.
func (p *probe) latency() {
	found := map[string]float64{}
	for _, n := range []int{16 << 10, 4 << 20, 256 << 20} {
		if n > p.x.Bytes() {
			continue
		}
		lines, step := p.ring(n)
		chase := func(steps int) float64 {
			t := p.least(func() {
				p.run(1, "probe_chase", 1, 1, func(c *call) { p.chase(c, steps) })
			})
			expect("probe_chase", p.words(1)[0], uint32(steps*step%lines*(probeLine/4)))
			return t
		}
		steps := p.size(20000, 20)
		few := chase(steps)
		found[fmt.Sprint(n>>10, " KiB")] = short(1e9 * (chase(2*steps) - few) / float64(steps))
	}
	p.figures["latency of a load, ns"] = found
}

// loads: bandwidth by the width of loads and the bytes in flight on a multiprocessor.
func (p *probe) loads() {
	n := p.x.Bytes()
	p.b.Fill(p.x, probeFill)
	lines, _ := p.ring(n)
	var whole, halves uint32 // sums of 4 bytes, and of 2
	for i := range lines {
		w := uint32(i * (probeLine / 4))
		whole, halves = whole+w, halves+w&0xffff+w>>16
	}
	rest := uint32(n/4 - lines)
	whole, halves = whole+rest*0x5a5a5a5a, halves+2*rest*0x5a5a
	sms := p.size(p.b.gpu.SMs, 2)
	found := map[string]map[string]float64{}
	for _, width := range []int{2, 4, 8, 16} {
		some := map[string]float64{}
		found[fmt.Sprint(width, " bytes")] = some
		for _, each := range []int{1, 4} {
			symbol := fmt.Sprintf("probe_load_%dx%d", width, each)
			for _, blocks := range []int{1, 2, 4, 8} {
				times := p.size(10, 1)
				t := p.least(func() {
					p.run(times, symbol, blocks*sms, probeThreads, func(c *call) {
						p.address(c, p.out)
						p.address(c, p.x)
						arg(c, uint64(n/width))
					})
				})
				sum, want := uint32(0), whole
				for _, w := range p.words(blocks * sms * probeThreads) {
					sum += w
				}
				if width == 2 {
					want = halves
				}
				expect(symbol, sum, want)
				name := fmt.Sprintf("%d in flight, %d a thread", each*blocks*width*probeThreads, each)
				some[name] = short(float64(n*times) / t / 1e9)
			}
		}
	}
	p.figures["loads, GB/s"] = found
}

// chains are kernels in which steps wait for each other, for one chain alone and for all that fit.
type chains struct {
	one, all string
	count    int       // chains of a thread in the second one
	blocks   int       // of that on a multiprocessor
	threads  int       // of a chain
	shared   int       // bytes of dynamic shared memory
	elements int       // of a chain that a thread has
	adds     float64   // what a step adds to an element
	more     []float32 // arguments behind the result and the number of steps
}

// run runs the kernels: the time of a step of one chain alone, in ns, and how many steps a second all chains make.
func (x *chains) run(p *probe) (alone, rate float64) {
	run := func(symbol string, chains, steps, blocks, threads int) float64 {
		t := p.least(func() {
			p.runShared(1, symbol, blocks, threads, x.shared, func(c *call) {
				p.address(c, p.out)
				arg(c, uint32(steps))
				for _, v := range x.more {
					arg(c, v)
				}
			})
		})
		want := float64(x.elements) * (float64(chains*(chains-1)/2) + float64(chains*steps)*x.adds)
		for i, w := range p.words(blocks * probeThreads) {
			if i%probeThreads < threads {
				expect(symbol, float64(math.Float32frombits(w)), want)
			}
		}
		return t
	}
	steps := p.size(8192, 3) // sums are exact
	few := run(x.one, 1, steps, 1, x.threads)
	alone = short(1e9 * (run(x.one, 1, 2*steps, 1, x.threads) - few) / float64(steps))
	blocks := x.blocks * p.size(p.b.gpu.SMs, 2)
	few = run(x.all, x.count, steps, blocks, probeThreads)
	made := float64(steps * blocks * x.count * probeThreads / x.threads)
	return alone, made / (run(x.all, x.count, 2*steps, blocks, probeThreads) - few)
}

// products: a chain of mma.sync, and of wgmma where there is that, alone, and all that the tensor cores do.
func (p *probe) products() {
	for _, d := range []string{"f16", "bf16"} {
		mma := chains{one: "probe_mma_" + d + "x1", all: "probe_mma_" + d + "x8", count: 8, blocks: 2, threads: 32,
			elements: 4, adds: 16}
		alone, rate := mma.run(p)
		p.figures["mma of "+d+" alone, ns"] = alone
		p.figures["mma of "+d+", TFLOP/s"] = short(rate * 2 * 16 * 8 * 16 / 1e12)
		if !p.b.gpu.WGMMA() {
			continue
		}
		wgmma := chains{one: "probe_wgmma_" + d, all: "probe_wgmma_" + d, count: 1, blocks: 1, threads: 128,
			shared: 2 * probeDepth * (probeRows + probeColumns), elements: probeColumns / 2, adds: probeDepth}
		alone, rate = wgmma.run(p)
		p.figures["wgmma of "+d+" alone, ns"] = short(alone / 4) // in a step
		p.figures["wgmma of "+d+", TFLOP/s"] = short(rate * 2 * probeRows * probeColumns * probeDepth / 1e12)
	}
}

// multiplyAdds: the same of FP32.
func (p *probe) multiplyAdds() {
	fma := chains{one: "probe_fma_x1", all: "probe_fma_x8", count: 8, blocks: 2, threads: 32, elements: 1, adds: 1,
		more: []float32{1, 1}}
	alone, rate := fma.run(p)
	p.figures["fma alone, ns"] = alone
	p.figures["fma, TFLOP/s"] = short(rate * 2 * 32 / 1e12)
}

// launches: a kernel that does next to nothing, from the call of the driver on, until it is queued and until it is
// done; and one of many in a row.
func (p *probe) launches() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	c, times := &p.s.call, p.size(500, 3)
	c.reset("probe")
	c.start("probe_chase", dim{1, 1, 1}, 1)
	p.chase(c, 0)
	one := func() {
		_, rc := p.b.ctx.Launch(p.s.handle, c.launches, c.values, c.offsets, 0, 0)
		p.check("launching", rc)
	}
	wait := func() { p.check("waiting", p.b.ctx.Synchronize(p.s.handle)) }
	queued := math.Inf(1)
	all := p.least(func() {
		start := time.Now()
		for range times {
			one()
		}
		queued = min(queued, time.Since(start).Seconds())
		wait()
	})
	p.figures["launch, us"] = map[string]float64{
		"queued":      short(1e6 * queued / float64(times)),
		"many, each":  short(1e6 * all / float64(times)),
		"and a wait":  short(1e6 * p.least(func() { one(); wait() })),
		"wait, alone": short(1e6 * p.least(wait)),
	}
}

// graphs: a graph of kernels that do next to nothing, until it is queued and until it is done; what another of its
// kernels adds.
func (p *probe) graphs() {
	timed := func(nodes int) (queued, done float64) {
		g := must(p.b.capture(func(s *stream, submit func(*call) error) error {
			c := &s.call
			c.reset("probe")
			for range nodes {
				c.start("probe_chase", dim{1, 1, 1}, 1)
				p.chase(c, 0)
			}
			return submit(c)
		}))
		defer g.free()
		queued = math.Inf(1)
		done = p.least(func() {
			start := time.Now()
			p.check("launching a graph", p.b.ctx.LaunchGraph(g.made, p.s.handle))
			queued = min(queued, time.Since(start).Seconds())
			p.check("waiting", p.b.ctx.Synchronize(p.s.handle))
		})
		return queued, done
	}
	few, many := 10, p.size(510, 20)
	queuedFew, doneFew := timed(few)
	queuedMany, doneMany := timed(many)
	p.figures["graphs, us"] = map[string]float64{
		itoa(few) + " nodes, queued": short(1e6 * queuedFew),
		itoa(few) + " nodes, done":   short(1e6 * doneFew),
		"another node, queued":       short(1e6 * (queuedMany - queuedFew) / float64(many-few)),
		"another node, done":         short(1e6 * (doneMany - doneFew) / float64(many-few)),
	}
}

// modules: images from memory to the device, and what one of their kernels takes to be found. The driver may leave code
// where it is until then.
func (p *probe) modules() {
	found := map[string]map[string]float64{}
	for _, symbol := range []string{"probe_chase", "norm_bf16", "softmax_f32"} {
		image := must(find(symbol, &p.b.gpu))[0]
		code := append(must(image.code()), 0)
		load, look := math.Inf(1), math.Inf(1)
		for range p.size(probeRuns, 1) {
			start := time.Now()
			m, _, rc := p.b.ctx.Load(code)
			p.check("loading", rc)
			load = min(load, time.Since(start).Seconds())
			start = time.Now()
			_, rc = p.b.ctx.Function(m, symbol)
			p.check("looking for a kernel", rc)
			look = min(look, time.Since(start).Seconds())
			p.b.ctx.Do(func() driver.Result { m.Unload(); return driver.Success })
		}
		found[symbol+" for "+image.target] = map[string]float64{"load": short(1e6 * load),
			"function": short(1e6 * look)}
	}
	p.figures["modules, us"] = found
}

// allocation: memory of the device, mapped memory and pinned memory of the host.
func (p *probe) allocation() {
	ctx, found := p.b.ctx, map[string]map[string]float64{}
	pair := func(name string, take, give func()) {
		t, g := math.Inf(1), math.Inf(1)
		for range p.size(probeRuns, 1) {
			start := time.Now()
			take()
			t = min(t, time.Since(start).Seconds())
			start = time.Now()
			give()
			g = min(g, time.Since(start).Seconds())
		}
		found[name] = map[string]float64{"take": short(1e6 * t), "give": short(1e6 * g)}
	}
	for _, n := range []int{2 << 20, 64 << 20, 1 << 30} {
		if n > p.size(1<<30, 2<<20) {
			continue
		}
		mib := fmt.Sprint(n>>20, " MiB")
		var at driver.Ptr
		pair(mib, func() {
			var rc driver.Result
			at, _, rc = ctx.Alloc(n)
			p.check("allocating", rc)
		}, func() { p.check("freeing", ctx.Free(at)) })
		if unit, rc := ctx.Granularity(); rc == driver.Success && n%unit == 0 { // a driver may have no virtual memory
			at, rc = ctx.Reserve(n)
			p.check("reserving", rc)
			pair(mib+" mapped", func() { p.check("mapping", ctx.Map(at, n, nil)) },
				func() { p.check("unmapping", ctx.Unmap(at, n)) })
			p.check("giving addresses back", ctx.Unreserve(at, n))
		}
		var host unsafe.Pointer
		pair(mib+" pinned", func() {
			var rc driver.Result
			host, _, rc = ctx.AllocHost(n)
			p.check("pinning", rc)
		}, func() { ctx.Do(func() driver.Result { driver.FreeHost(host); return driver.Success }) })
	}
	p.figures["allocation, us"] = found
}

// copies from and to pinned memory, each until it is done.
func (p *probe) copies() {
	ctx, s := p.b.ctx, p.s.handle
	most := min(p.x.Bytes(), 64<<20)
	host, _, rc := ctx.AllocHost(most)
	p.check("pinning", rc)
	defer ctx.Do(func() driver.Result { driver.FreeHost(host); return driver.Success })
	at := p.b.at("probe", p.x, 0, most)
	done := must(p.b.events.get(p.b))
	defer p.b.events.put(done)
	in, out := map[string]float64{}, map[string]float64{}
	for n := 4 << 10; n <= most; n *= 16 {
		kib := fmt.Sprint(n>>10, " KiB")
		in[kib] = short(1e6 * p.least(func() {
			p.check("copying", ctx.CopyIn(s, at, host, n, done))
			p.check("waiting", ctx.Wait(done))
		}))
		out[kib] = short(1e6 * p.least(func() {
			p.check("copying", ctx.CopyOut(s, host, at, n, done))
			p.check("waiting", ctx.Wait(done))
		}))
	}
	p.figures["copies from pinned memory, us"], p.figures["copies to pinned memory, us"] = in, out
}
