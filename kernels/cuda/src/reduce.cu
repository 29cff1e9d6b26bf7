// Sums, sums of squares, products, maxima and minima.
//
// A kernel reduces blocks of 16,384 elements and writes y [results blocks]. Where there is more than one block, these are
// numbers, unrounded, and the host calls the kernel for rows again, on those.
#include "reduce.cuh"

namespace {

constexpr int kWarps = 8;

// Work of a warp: block `block` of result `result`, if there is one, and its elements [from, from + n).
struct Work {
  uint64_t result, block, from;
  uint32_t n;
  bool any;
};

DEV Work work_of_warp(uint64_t results, uint64_t n) {
  const uint64_t blocks = (n + kFoldBlock - 1) / kFoldBlock;
  const uint64_t w = (uint64_t)blockIdx.x * kWarps + threadIdx.x / 32;
  Work k;
  k.any = w < results * blocks;
  k.result = w / blocks;
  k.block = w - k.result * blocks;
  k.from = k.block * kFoldBlock;
  k.n = (uint32_t)(n - k.from < kFoldBlock ? n - k.from : kFoldBlock);
  return k;
}

DEV uint64_t blocks_of(uint64_t n) { return (n + kFoldBlock - 1) / kFoldBlock; }

// What is folded: the elements of an operand, or the squares of their products with a factor, which is 1 if there is none.
// With is the second parameter of kernels.
template <class T> struct Elements {
  using N = typename NumberOf<T>::Type;
  using With = uint32_t;
  const void* x;
  With type;
  DEV_METHOD N operator()(uint64_t i) const { return read<T>(x, type, i); }
};
template <class T> struct Squares {
  using N = typename NumberOf<T>::Type;
  using With = const N*;
  const void* x;
  N factor;
  DEV_METHOD Squares(const void* x, With factor) : x(x), factor(factor ? *factor : N(1)) {}
  DEV_METHOD N operator()(uint64_t i) const {
    const N d = num::mul(read<T>(x, 0, i), factor);
    return num::mul(d, d);
  }
};

// Rows whose elements lie side by side, the rows `step` apart. A warp takes a block of a row.
template <class Fold, class In> DEV void rows(const Result& y, const In& x, uint64_t results, uint64_t n, uint64_t step) {
  using N = typename In::N;
  const Work k = work_of_warp(results, n);
  if (!k.any) return;
  const uint64_t first = k.result * step + k.from;
  const N v = warp_fold<Fold, N>(k.n, [=](uint32_t i) { return x(first + i); });
  if (threadIdx.x % 32 == 0) put(y, k.result * blocks_of(n) + k.block, v);
}

// Any axes: `kept` places the results, `reduced` the elements of one.
template <class Fold, class In, class Shape>
DEV void strided(const Result& y, const In& x, uint64_t results, uint64_t n, const Shape& kept, const Shape& reduced) {
  using N = typename In::N;
  using Index = typename Shape::Index;
  const Work k = work_of_warp(results, n);
  if (!k.any) return;
  Index first[1];
  locate(kept, (Index)k.result, first);
  const N v = warp_fold<Fold, N>(k.n, [&](uint32_t i) {
    Index at[1];
    locate(reduced, (Index)(k.from + i), at);
    return x(first[0] + at[0]);
  });
  if (threadIdx.x % 32 == 0) put(y, k.result * blocks_of(n) + k.block, v);
}

constexpr int kColumns = 32, kGroups = 8;

// Matrices [n columns] with rows `step` apart, matrices `between` apart, reduced along n. Thread (c, g) has column
// c and the lanes g, g+8, ..., g+56 of it, so that a warp reads neighbours. y is [matrices columns blocks].
template <class Fold, class In> DEV void columns(const Result& y, const In& x, uint64_t count, uint64_t n, uint64_t step, uint64_t between) {
  using N = typename In::N;
  SHARED(N, partial, [kGroups][kColumns]);
  const uint32_t c = threadIdx.x % kColumns, g = threadIdx.x / kColumns;
  const uint64_t column = (uint64_t)blockIdx.x * kColumns + c;
  const uint64_t from = (uint64_t)blockIdx.y * kFoldBlock, to = from + kFoldBlock < n ? from + kFoldBlock : n;
  const uint64_t first = blockIdx.z * between + column;
  constexpr int kLanes = kFoldLanes / kGroups;
  N lane[kLanes];
#pragma unroll
  for (int k = 0; k < kLanes; k++) lane[k] = Fold::template start<N>();
  if (column < count) {
    uint64_t i = from + g;
    for (; i - g + kFoldLanes <= to; i += kFoldLanes)
#pragma unroll
      for (int k = 0; k < kLanes; k++) lane[k] = Fold::combine(lane[k], x(first + (i + k * kGroups) * step));
#pragma unroll
    for (int k = 0; k < kLanes; k++)
      if (i + k * kGroups < to) lane[k] = Fold::combine(lane[k], x(first + (i + k * kGroups) * step));
  }
  // h = 32, 16 and 8 are between lanes of one thread.
#pragma unroll
  for (int h = kLanes / 2; h > 0; h /= 2)
#pragma unroll
    for (int k = 0; k < h; k++) lane[k] = Fold::combine(lane[k], lane[k + h]);
  partial[g][c] = lane[0];
  for (uint32_t h = kGroups / 2; h > 0; h /= 2) {
    __syncthreads();
    if (g < h) partial[g][c] = Fold::combine(partial[g][c], partial[g + h][c]);
  }
  if (g == 0 && column < count) put(y, (blockIdx.z * count + column) * blocks_of(n) + blockIdx.y, partial[0][c]);
}

}  // namespace

#define FOLD(name, suffix, Fold, In)                                                                                        \
  KERNEL(name##_rows##suffix, 32 * kWarps, 4)(Result y, const void* x, In::With with, uint64_t results, uint64_t n, uint64_t step) { \
    rows<Fold>(y, In{x, with}, results, n, step);                                                                          \
  }                                                                                                                        \
  EXPORT(name##_rows##suffix);                                                                                             \
  KERNEL(name##_strided##suffix, 32 * kWarps, 4)(Result y, const void* x, In::With with, uint64_t results, uint64_t n, Shape64<1> kept, Shape64<1> reduced) { \
    strided<Fold>(y, In{x, with}, results, n, kept, reduced);                                                              \
  }                                                                                                                        \
  EXPORT(name##_strided##suffix);                                                                                          \
  KERNEL(name##_columns##suffix, kColumns * kGroups, 3)(Result y, const void* x, In::With with, uint64_t count, uint64_t n, uint64_t step, uint64_t between) { \
    columns<Fold>(y, In{x, with}, count, n, step, between);                                                                \
  }                                                                                                                        \
  EXPORT(name##_columns##suffix);

#define FOLDS(name, Fold, In)          \
  FOLD(name, _f32, Fold, In<float>)    \
  FOLD(name, _f64, Fold, In<double>)   \
  FOLD(name, _f16, Fold, In<f16>)      \
  FOLD(name, _bf16, Fold, In<bf16>)
#define FOLDS_OF_ALL(name, Fold)       \
  FOLDS(name, Fold, Elements)          \
  FOLD(name, _integer, Fold, Elements<integer>)

FOLDS_OF_ALL(sum, Sum)
FOLDS_OF_ALL(prod, Prod)
FOLDS_OF_ALL(max, Max)
FOLDS_OF_ALL(min, Min)
FOLDS(sum_squares, Sum, Squares)
FOLD(any, _truth, Max, Elements<truth>)
FOLD(all, _truth, Min, Elements<truth>)
