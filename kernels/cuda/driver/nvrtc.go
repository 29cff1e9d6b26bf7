//go:build cuda && cgo && linux

package driver

/*
#include <stdlib.h>
#include "nvrtc.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"unsafe"
)

// NVRTC is the path of NVIDIA's compiler as a library and its version, "" if it does not say; or "" and why it cannot
// be opened. The first call decides.
func NVRTC() (path, version, detail string) {
	var why *C.char
	var major, minor C.int
	path = C.GoString(C.weft_nvrtc_open(&major, &minor, &why))
	if major > 0 {
		version = fmt.Sprintf("%d.%d", major, minor)
	}
	return path, version, C.GoString(why)
}

// Header is a text that sources include by its name.
type Header struct{ Name, Text string }

// Compile compiles a source to a cubin. The error is what NVRTC said.
func Compile(name, text string, headers []Header, options []string) ([]byte, error) {
	var texts, names, flags, source list
	for _, l := range []*list{&texts, &names, &flags, &source} {
		defer l.free()
	}
	for _, h := range headers {
		texts.add(h.Text)
		names.add(h.Name)
	}
	for _, o := range options {
		flags.add(o)
	}
	source.add(text)
	source.add(name)
	var code, log *C.char
	var size C.size_t
	failure := C.weft_nvrtc_compile(source.at(0), source.at(1), C.int(texts.n), texts.all(), names.all(),
		C.int(flags.n), flags.all(), &code, &size, &log)
	defer C.free(unsafe.Pointer(code))
	defer C.free(unsafe.Pointer(log))
	if failure != nil {
		return nil, fmt.Errorf("%s\n%s", C.GoString(failure), strings.TrimSpace(C.GoString(log)))
	}
	return C.GoBytes(unsafe.Pointer(code), C.int(size)), nil
}

// list is at most 64 strings of C.
type list struct {
	n int
	p *[64]*C.char // in C memory
}

func (s *list) add(text string) {
	if s.p == nil {
		s.p = (*[64]*C.char)(C.calloc(64, C.size_t(unsafe.Sizeof(s.p))))
	}
	s.p[s.n] = C.CString(text)
	s.n++
}

func (s *list) at(i int) *C.char { return s.p[i] }

func (s *list) all() **C.char { return &s.p[0] }

func (s *list) free() {
	for i := range s.n {
		C.free(unsafe.Pointer(s.p[i]))
	}
	C.free(unsafe.Pointer(s.p))
}
