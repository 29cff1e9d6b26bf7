// rows.cuh: operations along rows of any layout, a warp to each row.
#pragma once
#include "reduce.cuh"

// Axes are nested loops with their steps through memory.
using Axes = Shape64<1>;

DEV uint64_t place(const Axes& axes, uint64_t i) {
  if (axes.rank <= 1) return i * axes.stride[0][0];
  uint64_t at[1];
  locate(axes, i, at);
  return at[0];
}

// Rows is an operand: rows places its rows, elements the elements of one.
struct Rows {
  void* data;
  Axes rows, elements;
};

// Row is one row of an operand.
template <class T> struct Row {
  T* first;
  const Axes& elements;
  DEV_METHOD Row(const Rows& a, uint64_t r) : first(static_cast<T*>(a.data) + place(a.rows, r)), elements(a.elements) {}
  DEV_METHOD T& operator[](uint32_t i) const { return first[place(elements, i)]; }
};

constexpr int kRowWarps = 4;
constexpr int kRowThreads = 32 * kRowWarps;

// row_of_warp is the row that this warp computes.
DEV uint64_t row_of_warp() { return (uint64_t)blockIdx.x * kRowWarps + threadIdx.x / 32; }

// row_fold reduces a row of less than 2^28 elements in canonical order; read(i) is element i. Result b of the
// blocks goes to lane b mod 64 of the second level. All threads get the result.
template <class Fold, class Read> DEV float row_fold(uint32_t n, Read read) {
  if (n <= kFoldBlock) return warp_fold<Fold>(n, read);
  const uint32_t lane = threadIdx.x % 32;
  float low = Fold::start(), high = Fold::start();
  for (uint32_t from = 0; from < n; from += kFoldBlock) {
    const float block = warp_fold<Fold>(n - from < kFoldBlock ? n - from : kFoldBlock, [&](uint32_t i) { return read(from + i); });
    const uint32_t b = from / kFoldBlock % kFoldLanes;
    if (b == lane) low = Fold::combine(low, block);
    if (b == lane + 32) high = Fold::combine(high, block);
  }
  return warp_tree<Fold>(low, high);
}

// row_each calls f(i) for the elements of a row, shared out to the threads of a warp.
template <class F> DEV void row_each(uint32_t n, F f) {
  for (uint32_t i = threadIdx.x % 32; i < n; i += 32) f(i);
}
