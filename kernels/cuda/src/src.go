// Package src holds the CUDA sources of the library's kernels, and writes those of pointwise operations.
//
// A family of kernels is one file, such as softmax.cu. What they share is in headers: prim.cuh (the primitives, and
// the rules for kernels), index.cuh (strides), walk.cuh (16 bytes a thread, whatever the layout), philox.cuh (random
// numbers), element.cuh (element types and conversion), lane.cuh and z_lane.cuh (exp, erf and the like with the bits of
// package kernels/expr/lane), f64.cuh and i64.cuh (the same instructions on double and int64_t), pointwise.cuh (the
// frame of pointwise kernels). [Files] has them all, for compilers at run time. The same files compile for a GPU and, by
// g++, for the emulator in internal/testing/emu.
//
// FP32 kernels compute in the canonical order (docs/DESIGN.md, section 9): their results are those of kernels/cpu to
// the bit.
package src

import (
	"embed"
	"strings"

	"github.com/weft-ml/weft/kernels/expr/lane"
)

// Files are the sources.
//
//go:embed *.cu *.cuh
var Files embed.FS

// Instructions is the content of z_lane.cuh: the instructions of expressions as CUDA functions.
func Instructions() string {
	var b strings.Builder
	b.WriteString("// Generated from package kernels/expr/lane by go test ./kernels/cuda/src -update. DO NOT EDIT.\n")
	b.WriteString("#pragma once\n#include \"lane.cuh\"\n")
	for i := range lane.Instrs {
		b.WriteString("\n" + lane.Instrs[i].CUDA())
	}
	return b.String()
}
