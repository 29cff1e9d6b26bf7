package caller

import (
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"
)

// A path of calls is known by a hash of its return addresses, which the chain of frame pointers leads to. Unwinding it
// properly, with functions that the compiler inlined, takes a hundred times longer; it is done when a path is new.
// Two paths that share a place in the table push each other out.

const (
	tableSize = 1 << 12
	maxDepth  = 64 // frames that make up the hash
)

// known is a path seen before.
type known struct {
	hash uint64
	site string
}

var table [tableSize]atomic.Pointer[known]

// Site is the innermost caller outside the library, as file:line; "" if there is none.
//
//go:noinline
func Site() string {
	hash := pathHash(framePointer())
	if hash == 0 {
		return find()
	}
	slot := &table[hash>>(64-12)]
	if k := slot.Load(); k != nil && k.hash == hash {
		return k.site
	}
	k := &known{hash, find()}
	slot.Store(k)
	return k.site
}

// pathHash is the hash of the return addresses from frame fp on; 0 where there are no frame pointers. At fp lies the
// frame pointer of the caller, and behind it the address to return to.
func pathHash(fp unsafe.Pointer) uint64 {
	hash := uint64(0)
	for n := 0; fp != nil && n < maxDepth; n++ {
		hash = hash*0x9e3779b97f4a7c15 + uint64(*(*uintptr)(unsafe.Add(fp, unsafe.Sizeof(fp))))
		fp = *(*unsafe.Pointer)(fp)
	}
	return (hash ^ hash>>32) * 0x9e3779b97f4a7c15
}

// root is the directory of the library, as the compiler wrote it down.
var root = func() string {
	_, file, _, _ := runtime.Caller(0)
	return strings.TrimSuffix(file, "internal/caller/caller.go")
}()

// find unwinds the stack of calls.
func find() string {
	pcs := make([]uintptr, 64)
	n := runtime.Callers(2, pcs)
	for n == len(pcs) { // deeply nested modules
		pcs = make([]uintptr, 4*n)
		n = runtime.Callers(2, pcs)
	}
	frames := runtime.CallersFrames(pcs[:n])
	for {
		f, more := frames.Next()
		if !inLibrary(f.Function, f.File) {
			return path.Base(f.File) + ":" + strconv.Itoa(f.Line)
		}
		if !more {
			return ""
		}
	}
}

// inLibrary tells library code from its callers, by its file: a function of the library that was inlined has the name of its
// caller. Tests, examples and commands of this module are callers.
func inLibrary(function, file string) bool {
	if strings.HasPrefix(function, "runtime.") || strings.HasPrefix(function, "reflect.") {
		return true
	}
	in, ok := strings.CutPrefix(file, root)
	if !ok || strings.HasSuffix(file, "_test.go") {
		return false
	}
	return !strings.HasPrefix(in, "examples/") && !strings.HasPrefix(in, "cmd/") && !strings.HasPrefix(in, "bench/")
}
