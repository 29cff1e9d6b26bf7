// Sums, products, maxima and minima.
//
// A kernel reduces blocks of 16,384 elements and writes y [results blocks]. Where there is more than one block, the
// host calls the kernel for rows again, on those.
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

// Rows whose elements lie side by side, the rows `step` apart. A warp takes a block of a row.
template <class Fold> DEV void rows(float* y, const float* x, uint64_t results, uint64_t n, uint64_t step) {
  const Work k = work_of_warp(results, n);
  if (!k.any) return;
  const float* p = x + k.result * step + k.from;
  const float v = warp_fold<Fold>(k.n, [=](uint32_t i) { return p[i]; });
  if (threadIdx.x % 32 == 0) y[k.result * ((n + kFoldBlock - 1) / kFoldBlock) + k.block] = v;
}

// Any axes: `kept` places the results, `reduced` the elements of one.
template <class Fold, class Shape> DEV void strided(float* y, const float* x, uint64_t results, uint64_t n, const Shape& kept, const Shape& reduced) {
  using Index = typename Shape::Index;
  const Work k = work_of_warp(results, n);
  if (!k.any) return;
  Index at[1];
  locate(kept, (Index)k.result, at);
  const float* p = x + at[0];
  const float v = warp_fold<Fold>(k.n, [&](uint32_t i) {
    Index element[1];
    locate(reduced, (Index)(k.from + i), element);
    return p[element[0]];
  });
  if (threadIdx.x % 32 == 0) y[k.result * ((n + kFoldBlock - 1) / kFoldBlock) + k.block] = v;
}

constexpr int kColumns = 32, kGroups = 8;

// Matrices [n columns] with rows `step` apart, matrices `between` apart, reduced along n. Thread (c, g) has column
// c and the lanes g, g+8, ..., g+56 of it, so that a warp reads neighbours. y is [matrices columns blocks].
template <class Fold> DEV void columns(float* y, const float* x, uint64_t count, uint64_t n, uint64_t step, uint64_t between) {
  SHARED(float, partial, [kGroups][kColumns]);
  const uint32_t c = threadIdx.x % kColumns, g = threadIdx.x / kColumns;
  const uint64_t column = (uint64_t)blockIdx.x * kColumns + c, blocks = (n + kFoldBlock - 1) / kFoldBlock;
  const uint64_t from = (uint64_t)blockIdx.y * kFoldBlock, to = from + kFoldBlock < n ? from + kFoldBlock : n;
  const float* p = x + blockIdx.z * between + column;
  constexpr int kLanes = kFoldLanes / kGroups;
  float lane[kLanes];
#pragma unroll
  for (int k = 0; k < kLanes; k++) lane[k] = Fold::start();
  if (column < count)
    for (uint64_t i = from; i < to; i += kFoldLanes)
#pragma unroll
      for (int k = 0; k < kLanes; k++) {
        const uint64_t row = i + g + k * kGroups;
        if (row < to) lane[k] = Fold::combine(lane[k], p[row * step]);
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
  if (g == 0 && column < count) y[(blockIdx.z * count + column) * blocks + blockIdx.y] = partial[0][c];
}

}  // namespace

#define FOLD(name, Fold)                                                                                                   \
  KERNEL(name##_rows_f32, 32 * kWarps, 4)(float* y, const float* x, uint64_t results, uint64_t n, uint64_t step) {         \
    rows<Fold>(y, x, results, n, step);                                                                                    \
  }                                                                                                                        \
  EXPORT(name##_rows_f32);                                                                                                 \
  KERNEL(name##_strided_f32, 32 * kWarps, 4)(float* y, const float* x, uint64_t results, uint64_t n, Shape32<1> kept, Shape32<1> reduced) { \
    strided<Fold>(y, x, results, n, kept, reduced);                                                                        \
  }                                                                                                                        \
  EXPORT(name##_strided_f32);                                                                                              \
  KERNEL(name##_strided64_f32, 32 * kWarps, 4)(float* y, const float* x, uint64_t results, uint64_t n, Shape64<1> kept, Shape64<1> reduced) { \
    strided<Fold>(y, x, results, n, kept, reduced);                                                                        \
  }                                                                                                                        \
  EXPORT(name##_strided64_f32);                                                                                            \
  KERNEL(name##_columns_f32, kColumns * kGroups, 3)(float* y, const float* x, uint64_t count, uint64_t n, uint64_t step, uint64_t between) { \
    columns<Fold>(y, x, count, n, step, between);                                                                          \
  }                                                                                                                        \
  EXPORT(name##_columns_f32);

FOLD(sum, Sum)
FOLD(prod, Prod)
FOLD(max, Max)
FOLD(min, Min)
