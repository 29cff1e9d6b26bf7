// Package matmul multiplies matrices on the CPU, with the same bits on every machine.
//
// [Float32] computes C = A B for operands of any row and column stride, so that transposed and expanded views need no
// copy; [Batch] computes many small products, such as the heads of attention; [Float64] and [Batch64] are the same in
// double precision.
//
// # The canonical order
//
// Floating-point addition is not associative, so the order of summation is part of the result. Here it is fixed:
//
//	C[i, j] = 0 when k is 0, otherwise s(0) + s(1) + ..., added in ascending order, where
//	s(q) = fma(A[i, p], B[p, j], ... fma(A[i, 256q], B[256q, j], +0)...) for p = 256q ... min(256q+255, k-1)
//
// The chain inside a chunk of 256 is short enough to keep the error low, and the chunk is the depth of the packed
// panels anyway, so the order costs no time. It involves one element of C at a time: vector width, tile shape and
// the number of threads do not enter.
package matmul
