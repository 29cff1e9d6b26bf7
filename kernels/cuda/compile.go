//go:build cuda && cgo && linux

package cuda

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/weft-ml/weft/internal/weaktable"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/driver"
	"github.com/weft-ml/weft/kernels/cuda/src"
)

// Sources that are not known before the program runs, those of users' pointwise expressions, are compiled by NVRTC.

// compiled is what was compiled in this process, by the key of the disk cache. GPUs hold what is loaded.
var compiled weaktable.Table[string, image]

// options are those of the compiler. Products and sums are not contracted: their bits matter.
var options = []string{"--std=c++17", "--fmad=false", "--device-as-default-execution-space"}

// compile makes an image of a source, for the GPU g. The name stands in messages of the compiler.
func compile(g *GPU, name, text string, symbols []string) (*image, error) {
	compiler := findNVRTC()
	if compiler.Missing != nil {
		return nil, kernels.Errorf(ErrNoCompiler, "compile",
			"%s is not among the kernels of this build and must be compiled; %v", name, compiler.Missing)
	}
	target := "sm_" + itoa(10*g.Major+g.Minor)
	key := cacheKey(compiler.Version, target, fmt.Sprint(options), text, includesKey())
	return compiled.Get(key, func() (*image, error) {
		cache := openCache()
		if builtin() != nil {
			cache = nil // the code belongs to one build of the driver library
		}
		code := cache.get(key)
		if code == nil {
			var err error
			if code, err = nvrtc(name+".cu", text, target); err != nil {
				return nil, err
			}
			cache.put(key, code)
		}
		return &image{family: name, target: target, symbols: symbols, compiled: true,
			code: func() ([]byte, error) { return slices.Clone(code), nil }}, nil
	})
}

// includes are all headers.
var includes = sync.OnceValue(func() (all []driver.Header) {
	names, err := fs.Glob(src.Files, "*.cuh")
	for _, name := range names {
		var text []byte
		if text, err = src.Files.ReadFile(name); err != nil {
			break
		}
		all = append(all, driver.Header{Name: name, Text: string(text)})
	}
	if err != nil {
		panic("kernels/cuda: " + err.Error()) // they are part of the program
	}
	return all
})

// includesKey identifies them all.
var includesKey = sync.OnceValue(func() string { return cacheKey(fmt.Sprint(includes())) })

// Compilers describes NVRTC, which compiles users' expressions, and the driver's own compiler, which makes machine
// code of PTX where a build has none for the GPU ([GPU.NeedsPTX]).
func Compilers() (nvrtc, ptx Compiler) { return findNVRTC(), findPTXCompiler() }

func findNVRTC() (c Compiler) {
	var detail string
	c.Library, c.Version, detail = driver.NVRTC()
	switch {
	case c.Library == "" && os.Getenv("WEFT_NVRTC") != "":
		c.Missing = kernels.Errorf(ErrNoCompiler, "NVRTC", "it cannot be opened (%s); WEFT_NVRTC names it", detail)
	case c.Library == "":
		c.Missing = kernels.Errorf(ErrNoCompiler, "NVRTC",
			"it cannot be opened (%s); install it (for example: pip install nvidia-cuda-nvrtc-cu12) "+
				"and set WEFT_NVRTC to the path of its libnvrtc.so.12", detail)
	case c.Version == "":
		c.Missing = kernels.Errorf(ErrNoCompiler, "NVRTC", "%s does not say its version", c.Library)
	}
	return c
}

func findPTXCompiler() (c Compiler) {
	var detail string
	c.Library, detail = driver.PTXCompiler()
	switch {
	case c.Library == "":
		c.Missing = kernels.Errorf(ErrNoCompiler, "PTX compiler",
			"it cannot be opened (%s); install the driver's complete package, "+
				"and in a container let NVIDIA_DRIVER_CAPABILITIES have compute", detail)
	case os.Getenv("CUDA_DISABLE_PTX_JIT") == "1":
		c.Missing = kernels.Errorf(ErrNoCompiler, "PTX compiler", "it is switched off; unset CUDA_DISABLE_PTX_JIT")
	}
	return c
}

// nvrtc compiles a source to a cubin.
func nvrtc(name, text, target string) ([]byte, error) {
	code, err := driver.Compile(name, text, includes(), append([]string{"--gpu-architecture=" + target}, options...))
	if err == nil {
		return code, nil
	}
	said := err.Error()
	if strings.Contains(said, "gpu-architecture") {
		said += "\nthis NVRTC is older than the GPU: install a newer one"
	}
	return nil, kernels.Errorf(kernels.ErrDevice, "compile", "%s for %s: %s", name, target, said)
}
