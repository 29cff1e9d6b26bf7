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

constexpr int kRowWarps = 4;
constexpr int kRowThreads = 32 * kRowWarps;

// row_of_warp is the row that this warp computes.
DEV uint64_t row_of_warp() { return (uint64_t)blockIdx.x * kRowWarps + threadIdx.x / 32; }

// Rows of one axis and at most 32 * SLOTS elements are short: a warp reads one once, and its threads keep in registers
// what they have read. Operations are templates of SLOTS, the elements that a thread can keep, and their loops over short
// rows are unrolled; with SLOTS = 0 they take rows of any length.
template <class T> static constexpr __device__ uint32_t slots() {
  return Same<T, integer>::value() ? 0 : sizeof(typename NumberOf<T>::Type) == 8 ? 16 : 32;
}
template <class T, class... Operand> DEV bool are_short(uint32_t n, const Operand&... a) {
  return n <= 32 * slots<T>() && (... && (a.elements.rank <= 1));
}

// Place is element i of a row; of a short one, the thread's element number `slot`.
struct Place {
  uint32_t i, slot;
  DEV_METHOD operator uint32_t() const { return i; }
};

// Row is one row of an operand with elements of type T, as numbers.
template <class T, uint32_t SLOTS = 0> struct Row {
  using Number = typename NumberOf<T>::Type;
  void* data;
  uint64_t first;
  const Axes& elements;
  uint32_t type;
  DEV_METHOD Row(const Rows& a, uint64_t r) : data(a.data), first(place(a.rows, r)), elements(a.elements), type((uint32_t)a.type) {}
  DEV_METHOD uint64_t at(uint32_t i) const { return first + (SLOTS ? i * elements.stride[0][0] : place_in_row(elements, i)); }
  DEV_METHOD Number operator()(uint32_t i) const { return read<T>(data, type, at(i)); }
  DEV_METHOD void set(uint32_t i, Number x) const { static_cast<T*>(data)[at(i)] = element<T>(x); }
};

// row_each calls f(Place) for the elements of a row, shared out to the threads of a warp.
template <uint32_t SLOTS = 0, class F> DEV void row_each(uint32_t n, F f) {
  const uint32_t lane = threadIdx.x % 32;
  if constexpr (SLOTS > 0) {
#pragma unroll
    for (uint32_t s = 0; s < SLOTS; s++) {
      if (s % 8 == 0 && 32 * s >= n) break;
      if (32 * s + lane < n) f(Place{32 * s + lane, s});
    }
  } else {
    for (uint32_t i = lane; i < n; i += 32) f(Place{i, 0});
  }
}

// kept is f, a function of the places of a row of n elements. Of a short row it is computed once, here.
template <class N, uint32_t SLOTS> struct Kept {
  N value[SLOTS];
  DEV_METHOD N operator()(Place i) const { return value[i.slot]; }
};
template <uint32_t SLOTS, class F> DEV auto kept(uint32_t n, const F& f) {
  if constexpr (SLOTS > 0) {
    Kept<decltype(f(Place())), SLOTS> k;
    row_each<SLOTS>(n, [&](Place i) { k.value[i.slot] = f(i); });
    return k;
  } else {
    return f;
  }
}

// row_fold reduces a row of less than 2^28 elements in canonical order; read(Place) is an element, of type N. Result b of
// the blocks goes to lane b mod 64 of the second level. All threads get the result.
template <class Fold, class N = float, uint32_t SLOTS = 0, class Read> DEV N row_fold(uint32_t n, Read read) {
  N low = Fold::template start<N>(), high = low;
  if constexpr (SLOTS > 0) {
    row_each<SLOTS>(n, [&](Place i) {
      N& lane = i.slot % 2 ? high : low;
      lane = Fold::combine(lane, read(i));
    });
    return warp_tree<Fold>(low, high);
  }
  const uint32_t lane = threadIdx.x % 32;
  for (uint32_t from = 0; from < n; from += kFoldBlock) {
    const N block = warp_fold<Fold, N>(n - from < kFoldBlock ? n - from : kFoldBlock, [&](uint32_t i) { return read(Place{from + i, 0}); });
    if (n <= kFoldBlock) return block;
    const uint32_t b = from / kFoldBlock % kFoldLanes;
    if (b == lane) low = Fold::combine(low, block);
    if (b == lane + 32) high = Fold::combine(high, block);
  }
  return warp_tree<Fold>(low, high);
}

// BY_LENGTH calls f for short rows or for any.
#define BY_LENGTH(short_rows, f, T, ...)               \
  do {                                                 \
    if (short_rows) f<T, slots<T>()>(__VA_ARGS__);     \
    else f<T, 0>(__VA_ARGS__);                         \
  } while (0)

// FLOATS makes a kernel of each floating type by a macro of its suffix and type.
#define FLOATS(make) make(_f32, float) make(_f64, double) make(_f16, f16) make(_bf16, bf16)
