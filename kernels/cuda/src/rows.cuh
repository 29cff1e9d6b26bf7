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

// place_in_row is place for less than 2^32 elements: shorter divisions, in a loop, for they are many in a kernel.
DEV uint64_t place_in_row(const Axes& axes, uint32_t i) {
  uint64_t at = 0;
#pragma unroll 1
  for (int d = (int)axes.rank - 1; d > 0; d--) {
    const uint32_t size = (uint32_t)axes.size[d], q = i / size;
    at += (i - q * size) * axes.stride[0][d];
    i = q;
  }
  return at + i * axes.stride[0][0];
}

// Rows is an operand: rows places its rows, elements the elements of one. The type counts where a kernel takes several.
struct Rows {
  void* data;
  Axes rows, elements;
  uint64_t type;
};

// Row is one row of an operand with elements of type T, as numbers.
template <class T> struct Row {
  using Number = typename NumberOf<T>::Type;
  void* data;
  uint64_t first;
  const Axes& elements;
  uint32_t type;
  DEV_METHOD Row(const Rows& a, uint64_t r) : data(a.data), first(place(a.rows, r)), elements(a.elements), type((uint32_t)a.type) {}
  DEV_METHOD Number operator[](uint32_t i) const { return read<T>(data, type, first + place_in_row(elements, i)); }
  DEV_METHOD void set(uint32_t i, Number x) const { static_cast<T*>(data)[first + place_in_row(elements, i)] = element<T>(x); }
};

constexpr int kRowWarps = 4;
constexpr int kRowThreads = 32 * kRowWarps;

// row_of_warp is the row that this warp computes.
DEV uint64_t row_of_warp() { return (uint64_t)blockIdx.x * kRowWarps + threadIdx.x / 32; }

// row_fold reduces a row of less than 2^28 elements in canonical order; read(i) is element i, of type N. Result b of the
// blocks goes to lane b mod 64 of the second level. All threads get the result.
template <class Fold, class N = float, class Read> DEV N row_fold(uint32_t n, Read read) {
  const uint32_t lane = threadIdx.x % 32;
  N low = Fold::template start<N>(), high = low;
  for (uint32_t from = 0; from < n; from += kFoldBlock) {
    const N block = warp_fold<Fold, N>(n - from < kFoldBlock ? n - from : kFoldBlock, [&](uint32_t i) { return read(from + i); });
    if (n <= kFoldBlock) return block;
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

// FLOATS makes a kernel of each floating type by a macro of its suffix and type.
#define FLOATS(make) make(_f32, float) make(_f64, double) make(_f16, f16) make(_bf16, bf16)
