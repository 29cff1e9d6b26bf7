//go:build cuda && cgo && linux

package cuda

/*
#include <stdlib.h>
#include "nvrtc.h"
*/
import "C"

import (
	"os"
	"strings"
	"sync"
	"unsafe"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/src"
)

// Sources that are not known before the program runs, those of pointwise expressions, are compiled by NVRTC.

// compiled holds what was compiled in this process, by target and text.
var compiled struct {
	sync.Mutex
	images map[[2]string]*image
}

// compile makes an image of a source, for the GPU g. The name stands in messages of the compiler.
func compile(g *GPU, name, text string, symbols []string) (*image, error) {
	target := "sm_" + itoa(10*g.Major+g.Minor)
	compiled.Lock()
	defer compiled.Unlock()
	if m := compiled.images[[2]string{target, text}]; m != nil {
		return m, nil
	}
	code, err := nvrtc(name+".cu", text, target)
	if err != nil {
		return nil, err
	}
	m := &image{family: name, target: target, symbols: symbols, text: code}
	if compiled.images == nil {
		compiled.images = map[[2]string]*image{}
	}
	compiled.images[[2]string{target, text}] = m
	return m, nil
}

// nvrtc compiles a source to a cubin. Products and sums are not contracted: their bits matter.
func nvrtc(name, text, target string) ([]byte, error) {
	var detail *C.char
	if C.weft_nvrtc_open(&detail) == nil {
		way := "install it (for example: pip install nvidia-cuda-nvrtc-cu12), or set WEFT_NVRTC to its path"
		if os.Getenv("WEFT_NVRTC") != "" {
			way = "WEFT_NVRTC names it"
		}
		return nil, kernels.Errorf(kernels.ErrDevice, "compile", "%s must be compiled, and the library NVRTC cannot be opened (%s); %s", name, C.GoString(detail), way)
	}
	files, err := src.Files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var texts, names, options list
	defer texts.free()
	defer names.free()
	defer options.free()
	for _, f := range files {
		if strings.HasSuffix(f.Name(), ".cuh") {
			header, err := src.Files.ReadFile(f.Name())
			if err != nil {
				return nil, err
			}
			texts.add(string(header))
			names.add(f.Name())
		}
	}
	for _, o := range []string{"--gpu-architecture=" + target, "--std=c++17", "--fmad=false", "--device-as-default-execution-space"} {
		options.add(o)
	}
	var source list
	defer source.free()
	source.add(text)
	source.add(name)
	var code, log *C.char
	var size C.size_t
	failure := C.weft_nvrtc_compile(source.at(0), source.at(1), C.int(texts.n), texts.all(), names.all(), C.int(options.n), options.all(), &code, &size, &log)
	defer C.free(unsafe.Pointer(code))
	defer C.free(unsafe.Pointer(log))
	if failure != nil {
		return nil, kernels.Errorf(kernels.ErrDevice, "compile", "%s for %s: %s\n%s", name, target, C.GoString(failure), strings.TrimSpace(C.GoString(log)))
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
