// Sums, sums of squares, products, maxima, minima, any and all, along any axes.
//
// A kernel reduces blocks of 16,384 elements and writes y [results blocks]. Where there is more than one block, y is
// of the compute type, unrounded, and the host launches the kernel for rows again, on y.
#include "reduce.cuh"

namespace {

constexpr int kWarps = 8;

DEV uint64_t blocks_of(uint64_t n) { return (n + kFoldBlock - 1) / kFoldBlock; }

// What is reduced: the elements of an operand, or the squares of their products with a factor, by default 1. With is
// the second parameter of kernels.
template <class T> struct Elements {
  using N = ComputeType<T>;
  using With = uint32_t;
  const void* x;
  With type;
  DEV_METHOD N operator()(uint64_t i) const { return read<T>(x, type, i); }
};
template <class T> struct Squares {
  using N = ComputeType<T>;
  using With = const N*;
  const void* x;
  N factor;
  DEV_METHOD Squares(const void* x, With factor) : x(x), factor(factor ? *factor : N(1)) {}
  DEV_METHOD N operator()(uint64_t i) const {
    const N d = math::mul(read<T>(x, 0, i), factor);
    return math::mul(d, d);
  }
};

// fold_blocks gives each warp a block of a result. elements_of(result, from) is a function of the index of an element
// behind the one at `from`.
template <class Fold, class N, class ElementsOf>
DEV void fold_blocks(const Result& y, uint64_t results, uint64_t n, ElementsOf elements_of) {
  const uint64_t blocks = blocks_of(n), w = (uint64_t)blockIdx.x * kWarps + threadIdx.x / 32;
  if (w >= results * blocks) return;
  const uint64_t result = w / blocks, from = (w - result * blocks) * kFoldBlock;
  const N v =
      warp_fold<Fold, N>((uint32_t)(n - from < kFoldBlock ? n - from : kFoldBlock), elements_of(result, from));
  if (threadIdx.x % 32 == 0) put(y, w, v);
}

// Contiguous rows, with the given stride from row to row.
template <class Fold, class In>
DEV void rows(const Result& y, const In& x, uint64_t results, uint64_t n, uint64_t stride) {
  fold_blocks<Fold, typename In::N>(y, results, n, [=](uint64_t result, uint64_t from) {
    return [=, first = result * stride + from](uint32_t i) { return x(first + i); };
  });
}

// Any axes: `kept` are those of the results, `reduced` those of the elements of one result.
template <class Fold, class In>
DEV void strided(const Result& y, const In& x, uint64_t results, uint64_t n, const Shape64<1>& kept,
                 const Shape64<1>& reduced) {
  fold_blocks<Fold, typename In::N>(y, results, n, [&](uint64_t result, uint64_t from) {
    uint64_t first[1];
    locate(kept, result, first);
    return [&x, &reduced, from, first = first[0]](uint32_t i) {
      uint64_t at[1];
      locate(reduced, from + i, at);
      return x(first + at[0]);
    };
  });
}

constexpr int kColumns = 32, kGroups = 8;

// Matrices [n columns] with the given strides from row to row and from matrix to matrix, reduced along n. Thread (c, g)
// has partial sums g, g+8, ..., g+56 of column c, so that the reads of a warp are coalesced. y is [matrices columns
// blocks].
template <class Fold, class In>
DEV void columns(const Result& y, const In& x, uint64_t count, uint64_t n, uint64_t stride, uint64_t matrix_stride) {
  using N = typename In::N;
  SHARED(N, partial, [kGroups][kColumns]);
  const uint32_t c = threadIdx.x % kColumns, g = threadIdx.x / kColumns;
  const uint64_t column = (uint64_t)blockIdx.x * kColumns + c;
  const uint64_t from = (uint64_t)blockIdx.y * kFoldBlock, to = from + kFoldBlock < n ? from + kFoldBlock : n;
  const uint64_t first = blockIdx.z * matrix_stride + column;
  constexpr int kOwn = kFoldPartials / kGroups;
  N own[kOwn];
#pragma unroll
  for (int k = 0; k < kOwn; k++) own[k] = Fold::template start<N>();
  if (column < count) {
    uint64_t i = from + g;
    for (; i - g + kFoldPartials <= to; i += kFoldPartials)
#pragma unroll
      for (int k = 0; k < kOwn; k++) own[k] = Fold::combine(own[k], x(first + (i + k * kGroups) * stride));
#pragma unroll
    for (int k = 0; k < kOwn; k++)
      if (i + k * kGroups < to) own[k] = Fold::combine(own[k], x(first + (i + k * kGroups) * stride));
  }
  // h = 32, 16 and 8 combine partial sums of one thread.
#pragma unroll
  for (int h = kOwn / 2; h > 0; h /= 2)
#pragma unroll
    for (int k = 0; k < h; k++) own[k] = Fold::combine(own[k], own[k + h]);
  partial[g][c] = own[0];
  for (uint32_t h = kGroups / 2; h > 0; h /= 2) {
    __syncthreads();
    if (g < h) partial[g][c] = Fold::combine(partial[g][c], partial[g + h][c]);
  }
  if (g == 0 && column < count) put(y, (blockIdx.z * count + column) * blocks_of(n) + blockIdx.y, partial[0][c]);
}

}  // namespace

#define FOLD(name, suffix, Fold, In)                                                                                   \
  ENTRY(name##_rows##suffix, 32 * kWarps, 4,                                                                           \
        (Result y, const void* x, In::With with, uint64_t results, uint64_t n, uint64_t stride),                       \
        rows<Fold>(y, In{x, with}, results, n, stride))                                                                \
  ENTRY(name##_strided##suffix, 32 * kWarps, 4,                                                                        \
        (Result y, const void* x, In::With with, uint64_t results, uint64_t n, Shape64<1> kept, Shape64<1> reduced),   \
        strided<Fold>(y, In{x, with}, results, n, kept, reduced))                                                      \
  ENTRY(name##_columns##suffix, kColumns * kGroups, 3,                                                                 \
        (Result y, const void* x, In::With with, uint64_t count, uint64_t n, uint64_t stride, uint64_t matrix_stride), \
        columns<Fold>(y, In{x, with}, count, n, stride, matrix_stride))

#define FOLDS(name, Fold, In)        \
  FOLD(name, _f32, Fold, In<float>)  \
  FOLD(name, _f64, Fold, In<double>) \
  FOLD(name, _f16, Fold, In<f16>)    \
  FOLD(name, _bf16, Fold, In<bf16>)
#define FOLDS_OF_ALL(name, Fold) \
  FOLDS(name, Fold, Elements)    \
  FOLD(name, _integer, Fold, Elements<integer>)

FOLDS_OF_ALL(sum, Sum)
FOLDS_OF_ALL(prod, Prod)
FOLDS_OF_ALL(max, Max)
FOLDS_OF_ALL(min, Min)
FOLDS(sum_squares, Sum, Squares)
FOLD(any, _bool, Max, Elements<nonzero>)
FOLD(all, _bool, Min, Elements<nonzero>)
