// targets: sm_90a
//
// Flash attention by wgmma, for heads of 64 or 128 elements and compute capability 9.0: the forward pass of
// attention_flash.cu in other tiles. FlashAttention-3 (Shah and others 2024) divides the work likewise.
//
// A block computes several items, of 64 rows for each of its warpgroups that multiply. Four more warps copy the rows of
// q, and tiles of 128 keys to a ring of four stages, those of k and of v alternately: what the next item needs comes
// while the results of one are written. A warpgroup takes the exponentials of a tile's scores while the tensor cores
// multiply those of the tile before by v. Warpgroups take turns to begin products, so that not all of them take
// exponentials at once. Three are faster than two for heads of 64, but lose more where rows end.
//
// A tile has panels of 64 columns: rows of 128 bytes, swizzled as wgmma reads them, K-major for q kᵀ, and by rows of k
// for p v. Tiles are handed over by mbarriers as in matmul_hopper.cu, p stays in registers.
#include "attention_flash.cuh"
#include "prim_hopper.cuh"

namespace {

constexpr int kKeys = 128, kStages = 4, kCopying = 4;  // kCopying warps copy

// Shape is what GROUPS warpgroups that multiply have for heads of D: rows, warps, registers of a thread that multiplies
// or copies.
template <int D, int GROUPS> struct Shape {
  static constexpr int kGroups = GROUPS, kRows = 64 * GROUPS, kWarps = 4 * GROUPS;
  static constexpr int kRegisters = GROUPS == 3 ? 160 : 232, kCopyRegisters = GROUPS == 3 ? 32 : 40;
  // Shared memory: q, the ring, 16 rows of results for each warp that multiplies, barriers.
  static constexpr uint32_t kPanelQ = kRows * 128, kPanel = kKeys * 128, kTile = D / 64 * kPanel;
  static constexpr uint32_t kRing = D / 64 * kPanelQ, kResults = kRing + kStages * kTile;
  static constexpr uint32_t kBarriers = kResults + kWarps * 16 * kPitch<D>;
};

// The barriers of a stage, or of q, which is behind them: `full` when it has been copied, `drained` when it has been
// read.
constexpr int kRowsOfQ = kStages;
template <class S> DEV uint32_t full(uint32_t shared, uint32_t stage) { return shared + S::kBarriers + 8 * stage; }
template <class S> DEV uint32_t drained(uint32_t shared, uint32_t stage) {
  return full<S>(shared, kStages + 1 + stage);
}

// Items are blocks of rows of all matrices. Those of a causal attention are unequal, and blocks of threads get the same
// work in two ways. `sorted`: rows that see the most keys come first, of all matrices, and every second round goes to
// the blocks in reverse. Else in pairs, of the rows of a matrix that see the most keys and those that see the fewest;
// in every second matrix they are in reverse, so that the middles of two are a pair. Pairs follow each other by
// matrices, so that the L2 cache holds the keys of those at work.
struct Items {
  uint32_t count, sorted;
};

// each calls f(matrix, first row) for all items of the block, of ROWS rows.
template <int ROWS, class F> DEV void each(const Attention<float>& z, const Items& items, F f) {
  const uint32_t blocks = (z.t + ROWS - 1) / ROWS;
#pragma unroll 1
  for (uint32_t n = 0;; n++) {
    uint32_t item, i, j;
    if (items.sorted) {
      item = n * gridDim.x + (n % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
      j = item / (uint32_t)z.count;
      i = item - j * (uint32_t)z.count;
    } else {
      item = (n / 2 * gridDim.x + blockIdx.x) * 2 + n % 2;
      i = item / blocks;
      j = item - i * blocks;
      if (i % 2) j = blocks - 1 - j;
      j = j % 2 ? blocks - 1 - j / 2 : j / 2;
    }
    if (item >= items.count) break;
    f(i, (blocks - 1 - j) * ROWS);
  }
}

// tiles is the number of tiles of keys that ROWS rows from `first` on see.
template <int ROWS> DEV uint32_t tiles(const Attention<float>& z, uint32_t first) {
  return (visible_keys(z, minimum(first + ROWS, z.t) - 1) + kKeys - 1) / kKeys;
}

// fill copies ROWS rows of an operand, of which `exist` exist, to a tile, and says so at a barrier. The others are 0.
template <int ROWS, int D, class T>
DEV void fill(uint32_t tile, const Matrix<const T>& from, uint32_t exist, uint32_t barrier) {
  const uint32_t lane = threadIdx.x % 32, row = lane / 8, unit = lane % 8;
  const uint32_t to = tile + swizzle128(row * 128 + unit * 16);
#pragma unroll 1
  for (int i = 0; i < D / 64; i++) {
    const T* p = from.data + row * from.row + i * 64 + unit * kUnit;
    const uint32_t panel = to + i * ROWS * 128, odd = panel ^ 64;  // rows 4 to 7 of 8
#pragma unroll 8
    for (int r = 0; r < ROWS; r += 4) {
      const bool exists = row + r < exist;
      cp_async<16>((r % 8 ? odd : panel) + r * 128, exists ? p : from.data, exists ? 16 : 0);
      p += 4 * from.row;
    }
  }
  arrive_copied(barrier);
}

// copy is the work of a warp that copies every fourth tile of the block, and the first of them q.
template <class T, int D, class S>
DEV void copy(const Attention<float>& z, const Items& items, uint32_t shared, uint32_t stage) {
  const uint32_t tile = shared + S::kRing + stage * S::kTile;
  uint32_t begin = 0, next = stage, item = 0;  // numbers of tiles and items
  each<S::kRows>(z, items, [&](uint32_t i, uint32_t first) {
    if (stage == 0) {
      mbarrier_wait(drained<S>(shared, kRowsOfQ), ~item & 1);
      fill<S::kRows, D>(shared, matrix<const T>(z, z.q, i, first), z.t - first, full<S>(shared, kRowsOfQ));
    }
    item++;
    const Matrix<const T> from = matrix<const T>(z, stage % 2 ? z.v : z.k, i, 0);
    const uint32_t end = begin + 2 * tiles<S::kRows>(z, first);
#pragma unroll 1
    for (; next < end; next += kStages) {
      const uint32_t key = (next - begin) / 2 * kKeys;
      mbarrier_wait(drained<S>(shared, stage), ~(next / kStages) & 1);
      fill<kKeys, D>(tile, from.from(key, 0), z.s - key, full<S>(shared, stage));
    }
    begin = end;
  });
}

// Warpgroup is what one that multiplies has of 64 rows of an item: s are scores of 128 keys, p their exponentials,
// rounded, and y the sums.
template <class T, int D, class S> struct Warpgroup {
  const Attention<float>& z;
  uint32_t shared, warp, group, q, begin = 0;  // begin is the number of tiles, those of k and of v, before the item
  float c;
  Products<1, kKeys / 8> s;
  Products<1, D / 8> y;
  Left<1, kKeys / 8> p;

  DEV_METHOD Warpgroup(const Attention<float>& z, uint32_t shared)
      : z(z), shared(shared), warp(uniform(threadIdx.x / 32)), group(warp / 4), q(shared + group * (64 * 128)),
        c(__fmul_rn(z.scale, kLog2E)) {
    clear<1, kKeys / 8>(s);
  }
  DEV_METHOD float (&scores())[kKeys / 2] { return reinterpret_cast<float(&)[kKeys / 2]>(s); }
  DEV_METHOD float (&sums())[D / 2] { return reinterpret_cast<float(&)[D / 2]>(y); }

  // Warpgroups begin products by turns.
  DEV_METHOD void turn() const { bar_sync(1 + (int)group, 256); }
  DEV_METHOD void next() const { bar_arrive(1 + (int)((group + 1) % S::kGroups), 256); }

  // wait waits for a tile of the item and returns where it is; release says that it has been read.
  DEV_METHOD uint32_t wait(uint32_t tile) const {
    const uint32_t number = begin + tile, stage = number % kStages;
    mbarrier_wait(full<S>(shared, stage), number / kStages & 1);
    return shared + S::kRing + stage * S::kTile;
  }
  DEV_METHOD void release(uint32_t tile) const { release_stage((begin + tile) % kStages); }
  DEV_METHOD void release_stage(uint32_t stage) const {
    __syncwarp();  // no lane waits any more for what is overwritten now
    if (threadIdx.x % 32 == 0) mbarrier_arrive(drained<S>(shared, stage));
  }
  DEV_METHOD void pass(uint32_t tile) const {  // by a tile that others need
    wait(tile);
    release(tile);
  }

  // score begins s = q kᵀ.
  DEV_METHOD void score(uint32_t tile) {
    const uint32_t k = wait(2 * tile);
    wgmma_pin(scores());
    wgmma_fence();
#pragma unroll
    for (int d = 0; d < D; d += 16)
      wgmma(T{}, scores(), descriptor128(q + d / 64 * S::kPanelQ + d % 64 * 2),
            descriptor128(k + d / 64 * S::kPanel + d % 64 * 2), d > 0);
    wgmma_commit();
  }
  // add begins y += p v.
  DEV_METHOD void add(uint32_t tile) {
    const uint32_t v = wait(2 * tile + 1);
    wgmma_pin(sums());
    wgmma_fence();
#pragma unroll
    for (int key = 0; key < kKeys; key += 16)
      wgmma<false>(T{}, sums(), p[0][key / 16], descriptor128(v + key * 128, S::kPanel), 1);
    wgmma_commit();
  }
  // scored makes s exponentials; `last` is the last tile.
  DEV_METHOD void scored(OnlineSoftmax<1>& softmax, uint32_t tile, uint32_t last, uint32_t own) {
    wgmma_pin(scores());
    release(2 * tile);
    if (tile == last) release_stage(kRowsOfQ);
    hide(s, z, own, tile * kKeys, -infinity());
    softmax.template take<kKeys / 8>(s, c);
    if (tile < last) wait(2 * tile + 2);  // behind this the compiler moves no exponentials
  }
  DEV_METHOD void added(uint32_t tile) {
    wgmma_wait<0>();
    wgmma_pin(sums());
    release(2 * tile + 1);
  }
  // attend adds up y of the first `seen` tiles, for the warp's rows from `own` on.
  DEV_METHOD void attend(OnlineSoftmax<1>& softmax, uint32_t seen, uint32_t own) {
    score(0);
    wgmma_wait<0>();
    scored(softmax, 0, seen - 1, own);
    round<T, 1, kKeys / 8>(p, s);
#pragma unroll 1
    for (uint32_t tile = 1; tile < seen; tile++) {
      turn();
      score(tile);
      add(tile - 1);
      next();
      wgmma_wait<1>();
      scored(softmax, tile, seen - 1, own);
      added(tile - 1);
      softmax.template shrink<D / 8>(y);
      round<T, 1, kKeys / 8>(p, s);
    }
    add(seen - 1);
    added(seen - 1);
  }
};

// multiply is the work of the warps that multiply: y, m and r.
template <class T, int D, class S>
DEV void multiply(const Attention<float>& z, const Items& items, unsigned char* memory) {
  Warpgroup<T, D, S> w(z, shared_address(memory));
  uint32_t item = 0;
  if (w.group == S::kGroups - 1) w.next();
  each<S::kRows>(z, items, [&](uint32_t i, uint32_t first) {
    const uint32_t own = first + w.warp * 16, exist = existing(z.t, own), rows = first + w.group * 64;
    const uint32_t count = tiles<S::kRows>(z, first), seen = rows < z.t ? tiles<64>(z, rows) : 0;
    OnlineSoftmax<1> softmax;
    clear<1, D / 8>(w.y);
    mbarrier_wait(full<S>(w.shared, kRowsOfQ), item++ & 1);
    if (seen > 0)
      w.attend(softmax, seen, own);
    else
      w.release_stage(kRowsOfQ);
#pragma unroll 1
    for (uint32_t tile = seen; tile < count; tile++) {
      if (tile > 0) w.turn(), w.next();
      w.pass(2 * tile);
      w.pass(2 * tile + 1);
    }
    w.begin += 2 * count;
    if (seen == 0) return;
    softmax.end(z, i, own, exist);
    put<T, D, 1>(matrix<T>(z, z.y, i, own), exist, w.y, softmax.total,
                 memory + S::kResults + w.warp * (16 * kPitch<D>));
  });
  if (w.group == 0) w.turn();
}

template <class T, int D, class S> DEV void forward(const Attention<float>& z, const Items& items) {
  SHARED_DYNAMIC(memory);
  const uint32_t shared = shared_address(memory);
  if (threadIdx.x == 0)
    for (uint32_t stage = 0; stage <= kStages; stage++) {
      mbarrier_init(full<S>(shared, stage), 1);
      mbarrier_init(drained<S>(shared, stage), S::kWarps);
    }
  __syncthreads();
  if (threadIdx.x < 32 * S::kWarps) {
    setmaxnreg_inc<S::kRegisters>();
    multiply<T, D, S>(z, items, memory);
  } else {
    setmaxnreg_dec<S::kCopyRegisters>();
    copy<T, D, S>(z, items, shared, uniform(threadIdx.x / 32 - S::kWarps));
  }
}

}  // namespace

#define FLASH(name, T, D, GROUPS)                                                            \
  ENTRY(flash_hopper_##name, 128 * (GROUPS + 1), 1, (Attention<float> z, Items items), \
        forward<T, D, Shape<D, GROUPS>>(z, items))

FLASH(64_f16, f16, 64, 2)
FLASH(64_bf16, bf16, 64, 2)
FLASH(64_three_f16, f16, 64, 3)
FLASH(64_three_bf16, bf16, 64, 3)
FLASH(128_f16, f16, 128, 2)
FLASH(128_bf16, bf16, 128, 2)
