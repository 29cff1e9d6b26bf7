//go:build emu && cgo && linux

package emu

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

typedef uintptr_t word;

// Calls a function of the driver, whose arguments are integers or pointers, with the context current on this thread.
static int call(void *f, int (*set_current)(void *), void *context, const word *a) {
	if (context) {
		int rc = set_current(context);
		if (rc) return rc;
	}
	int (*g)(word, word, word, word, word, word, word, word, word, word, word, word) = f;
	return g(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11]);
}

static const char *text(void *f) { return ((const char *(*)(void))f)(); }
*/
import "C"

import (
	"fmt"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

// A Driver is a driver library with the primary context of its first device.
type Driver struct {
	library    unsafe.Pointer
	setCurrent unsafe.Pointer
	context    unsafe.Pointer
	mu         sync.Mutex
	symbols    map[string]unsafe.Pointer
}

// An Error is what a function of the driver returned.
type Error struct {
	Call string
	Code int
	Text string
}

// Error names the call and the reason.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Call, e.Text) }

// A Ptr is an address of device memory.
type Ptr uintptr

// Load opens a driver library without calling it.
func Load(path string) (*Driver, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	d := &Driver{library: C.dlopen(name, C.RTLD_NOW|C.RTLD_LOCAL), symbols: map[string]unsafe.Pointer{}}
	if d.library == nil {
		return nil, fmt.Errorf("emu: %s", C.GoString(C.dlerror()))
	}
	return d, nil
}

// Open opens a driver library and its first device.
func Open(path string) (*Driver, error) {
	d, err := Load(path)
	if err != nil {
		return nil, err
	}
	if err := d.Call("cuInit", 0); err != nil {
		return nil, err
	}
	context := new(unsafe.Pointer)
	if err := d.Call("cuDevicePrimaryCtxRetain", context, 0); err != nil {
		return nil, err
	}
	d.setCurrent, d.context = d.symbol("cuCtxSetCurrent"), *context
	return d, nil
}

func (d *Driver) symbol(name string) unsafe.Pointer {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.symbols[name]; p != nil {
		return p
	}
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	d.symbols[name] = C.dlsym(d.library, s)
	return d.symbols[name]
}

// Call calls any function of the driver. Arguments are integers, pointers, slices (their first element) and strings.
func (d *Driver) Call(name string, args ...any) error {
	f := d.symbol(name)
	if f == nil {
		return &Error{name, 801, "the library has no such function"}
	}
	var words [12]C.word
	var pins runtime.Pinner
	defer pins.Unpin()
	for i, a := range args {
		words[i] = word(&pins, a)
	}
	if rc := C.call(f, (*[0]byte)(d.setCurrent), d.context, &words[0]); rc != 0 {
		return d.fault(name, int(rc))
	}
	return nil
}

// word is an argument as it is in a register.
func word(pins *runtime.Pinner, arg any) C.word {
	v := reflect.ValueOf(arg)
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice:
		if v.IsNil() || v.Kind() == reflect.Slice && v.Len() == 0 {
			return 0
		}
		pins.Pin(v.UnsafePointer())
		return C.word(uintptr(v.UnsafePointer()))
	case reflect.UnsafePointer:
		return C.word(uintptr(v.UnsafePointer()))
	case reflect.String:
		b := append([]byte(v.String()), 0)
		pins.Pin(&b[0])
		return C.word(uintptr(unsafe.Pointer(&b[0])))
	}
	if v.CanInt() {
		return C.word(v.Int())
	}
	return C.word(v.Uint())
}

// fault is the error with a code.
func (d *Driver) fault(name string, code int) error {
	text := fmt.Sprintf("error %d", code)
	if f := d.symbol("cuGetErrorString"); f != nil {
		p := new(*C.char)
		var pins runtime.Pinner
		pins.Pin(p)
		words := [12]C.word{C.word(code), C.word(uintptr(unsafe.Pointer(p)))}
		if C.call(f, nil, nil, &words[0]) == 0 {
			text = C.GoString(*p)
		}
		pins.Unpin()
	}
	return &Error{name, code, text}
}

// Emulated tells whether the library is the emulator, which has settings.
func (d *Driver) Emulated() bool { return d.symbol("emu_set") != nil }

// Set changes a setting of the emulator; README.md lists them.
func (d *Driver) Set(name, value string) error { return d.Call("emu_set", name, value) }

// Statistics returns what was counted since the last call, as src/statistics.h describes.
func (d *Driver) Statistics() string { return C.GoString(C.text(d.symbol("emu_statistics"))) }

// Calls returns how often each function of the driver was called since the last call of Calls. Those that need no
// context are not counted.
func (d *Driver) Calls() map[string]int {
	calls := map[string]int{}
	for line := range strings.Lines(C.GoString(C.text(d.symbol("emu_calls")))) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), "\t")
		calls[name], _ = strconv.Atoi(count)
	}
	return calls
}

// Reset resets the device: it has no memory, streams and faults then.
func (d *Driver) Reset() error { return d.Call("cuDevicePrimaryCtxReset_v2", 0) }

// Alloc allocates device memory.
func (d *Driver) Alloc(bytes int) (Ptr, error) {
	p := new(Ptr)
	err := d.Call("cuMemAlloc_v2", p, bytes)
	return *p, err
}

// Free frees device memory, without waiting for its users.
func (d *Driver) Free(p Ptr) error { return d.Call("cuMemFree_v2", uintptr(p)) }

// Upload copies data to the device.
func Upload[T any](d *Driver, to Ptr, data []T) error {
	return d.Call("cuMemcpyHtoD_v2", uintptr(to), data, len(data)*int(unsafe.Sizeof(*new(T))))
}

// Download copies data from the device after all work in streams that are ordered with the null stream.
func Download[T any](d *Driver, data []T, from Ptr) error {
	return d.Call("cuMemcpyDtoH_v2", data, uintptr(from), len(data)*int(unsafe.Sizeof(*new(T))))
}

// Module loads an image.
func (d *Driver) Module(image []byte) (uintptr, error) {
	m := new(uintptr)
	err := d.Call("cuModuleLoadData", m, append(image, 0))
	return *m, err
}

// Function finds a kernel of a module.
func (d *Driver) Function(module uintptr, name string) (uintptr, error) {
	f := new(uintptr)
	err := d.Call("cuModuleGetFunction", f, module, name)
	return *f, err
}

// Launch queues a kernel in a stream. Each argument is a scalar, a Ptr, or a struct as the kernel declares it, or its
// bytes.
func (d *Driver) Launch(f uintptr, grid, block [3]uint32, shared int, stream uintptr, args ...any) error {
	var pins runtime.Pinner
	defer pins.Unpin()
	parameters := make([]unsafe.Pointer, len(args)+1)
	for i, a := range args {
		if b, ok := a.([]byte); ok {
			parameters[i] = unsafe.Pointer(&b[0])
			pins.Pin(parameters[i])
			continue
		}
		p := reflect.New(reflect.TypeOf(a))
		p.Elem().Set(reflect.ValueOf(a))
		parameters[i] = p.UnsafePointer()
		pins.Pin(parameters[i])
	}
	return d.Call("cuLaunchKernel",
		f, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, stream, parameters, 0)
}

// Synchronize waits for all work of the device.
func (d *Driver) Synchronize() error { return d.Call("cuCtxSynchronize") }
