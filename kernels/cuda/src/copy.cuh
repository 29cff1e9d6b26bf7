// copy.cuh: strided copies, that is kernels that visit the elements of several operands of one shape, whatever their
// layouts. A thread moves 16 bytes: computing an offset takes several times as many instructions as one access.
#pragma once
#include "layout.cuh"

// StridedRange is n elements in row-major order, shared out to `threads` threads: thread i has the elements i, i +
// threads, and so on. The threads cover `entries` whole entries of the first axis, so that the elements of one thread
// have a constant distance, `stride`, in each operand. Strides may be negative. An operand need not be memory: strides
// define any linear function of the coordinates.
template <int N> struct StridedRange {
  uint32_t n, entries, threads, stride[N];
};

// Offsets are those of the elements of a thread, in each operand.
template <class T, int N> struct Offsets {
  static constexpr int kEach = 16 / sizeof(T);
  const StridedRange<N>& range;
  uint32_t first, at[N];
  DEV_METHOD Offsets(const StridedRange<N>& range, const Shape32<N>& shape)
      : Offsets(range, shape, [](int, uint32_t) {}) {}
  // also(axis, coordinate) gets the coordinates of the first element of the thread.
  template <class F>
  DEV_METHOD Offsets(const StridedRange<N>& range, const Shape32<N>& shape, F also)
      : range(range), first((uint32_t)thread_index()), at{} {
    each_axis(shape, first, [&](int d, uint32_t coordinate) {
#pragma unroll
      for (int k = 0; k < N; k++) at[k] += coordinate * shape.stride[k][d];
      also(d, coordinate);
    });
  }
  // exists tells whether the thread has an element e; of(k, e) is its offset in operand k.
  DEV_METHOD bool exists(int e) const { return first + e * range.threads < range.n; }
  DEV_METHOD int32_t of(int k, int e) const { return (int32_t)(at[k] + e * range.stride[k]); }
};

// store_each sets the elements of the first operand to value(e).
template <class T, int N, class F> DEV void store_each(T* to, const Offsets<T, N>& p, F value) {
  if (p.first >= p.range.threads) return;
  constexpr int kEach = Offsets<T, N>::kEach;
  if (!p.exists(kEach - 1)) {
#pragma unroll
    for (int e = 0; e < kEach - 1; e++)
      if (p.exists(e)) store(to + p.of(0, e), value(e));
    return;
  }
  T v[kEach];
#pragma unroll
  for (int e = 0; e < kEach; e++) v[e] = value(e);
#pragma unroll
  for (int e = 0; e < kEach; e++) store(to + p.of(0, e), v[e]);
}
