// batch.cuh: matrix products C = A B of a batch, with operands of any strides. Their results follow each other in C.
#pragma once
#include "index.cuh"

// Product is the launch: element (i, k) of A lies at a + i*a_row + k*a_column, and so on. The batch places the
// operands of each product.
template <class T> struct Product {
  T* c;
  const T *a, *b, *bias;  // bias may be null
  uint32_t m, n, k;
  uint32_t c_row;  // from row to row of C
  int64_t a_row, a_column, b_row, b_column, bias_step;
};

using Batch = Shape64<2>;

// Tile is where a block works in C.
struct Tile {
  uint32_t m0, n0;
};

// kTogether rows of tiles are computed side by side, so that blocks that run at once share their operands in the cache.
constexpr uint32_t kTogether = 8;

// choose gives the block its tile, and p the operands of its product. Blocks count the tiles of a product in groups of
// rows, column by column, then products.
template <class T> DEV Tile choose(Product<T>& p, const Batch& batch, uint32_t size) {
  const uint32_t across = (p.n + size - 1) / size, down = (p.m + size - 1) / size, tiles = across * down;
  const uint32_t number = blockIdx.x / tiles, tile = blockIdx.x - number * tiles;
  const uint32_t first = tile / (kTogether * across) * kTogether, in_group = tile - first * across;
  const uint32_t rows = down - first < kTogether ? down - first : kTogether;
  uint64_t at[2];
  locate(batch, (uint64_t)number, at);
  p.a += at[0];
  p.b += at[1];
  p.c += (uint64_t)number * p.m * p.c_row;
  return {(first + in_group % rows) * size, in_group / rows * size};
}
