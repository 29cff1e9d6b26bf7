// Attention with the bits of kernels/cpu/attention.go, which describes it: for each head of each batch entry, with q [T
// D], k [S D] and v [S E],
//
//	s = scale * q kᵀ + mask,  m = max(s),  r = 1 / sum(exp(s - m)),  p = exp(s - m) * r,  y = (p * kept) v
//
// and, g being the gradient of y,
//
//	dv = (p * kept)ᵀ g,  dp = g vᵀ * kept,  ds = scale * (p * (dp - sum(dp*p))),  dq = ds k,  dk = dsᵀ q
//
// Row i attends to the keys from i+first to i+last; p and ds are 0 for the others. Later keys that are hidden from all
// of 32 rows, and chunks of 256 keys that lie before all of these rows' keys, take no part in y and dq of these rows;
// rows of dk and dv are sums over the chunks of 256 queries for which their key, or chunk of keys, does.
//
// Blocks loop over tiles of 32 rows or 32 keys of all heads, with p and ds of one tile in global memory of their own.
// Operands have any strides. Half precision is widened, and results are rounded once. In double the CPU has another
// order of additions, and exp is CUDA's own. attention_flash.cu is the fast one for half precision, without masks.
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

// first_key is the first key that row i attends to, or n if that is less; first_chunk is where its chunk begins.
template <class N> DEV uint32_t first_key(const Attention<N>& z, uint32_t i, uint32_t n) {
  const int32_t key = (int32_t)i + z.first;
  return key < 0 ? 0 : minimum((uint32_t)key, n);
}
template <class N> DEV uint32_t first_chunk(const Attention<N>& z, uint32_t i, uint32_t n) {
  const int32_t key = (int32_t)i + z.first;
  return key < 0 ? 0 : minimum((uint32_t)key / kChunk * kChunk, n);
}

// shared_matrix is the matrix of k or v that matrix i of q uses.
template <class T, class N> DEV Matrix<T> shared_matrix(const Attention<N>& z, const Heads& h, uint32_t i,
                                                        uint32_t row) {
  const uint32_t b = i / z.heads, head = (i - b * z.heads) / z.group;
  return {static_cast<T*>(h.data) + (b * h.batch + head * h.head + row * h.row), h.row, h.column};
}

// masked is a score with the mask of its row and key.
template <class T, class N> DEV N masked(const Attention<N>& z, uint32_t i, uint32_t row, uint32_t key, N score) {
  return z.mask.data ? math::add(score, to_compute<N>(matrix<const T>(z, z.mask, i, row).at(0, key))) : score;
}

// dropped is a probability, or its gradient, times its factor of dropout.
template <class N> DEV N dropped(const Attention<N>& z, uint32_t i, uint32_t row, uint32_t key, N p) {
  if (!z.kept.data) return p;
  return math::mul(p, matrix<const uint8_t>(z, z.kept, i, row).at(0, key) ? N(z.factor) : N(0));
}

// y, m and r. A block's scratch is p [32 S].
template <class T, class N> DEV void forward(const Attention<N>& z) {
  SHARED(N, tiles, [2][kSmallTile][kSmallTile + 1]);
  const Matrix<N> p{z.scratch + (uint64_t)blockIdx.x * kTileRows * z.s, z.s, 1};
  const bool limited = z.mask.data || z.first > -(int32_t)z.t;
  each_row_tile(z, z.t, true, [&](const RowTile& w) {
    const uint32_t visible = visible_keys(z, w.from + w.size - 1), begin = first_chunk(z, w.from, visible);
    product(tiles, matrix<const T>(z, z.q, w.i, w.from), shared_matrix<const T>(z, z.k, w.i, begin).transposed(),
            w.size, visible - begin, z.d, from_start, [&](uint32_t i, uint32_t j, N v) {
              p.at(i, begin + j) = masked<T>(z, w.i, w.from + i, begin + j, math::mul(v, z.scale));
            });
    __syncthreads();
    each_row(w, [&](uint32_t row) {
      N* const x = &p.at(row, 0);
      const uint32_t n = visible_keys(z, w.from + row), first = first_key(z, w.from + row, n);
      N m = row_fold<Max, Warp<0, false>>(n, values([&](uint32_t j) { return j < first ? -infinity(N()) : x[j]; }));
      const bool none = first == n || (limited && m == -infinity(N()));
      if (none) m = N(0);
      row_each(n, [&](uint32_t j) { x[j] = j < first || none ? N(0) : math::exp(math::sub(x[j], m)); });
      const N sum = row_fold<Sum, Warp<0, false>>(n, values([&](uint32_t j) { return x[j]; }));
      const N r = none ? N(0) : math::div(N(1), sum);
      row_each(visible, [&](uint32_t j) {
        x[j] = j >= first && j < n ? dropped(z, w.i, w.from + row, j, math::mul(x[j], r)) : N(0);
      });
      if (threadIdx.x % 32) return;
      const uint64_t at = (uint64_t)w.i * z.t + w.from + row;
      z.m[at] = m;
      z.r[at] = r;
    });
    __syncthreads();
    const Matrix<T> y = matrix<T>(z, z.y, w.i, w.from);
    product(tiles, p.from(0, begin), shared_matrix<const T>(z, z.v, w.i, begin), w.size, z.e, visible - begin,
            from_start, [&](uint32_t i, uint32_t j, N v) { y.at(i, j) = to_element<T>(v); });
  });
}

// dq, and dot = sum(dp*p) of each row. A block's scratch is p and ds, both [32 S].
template <class T, class N> DEV void grad_rows(const Attention<N>& z) {
  SHARED(N, tiles, [2][kSmallTile][kSmallTile + 1]);
  const Matrix<N> p{z.scratch + (uint64_t)blockIdx.x * 2 * kTileRows * z.s, z.s, 1}, ds = p.from(kTileRows, 0);
  each_row_tile(z, z.t, true, [&](const RowTile& w) {
    const uint32_t visible = visible_keys(z, w.from + w.size - 1), begin = first_chunk(z, w.from, visible);
    product(tiles, matrix<const T>(z, z.q, w.i, w.from), shared_matrix<const T>(z, z.k, w.i, begin).transposed(),
            w.size, visible - begin, z.d, from_start, [&](uint32_t i, uint32_t j, N v) {
              p.at(i, begin + j) = masked<T>(z, w.i, w.from + i, begin + j, math::mul(v, z.scale));
            });
    product(tiles, matrix<const T>(z, z.g, w.i, w.from), shared_matrix<const T>(z, z.v, w.i, begin).transposed(),
            w.size, visible - begin, z.e, from_start, [&](uint32_t i, uint32_t j, N v) {
              ds.at(i, begin + j) = dropped(z, w.i, w.from + i, begin + j, v);
            });
    __syncthreads();
    each_row(w, [&](uint32_t row) {
      N *const x = &p.at(row, 0), *const dx = &ds.at(row, 0);
      const uint64_t at = (uint64_t)w.i * z.t + w.from + row;
      const uint32_t n = visible_keys(z, w.from + row), first = first_key(z, w.from + row, n);
      const N m = z.m[at], r = z.r[at];
      row_each(n, [&](uint32_t j) { if (j >= first) x[j] = math::mul(math::exp(math::sub(x[j], m)), r); });
      // Not row_fold, whose other way for short rows, to the same sum, takes registers.
      const N dot = fold_blocks<Sum, Warp<0, false>>(
          n, values([&](uint32_t j) { return j < first ? N(0) : math::mul(dx[j], x[j]); }));
      row_each(visible, [&](uint32_t j) {
        dx[j] = j >= first && j < n ? math::mul(math::mul(x[j], math::sub(dx[j], dot)), z.scale) : N(0);
      });
      if (threadIdx.x % 32 == 0) z.dot[at] = dot;
    });
    __syncthreads();
    const Matrix<T> dq = matrix<T>(z, z.dq, w.i, w.from);
    product(tiles, ds.from(0, begin), shared_matrix<const T>(z, z.k, w.i, begin), w.size, z.d, visible - begin,
            from_start, [&](uint32_t i, uint32_t j, N v) { dq.at(i, j) = to_element<T>(v); });
  });
}

// end_rows is the number of rows up to the last chunk of 256 for which the chunk of a key takes part.
template <class N> DEV uint32_t end_rows(const Attention<N>& z, uint32_t key) {
  const int32_t last = (int32_t)(key / kChunk * kChunk + kChunk - 1) - z.first;  // row that begins with that chunk
  return last < 0 ? 0 : minimum((uint32_t)last / kChunk * kChunk + kChunk, z.t);
}

// dk and dv. A block's scratch is (p * kept)ᵀ and dsᵀ, both [32 T].
template <class T, class N> DEV void grad_keys(const Attention<N>& z) {
  SHARED(N, tiles, [2][kSmallTile][kSmallTile + 1]);
  const Matrix<N> p{z.scratch + (uint64_t)blockIdx.x * 2 * kTileRows * z.t, z.t, 1}, ds = p.from(kTileRows, 0);
  each_row_tile(z, z.s, false, [&](const RowTile& w) {
    // The first chunk with a row that attends to key j of the tile.
    const auto first = [&](uint32_t j) {
      const uint32_t hidden = hidden_rows(z, w.from + j);
      return hidden - hidden % kChunk;
    };
    const uint32_t from = first(0), end = end_rows(z, w.from), rows = end > from ? end - from : 0;
    const auto attends = [&](uint32_t j, uint32_t row) {
      const uint32_t n = visible_keys(z, row);
      return w.from + j < n && w.from + j >= first_key(z, row, n);
    };
    const Matrix<const T> q = matrix<const T>(z, z.q, w.i, 0), g = matrix<const T>(z, z.g, w.i, 0);
    product(tiles, shared_matrix<const T>(z, z.k, w.i, w.from), q.from(from, 0).transposed(), w.size, rows, z.d,
            from_start, [&](uint32_t j, uint32_t c, N v) {
              const uint32_t row = from + c;
              const uint64_t at = (uint64_t)w.i * z.t + row;
              const N score = masked<T>(z, w.i, row, w.from + j, math::mul(v, z.scale));
              p.at(j, row) = attends(j, row) ? math::mul(math::exp(math::sub(score, z.m[at])), z.r[at]) : N(0);
            });
    product(tiles, shared_matrix<const T>(z, z.v, w.i, w.from), g.from(from, 0).transposed(), w.size, rows, z.e,
            from_start, [&](uint32_t j, uint32_t c, N v) {
              const uint32_t row = from + c;
              const N dp = dropped(z, w.i, row, w.from + j, v), x = p.at(j, row);
              const N dot = z.dot[(uint64_t)w.i * z.t + row];
              ds.at(j, row) = attends(j, row) ? math::mul(math::mul(x, math::sub(dp, dot)), z.scale) : N(0);
              p.at(j, row) = dropped(z, w.i, row, w.from + j, x);
            });
    __syncthreads();
    const Matrix<T> dk = matrix<T>(z, z.dk, w.i, w.from), dv = matrix<T>(z, z.dv, w.i, w.from);
    product(tiles, p, g, w.size, z.e, end, first,
            [&](uint32_t i, uint32_t j, N v) { dv.at(i, j) = to_element<T>(v); });
    product(tiles, ds, q, w.size, z.d, end, first,
            [&](uint32_t i, uint32_t j, N v) { dk.at(i, j) = to_element<T>(v); });
  });
}

}  // namespace

// But for attention and the gradients of rows in float32, kernels need more registers than two blocks would leave.
#define ATTENTION(suffix, T)                                                                                    \
  ENTRY(attention##suffix, kSmallThreads, sizeof(T) == 4 ? 2 : 1, (Attention<ComputeType<T>> z), forward<T>(z)) \
  ENTRY(attention_grad_rows##suffix, kSmallThreads, sizeof(T) == 4 ? 2 : 1, (Attention<ComputeType<T>> z),      \
        grad_rows<T>(z))                                                                                        \
  ENTRY(attention_grad_keys##suffix, kSmallThreads, 1, (Attention<ComputeType<T>> z), grad_keys<T>(z))

FLOATS(ATTENTION)
