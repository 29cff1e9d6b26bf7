// Attention in half precision on tensor cores, for heads of 32, 64, 80, 96 or 128 elements (FlashAttention-2, Dao
// 2023): scores exist for one tile of rows and keys at a time, in registers, and never in memory. attention.cu is the
// plain kernel. Sums and exponentials are FP32; p and ds are rounded to the type of the operands before they are
// multiplied. With c = scale * log2(e),
//
//	p = 2^(c s - l),  l = m log2(e) - log2(r)
//
// and the sums over a row, m and r among them, are taken tile after tile. No sum depends on which block runs first: in
// the gradient, whose blocks own keys, they add to dq one after another, see Turns.
//
// A block has 4 warps, a wide one 8. Each owns a strip of 16 M rows (or keys), which it multiplies by tiles of 64
// keys (or rows) that the block copies to shared memory, one tile ahead. Tiles of 128 elements have 32, so that a
// multiprocessor has room for two blocks. Rows of operands are contiguous, at multiples of 16 bytes. With a causal
// mask, scores that are hidden from all rows of a strip are skipped; p and ds of other hidden ones are 0.
#include "attention_flash.cuh"
#include "prim_turns.cuh"

namespace {

constexpr int kThreads = 128;

template <int D> constexpr int kTileRows = D == 128 ? 32 : 64;  // rows of a tile of the other operands
template <int D> constexpr int kTurnRows = D > 80 ? 32 : 64;    // the same in the gradient

// pairs_on is the offset of the unit that is k pairs behind one of the first pair of a row.
template <int D> DEV uint32_t pairs_on(uint32_t at, uint32_t k) { return kSwizzled<D> ? at ^ 32 * k : at + 32 * k; }

// copy_tile copies ROWS rows to a tile, of which `exist` exist; the others become 0.
template <int D, int ROWS, int THREADS = kThreads, class T>
DEV void copy_tile(uint32_t tile, const Matrix<T>& from, uint32_t exist) {
  constexpr int kAcross = Across<D>::kAcross, kAtOnce = THREADS / kAcross;
  const uint32_t unit = threadIdx.x % kAcross, row = threadIdx.x / kAcross;
  const T* p = from.data + row * from.row + unit * kUnit;
  const uint32_t to = tile + unit_at<D>(row, unit);
#pragma unroll
  for (int i = 0; i < ROWS / kAtOnce; i++) {
    const bool exists = row + i * kAtOnce < exist;
#pragma unroll
    for (int e = 0; e < Across<D>::kEach; e++)
      cp_async<16>(to + i * (kAtOnce * kPitch<D>) + e * (kAcross * 16), exists ? p + e * (kAcross * kUnit) : from.data,
                   exists ? 16 : 0);
    p += kAtOnce * from.row;
  }
}

// copy_two_tiles copies the tiles from a row on of two operands of n rows to one stage.
template <int D, int ROWS, int THREADS = kThreads, class T>
DEV void copy_two_tiles(uint32_t stage, const Matrix<T>& a, const Matrix<T>& b, uint32_t row, uint32_t n) {
  copy_tile<D, ROWS, THREADS>(stage, a.from(row, 0), n - row);
  copy_tile<D, ROWS, THREADS>(stage + ROWS * kPitch<D>, b.from(row, 0), n - row);
}

// LaneOffsets has the offset of a lane's unit among the first 16 rows and 2 units of a tile, as ldmatrix takes them,
// with matrices in the order rows first or units first. Other offsets follow by adding rows and by pairs_on; where
// units are permuted, the bits below 256 of a tile's address are 0.
template <int D> struct LaneOffsets {
  uint32_t rows_first, units_first;
  DEV_METHOD LaneOffsets() {
    const uint32_t l = threadIdx.x % 32;
    rows_first = unit_at<D>(l % 16, l / 16);
    units_first = unit_at<D>(l / 16 * 8 + l % 8, l / 8 % 2);
  }
};

// Strip is the left operand [16 M, D] of a warp, in shared memory or, if IN_REGISTERS, in registers.
template <int D, int M, bool IN_REGISTERS> struct Strip {
  uint32_t at, fragments[IN_REGISTERS ? D / 16 : 1][M][4];
  DEV_METHOD Strip(const LaneOffsets<D>& lane, uint32_t tile) : at(tile + lane.rows_first) {
    if (IN_REGISTERS) {
#pragma unroll
      for (int k = 0; k < D / 16; k++) load(fragments[IN_REGISTERS ? k : 0], k);
    }
  }
  DEV_METHOD void load(uint32_t (&a)[M][4], int k) const {
#pragma unroll
    for (int i = 0; i < M; i++) ldmatrix(a[i], pairs_on<D>(at, k) + i * (16 * kPitch<D>));
  }
  DEV_METHOD void get(uint32_t (&a)[M][4], int k) const {
    if (IN_REGISTERS) {
      unrolled<M, 4>([&](int i, int e) { a[i][e] = fragments[IN_REGISTERS ? k : 0][i][e]; });
    } else {
      load(a, k);
    }
  }
};

// multiply_rows sets c = A Bᵀ, for the first 8 N rows of a tile.
template <class T, int D, int M, int N, bool IN_REGISTERS>
DEV void multiply_rows(Products<M, N>& c, const Strip<D, M, IN_REGISTERS>& a, const LaneOffsets<D>& lane, uint32_t b) {
  clear<M, N>(c);
  const uint32_t at = b + lane.units_first;
#pragma unroll(IN_REGISTERS ? D / 16 : 2)  // two at a time: more would take more registers than there are
  for (int k = 0; k < D / 16; k++) {
    uint32_t u[M][4];
    a.get(u, k);
#pragma unroll
    for (int j = 0; j < N / 2; j++) {
      uint32_t v[4];
      ldmatrix(v, pairs_on<D>(at, k) + j * (16 * kPitch<D>));
#pragma unroll
      for (int i = 0; i < M; i++) {
        mma(T{}, c[i][2 * j], u[i], v[0], v[1]);
        mma(T{}, c[i][2 * j + 1], u[i], v[2], v[3]);
      }
    }
  }
}

// add_product adds p B to c, p being [16 M, 16 K] and B the first 16 K rows of a tile.
template <class T, int D, int M, int K>
DEV void add_product(Products<M, D / 8>& c, const uint32_t (&p)[M][K][4], const LaneOffsets<D>& lane, uint32_t b) {
  const uint32_t at = b + lane.rows_first;
#pragma unroll
  for (int k = 0; k < K; k++)
#pragma unroll
    for (int j = 0; j < D / 16; j++) {
      uint32_t v[4];
      ldmatrix_transposed(v, pairs_on<D>(at, j) + k * (16 * kPitch<D>));
#pragma unroll
      for (int i = 0; i < M; i++) {
        mma(T{}, c[i][2 * j], p[i][k], v[0], v[1]);
        mma(T{}, c[i][2 * j + 1], p[i][k], v[2], v[3]);
      }
    }
}

// RowStrip is the work of a warp on 16 M rows, and the keys that its block attends to. These pass through a ring of two
// stages in shared memory, each with a tile of k and one of v.
template <class T, int D, int M> struct RowStrip {
  static constexpr uint32_t kTile = kTileRows<D> * kPitch<D>, kOwn = 64 * M * kPitch<D>;  // bytes of operands
  const Attention<float>& z;
  const Block w;
  const uint32_t ring, strip, first, last, visible;  // strip is the first row in the block, `first` in the matrix
  const Matrix<const T> k, v;
  DEV_METHOD RowStrip(const Attention<float>& z, uint32_t ring)
      : z(z), w(blockIdx.x, z.t, 64 * M), ring(ring), strip(threadIdx.x / 32 * (16 * M)), first(w.from + strip),
        last(first + 16 * M - 1), visible(visible_keys(z, w.from + w.size - 1)), k(matrix<const T>(z, z.k, w.i, 0)),
        v(matrix<const T>(z, z.v, w.i, 0)) {}

  // copy_rows copies the block's rows of an operand, copy_keys the tiles of k and v from a key on.
  DEV_METHOD void copy_rows(uint32_t tile, const Heads& operand) const {
    copy_tile<D, 64 * M>(tile, matrix<const T>(z, operand, w.i, w.from), w.size);
  }
  DEV_METHOD void copy_keys(uint32_t key) const {
    if (key < visible) copy_two_tiles<D, kTileRows<D>>(ring + key / kTileRows<D> % 2 * (2 * kTile), k, v, key, z.s);
    cp_async_commit();
  }

  // each_keys calls work(key, k_tile), with the address of that key's row, for 8 N keys at a time.
  template <int N, class Work> DEV_METHOD void each_keys(Work work) const {
#pragma unroll 1
    for (uint32_t key = 0; key < visible; key += kTileRows<D>) {
      cp_async_wait<0>();
      __syncthreads();
      copy_keys(key + kTileRows<D>);
#pragma unroll 1
      for (uint32_t part = 0; part < kTileRows<D>; part += 8 * N)
        if (key + part < visible_keys(z, last))
          work(key + part, ring + key / kTileRows<D> % 2 * (2 * kTile) + part * kPitch<D>);
    }
    mma_done();
  }

  DEV_METHOD void store(const Heads& to, const Products<M, D / 8>& c, const float (&factor)[M][2],
                        unsigned char* shared) const {
    put<T, D, M>(matrix<T>(z, to, w.i, first), existing(w.size, strip), c, factor, shared + strip * kPitch<D>);
  }
};

// y, m and r. Shared memory is q [64 M, D] and two stages of k and v [64, D].
template <class T, int D, int M, int N> DEV void forward(const Attention<float>& z) {
  SHARED_DYNAMIC(shared);
  const LaneOffsets<D> lane;
  const uint32_t q_tile = shared_address(shared);
  const RowStrip<T, D, M> rows(z, q_tile + RowStrip<T, D, M>::kOwn);
  rows.copy_rows(q_tile, z.q);
  cp_async_commit();
  rows.copy_keys(0);
  cp_async_wait<1>();
  __syncthreads();
  const Strip<D, M, D <= 64> q(lane, q_tile + rows.strip * kPitch<D>);

  Products<M, D / 8> y;
  clear<M, D / 8>(y);
  OnlineSoftmax<M> softmax;
  const float c = __fmul_rn(z.scale, kLog2E);
  rows.template each_keys<N>([&](uint32_t from, uint32_t k_tile) {
    Products<M, N> s;
    multiply_rows<T>(s, q, lane, k_tile);
    mma_done();
    hide(s, z, rows.first, from, -infinity());
    softmax.template take<N>(s, c);
    softmax.template shrink<D / 8>(y);
    Left<M, N> p;
    round<T, M, N>(p, s);
    add_product<T, D>(y, p, lane, k_tile + rows.kTile);
  });
  softmax.end(z, rows.w.i, rows.first, existing(rows.w.size, rows.strip));
  rows.store(z.y, y, softmax.total, shared);
}

// dot = sum(g*y), which is sum(dp*p), and l of each row, in scratch. Rows that only fill a tile have an infinite l,
// which makes their p 0.
template <class T, int D> DEV void dots(const Attention<float>& z) {
  constexpr int kAcross = Across<D>::kAcross;
  const uint32_t unit = threadIdx.x % kAcross, rows = padded(z.t);
  const uint64_t at = (uint64_t)blockIdx.x * (kThreads / kAcross) + threadIdx.x / kAcross;
  const uint32_t i = (uint32_t)(at / rows), row = (uint32_t)(at - (uint64_t)i * rows);
  const bool exists = row < z.t;
  float sum = 0.f;
  if (exists) {
    const T *y_row = matrix<const T>(z, z.y, i, row).data + unit * kUnit,
            *g_row = matrix<const T>(z, z.g, i, row).data + unit * kUnit;
#pragma unroll
    for (int k = 0; k < Across<D>::kEach; k++) {
      const uint4 y = load<uint4>(y_row + k * (kAcross * kUnit)), g = load<uint4>(g_row + k * (kAcross * kUnit));
      const uint32_t a[4] = {y.x, y.y, y.z, y.w}, b[4] = {g.x, g.y, g.z, g.w};
#pragma unroll
      for (int e = 0; e < 4; e++) {
        sum = __fmaf_rn(to_float(T{(uint16_t)a[e]}), to_float(T{(uint16_t)b[e]}), sum);
        sum = __fmaf_rn(to_float(T{(uint16_t)(a[e] >> 16)}), to_float(T{(uint16_t)(b[e] >> 16)}), sum);
      }
    }
  }
#pragma unroll
  for (int h = 1; h < kAcross; h *= 2) sum = __fadd_rn(sum, shuffle_xor(sum, h));
  if (unit) return;
  const uint64_t from = (uint64_t)i * z.t + row;
  if (at % kTurn == 0) Turns(z).counters[at / kTurn] = 0;
  if (at == 0) Turns(z).counters[z.count * rows / kTurn] = 0;
  z.dot[at] = sum;
  z.scratch[at] = exists ? __fmul_rn(__fsub_rn(z.m[from], f32_log(z.r[from])), kLog2E) : infinity();
}

// KeyGradients is the work of a block on dk and dv of its keys, 16 M a warp, and on dq, to which blocks add by turns.
// Shared memory is k and v [keys, D], two stages of q and g [ROWS, D] with l and dot [ROWS], ds [keys, ROWS], and in a
// wide block sums [ROWS, D]. Products are transposed, [keys rows], so that p and ds are left operands.
template <class T, int D, int M, int ROWS, int WARPS> struct KeyGradients {
  static constexpr int N = 4, kKeys = 16 * M * WARPS, kTile = ROWS * kPitch<D>, kValueBytes = 4 * ROWS,
                       kStage = 2 * (kTile + kValueBytes), kRing = 2 * kKeys * kPitch<D>, kDs = kRing + 2 * kStage,
                       kWidth = 32 * WARPS, kSums = kDs + kKeys * kPitch<ROWS>;
  static constexpr bool kWide = WARPS > 4;
  const Attention<float>& z;
  unsigned char* const shared;
  const Block w;
  const LaneOffsets<D> lane;
  const uint32_t k_tile, strip, first, last;  // strip is the first key in the block, `first` in the matrix
  const uint64_t values;                      // where l and dot of the matrix are
  Products<M, D / 8> dk, dv;
  DEV_METHOD KeyGradients(const Attention<float>& z, unsigned char* shared, uint32_t block)
      : z(z), shared(shared), w(block, z.s, kKeys), k_tile(shared_address(shared)),
        strip(threadIdx.x / 32 * (16 * M)), first(w.from + strip), last(first + 16 * M - 1),
        values((uint64_t)w.i * padded(z.t)) {}

  DEV_METHOD void copy_rows(uint32_t row) const {
    const uint32_t stage = k_tile + kRing + row / ROWS % 2 * kStage;
    if (row < z.t) {
      copy_two_tiles<D, ROWS, kWidth>(stage, matrix<const T>(z, z.q, w.i, 0), matrix<const T>(z, z.g, w.i, 0), row,
                                      z.t);
      if (threadIdx.x < ROWS / 2)
        cp_async<16>(stage + 2 * kTile + threadIdx.x * 16,
                     (threadIdx.x < ROWS / 4 ? z.scratch : z.dot) + values + row + threadIdx.x % (ROWS / 4) * 4, 16);
    }
    cp_async_commit();
  }

  // put_ds writes ds of the warp's keys and 8 N rows to shared memory.
  DEV_METHOD void put_ds(const Left<M, N>& ds, uint32_t row) const {
    unrolled<M, N / 2, 4>([&](int i, int k, int e) {
      store<uint32_t>(shared + kDs + unit_at<ROWS>(strip + row_of(i, e % 2 * 2), row / kUnit + 2 * k + e / 2) +
                          threadIdx.x % 4 * 4, ds[i][k][e]);
    });
  }

  // add_rows adds the 8 N rows from `row` of the tile on, which is `from` in the matrix, to dk and dv.
  DEV_METHOD void add_rows(uint32_t from, uint32_t row) {
    Left<M, N> p;
    if (visible_keys(z, from + row + 8 * N - 1) <= first) {
      unrolled<M, N / 2, 4>([&](int i, int k, int e) { p[i][k][e] = 0; });
      put_ds(p, row);
      return;
    }
    const uint32_t stage = kRing + from / ROWS % 2 * kStage, q_tile = k_tile + stage + row * kPitch<D>;
    const unsigned char* const l = shared + stage + 2 * kTile + row * 4;
    const Strip<D, M, false> k(lane, k_tile + strip * kPitch<D>), v(lane, k_tile + (kKeys + strip) * kPitch<D>);
    Products<M, N> s;
    multiply_rows<T>(s, k, lane, q_tile);
    mma_done();
    each_with_column<M, N>(
        l, [&](int i, int j, int e, float l) { s[i][j][e] = exp2_fast(__fmaf_rn(s[i][j][e], scale_log2(), -l)); });
    if (visible_keys(z, from + row) <= last)
      unrolled<M, N, 4>([&](int i, int j, int e) {
        if (visible_keys(z, from + row + column_of(j, e)) <= first + row_of(i, e)) s[i][j][e] = 0.f;
      });
    round<T, M, N>(p, s);
    add_product<T, D>(dv, p, lane, q_tile + kTile);
    multiply_rows<T>(s, v, lane, q_tile + kTile);
    mma_done();
    each_with_column<M, N>(l + kValueBytes, [&](int i, int j, int e, float dot) {
      s[i][j][e] = __fmul_rn(rounded<T>(p, i, j, e), __fsub_rn(s[i][j][e], dot));
    });
    round<T, M, N>(p, s);
    put_ds(p, row);
    add_product<T, D>(dk, p, lane, q_tile);
  }
  DEV_METHOD float scale_log2() const { return __fmul_rn(z.scale, kLog2E); }

  // A warp makes 16 rows of dq of a tile, or a part of their columns.
  static constexpr int kParts = 16 * WARPS / ROWS, kColumns = D / kParts;
  using Columns = Products<1, kColumns / 8>;

  // multiply_ds sets dq = dsᵀ k, for 64 M keys.
  DEV_METHOD void multiply_ds(Columns& dq, uint32_t group, uint32_t column, uint32_t key) const {
    clear<1, kColumns / 8>(dq);
    const uint32_t ds = pairs_on<ROWS>(k_tile + kDs + LaneOffsets<ROWS>().units_first, group) + key * kPitch<ROWS>,
                   k = k_tile + lane.rows_first + key * kPitch<D>;
#pragma unroll 2
    for (int i = 0; i < 4 * M; i++) {
      uint32_t u[4];
      ldmatrix_transposed(u, ds + i * (16 * kPitch<ROWS>));
#pragma unroll
      for (int j = 0; j < kColumns / 16; j++) {
        uint32_t v[4];
        ldmatrix_transposed(v, pairs_on<D>(k + i * (16 * kPitch<D>), column / 16 + j));
        mma(T{}, dq[0][2 * j], u, v[0], v[1]);
        mma(T{}, dq[0][2 * j + 1], u, v[2], v[3]);
      }
    }
    mma_done();
  }

  // turn_of is the block's turn at the tile that begins with row `from`: the number of blocks of later keys.
  DEV_METHOD uint32_t turn_of(uint32_t from) const {
    return (visible_keys(z, from + ROWS - 1) - 1) / kKeys - w.from / kKeys;
  }
  // await_turn is for another warp than end_turn, as both take time.
  DEV_METHOD void await_turn(uint32_t from) const {
    const uint32_t turn = turn_of(from);
    if (turn && threadIdx.x == 32) wait_acquire(Turns(z).counters + (values + from) / kTurn, turn);
  }
  DEV_METHOD float* sums_of(uint32_t from) const { return Turns(z).sums + (values + from) * D + threadIdx.x * 4; }

  // copy_sums copies a thread's own sums of a tile, for which its turn has come, to shared memory.
  DEV_METHOD void copy_sums(uint32_t from) const {
    if (turn_of(from))
#pragma unroll
      for (int j = 0; j < kColumns / 8; j++)
        cp_async<16>(k_tile + kSums + threadIdx.x * 16 + j * (16 * kWidth), sums_of(from) + j * (4 * kWidth), 16);
    cp_async_commit();
  }

  // take_turn adds what the keys give to dq of the tile's rows, after the blocks of later keys. The block of key 0
  // writes dq. A wide block adds what its later 64 M keys give before that of the earlier ones, as two blocks would.
  DEV_METHOD void take_turn(uint32_t from) const {
    const uint32_t group = threadIdx.x / 32 / kParts, column = threadIdx.x / 32 % kParts * kColumns;
    const bool both = kWide && visible_keys(z, from + ROWS - 1) > w.from + 64 * M;
    Columns dq, earlier;
    multiply_ds(dq, group, column, both ? 64 * M : 0);
    if (both) multiply_ds(earlier, group, column, 0);
    if (kWide) {
      cp_async_wait<1>();
    } else {
      await_turn(from);
      __syncthreads();
    }
    float* const sums = sums_of(from);
    if (turn_of(from))
#pragma unroll
      for (int j = 0; j < kColumns / 8; j++) {
        const float4 sum = kWide ? load<float4>(shared + kSums + threadIdx.x * 16 + j * (16 * kWidth))
                                 : load<float4>(sums + j * (4 * kWidth));
        dq[0][j][0] = __fadd_rn(sum.x, dq[0][j][0]);
        dq[0][j][1] = __fadd_rn(sum.y, dq[0][j][1]);
        dq[0][j][2] = __fadd_rn(sum.z, dq[0][j][2]);
        dq[0][j][3] = __fadd_rn(sum.w, dq[0][j][3]);
      }
    if (both)
      unrolled<kColumns / 8, 4>([&](int j, int e) { dq[0][j][e] = __fadd_rn(dq[0][j][e], earlier[0][j][e]); });
    if (w.from) {
#pragma unroll
      for (int j = 0; j < kColumns / 8; j++)
        store<float4>(sums + j * (4 * kWidth), {dq[0][j][0], dq[0][j][1], dq[0][j][2], dq[0][j][3]});
      return;
    }
    const Matrix<T> to = matrix<T>(z, z.dq, w.i, from + group * 16);
    const uint32_t exist = existing(z.t - from, group * 16);
    unrolled<kColumns / 8, 2>([&](int j, int h) {
      if (row_of(0, 2 * h) < exist)
        store<uint32_t>(to.data + row_of(0, 2 * h) * to.row + column + column_of(j, 0),
                        pack(T{}, __fmul_rn(dq[0][j][2 * h], z.scale), __fmul_rn(dq[0][j][2 * h + 1], z.scale)));
    });
  }

  // end_turn lets the next block add to the rows, once all threads have.
  DEV_METHOD void end_turn(uint32_t from) const {
    const uint32_t turn = turn_of(from);
    if (w.from && threadIdx.x == 0) store_release(Turns(z).counters + (values + from) / kTurn, turn + 1);
  }

  // run goes through the tiles of rows. A wide block, which is alone on its multiprocessor, copies the sums of a tile
  // while it works on it: it waits for its turn a tile ahead.
  DEV_METHOD void run() {
    const uint32_t from = hidden_rows(z, w.from) / ROWS * ROWS;
    copy_tile<D, kKeys, kWidth>(k_tile, matrix<const T>(z, z.k, w.i, w.from), w.size);
    copy_tile<D, kKeys, kWidth>(k_tile + kKeys * kPitch<D>, matrix<const T>(z, z.v, w.i, w.from), w.size);
    copy_rows(from);
    clear<M, D / 8>(dk);
    clear<M, D / 8>(dv);
    if (kWide && from < z.t) await_turn(from);
#pragma unroll 1
    for (uint32_t row = from; row < z.t; row += ROWS) {
      cp_async_wait<0>();
      __syncthreads();
      if (row > from) end_turn(row - ROWS);
      if (kWide) copy_sums(row);
      copy_rows(row + ROWS);
#pragma unroll 1
      for (uint32_t part = 0; part < ROWS; part += 8 * N) add_rows(row, part);
      if (kWide && row + ROWS < z.t) await_turn(row + ROWS);
      __syncthreads();
      take_turn(row);
    }
    cp_async_wait<0>();
    __syncthreads();  // where all rows are skipped, k and v arrive only now
    if (from < z.t) end_turn((z.t - 1) / ROWS * ROWS);
    mma_done();
    float scale[M][2], one[M][2];
    unrolled<M, 2>([&](int i, int h) {
      scale[i][h] = z.scale;
      one[i][h] = 1.f;
    });
    unsigned char* const to = shared + strip * kPitch<D>;
    put<T, D, M>(matrix<T>(z, z.dk, w.i, first), existing(w.size, strip), dk, scale, to);
    put<T, D, M>(matrix<T>(z, z.dv, w.i, first), existing(w.size, strip), dv, one, to + kKeys * kPitch<D>);
  }
};

template <class T, int D, int M, int WARPS = 4> DEV void grad_turns(const Attention<float>& z) {
  SHARED_DYNAMIC(shared);
  if (threadIdx.x == 0)
    store<uint32_t>(shared, take_ticket(Turns(z).counters + z.count * padded(z.t) / kTurn));
  __syncthreads();
  const uint32_t block = load<uint32_t>(shared);
  __syncthreads();
  KeyGradients<T, D, M, kTurnRows<D>, WARPS>(z, shared, block).run();
}

}  // namespace

// Strips have 16 M rows and take 8 N keys at a time, those of gradients 16 GRAD_M rows.
#define FLASH(name, T, D, M, N, GRAD_M)                                                          \
  ENTRY(flash_##name, kThreads, 2, (Attention<float> z), forward<T, D, M, N>(z))                 \
  ENTRY(flash_dot_##name, kThreads, 8, (Attention<float> z), dots<T, D>(z))                      \
  ENTRY(flash_grad_turns_##name, kThreads, 2, (Attention<float> z), grad_turns<T, D, GRAD_M>(z))

FLASH(32_f16, f16, 32, 2, 8, 2)
FLASH(32_bf16, bf16, 32, 2, 8, 2)
FLASH(64_f16, f16, 64, 2, 8, 2)
FLASH(64_bf16, bf16, 64, 2, 8, 2)
FLASH(80_f16, f16, 80, 2, 8, 1)
FLASH(80_bf16, bf16, 80, 2, 8, 1)
FLASH(96_f16, f16, 96, 2, 8, 1)
FLASH(96_bf16, bf16, 96, 2, 8, 1)
FLASH(128_f16, f16, 128, 2, 4, 1)
FLASH(128_bf16, bf16, 128, 2, 4, 1)

// Blocks of 8 warps and 128 keys, where shared memory is large: half of the traffic with L2.
ENTRY(flash_grad_wide_128_f16, 2 * kThreads, 1, (Attention<float> z), grad_turns<f16, 128, 1, 8>(z))
ENTRY(flash_grad_wide_128_bf16, 2 * kThreads, 1, (Attention<float> z), grad_turns<bf16, 128, 1, 8>(z))
