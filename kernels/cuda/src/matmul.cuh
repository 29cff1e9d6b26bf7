// matmul.cuh: what the kernels of matrix products share: the parameters of a batch of products, and a tile of 32 x 32
// in the canonical order (docs/DESIGN.md, section 9): K in chunks of 256; inside a chunk one chain of fused
// multiply-adds in ascending k, from +0; chunks added in ascending order.
#pragma once
#include "element.cuh"
#include "layout.cuh"

constexpr int kChunk = 256;

// unrolled calls f(i, j, k) for all i < I, j < J and k < K, in unrolled loops; without K, f(i, j).
template <int I, int J, int K, class F> DEV void unrolled(F f) {
#pragma unroll
  for (int i = 0; i < I; i++)
#pragma unroll
    for (int j = 0; j < J; j++)
#pragma unroll
      for (int k = 0; k < K; k++) f(i, j, k);
}
template <int I, int J, class F> DEV void unrolled(F f) {
  unrolled<I, J, 1>([&](int i, int j, int) { f(i, j); });
}

// Matrix is an operand; element (i, k) is at data + i*row + k*column.
template <class T> struct Matrix {
  T* data;
  int64_t row, column;
  DEV_METHOD T& at(uint32_t i, uint32_t k) const { return data[i * row + k * column]; }
  DEV_METHOD Matrix from(uint32_t i, uint32_t k) const { return {data + (i * row + k * column), row, column}; }
  DEV_METHOD Matrix transposed() const { return {data, column, row}; }
};

DEV float fused(float x, float y, float z) { return __fmaf_rn(x, y, z); }
DEV double fused(double x, double y, double z) { return fma(x, y, z); }
DEV float add(float x, float y) { return __fadd_rn(x, y); }
DEV double add(double x, double y) { return __dadd_rn(x, y); }

// A block of 256 threads computes a tile of 32 x 32; a thread has 4 elements of a column, 8 rows apart.
constexpr int kSmallTile = 32, kSmallThreads = 256;

// SharedTiles are tiles of both operands in shared memory, with k as the slower dimension.
template <class T> using SharedTiles = T[2][kSmallTile][kSmallTile + 1];

DEV uint32_t from_start(uint32_t) { return 0; }

// tile_product computes the elements of A B that are in the first tile of m rows and n columns, and calls store(row,
// column, element) for each. Row i takes part in the products from k = first(i) on, a multiple of 256; first(0) is
// the smallest. All threads of a block call it; the shared tiles are free again when it returns.
template <class T, class A, class B, class First, class Store>
DEV void tile_product(SharedTiles<T>& tiles, const Matrix<A>& a, const Matrix<B>& b, uint32_t m, uint32_t n, uint32_t k,
                      First first, Store store) {
  const uint32_t x = threadIdx.x % kSmallTile, y = threadIdx.x / kSmallTile;
  const T zero = T(0);
  T chain[4], total[4];
  uint32_t begin[4];
#pragma unroll
  for (int i = 0; i < 4; i++) {
    begin[i] = first(y + 8 * i);
    chain[i] = zero;
    total[i] = k && !begin[i] ? -zero : zero;  // -0 plus the first chain is that chain
  }
  // Neighbouring threads read along the contiguous dimension, so that loads are coalesced.
  const bool a_k_major = a.column == 1, b_k_major = b.row == 1;
#pragma unroll 1
  for (uint32_t k0 = first(0); k0 < k; k0 += kSmallTile) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint32_t z = y + 8 * i;
      const uint32_t ak = a_k_major ? x : z, am = a_k_major ? z : x, bk = b_k_major ? x : z, bn = b_k_major ? z : x;
      tiles[0][ak][am] = am < m && k0 + ak < k ? to_compute<T>(a.at(am, k0 + ak)) : zero;
      tiles[1][bk][bn] = bn < n && k0 + bk < k ? to_compute<T>(b.at(k0 + bk, bn)) : zero;
    }
    __syncthreads();
    const int steps = k - k0 < kSmallTile ? (int)(k - k0) : kSmallTile;
#pragma unroll 4  // more takes too many registers
    for (int s = 0; s < steps; s++) {
      const T v = tiles[1][s][x];
#pragma unroll
      for (int i = 0; i < 4; i++) chain[i] = fused(tiles[0][s][y + 8 * i], v, chain[i]);
    }
    __syncthreads();
    if ((k0 + kSmallTile) % kChunk == 0 || k0 + kSmallTile >= k)
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

// ---- batches of products -----------------------------------------------------------------------------

// Product is the launch, C = A B: element (i, k) of A is at a + i*a_row + k*a_column, and so on. The batch has the
// offsets of A and B of each product; the results follow each other in C.
template <class T> struct Product {
  T* c;
  const T *a, *b, *bias;  // bias may be null
  uint32_t m, n, k;
  uint32_t c_row;  // from row to row of C
  int64_t a_row, a_column, b_row, b_column, bias_step;
};

using Batch = Shape64<2>;

// Tile is the tile of C that a block computes.
struct Tile {
  uint32_t m0, n0;
};

// kGroupRows rows of tiles are computed together, so that concurrent blocks share operands in the L2 cache.
constexpr uint32_t kGroupRows = 8;

// assign_tile gives a block its tile of `high` rows and `wide` columns, and p the operands of its product. Blocks count
// the tiles of a product in groups of rows, column by column, then products.
template <class T>
DEV Tile assign_tile(Product<T>& p, const Batch& batch, uint32_t high, uint32_t wide, uint32_t block = blockIdx.x) {
  const uint32_t across = (p.n + wide - 1) / wide, down = (p.m + high - 1) / high, tiles = across * down;
  const uint32_t number = block / tiles, tile = block - number * tiles;
  const uint32_t first = tile / (kGroupRows * across) * kGroupRows, in_group = tile - first * across;
  const uint32_t rows = down - first < kGroupRows ? down - first : kGroupRows;
  uint64_t at[2];
  locate(batch, (uint64_t)number, at);
  p.a += at[0];
  p.b += at[1];
  p.c += (uint64_t)number * p.m * p.c_row;
  return {(first + in_group % rows) * high, in_group / rows * wide};
}
