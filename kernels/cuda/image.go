//go:build cuda && cgo && linux

package cuda

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/driver"
	"github.com/weft-ml/weft/kernels/cuda/images"
)

// image is compiled kernels for some GPUs: one of package images, or what was compiled in this process.
type image struct {
	family    string   // such as "softmax"
	target    string   // see rank
	symbols   []string // entry points, such as "softmax_fwd_bf16"
	registers int      // of a thread: what the budget allows; 0 if there is none
	text      string   // SHA-256 of the source, if that was generated
	compiled  bool     // in this process
	code      func() ([]byte, error)
}

// library is the images of a build.
type library struct {
	all      []*image
	bySymbol map[string][]*image
	byText   map[string][]*image
}

// shipped is the images of this build.
var shipped = sync.OnceValue(func() *library {
	var all []*image
	for _, m := range images.All() {
		all = append(all, &image{family: m.Family, target: m.Target, symbols: m.Symbols, registers: m.Registers,
			text: m.Text, code: m.Code})
	}
	return newLibrary(all...)
})

func newLibrary(all ...*image) *library {
	l := &library{all: all, bySymbol: map[string][]*image{}, byText: map[string][]*image{}}
	for _, m := range all {
		for _, symbol := range m.symbols {
			l.bySymbol[symbol] = append(l.bySymbol[symbol], m)
		}
		if m.text != "" {
			l.byText[m.text] = append(l.byText[m.text], m)
		}
	}
	return l
}

// rank tells how well code for a target fits a GPU of compute capability major.minor; 0 if it does not run there.
//
//	sm_90a      a cubin for exactly 9.0, with instructions of that chip alone: best
//	sm_80       a cubin for 8.0 and later 8.x
//	compute_80  PTX for everything from 8.0 on, compiled by the driver when it is loaded
func rank(target string, major, minor int) int {
	kind, n, special, ok := parseTarget(target)
	have := 10*major + minor
	switch {
	case !ok || n > have:
		return 0
	case special && n != have:
		return 0
	case special && kind == "sm":
		return 4000
	case kind == "sm" && n/10 == major:
		return 3000 + n
	case kind == "compute":
		return 1000 + n
	}
	return 0
}

// parseTarget takes a target apart: "sm" or "compute", 10 times the compute capability, and whether it ends with "a".
func parseTarget(target string) (kind string, n int, special, ok bool) {
	kind, number, _ := strings.Cut(target, "_")
	number, special = strings.CutSuffix(number, "a")
	n, err := strconv.Atoi(number)
	return kind, n, special, err == nil
}

// builtin is an image of the kernels of source files that the driver library itself has; nil if it has none, as that
// of a GPU. They serve where this build has no image with a kernel, and generated ones are compiled.
var builtin = sync.OnceValue(func() *image {
	code := driver.Kernels()
	if code == "" {
		return nil
	}
	return &image{family: "builtin", target: "this driver", code: func() ([]byte, error) { return []byte(code), nil }}
})

// fitting are those of some images that run on g, the best first.
func fitting(some []*image, g *GPU) []*image {
	var fit []*image
	for _, m := range some {
		if rank(m.target, g.Major, g.Minor) > 0 && !(m.text != "" && builtin() != nil) {
			fit = append(fit, m)
		}
	}
	slices.SortStableFunc(fit,
		func(a, b *image) int { return rank(b.target, g.Major, g.Minor) - rank(a.target, g.Major, g.Minor) })
	return fit
}

// find returns the images that have a symbol and run on g, the best first.
func find(symbol string, g *GPU) ([]*image, error) {
	some := shipped().bySymbol[symbol]
	if len(some) == 0 {
		if own := builtin(); own != nil {
			return []*image{own}, nil
		}
		return nil, kernels.Errorf(kernels.ErrDevice, "load", "this build has no kernel %s", symbol)
	}
	fit := fitting(some, g)
	if len(fit) == 0 {
		return nil, kernels.Errorf(kernels.ErrDevice, "load", "kernel %s: this GPU is compute %s; shipped: %s", symbol,
			g.Capability(), coverage(some))
	}
	return fit, nil
}

// coverage says for which compute capabilities images are: "8.0 and newer".
func coverage(some []*image) string {
	var parts []string
	for _, m := range some {
		kind, n, special, ok := parseTarget(m.target)
		part := fmt.Sprintf("%d.%d", n/10, n%10)
		switch {
		case !ok:
			part = m.target
		case kind == "compute" && !special:
			part += " and newer"
		case !special:
			part += fmt.Sprintf(" to %d.9", n/10)
		}
		parts = append(parts, part)
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), ", ")
}

// Kernels says which kernels of this build fit the GPU.
func (g *GPU) Kernels() string {
	all, fit := shipped(), g.fit()
	switch {
	case len(all.all) == 0:
		return "none in this build"
	case len(fit) == 0:
		return "none for this GPU; shipped: " + coverage(all.all)
	}
	var parts []string
	for _, target := range slices.Sorted(maps.Keys(fit)) {
		parts = append(parts, itoa(fit[target])+" for "+target)
	}
	return strings.Join(parts, ", ")
}

// NeedsPTX tells whether the driver must compile kernels of this build for the GPU.
func (g *GPU) NeedsPTX() bool {
	for target := range g.fit() {
		if strings.HasPrefix(target, "compute_") {
			return true
		}
	}
	return false
}

// fit counts the kernels of this build that are for the GPU, by target.
func (g *GPU) fit() map[string]int {
	fit := map[string]int{}
	for _, some := range shipped().bySymbol {
		if best := fitting(some, g); len(best) > 0 {
			fit[best[0].target]++
		}
	}
	return fit
}

// function is an entry point on a device.
type function struct {
	driver.Function
	name string
}

// loader holds what of the images is on a device. Images are loaded when a kernel of theirs is first used.
type loader struct {
	functions   cowMap[string, *function]
	expressions cowMap[pointwiseKey, *pointwiseFamily]

	mu      sync.Mutex // guards additions, and what follows
	modules map[*image]driver.Module
	refused map[*image]bool // by the driver, for which the next one is as good
	remarks []string        // what is not as the budget wants it
	leaving leaving
}

// function returns an entry point, loading its image if need be. It keeps a copy of the symbol, so that callers put
// symbols together without allocating.
func (l *loader) function(b *Backend, symbol string) (*function, error) {
	if f := l.functions.get(symbol); f != nil {
		return f, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.functions.get(symbol); f != nil {
		return f, nil
	}
	own := strings.Clone(symbol)
	fit, err := find(own, &b.gpu)
	if err != nil {
		return nil, err
	}
	f, _, err := l.entry(b, fit, own)
	if err != nil {
		return nil, err
	}
	l.functions.add(own, f)
	return f, nil
}

// entry returns an entry point of the first of some images that the driver takes, and that image. One that it does
// not take, whatever the reason, has no consequence if the next one runs; a lack of memory, or the loss of the device,
// is an error. mu is held.
func (l *loader) entry(b *Backend, fit []*image, symbol string) (*function, *image, error) {
	for i, m := range fit {
		if l.refused[m] && i+1 < len(fit) {
			continue
		}
		module, rc, err := l.module(b, m)
		if err != nil && i+1 < len(fit) && rc.Class() == driver.CallFailed && rc != driver.NotFound {
			if l.refused == nil {
				l.refused = map[*image]bool{}
			}
			l.refused[m] = true
			l.remark(fmt.Sprintf("%s: the driver refuses %s, and gets %s: %v", symbol, m.target, fit[i+1].target, err))
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		made, rc := b.ctx.Function(module, symbol)
		if err := b.check("load", "looking for kernel "+symbol, rc); err != nil {
			return nil, nil, err
		}
		f := &function{made, symbol}
		l.remark(f.excess(m)...)
		return f, m, nil
	}
	panic("no image fits")
}

// remark notes that a kernel is slower than it should be, and logs it: results are right, and nobody would look for it.
func (l *loader) remark(texts ...string) {
	l.remarks = append(l.remarks, texts...)
	for _, text := range texts {
		slog.Warn("weft: slow kernel on a GPU", "kernel", text)
	}
}

// excess compares what the driver says of a kernel with its budget: a driver that compiles PTX itself may find another
// way than those that the kernel was checked with.
func (f *function) excess(m *image) (remarks []string) {
	if m.registers > 0 && f.Registers > m.registers {
		remarks = append(remarks,
			fmt.Sprintf("%s (%s): %d registers, budget %d", f.name, m.target, f.Registers, m.registers))
	}
	if f.Local > 0 {
		remarks = append(remarks,
			fmt.Sprintf("%s (%s): %d bytes of local memory for a thread, budget 0", f.name, m.target, f.Local))
	}
	return remarks
}

// CheckKernels loads all kernels of this build that fit the device and compares the driver's figures of each with its
// budget. It returns how many there are, and remarks on those that use more.
func (b *Backend) CheckKernels() (n int, remarks []string, err error) {
	l := &b.images
	all := shipped()
	for _, symbol := range slices.Sorted(maps.Keys(all.bySymbol)) {
		if len(fitting(all.bySymbol[symbol], &b.gpu)) == 0 {
			continue // for other GPUs alone
		}
		if _, err := l.function(b, symbol); err != nil {
			return n, nil, err
		}
		n++
	}
	if n == 0 {
		return 0, nil, kernels.Errorf(kernels.ErrDevice, "load", "kernels of this build: %s", b.gpu.Kernels())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return n, slices.Clone(l.remarks), nil
}

// module returns the loaded form of an image, or the driver's code for why there is none.
func (l *loader) module(b *Backend, m *image) (driver.Module, driver.Result, error) {
	if module, loaded := l.modules[m]; loaded {
		return module, driver.Success, nil
	}
	data, err := m.code()
	if err != nil {
		return driver.Module{}, driver.Success,
			kernels.Errorf(kernels.ErrDevice, "load", "image %s for %s: %v", m.family, m.target, err)
	}
	module, log, rc := b.ctx.Load(append(data, 0)) // PTX is text that ends with a zero
	if rc != driver.Success {
		doing := "loading image " + m.family + " for " + m.target
		if text := strings.TrimSpace(log); text != "" {
			doing += " (" + text + ")"
		}
		if way, kind := wayOut(rc); kind != nil {
			return module, rc, kernels.Errorf(kind, "load", "%s on %s: %s; %s", doing, b.Name(), rc.String(), way)
		}
		e := b.failed("load", doing, rc)
		if e.Kind == kernels.ErrMemory {
			e.Kind = kernels.ErrScratch
		}
		return module, rc, e
	}
	if l.modules == nil {
		l.modules = map[*image]driver.Module{}
	}
	l.modules[m] = module
	return module, driver.Success, nil
}

// wayOut says what to do when the driver has no code for its GPU and cannot compile PTX; nil for other failures.
func wayOut(code driver.Result) (way string, kind error) {
	const newer = "this GPU is newer than the machine code of this build, and "
	switch code {
	case driver.JITCompilerNotFound:
		return newer + "for others the driver needs its compiler, libnvidia-ptxjitcompiler.so.1: " +
			"install the driver's complete package", ErrNoCompiler
	case driver.JITCompilationDisabled:
		return newer + "the driver's compiler is switched off: unset CUDA_DISABLE_PTX_JIT", ErrNoCompiler
	case driver.UnsupportedPTXVersion:
		return newer + "the driver older than its PTX: Weft needs driver 550 or newer", ErrNoCompiler
	case driver.NoBinaryForGPU:
		return "CUDA_FORCE_PTX_JIT or CUDA_DISABLE_PTX_JIT may be why", kernels.ErrDevice
	}
	return "", nil
}

// free unloads everything. The context is current.
func (l *loader) free() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.modules {
		m.Unload()
	}
	l.modules = nil
}
