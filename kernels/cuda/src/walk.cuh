// walk.cuh: kernels that take the elements of several operands of one shape, whatever their layouts. A thread moves 16
// bytes: finding a place takes several times as many instructions as a move does.
#pragma once
#include "index.cuh"

// Walk is n elements in row-major order, taken by `threads` threads: thread i has the elements i, i + threads, and so on.
// The threads are those of `groups` whole entries of the first axis, so that the elements of a thread lie evenly apart,
// by `step` in each operand. Steps and strides may be negative. An operand need not be memory: strides make any number that
// goes on evenly along the axes.
template <int N> struct Walk {
  uint32_t n, groups, threads, step[N];
};

// Places are where the elements of a thread lie.
template <class T, int N> struct Places {
  static constexpr int kEach = 16 / sizeof(T);
  const Walk<N>& walk;
  uint32_t first, at[N];
  DEV_METHOD Places(const Walk<N>& walk, const Shape32<N>& shape) : Places(walk, shape, [](int, uint32_t) {}) {}
  // also(axis, entry) learns where the first element of the thread lies on every axis.
  template <class F> DEV_METHOD Places(const Walk<N>& walk, const Shape32<N>& shape, F also) : walk(walk), first((uint32_t)thread_number()), at{} {
    each_axis(shape, first, [&](int d, uint32_t entry) {
#pragma unroll
      for (int k = 0; k < N; k++) at[k] += entry * shape.stride[k][d];
      also(d, entry);
    });
  }
  // any tells whether element e of the thread exists, and in where it lies in operand k.
  DEV_METHOD bool any(int e) const { return first + e * walk.threads < walk.n; }
  DEV_METHOD int32_t in(int k, int e) const { return (int32_t)(at[k] + e * walk.step[k]); }
};

// move sets the elements of the first operand to value(e).
template <class T, int N, class F> DEV void move(T* to, const Places<T, N>& p, F value) {
  if (p.first >= p.walk.threads) return;
  constexpr int kEach = Places<T, N>::kEach;
  if (!p.any(kEach - 1)) {
#pragma unroll
    for (int e = 0; e < kEach - 1; e++)
      if (p.any(e)) store(to + p.in(0, e), value(e));
    return;
  }
  T v[kEach];
#pragma unroll
  for (int e = 0; e < kEach; e++) v[e] = value(e);
#pragma unroll
  for (int e = 0; e < kEach; e++) store(to + p.in(0, e), v[e]);
}
