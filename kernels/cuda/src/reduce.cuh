// reduce.cuh: reductions in the canonical order (docs/DESIGN.md, section 9). Elements are taken in blocks of
// 16,384; inside a block element i goes to partial sum i mod 64, in ascending i; then partial sum j takes partial sum
// j+h for h = 32, 16, 8, 4, 2, 1. The results of the blocks are reduced by the same rule.
#pragma once
#include "layout.cuh"
#include "scalar.cuh"

constexpr uint32_t kFoldBlock = 16384;
constexpr uint32_t kFoldPartials = 64;

// Folds combine values of type N, from start on.
struct Sum {
  template <class N> DEV_METHOD static N start() { return N(0); }
  template <class N> DEV_METHOD static N combine(N x, N y) { return math::add(x, y); }
};
struct Prod {
  template <class N> DEV_METHOD static N start() { return N(1); }
  template <class N> DEV_METHOD static N combine(N x, N y) { return math::mul(x, y); }
};
struct Max {
  template <class N> DEV_METHOD static N start() {
    if constexpr (Same<N, int64_t>::value()) return (int64_t)(1ull << 63);
    else return -infinity(N());
  }
  template <class N> DEV_METHOD static N combine(N x, N y) { return math::max(x, y); }
};
struct Min {
  template <class N> DEV_METHOD static N start() {
    if constexpr (Same<N, int64_t>::value()) return (int64_t)(~0ull >> 1);
    else return infinity(N());
  }
  template <class N> DEV_METHOD static N combine(N x, N y) { return math::min(x, y); }
};

DEV int64_t shuffle_xor(int64_t x, int mask) {
  const uint64_t low = shuffle_xor((uint32_t)x, mask), high = shuffle_xor((uint32_t)((uint64_t)x >> 32), mask);
  return (int64_t)(high << 32 | low);
}
DEV double shuffle_xor(double x, int mask) {
  return __longlong_as_double(shuffle_xor((int64_t)__double_as_longlong(x), mask));
}

// warp_all combines the values of all threads of a warp and gives them the result: threads j and j xor h combine the
// same two values.
template <class Fold, class N> DEV N warp_all(N x) {
#pragma unroll
  for (int h = 16; h > 0; h /= 2) x = Fold::combine(x, shuffle_xor(x, h));
  return x;
}

// Partials are the 64 partial sums of a block, or those of its second level, where the result of block b goes to
// partial sum b mod 64. Lane j of a warp has partial sums j and j + 32.
template <class Fold, class N> struct Partials {
  N low = Fold::template start<N>(), high = low;
  DEV_METHOD void take(uint32_t b, N x) {
    const uint32_t lane = threadIdx.x % 32;
    if (b % kFoldPartials == lane) low = Fold::combine(low, x);
    if (b % kFoldPartials == lane + 32) high = Fold::combine(high, x);
  }
  DEV_METHOD N all() const { return warp_all<Fold>(Fold::combine(low, high)); }
};

// warp_fold reduces at most one block of elements by a warp; read(i) is element i, of type N.
template <class Fold, class N = float, class Read> DEV N warp_fold(uint32_t n, Read read) {
  Partials<Fold, N> partials;
  uint32_t i = threadIdx.x % 32;
#pragma unroll 4
  for (; i + 32 < n; i += kFoldPartials) {
    partials.low = Fold::combine(partials.low, read(i));
    partials.high = Fold::combine(partials.high, read(i + 32));
  }
  if (i < n) partials.low = Fold::combine(partials.low, read(i));
  return partials.all();
}
