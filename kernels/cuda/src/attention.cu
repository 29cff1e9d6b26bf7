// Attention with the bits of kernels/cpu/attention.go, which describes it: for each head of each batch entry, with q [T
// D], k [S D] and v [S E],
//
//	s = scale * q kᵀ,  m = max(s),  r = 1 / sum(exp(s - m)),  p = exp(s - m) * r,  y = p v
//
// and, g being the gradient of y,
//
//	dv = pᵀ g,  dp = g vᵀ,  ds = scale * (p * (dp - sum(dp*p))),  dq = ds k,  dk = dsᵀ q
//
// With a causal mask row i attends to the keys j <= i + S-T; p and ds are 0 for the others. Keys that are hidden from
// all of 32 rows take no part in y and dq of these rows; rows of dk and dv are sums over the chunks of 256 queries that
// attend to them.
//
// Blocks loop over tiles of 32 rows or 32 keys of all heads, with p and ds of one tile in global memory of their own.
// Operands have any strides. Half precision is widened, and results are rounded once. In double the CPU has another
// order of additions, and exp is CUDA's own. attention_flash.cu is the fast one for half precision.
#include "attention.cuh"
#include "row.cuh"

namespace {

constexpr uint32_t kTileRows = kSmallTile;

// RowTile is the work of a block: `size` rows or keys from `from` on, of matrix i.
struct RowTile {
  uint32_t i, from, size;
};

// each_row_tile calls work(tile) for the tiles of this block, of n rows or keys, the longest work first: the last rows
// and the first keys of causal attention.
template <class N, class Work> DEV void each_row_tile(const Attention<N>& z, uint32_t n, bool last_first, Work work) {
  const uint32_t row_tiles = (n + kTileRows - 1) / kTileRows;
  for (uint64_t task = blockIdx.x; task < z.count * row_tiles; task += gridDim.x) {
    uint32_t number = (uint32_t)(task / z.count);
    const uint32_t i = (uint32_t)(task - number * z.count);
    if (last_first) number = row_tiles - 1 - number;
    work(RowTile{i, number * kTileRows, minimum(kTileRows, n - number * kTileRows)});
  }
}

// product computes A B [m n], tile by tile across.
template <class N, class A, class B, class First, class Store>
DEV void product(SharedTiles<N>& tiles, const Matrix<A>& a, const Matrix<B>& b, uint32_t m, uint32_t n, uint32_t k,
                 First first, Store store) {
  for (uint32_t c = 0; c < n; c += kSmallTile)
    tile_product(tiles, a, b.from(0, c), m, n - c, k, first, [&](uint32_t i, uint32_t j, N v) { store(i, c + j, v); });
}

// each_row shares the rows of a tile out to warps.
template <class Work> DEV void each_row(const RowTile& w, Work work) {
  for (uint32_t row = threadIdx.x / 32; row < w.size; row += kSmallThreads / 32) work(row);
}

// row_each calls f(j) for the elements of a row that a thread has, as in row_fold.
template <class F> DEV void row_each(uint32_t n, F f) {
  for (uint32_t j = own_index(); j < n; j += kFoldPartials)
#pragma unroll
    for (uint32_t k = 0; k < 4; k++)
      if (j + k < n) f(j + k);
}

// y, m and r. A block's scratch is p [32 S].
template <class T, class N> DEV void forward(const Attention<N>& z) {
  SHARED(N, tiles, [2][kSmallTile][kSmallTile + 1]);
  const Matrix<N> p{z.scratch + (uint64_t)blockIdx.x * kTileRows * z.s, z.s, 1};
  each_row_tile(z, z.t, true, [&](const RowTile& w) {
    const uint32_t visible = visible_keys(z, w.from + w.size - 1);
    product(tiles, matrix<const T>(z, z.q, w.i, w.from), matrix<const T>(z, z.k, w.i, 0).transposed(), w.size, visible,
            z.d, from_start, [&](uint32_t i, uint32_t j, N v) { p.at(i, j) = math::mul(v, z.scale); });
    __syncthreads();
    each_row(w, [&](uint32_t row) {
      N* const x = &p.at(row, 0);
      const uint32_t n = visible_keys(z, w.from + row);
      const N m = row_fold<Max, Warp<0, false>>(n, values([&](uint32_t j) { return x[j]; }));
      row_each(n, [&](uint32_t j) { x[j] = math::exp(math::sub(x[j], m)); });
      const N r = math::div(N(1), row_fold<Sum, Warp<0, false>>(n, values([&](uint32_t j) { return x[j]; })));
      row_each(visible, [&](uint32_t j) { x[j] = j < n ? math::mul(x[j], r) : N(0); });
      if (threadIdx.x % 32) return;
      const uint64_t at = (uint64_t)w.i * z.t + w.from + row;
      z.m[at] = m;
      z.r[at] = r;
    });
    __syncthreads();
    const Matrix<T> y = matrix<T>(z, z.y, w.i, w.from);
    product(tiles, p, matrix<const T>(z, z.v, w.i, 0), w.size, z.e, visible, from_start,
            [&](uint32_t i, uint32_t j, N v) { y.at(i, j) = to_element<T>(v); });
  });
}

// dq, and dot = sum(dp*p) of each row. A block's scratch is p and ds, both [32 S].
template <class T, class N> DEV void grad_rows(const Attention<N>& z) {
  SHARED(N, tiles, [2][kSmallTile][kSmallTile + 1]);
  const Matrix<N> p{z.scratch + (uint64_t)blockIdx.x * 2 * kTileRows * z.s, z.s, 1}, ds = p.from(kTileRows, 0);
  each_row_tile(z, z.t, true, [&](const RowTile& w) {
    const uint32_t visible = visible_keys(z, w.from + w.size - 1);
    product(tiles, matrix<const T>(z, z.q, w.i, w.from), matrix<const T>(z, z.k, w.i, 0).transposed(), w.size, visible,
            z.d, from_start, [&](uint32_t i, uint32_t j, N v) { p.at(i, j) = math::mul(v, z.scale); });
    product(tiles, matrix<const T>(z, z.g, w.i, w.from), matrix<const T>(z, z.v, w.i, 0).transposed(), w.size, visible,
            z.e, from_start, [&](uint32_t i, uint32_t j, N v) { ds.at(i, j) = v; });
    __syncthreads();
    each_row(w, [&](uint32_t row) {
      N *const x = &p.at(row, 0), *const dx = &ds.at(row, 0);
      const uint64_t at = (uint64_t)w.i * z.t + w.from + row;
      const uint32_t n = visible_keys(z, w.from + row);
      const N m = z.m[at], r = z.r[at];
      row_each(n, [&](uint32_t j) { x[j] = math::mul(math::exp(math::sub(x[j], m)), r); });
      // Not row_fold, whose other way for short rows, to the same sum, takes registers.
      const N dot = fold_blocks<Sum, Warp<0, false>>(n, values([&](uint32_t j) { return math::mul(dx[j], x[j]); }));
      row_each(visible,
               [&](uint32_t j) { dx[j] = j < n ? math::mul(math::mul(x[j], math::sub(dx[j], dot)), z.scale) : N(0); });
      if (threadIdx.x % 32 == 0) z.dot[at] = dot;
    });
    __syncthreads();
    const Matrix<T> dq = matrix<T>(z, z.dq, w.i, w.from);
    product(tiles, ds, matrix<const T>(z, z.k, w.i, 0), w.size, z.d, visible, from_start,
            [&](uint32_t i, uint32_t j, N v) { dq.at(i, j) = to_element<T>(v); });
  });
}

// dk and dv. A block's scratch is pᵀ and dsᵀ, both [32 T].
template <class T, class N> DEV void grad_keys(const Attention<N>& z) {
  SHARED(N, tiles, [2][kSmallTile][kSmallTile + 1]);
  const Matrix<N> p{z.scratch + (uint64_t)blockIdx.x * 2 * kTileRows * z.t, z.t, 1}, ds = p.from(kTileRows, 0);
  each_row_tile(z, z.s, false, [&](const RowTile& w) {
    // The first chunk with a row that attends to key j of the tile.
    const auto first = [&](uint32_t j) {
      const uint32_t hidden = hidden_rows(z, w.from + j);
      return hidden - hidden % kChunk;
    };
    const uint32_t from = first(0);
    const Matrix<const T> q = matrix<const T>(z, z.q, w.i, 0), g = matrix<const T>(z, z.g, w.i, 0);
    product(tiles, matrix<const T>(z, z.k, w.i, w.from), q.from(from, 0).transposed(), w.size, z.t - from, z.d,
            from_start, [&](uint32_t j, uint32_t c, N v) {
              const uint32_t row = from + c;
              const uint64_t at = (uint64_t)w.i * z.t + row;
              p.at(j, row) = w.from + j < visible_keys(z, row)
                                 ? math::mul(math::exp(math::sub(math::mul(v, z.scale), z.m[at])), z.r[at])
                                 : N(0);
            });
    product(tiles, matrix<const T>(z, z.v, w.i, w.from), g.from(from, 0).transposed(), w.size, z.t - from, z.e,
            from_start, [&](uint32_t j, uint32_t c, N v) {
              const uint32_t row = from + c;
              const N dot = z.dot[(uint64_t)w.i * z.t + row];
              ds.at(j, row) = w.from + j < visible_keys(z, row)
                                  ? math::mul(math::mul(p.at(j, row), math::sub(v, dot)), z.scale)
                                  : N(0);
            });
    __syncthreads();
    const Matrix<T> dk = matrix<T>(z, z.dk, w.i, w.from), dv = matrix<T>(z, z.dv, w.i, w.from);
    product(tiles, p, g, w.size, z.e, z.t, first,
            [&](uint32_t i, uint32_t j, N v) { dv.at(i, j) = to_element<T>(v); });
    product(tiles, ds, q, w.size, z.d, z.t, first,
            [&](uint32_t i, uint32_t j, N v) { dk.at(i, j) = to_element<T>(v); });
  });
}

}  // namespace

// Attention in double, and row gradients in double and half precision, need more registers than two blocks would leave.
#define ATTENTION(suffix, T)                                                                                    \
  ENTRY(attention##suffix, kSmallThreads, sizeof(T) == 8 ? 1 : 2, (Attention<ComputeType<T>> z), forward<T>(z)) \
  ENTRY(attention_grad_rows##suffix, kSmallThreads, sizeof(T) == 4 ? 2 : 1, (Attention<ComputeType<T>> z),      \
        grad_rows<T>(z))                                                                                        \
  ENTRY(attention_grad_keys##suffix, kSmallThreads, 2, (Attention<ComputeType<T>> z), grad_keys<T>(z))

FLOATS(ATTENTION)
