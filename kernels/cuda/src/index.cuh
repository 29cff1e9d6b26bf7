// index.cuh: where the elements of strided operands lie.
#pragma once
#include "prim.cuh"

constexpr int kMaxDims = 8;

// Divisor divides numbers below 2^31 by a multiplication (Granlund and Montgomery 1994): with
// shift = ceil(log2 value) and multiplier = floor(2^32 (2^shift - value) / value) + 1, which the host computes.
struct Divisor {
  uint32_t value, multiplier, shift;
};

DEV uint32_t quotient(uint32_t n, const Divisor& d) { return (__umulhi(n, d.multiplier) + n) >> d.shift; }

// Shape32 is a shape of at most 2^31 elements with the strides of N operands, which reach no further than 2^31
// elements either. Sizes are in row-major order; the first is not needed.
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
  const uint32_t q = quotient(n, d);
  rest = n - q * d.value;
  return q;
}
DEV uint64_t divide(uint64_t n, uint64_t d, uint64_t& rest) {
  const uint64_t q = n / d;
  rest = n - q * d;
  return q;
}

// each_axis calls f(axis, entry) for the place of element i on every axis.
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

// locate sets at[k] to where element i of operand k lies.
template <class Shape, int N> DEV void locate(const Shape& shape, typename Shape::Index i, typename Shape::Index (&at)[N]) {
#pragma unroll
  for (int k = 0; k < N; k++) at[k] = 0;
  each_axis(shape, i, [&](int d, typename Shape::Index entry) {
#pragma unroll
    for (int k = 0; k < N; k++) at[k] += entry * shape.stride[k][d];
  });
}

// thread_number counts the threads of a grid of one dimension.
DEV uint64_t thread_number() { return (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; }
