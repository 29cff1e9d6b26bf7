// targets: sm_90a
//
// The gradient of flash attention by wgmma, for heads of 64 or 128 elements and compute capability 9.0: what
// flash_grad_turns_* of attention_flash.cu computes, in other tiles. FlashAttention-3 (Shah and others 2024) divides
// the work likewise, but for the order of sums.
//
// A block computes several items, of 128 keys each, taken in the order in which blocks are ready for them: see Turns.
// Two warpgroups own 64 of the keys: they keep dk and dv in registers, and make s and dp of tiles of rows, transposed,
// [keys rows], so that p and ds are left operands in registers. ds goes through shared memory to both for dq, of which
// each makes half a tile, while it works on the next tile: so neither waits for the other one, and products wait in
// line while exponentials are taken. Four more warps copy: keys and rows of q, values and rows of g, sums of dq when
// their turn has come, and the fourth ends turns.
//
// A tile has panels of 64 columns: rows of 128 bytes, swizzled as wgmma reads them. That of ds has 64 rows of q in a
// row of a key.
#include "attention_flash_hopper.cuh"
#include "prim_turns.cuh"

namespace {

constexpr int kKeys = 128, kStages = 2;
constexpr int kWarps = 8, kThreads = 384;  // kWarps multiply, four copy
constexpr uint32_t kTile = 16384;          // bytes of a tile of q or g; half of those of sums
template <int D> constexpr int kRows = 8192 / D;
template <int D> constexpr int kKeyStages = D == 64 ? 2 : 1;  // of k and v
template <int D> constexpr uint32_t kKeyTile = 2 * D * kKeys;
template <int D> constexpr uint32_t kDsTile = 2 * kRows<D> * kKeys;
template <int D> constexpr uint32_t kValues = 8 * kRows<D>;  // bytes of l and dot

// Shared memory: k and v, the ring of q, that of g, ds, sums, l and dot, numbers of items, barriers.
constexpr uint32_t kRing = 65536, kDs = kRing + 2 * kStages * kTile;
template <int D> constexpr uint32_t kSums = kDs + 2 * kDsTile<D>;
template <int D> constexpr uint32_t kLAndDot = kSums<D> + 2 * kTile;
template <int D> constexpr uint32_t kItems = kLAndDot<D> + kStages * kValues<D>;
constexpr uint32_t kWarpSums = 4096;  // bytes of a warp that multiplies

// Shared is a block's shared memory, and whose turn it is there.
template <int D> struct Shared {
  unsigned char* const memory;
  const uint32_t address;
  Ring<2> items;
  Ring<kKeyStages<D>> keys, values;
  Ring<kStages> q, g;
  Ring<2> ds;
  Ring<1> sums;
  Ring<2> added;  // tiles of dq whose sums are in memory; read when the turn is over
  DEV_METHOD Shared(unsigned char* memory) : memory(memory), address(shared_address(memory)) {
    uint32_t at = address + kItems<D> + 16;
    auto next = [&](auto& ring) {
      ring.barriers = at;
      at += ring.kBytes;
    };
    next(items), next(keys), next(values), next(q), next(g), next(ds), next(sums), next(added);
  }
  DEV_METHOD void init() const {
    items.init(1, kWarps + 4);
    keys.init(1, kWarps);
    values.init(1, kWarps);
    q.init(1, kWarps);
    g.init(1, kWarps);
    ds.init(kWarps, kWarps);
    sums.init(1, kWarps);
    added.init(kWarps, 1);
  }
  DEV_METHOD uint32_t k(uint32_t n) const { return address + n % kKeyStages<D> * (2 * kKeyTile<D>); }
  DEV_METHOD uint32_t v(uint32_t n) const { return k(n) + kKeyTile<D>; }
  DEV_METHOD uint32_t q_tile(uint32_t n) const { return address + kRing + n % kStages * kTile; }
  DEV_METHOD uint32_t g_tile(uint32_t n) const { return q_tile(n) + kStages * kTile; }
  DEV_METHOD uint32_t ds_tile(uint32_t n) const { return address + kDs + n % 2 * kDsTile<D>; }
  DEV_METHOD uint32_t l_and_dot(uint32_t n) const { return kLAndDot<D> + n % kStages * kValues<D>; }
};

// Item is the work of a block on 128 keys from key `from` of matrix i on: tiles of rows, which count on from item to
// item.
template <int D> struct Item {
  const Attention<float>& z;
  uint32_t number, i, from, tile, end, row_of_tile_0;
  DEV_METHOD Item(const Attention<float>& z, uint32_t block, uint32_t number, uint32_t tile)
      : z(z), number(number), tile(tile) {
    const Block w(block, z.s, kKeys);
    i = w.i, from = w.from;
    const uint32_t first = hidden_rows(z, from) / kRows<D> * kRows<D>;
    row_of_tile_0 = first - tile * kRows<D>;
    end = tile + (existing(z.t, first) + kRows<D> - 1) / kRows<D>;
  }
  DEV_METHOD uint32_t row(uint32_t n) const { return row_of_tile_0 + n * kRows<D>; }
  // values is where l, dot and sums of a tile are.
  DEV_METHOD uint64_t values(uint32_t n) const { return (uint64_t)i * padded(z.t) + row(n); }
  // turn is the block's turn at a tile: the number of blocks of later keys.
  DEV_METHOD uint32_t turn(uint32_t n) const {
    return (visible_keys(z, row(n) + kRows<D> - 1) - 1) / kKeys - from / kKeys;
  }
  DEV_METHOD uint32_t* counter(uint32_t n) const { return Turns(z).counters + values(n) / kTurn; }
  DEV_METHOD float* sums(uint32_t n) const { return Turns(z).sums + values(n) * D; }
  // sums_use is the number of a use of the place of sums: those of a tile, or behind the last one that of results.
  DEV_METHOD uint32_t sums_use(uint32_t n) const { return n + number; }
};

// each calls f(item) for all items of the block. One warp takes them.
template <bool TAKES, int D, class F> DEV void each(const Attention<float>& z, const Shared<D>& shared, F f) {
  const uint32_t blocks = (z.s + kKeys - 1) / kKeys, count = (uint32_t)z.count * blocks;
  uint32_t tile = 0;
#pragma unroll 1
  for (uint32_t n = 0;; n++) {
    unsigned char* const place = shared.memory + kItems<D> + n % 2 * 4;
    if (TAKES) {
      shared.items.await_room(n);
      if (threadIdx.x % 32 == 0)
        store<uint32_t>(place, take_ticket(Turns(z).counters + z.count * padded(z.t) / kTurn));
      shared.items.fill(n);
    }
    shared.items.await(n);
    const uint32_t block = uniform(load<uint32_t>(place));
    shared.items.drain(n);
    if (block >= count) return;
    const Item<D> item(z, block, n, tile);
    f(item);
    tile = item.end;
  }
}

// copy_q is the work of the warp that copies k and q, copy_g that of v, g, l and dot.
template <class T, int D> DEV void copy_q(const Attention<float>& z, const Shared<D>& shared) {
  each<true>(z, shared, [&](const Item<D>& item) {
    shared.keys.await_room(item.number);
    begin_tile<D, kKeys>(shared.k(item.number), matrix<const T>(z, z.k, item.i, item.from), z.s - item.from);
    arrive_copied(shared.keys.filled(item.number));
    const Matrix<const T> q = matrix<const T>(z, z.q, item.i, 0);
#pragma unroll 1
    for (uint32_t n = item.tile; n < item.end; n++) {
      shared.q.await_room(n);
      begin_tile<D, kRows<D>>(shared.q_tile(n), q.from(item.row(n), 0), z.t - item.row(n));
      arrive_copied(shared.q.filled(n));
    }
  });
}
template <class T, int D> DEV void copy_g(const Attention<float>& z, const Shared<D>& shared) {
  each<false>(z, shared, [&](const Item<D>& item) {
    shared.values.await_room(item.number);
    begin_tile<D, kKeys>(shared.v(item.number), matrix<const T>(z, z.v, item.i, item.from), z.s - item.from);
    arrive_copied(shared.values.filled(item.number));
    const Matrix<const T> g = matrix<const T>(z, z.g, item.i, 0);
#pragma unroll 1
    for (uint32_t n = item.tile; n < item.end; n++) {
      shared.g.await_room(n);
      const uint32_t lane = threadIdx.x % 32, half = lane % 16 * 4;
      const float* const from = (lane < 16 ? z.scratch : z.dot) + item.values(n);
#pragma unroll
      for (uint32_t i = half; i < kRows<D>; i += 64)
        cp_async<16>(shared.address + shared.l_and_dot(n) + lane / 16 * (kValues<D> / 2) + i * 4, from + i, 16);
      begin_tile<D, kRows<D>>(shared.g_tile(n), g.from(item.row(n), 0), z.t - item.row(n));
      arrive_copied(shared.g.filled(n));
    }
  });
}

// copy_sums copies the sums of tiles when their turn has come. It is at most two tiles ahead of end_turns.
template <int D> DEV void copy_sums(const Attention<float>& z, const Shared<D>& shared) {
  each<false>(z, shared, [&](const Item<D>& item) {
#pragma unroll 1
    for (uint32_t n = item.tile; n < item.end; n++) {
      const uint32_t turn = item.turn(n), use = item.sums_use(n);
      if (turn && threadIdx.x % 32 == 0) wait_acquire(item.counter(n), turn);
      shared.added.await_room(n);
      shared.sums.await_room(use);
      __syncwarp();
      if (turn) {
        const uint32_t at = threadIdx.x % 32 * 16;
        const unsigned char* const from = reinterpret_cast<const unsigned char*>(item.sums(n)) + at;
#pragma unroll 4
        for (uint32_t i = 0; i < 2 * kTile; i += 512)
          cp_async<16>(shared.address + kSums<D> + at + i, from + i, 16);
      }
      arrive_copied(shared.sums.filled(use));
    }
    const uint32_t results = item.sums_use(item.end);
    shared.sums.await_room(results);
    shared.sums.fill(results);
  });
}

// end_turns lets the next block add to a tile, once all warps have.
template <int D> DEV void end_turns(const Attention<float>& z, const Shared<D>& shared) {
  each<false>(z, shared, [&](const Item<D>& item) {
#pragma unroll 1
    for (uint32_t n = item.tile; n < item.end; n++) {
      shared.added.await(n);
      if (item.from && threadIdx.x % 32 == 0) store_release(item.counter(n), item.turn(n) + 1);
      shared.added.drain(n);
    }
  });
}

// KeyGradients is the work of a warp that multiplies, on 16 keys of its warpgroup's 64.
template <class T, int D> struct KeyGradients {
  static constexpr int kColumns = kRows<D> / 8;  // of s, in units of 8
  const Attention<float>& z;
  const Shared<D>& shared;
  const uint32_t warp, group;
  const float c;
  Products<1, kColumns> s, dp;
  Products<1, D / 8> dk, dv;
  Products<1, 8> dq;
  Left<1, kColumns> p, ds;
  DEV_METHOD KeyGradients(const Attention<float>& z, const Shared<D>& shared)
      : z(z), shared(shared), warp(uniform(threadIdx.x / 32)), group(warp / 4), c(__fmul_rn(z.scale, kLog2E)) {}
  template <int N> static DEV_METHOD float (&flat(Products<1, N>& c))[4 * N] {
    return reinterpret_cast<float(&)[4 * N]>(c);
  }

  // begin_rows begins a = K Bᵀ, for the warpgroup's keys of a tile and all rows of another. As the compiler does not
  // know where they are, it does not keep their descriptors in registers.
  DEV_METHOD void begin_rows(Products<1, kColumns>& a, uint32_t keys, uint32_t rows) {
    wgmma_pin(keys);
    const uint64_t left = descriptor128(keys + group * 8192), right = descriptor128(rows);
    clear<1, kColumns>(a);
    wgmma_pin(flat<kColumns>(a));
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < D; d += 16)
      wgmma(T{}, flat<kColumns>(a), advanced(left, d / 64 * (kKeys * 128) + d % 64 * 2),
            advanced(right, d / 64 * (kRows<D> * 128) + d % 64 * 2), d > 0);
    wgmma_commit();
  }
  // begin_add begins to add p B to a, for all rows of a tile.
  DEV_METHOD void begin_add(Products<1, D / 8>& a, Left<1, kColumns>& p, uint32_t rows) {
    const uint64_t right = descriptor128(rows, kRows<D> * 128);
    wgmma_pin(p[0]);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < kRows<D>; k += 16)
      wgmma<false>(T{}, flat<D / 8>(a), p[0][k / 16], advanced(right, k * 128), 1);
    wgmma_commit();
  }
  // begin_dq begins dq = dsᵀ K: 64 rows of two times 64, or 64 columns.
  DEV_METHOD void begin_dq(uint32_t ds, uint32_t keys) {
    wgmma_pin(keys);
    const uint32_t half = group * (kKeys * 128);
    const uint64_t left = descriptor128(D == 64 ? ds + half : ds, kKeys * 128),
                   right = descriptor128(D == 64 ? keys : keys + half, kKeys * 128);
    clear<1, 8>(dq);
    wgmma_pin(flat<8>(dq));
    wgmma_fence();
#pragma unroll
    for (int key = 0; key < kKeys; key += 16)
      wgmma<false, false>(T{}, flat<8>(dq), advanced(left, key * 128), advanced(right, key * 128), key > 0);
    wgmma_commit();
  }

  // take_scores makes scores of a tile p: 0 where a key is hidden from a row.
  DEV_METHOD void take_scores(const Item<D>& item, uint32_t n) {
    const uint32_t row = item.row(n), key = item.from + warp * 16;
    each_with_column<1, kColumns>(shared.memory + shared.l_and_dot(n), [&](int i, int j, int e, float l) {
      s[i][j][e] = exp2_fast(__fmaf_rn(s[i][j][e], c, -l));
    });
    if (visible_keys(z, row) <= key + 15)
      unrolled<1, kColumns, 4>([&](int i, int j, int e) {
        if (visible_keys(z, row + column_of(j, e)) <= key + row_of(i, e)) s[i][j][e] = 0.f;
      });
    round<T, 1, kColumns>(p, s);
  }

  // take_products makes dp ds, put_ds writes it to shared memory.
  DEV_METHOD void take_products(uint32_t n) {
    each_with_column<1, kColumns>(
        shared.memory + shared.l_and_dot(n) + kValues<D> / 2, [&](int i, int j, int e, float dot) {
          dp[i][j][e] = __fmul_rn(rounded<T>(p, i, j, e), __fsub_rn(dp[i][j][e], dot));
        });
    round<T, 1, kColumns>(ds, dp);
  }
  DEV_METHOD void put_ds(uint32_t n) const {
    shared.ds.await_room(n);
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t at = shared.ds_tile(n) +
                        swizzle128((warp * 16 + lane / 8 % 2 * 8 + lane % 8) * 128 + lane / 16 * 16);
#pragma unroll
    for (int k = 0; k < kColumns / 2; k++) stmatrix((at ^ k % 4 * 32) + k / 4 * (kKeys * 128), ds[0][k]);
    fence_proxy_async();
    shared.ds.fill(n);
  }

  // add adds dq of a tile, which has been multiplied, to the sums, after blocks of later keys. That of key 0 writes it.
  DEV_METHOD void add(const Item<D>& item, uint32_t n) {
    unsigned char* const own = shared.memory + kSums<D> + warp * kWarpSums;
    const uint32_t lane = threadIdx.x % 32, use = item.sums_use(n), row = item.row(n);
    shared.sums.await(use);
    if (item.turn(n))
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const float4 sum = load<float4>(own + lane * 16 + j * 512);
        dq[0][j][0] = __fadd_rn(sum.x, dq[0][j][0]);
        dq[0][j][1] = __fadd_rn(sum.y, dq[0][j][1]);
        dq[0][j][2] = __fadd_rn(sum.z, dq[0][j][2]);
        dq[0][j][3] = __fadd_rn(sum.w, dq[0][j][3]);
      }
    if (item.from) {
      shared.sums.drain(use);
      float* const sums = item.sums(n) + warp * (kWarpSums / 4) + lane * 4;
#pragma unroll
      for (int j = 0; j < 8; j++)
        store<float4>(sums + j * 128, {dq[0][j][0], dq[0][j][1], dq[0][j][2], dq[0][j][3]});
    } else {
      const uint32_t first = (D == 64 ? warp : warp % 4) * 16;
      Matrix<T> to = matrix<T>(z, z.dq, item.i, row + first);
      to.data += D == 64 ? 0 : group * 64;
      const float scale[1][2] = {{z.scale, z.scale}};
      put<T, 64, 1>(to, existing(z.t - row, first), dq, scale, own);
      shared.sums.drain(use);
    }
    shared.added.fill(n);
  }

  // write writes dk and dv.
  DEV_METHOD void write(const Item<D>& item) {
    unsigned char* const own = shared.memory + kSums<D> + warp * kWarpSums;
    const uint32_t key = item.from + warp * 16, exist = existing(z.s, key);
    const float scale[1][2] = {{z.scale, z.scale}}, one[1][2] = {{1.f, 1.f}};
    const uint32_t use = item.sums_use(item.end);
    shared.sums.await(use);
    put<T, D, 1>(matrix<T>(z, z.dk, item.i, key), exist, dk, scale, own);
    put<T, D, 1>(matrix<T>(z, z.dv, item.i, key), exist, dv, one, own);
    shared.sums.drain(use);
  }

  // end_dq ends dq of a tile whose product has been waited for.
  DEV_METHOD void end_dq(const Item<D>& item, uint32_t n) {
    wgmma_pin(flat<8>(dq));
    shared.ds.drain(n);
    add(item, n);
  }

  // take computes an item.
  DEV_METHOD void take(const Item<D>& item) {
    clear<1, D / 8>(dk);
    clear<1, D / 8>(dv);
    wgmma_pin(flat<D / 8>(dk));
    wgmma_pin(flat<D / 8>(dv));
    shared.keys.await(item.number);
    if (item.tile < item.end) {
      take_tiles(item);
    } else {
      shared.values.await(item.number);
      shared.values.drain(item.number);
      shared.keys.drain(item.number);
    }
    write(item);
  }

  // take_tiles computes the tiles of an item, the last product of each while the next one is worked on.
  DEV_METHOD void take_tiles(const Item<D>& item) {
    const uint32_t k = shared.k(item.number), v = shared.v(item.number), last = item.end - 1;
    auto start = [&](uint32_t n) {  // all that comes before dp has been waited for
      shared.q.await(n);
      begin_rows(s, k, shared.q_tile(n));
      shared.g.await(n);
      if (n == item.tile) shared.values.await(item.number);
      begin_rows(dp, v, shared.g_tile(n));
      wgmma_wait<1>();  // for s
      wgmma_pin(flat<kColumns>(s));
      take_scores(item, n);
      begin_add(dv, p, shared.g_tile(n));
    };
    auto finish = [&](uint32_t n) {
      wgmma_pin(flat<kColumns>(dp));
      if (n == last) shared.values.drain(item.number);
      take_products(n);
      begin_add(dk, ds, shared.q_tile(n));
      put_ds(n);
      wgmma_wait<1>();  // for dv and dq
      shared.g.drain(n);
    };
    start(item.tile);
    wgmma_wait<1>();  // for dp
    finish(item.tile);
    wgmma_wait<0>();
    shared.q.drain(item.tile);
#pragma unroll 1
    for (uint32_t n = item.tile + 1; n <= last; n++) {
      start(n);
      shared.ds.await(n - 1);
      begin_dq(shared.ds_tile(n - 1), k);
      wgmma_wait<2>();  // for dp
      finish(n);
      end_dq(item, n - 1);
      wgmma_wait<0>();
      shared.q.drain(n);
    }
    shared.ds.await(last);
    begin_dq(shared.ds_tile(last), k);
    wgmma_wait<0>();
    wgmma_pin(flat<D / 8>(dk));
    wgmma_pin(flat<D / 8>(dv));
    shared.keys.drain(item.number);
    end_dq(item, last);
  }
};

template <class T, int D> DEV void gradient(const Attention<float>& z) {
  SHARED_DYNAMIC(memory);
  const Shared<D> shared(memory);
  if (threadIdx.x == 0) shared.init();
  __syncthreads();
  const uint32_t warp = uniform(threadIdx.x / 32);
  if (warp < kWarps) {
    setmaxnreg_inc<240>();
    KeyGradients<T, D> gradients(z, shared);
    each<false>(z, shared, [&](const Item<D>& item) { gradients.take(item); });
    return;
  }
  setmaxnreg_dec<24>();
  if (warp == kWarps)
    copy_q<T>(z, shared);
  else if (warp == kWarps + 1)
    copy_g<T>(z, shared);
  else if (warp == kWarps + 2)
    copy_sums(z, shared);
  else
    end_turns(z, shared);
}

}  // namespace

#define FLASH(name, T, D) ENTRY(flash_grad_hopper_##name, kThreads, 1, (Attention<float> z), gradient<T, D>(z))

FLASH(64_f16, f16, 64)
FLASH(64_bf16, bf16, 64)
FLASH(128_f16, f16, 128)
FLASH(128_bf16, bf16, 128)
