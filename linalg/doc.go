// Package linalg has linear algebra: decompositions, systems of equations and what is computed with them, after
// torch.linalg, and sums of products in Einstein's notation ([Einsum], [Tensordot]).
//
//	x := linalg.Solve(a, b)                    // a x = b
//	w, v := linalg.Eigh(a)                     // a = v diag(w) vᵀ
//	y := linalg.Einsum("bij,bjk->bik", p, q)
//
// Matrices are the last two axes; all axes before them are batches. Decompositions are computed in float64 by gonum, on
// the CPU, one matrix after the other, and rounded once. Their bits are not part of what the library promises of
// float32; on a GPU they are an error that says so, and x.To(cpu) is the way out. What is composed of other operations,
// [Einsum], [Tensordot], [Outer] and [Kron], runs everywhere and has the bits of these.
//
// All have gradients, which are operations again, so that second derivatives follow. Gradients of decompositions are
// those of matrices near the given one: where singular values or eigenvalues are equal, their vectors are not defined
// by the matrix, and give each other no gradient here (PyTorch: infinite or NaN).
//
// Operands are float64 or float32; under [amp.Autocast] decompositions cast halves to float32. Matrices that are not
// square, or whose sizes differ, are errors of kind [tensor.ErrShape]; [ErrSingular] and [ErrNotPositiveDefinite] are
// of kind [tensor.ErrValue], too.
//
// Read engine.go first.
package linalg
