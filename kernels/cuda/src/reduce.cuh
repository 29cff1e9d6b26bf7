// reduce.cuh: reductions of rows in the canonical order (docs/DESIGN.md, section 9). Elements are taken in blocks of
// 2,048; inside a block element i goes to partial sum i mod 128, in ascending i; then partial sum j takes partial sum
// j+h for h = 1, 2, 4, ... 64. The results of the blocks are reduced by the same rule.
//
// So a thread of a warp has four neighbours of every 128 elements: thread t has partial sums 4t to 4t+3.
#pragma once
#include "layout.cuh"
#include "scalar.cuh"

constexpr uint32_t kFoldBlock = 2048;
constexpr uint32_t kFoldPartials = 128;

// Folds combine values of type N, from start on. Combined with start, a value stays as it is, and so does a sum.
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
DEV double shuffle(double x, int lane) {
  const uint64_t bits = (uint64_t)__double_as_longlong(x);
  const uint64_t low = shuffle((uint32_t)bits, lane), high = shuffle((uint32_t)(bits >> 32), lane);
  return __longlong_as_double((int64_t)(high << 32 | low));
}

// warp_all combines the values of all threads of a warp, neighbours first, and gives them the result: threads j and j
// xor h combine the same two values.
template <class Fold, class N> DEV N warp_all(N x) {
#pragma unroll
  for (int h = 1; h < 32; h *= 2) x = Fold::combine(x, shuffle_xor(x, h));
  return x;
}

// Partials are the four partial sums of each thread of a warp. own_index is the first one's number.
DEV uint32_t own_index() { return threadIdx.x % 32 * 4; }
template <class Fold, class N> struct Partials {
  N own[4];
  DEV_METHOD Partials() {
#pragma unroll
    for (int k = 0; k < 4; k++) own[k] = Fold::template start<N>();
  }
  // take adds the first `count` of four elements.
  DEV_METHOD void take(const Four<N>& x, uint32_t count = 4) {
#pragma unroll
    for (uint32_t k = 0; k < 4; k++)
      if (k < count) own[k] = Fold::combine(own[k], x[k]);
  }
  // take_result adds the result of block b, which all threads have.
  DEV_METHOD void take_result(uint32_t b, N x) {
#pragma unroll
    for (uint32_t k = 0; k < 4; k++)
      if (b % kFoldPartials == own_index() + k) own[k] = Fold::combine(own[k], x);
  }
  DEV_METHOD N all() const {
    return warp_all<Fold>(Fold::combine(Fold::combine(own[0], own[1]), Fold::combine(own[2], own[3])));
  }
};

DEV uint32_t lesser(uint32_t x, uint32_t y) { return x < y ? x : y; }

// warp_fold reduces at most one block of n elements by a warp. four(i, count) is elements i to i+3, as Four<N>, of
// which the first `count` exist. A thread reads AHEAD of them before it uses the first.
template <class Fold, class N, uint32_t AHEAD, class Read> DEV N warp_fold(uint32_t n, Read four) {
  Partials<Fold, N> partials;
  Four<N> x[AHEAD];
#pragma unroll 1
  for (uint32_t i = own_index(), left = n; left > 0; i += AHEAD * kFoldPartials) {
    if (left >= AHEAD * kFoldPartials) {
#pragma unroll
      for (uint32_t k = 0; k < AHEAD; k++) x[k] = four(i + k * kFoldPartials, 4);
#pragma unroll
      for (uint32_t k = 0; k < AHEAD; k++) partials.take(x[k]);
      left -= AHEAD * kFoldPartials;
    } else {
      auto count = [&](uint32_t k) { return i + k * kFoldPartials < n ? lesser(n - i - k * kFoldPartials, 4) : 0; };
#pragma unroll
      for (uint32_t k = 0; k < AHEAD; k++) x[k] = four(i + k * kFoldPartials, count(k));
#pragma unroll
      for (uint32_t k = 0; k < AHEAD; k++) partials.take(x[k], count(k));
      left = 0;
    }
  }
  return partials.all();
}
