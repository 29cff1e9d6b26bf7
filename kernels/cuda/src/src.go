// Package src holds the CUDA sources of the library's kernels, and writes those of pointwise operations.
//
// A family of kernels is one file, with the stem of its files in package tensor, kernels/cpu and kernels/cuda. From the
// primitives up:
//
//	prim.cuh                            primitives, on the GPU and on the emulator, and the rules for kernels
//	prim_atomic.cuh, prim_fast.cuh      words that several threads write, approximate arithmetic
//	prim_turns.cuh                      blocks that wait for blocks
//	prim_hopper.cuh, prim_wgmma.cuh     mbarriers and wgmma of compute capability 9.0; the second is generated
//	blocks.cuh                          launches that do many things, each by blocks of its own
//	layout.cuh                          shapes and strides, offsets of elements
//	element.cuh                         element types, conversion from and to the compute types
//	lane.cuh, z_lane.cuh                exp, erf and the like with the bits of the CPU; the second is generated
//	z_exp_below.cuh                     exp of what is at most 40, generated
//	f64.cuh, i64.cuh, half.cuh          the same on double, on int64_t, and approximately for half precision
//	scalar.cuh                          scalar arithmetic of any compute type
//	philox.cuh                          random numbers by counter
//	pointwise.cuh, pointwise.go         pointwise kernels: the frame, and their texts from expressions
//	copy.cuh, copy.cu                   strided copies: contiguous, cat, flip, fill, transpose, pad, tril
//	index_error.cuh, index.cu           indices out of range; gather, index_add, scatter_add, one_hot
//	reduce.cuh, reduce.cu               reductions along any axes, in the canonical order
//	row.cuh, exp_sum.cuh                operations along rows: thread groups, cached rows; sums of exponentials
//	reduce_row.cu                       variances, argmax and argmin, the gradient of prod
//	softmax.cu, scan.cu, norm.cu        softmax, log-softmax, logsumexp; running sums; layer and RMS norm
//	window.cu                           max pooling, resampling, sums of windows
//	sort.cu                             sorting along rows, the first elements of that, searching in sorted rows
//	cross_entropy.cu                    the loss and its gradient
//	matmul.cuh                          batches of products, and a tile in the canonical order
//	matmul_f32.cu                       products in float32 and float64
//	matmul_half.cuh, matmul_half.cu     products in half precision on tensor cores
//	matmul_hopper.cu                    the same by wgmma
//	conv.cu                             what convolutions add to products
//	fft.cu, ctc.cu                      Fourier transforms; connectionist temporal classification; both in double
//	attention*.cuh, attention*.cu       attention: of any type, and flash attention on tensor cores, by wgmma too
//	probe.cu, probe_hopper.cu           what units of a GPU do by themselves, for "weft probe"
//
// [Files] has them all, for compilers at run time. The same files compile for a GPU and, by g++, for the emulator in
// internal/testing/emu. FP32 kernels compute in the canonical order (docs/DESIGN.md, section 9): their results are
// those of kernels/cpu to the bit, except for attention_flash*.cu, matmul_half.cu and matmul_hopper.cu, which take half
// precision alone, and for fft.cu and ctc.cu.
package src

import "embed"

// Files are the sources.
//
//go:embed *.cu *.cuh
var Files embed.FS
