//go:build cuda && cgo && linux

package cuda

// #include "shim.h"
import "C"

import (
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/weft-ml/weft/kernels"
)

// image is a compiled family of kernels for some GPUs.
type image struct {
	family  string   // such as "softmax"
	target  string   // see rank
	symbols []string // entry points, such as "softmax_fwd_bf16"
	gzip    []byte   // a cubin, or PTX text
	text    []byte   // in place of gzip: what the driver is given as it is
}

// images are all compiled kernels of this build. None exists yet.
var images []*image

// rank tells how well code for a target fits a GPU of compute capability major.minor; 0 if it does not run there.
//
//	sm_90a      a cubin for exactly 9.0, with instructions of that chip alone: best
//	sm_80       a cubin for 8.0 and later 8.x
//	compute_80  PTX for everything from 8.0 on, compiled by the driver when it is loaded
func rank(target string, major, minor int) int {
	kind, number, _ := strings.Cut(target, "_")
	number, special := strings.CutSuffix(number, "a")
	n, err := strconv.Atoi(number)
	have := 10*major + minor
	switch {
	case err != nil || n > have:
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

// find returns the image that has a symbol and fits g best, or nil, and all targets that have it.
func find(symbol string, g *GPU) (best *image, targets []string) {
	for _, m := range images {
		if !slices.Contains(m.symbols, symbol) {
			continue
		}
		targets = append(targets, m.target)
		if r := rank(m.target, g.Major, g.Minor); r > 0 && (best == nil || r > rank(best.target, g.Major, g.Minor)) {
			best = m
		}
	}
	if len(targets) == 0 && g.emulated() {
		return emulated, []string{emulated.target}
	}
	return best, targets
}

// Kernels says which kernels of this build fit the GPU.
func (g *GPU) Kernels() string {
	fit := map[string]int{} // symbols of each target
	for _, m := range images {
		for _, symbol := range m.symbols {
			if best, _ := find(symbol, g); best == m {
				fit[m.target]++
			}
		}
	}
	if len(fit) == 0 {
		return "none in this build"
	}
	var parts []string
	for _, target := range slices.Sorted(maps.Keys(fit)) {
		parts = append(parts, itoa(fit[target])+" for "+target)
	}
	return strings.Join(parts, ", ")
}

// function is an entry point on a device.
type function struct {
	name       string
	handle     C.uintptr_t
	registers  int // of a thread
	local      int // bytes of local memory of a thread; spills are there
	maxThreads int // of a block
	shared     int // dynamic shared memory that may be asked for, in bytes
}

// smallShared is the dynamic shared memory that a kernel may have without asking.
const smallShared = 48 << 10

// allowShared raises the limit of dynamic shared memory.
func (f *function) allowShared(b *Backend, n int) error {
	rc := C.weft_function_set(b.ctx.handle, f.handle, C.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, C.int(n))
	if err := b.check("load", itoa(n)+" bytes of shared memory for "+f.name, int(rc)); err != nil {
		return err
	}
	f.shared = n
	return nil
}

// loader holds what of the images is on a device. Images are loaded when a kernel of theirs is first used.
type loader struct {
	mu        sync.RWMutex
	kernels   map[*kernels.Op]*byType
	functions map[string]*function
	modules   map[*image]C.CUmodule

	expressions map[pointwiseKey]*pointwiseFamily
}

// function returns an entry point, loading its image if need be.
func (l *loader) function(b *Backend, symbol string) (*function, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.load(b, symbol)
}

// load is function with mu held.
func (l *loader) load(b *Backend, symbol string) (*function, error) {
	if f := l.functions[symbol]; f != nil {
		return f, nil
	}
	m, targets := find(symbol, &b.gpu)
	if len(targets) == 0 {
		return nil, kernels.Errorf(kernels.ErrDevice, "load", "this build has no kernel %s", symbol)
	}
	if m == nil {
		return nil, kernels.Errorf(kernels.ErrDevice, "load", "kernel %s: this GPU has compute capability %s; in this build it is for %s",
			symbol, b.gpu.Capability(), strings.Join(targets, ", "))
	}
	return l.entry(b, m, symbol)
}

// entry returns an entry point of an image. mu is held.
func (l *loader) entry(b *Backend, m *image, symbol string) (*function, error) {
	module, err := l.module(b, m)
	if err != nil {
		return nil, err
	}
	f, err := newFunction(b, module, symbol)
	if err != nil {
		return nil, err
	}
	if l.functions == nil {
		l.functions = map[string]*function{}
	}
	l.functions[symbol] = f
	return f, nil
}

// data is what the driver is given, a copy.
func (m *image) data() ([]byte, error) {
	if m.text != nil {
		return slices.Clone(m.text), nil
	}
	r, err := gzip.NewReader(bytes.NewReader(m.gzip))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// module returns the loaded form of an image.
func (l *loader) module(b *Backend, m *image) (C.CUmodule, error) {
	if module := l.modules[m]; module != nil {
		return module, nil
	}
	data, err := m.data()
	if err != nil {
		return nil, kernels.Errorf(kernels.ErrDevice, "load", "image %s for %s: %v", m.family, m.target, err)
	}
	data = append(data, 0) // PTX is text that ends with a zero
	var module C.CUmodule
	log := make([]byte, 4096)
	rc := C.weft_module_load(b.ctx.handle, unsafe.Pointer(&data[0]), &module, (*C.char)(unsafe.Pointer(&log[0])), C.size_t(len(log)))
	if rc != C.CUDA_SUCCESS {
		doing := "loading image " + m.family + " for " + m.target
		if text := C.GoString((*C.char)(unsafe.Pointer(&log[0]))); text != "" {
			doing += " (" + strings.TrimSpace(text) + ")"
		}
		return nil, b.failed("load", doing, int(rc))
	}
	if l.modules == nil {
		l.modules = map[*image]C.CUmodule{}
	}
	l.modules[m] = module
	return module, nil
}

// newFunction looks an entry point up and asks the driver for its figures.
func newFunction(b *Backend, module C.CUmodule, symbol string) (*function, error) {
	f := &function{name: symbol, shared: smallShared}
	rc := b.ctx.do(func() error {
		fn, err := moduleOf(module).Function(symbol)
		if err != nil {
			return err
		}
		f.handle = C.uintptr_t(handleOf[uintptr](fn))
		for attribute, to := range map[cu.FunctionAttribute]*int{
			cu.NumRegs: &f.registers, cu.LocalSizeBytes: &f.local, cu.FnMaxThreadsPerBlock: &f.maxThreads,
		} {
			if *to, err = fn.Attribute(attribute); err != nil {
				return err
			}
		}
		return nil
	})
	if err := b.check("load", "looking for kernel "+symbol, rc); err != nil {
		return nil, err
	}
	return f, nil
}

// moduleOf makes the module of package cu from the driver's handle.
func moduleOf(m C.CUmodule) cu.Module { return *(*cu.Module)(unsafe.Pointer(&m)) }

// free unloads everything. The context is current.
func (l *loader) free() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.modules {
		moduleOf(m).Unload()
	}
	l.modules, l.functions, l.kernels, l.expressions = nil, nil, nil, nil
}
