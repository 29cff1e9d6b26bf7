// layout.cuh: shapes and strides, and the offsets of elements.
#pragma once
#include "prim.cuh"

constexpr int kMaxDims = 8;

// Divisor divides numbers below 2^31 by a multiplication (Granlund and Montgomery 1994): with
// shift = ceil(log2 value) and multiplier = floor(2^32 (2^shift - value) / value) + 1, which the host computes.
struct Divisor {
  uint32_t value, multiplier, shift;
};

// Shape32 is a shape of at most 2^31 elements with the strides of N operands whose offsets are below 2^31, too. The
// innermost axis is the last; the size of the first is not needed.
template <int N> struct Shape32 {
  using Index = uint32_t;
  uint32_t rank;
  Divisor size[kMaxDims];
  uint32_t stride[N][kMaxDims];
};

// Shape64 is for everything larger.
template <int N> struct Shape64 {
  using Index = uint64_t;
  uint64_t rank;
  uint64_t size[kMaxDims];
  uint64_t stride[N][kMaxDims];
};

DEV uint32_t divide(uint32_t n, const Divisor& d, uint32_t& rest) {
  const uint32_t q = (__umulhi(n, d.multiplier) + n) >> d.shift;
  rest = n - q * d.value;
  return q;
}
DEV uint64_t divide(uint64_t n, uint64_t d, uint64_t& rest) {
  const uint64_t q = n / d;
  rest = n - q * d;
  return q;
}

// each_axis calls f(axis, coordinate) for element i in row-major order.
template <class Shape, class F> DEV void each_axis(const Shape& shape, typename Shape::Index i, F f) {
#pragma unroll
  for (int d = kMaxDims - 1; d > 0; d--) {
    if (d >= (int)shape.rank) continue;
    typename Shape::Index rest;
    i = divide(i, shape.size[d], rest);
    f(d, rest);
  }
  f(0, i);
}

// locate sets at[k] to the offset of element i in operand k.
template <class Shape, int N>
DEV void locate(const Shape& shape, typename Shape::Index i, typename Shape::Index (&at)[N]) {
#pragma unroll
  for (int k = 0; k < N; k++) at[k] = 0;
  each_axis(shape, i, [&](int d, typename Shape::Index coordinate) {
#pragma unroll
    for (int k = 0; k < N; k++) at[k] += coordinate * shape.stride[k][d];
  });
}

// thread_index is that of a thread in a grid of one dimension.
DEV uint64_t thread_index() { return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; }
