// product.cuh: tiles of matrix products in the canonical order (docs/DESIGN.md, section 9): K in chunks of 256; inside
// a chunk one chain of fused multiply-adds in ascending k, from +0; chunks added in ascending order.
#pragma once
#include "prim.cuh"

constexpr int kChunk = 256;

// Matrix is an operand; element (i, k) lies at data + i*row + k*column.
template <class T> struct Matrix {
  T* data;
  int64_t row, column;
  DEV_METHOD T& at(uint32_t i, uint32_t k) const { return data[i * row + k * column]; }
  DEV_METHOD Matrix from(uint32_t i, uint32_t k) const { return {data + (i * row + k * column), row, column}; }
  DEV_METHOD Matrix transposed() const { return {data, column, row}; }
};

// Elements are computed with as float, or double; narrow rounds to the type of `to`.
DEV float widen(float x) { return x; }
DEV double widen(double x) { return x; }
DEV float widen(f16 x) { return to_float(x); }
DEV float widen(bf16 x) { return to_float(x); }
DEV void narrow(float& to, float x) { to = x; }
DEV void narrow(double& to, double x) { to = x; }
DEV void narrow(f16& to, float x) { to = to_f16(x); }
DEV void narrow(bf16& to, float x) { to = to_bf16(x); }

DEV float fused(float x, float y, float z) { return __fmaf_rn(x, y, z); }
DEV double fused(double x, double y, double z) { return fma(x, y, z); }
DEV float add(float x, float y) { return __fadd_rn(x, y); }
DEV double add(double x, double y) { return __dadd_rn(x, y); }

// A block of 256 threads computes tiles of 32 x 32; a thread has 4 elements, one below the other.
constexpr int kSmall = 32, kSmallThreads = 256;

// Room is shared memory for the operands of a tile, with k as the slower dimension.
template <class T> using Room = T[2][kSmall][kSmall + 1];

// tile_product computes the elements of A B that are in the first tile of m rows and n columns, and calls store(row,
// column, element) for each. Row i takes part in the products from k = first(i) on, a multiple of 256; first(0) is
// the smallest. All threads of a block call it, and have left the room when it returns.
template <class T, class A, class B, class First, class Store>
DEV void tile_product(Room<T>& room, const Matrix<A>& a, const Matrix<B>& b, uint32_t m, uint32_t n, uint32_t k, First first, Store store) {
  const uint32_t x = threadIdx.x % kSmall, y = threadIdx.x / kSmall;
  const T zero = T(0);
  T chain[4], total[4];
  uint32_t begin[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    begin[i] = first(y + 8 * i);
    chain[i] = zero;
    total[i] = k && !begin[i] ? -zero : zero;  // -0 and the first chain is that chain
  }
  // Neighbouring threads read along the side whose elements are neighbours.
  const bool a_along = a.column == 1, b_along = b.row == 1;
#pragma unroll 1
  for (uint32_t k0 = first(0); k0 < k; k0 += kSmall) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint32_t z = y + 8 * i;
      const uint32_t ak = a_along ? x : z, am = a_along ? z : x, bk = b_along ? x : z, bn = b_along ? z : x;
      room[0][ak][am] = am < m && k0 + ak < k ? widen(a.at(am, k0 + ak)) : zero;
      room[1][bk][bn] = bn < n && k0 + bk < k ? widen(b.at(k0 + bk, bn)) : zero;
    }
    __syncthreads();
    const int steps = k - k0 < kSmall ? (int)(k - k0) : kSmall;
#pragma unroll 4  // more takes too many registers
    for (int s = 0; s < steps; s++) {
      const T v = room[1][s][x];
#pragma unroll
      for (int i = 0; i < 4; i++) chain[i] = fused(room[0][s][y + 8 * i], v, chain[i]);
    }
    __syncthreads();
    if ((k0 + kSmall) % kChunk == 0 || k0 + kSmall >= k)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        if (k0 >= begin[i]) total[i] = add(total[i], chain[i]);
        chain[i] = zero;
      }
  }
#pragma unroll
  for (int i = 0; i < 4; i++)
    if (y + 8 * i < m && x < n) store(y + 8 * i, x, total[i]);
}
