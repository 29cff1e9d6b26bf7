package caller

import (
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"
)

// A call path is identified by a hash of its return addresses, found by following the frame pointers. Unwinding the
// stack with the functions that the compiler inlined takes a hundred times longer; it is done when a path is new. Two
// paths that share a slot of the cache evict each other.

const (
	slotBits = 12
	maxDepth = 64 // frames that make up the hash
)

// entry is a path seen before.
type entry struct {
	hash uint64
	site string
}

var cache [1 << slotBits]atomic.Pointer[entry]

// Site is the innermost caller outside the library, as file:line; "" if there is none.
//
//go:noinline
func Site() string {
	hash := pathHash(framePointer())
	if hash == 0 {
		return find()
	}
	slot := &cache[hash>>(64-slotBits)]
	if e := slot.Load(); e != nil && e.hash == hash {
		return e.site
	}
	e := &entry{hash, find()}
	slot.Store(e)
	return e.site
}

// pathHash is the hash of the return addresses from frame fp on; 0 where there are no frame pointers. The word at fp is
// the frame pointer of the caller, the next word the return address.
func pathHash(fp unsafe.Pointer) uint64 {
	hash := uint64(0)
	for n := 0; fp != nil && n < maxDepth; n++ {
		hash = hash*0x9e3779b97f4a7c15 + uint64(*(*uintptr)(unsafe.Add(fp, unsafe.Sizeof(fp))))
		fp = *(*unsafe.Pointer)(fp)
	}
	return (hash ^ hash>>32) * 0x9e3779b97f4a7c15
}

// root is the directory of the library, as the compiler recorded it.
var root = func() string {
	_, file, _, _ := runtime.Caller(0)
	return strings.TrimSuffix(file, "internal/caller/caller.go")
}()

// find unwinds the stack.
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

// goroot is the directory of Go's library, as the compiler recorded it: "" with -trimpath.
var goroot = func() string {
	pc := make([]uintptr, 1)
	runtime.Callers(0, pc)
	f, _ := runtime.CallersFrames(pc).Next() // runtime.Callers
	return strings.TrimSuffix(f.File, "runtime/extern.go")
}()

// callsBack are directories of Go's library with functions that call this one: loops over slices.Backward, sync.Once.
var callsBack = []string{"iter", "maps", "slices", "sort", "strings", "sync"}

// inLibrary reports whether a frame is library code, by its file: an inlined function of the library has the name of
// its caller. Tests, examples and commands of this module are callers.
func inLibrary(function, file string) bool {
	if strings.HasPrefix(function, "runtime.") || strings.HasPrefix(function, "reflect.") {
		return true
	}
	path, ok := strings.CutPrefix(file, goroot)
	if dir, _, _ := strings.Cut(path, "/"); ok && slices.Contains(callsBack, dir) {
		return true
	}
	path, ok = strings.CutPrefix(file, root)
	if !ok || strings.HasSuffix(file, "_test.go") {
		return false
	}
	return !strings.HasPrefix(path, "examples/") && !strings.HasPrefix(path, "cmd/") &&
		!strings.HasPrefix(path, "bench/")
}
