// attention.cuh: the parameters of attention kernels. Operands are q [T D], k [S D], v [S E], y [T E] and its gradient
// g, and m and r of each row, for each head of each batch entry. `group` neighbouring heads share k and v.
#pragma once
#include "matmul.cuh"

// Heads is an operand or a result, one matrix for each head of each batch entry.
struct Heads {
  void* data;
  int64_t batch, head, row, column;
};

// Attention is the launch, with compute type N. Matrix i belongs to head i % heads of batch entry i / heads; m, r and
// dot are [count T]. Row i attends to the keys from i+first to i+last, -T <= first <= S and 0 <= last <= S. Where mask
// or kept [T S] has no data, there is none. A warp has `cached` elements of shared memory for rows.
template <class N> struct Attention {
  Heads q, k, v, y, g, dq, dk, dv, mask, kept;
  N *m, *r, *dot, *scratch;
  uint64_t count;
  uint32_t heads, t, s, d, e, last, group, cached;
  int32_t first;
  double factor;  // of probabilities that dropout keeps
  N scale;
};

template <class T, class N> DEV Matrix<T> matrix(const Attention<N>& z, const Heads& h, uint32_t i, uint32_t row) {
  const uint32_t b = i / z.heads;
  return {static_cast<T*>(h.data) + (b * h.batch + (i - b * z.heads) * h.head + row * h.row), h.row, h.column};
}

DEV uint32_t minimum(uint32_t x, uint32_t y) { return x < y ? x : y; }

// visible_keys is the number of keys up to the last one that row i attends to.
template <class N> DEV uint32_t visible_keys(const Attention<N>& z, uint32_t i) {
  return minimum(i + 1 + z.last, z.s);
}

// hidden_rows is the number of rows, the first ones, that a key is hidden from because it is later.
template <class N> DEV uint32_t hidden_rows(const Attention<N>& z, uint32_t key) {
  return key > z.last ? key - z.last : 0;
}
