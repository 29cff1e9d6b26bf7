// targets: sm_90a
//
// Flash attention by wgmma, for heads of 64 or 128 elements and compute capability 9.0: the forward pass of
// attention_flash.cu in other tiles. FlashAttention-3 (Shah and others 2024) divides the work likewise.
//
// A block computes several items, of 128 rows each. Two warpgroups own 64 of them. Four more warps copy the rows of q,
// and tiles of 128 keys to a ring of four stages, those of k and of v alternately: what the next item needs comes while
// the results of one are written. While a warpgroup takes exponentials the other one multiplies.
//
// A tile has panels of 64 columns: rows of 128 bytes, swizzled as wgmma reads them, K-major for q kᵀ, and by rows of k
// for p v. Tiles are handed over by mbarriers as in matmul_hopper.cu, p stays in registers.
#include "attention_flash.cuh"
#include "prim_hopper.cuh"

namespace {

constexpr int kRows = 128, kKeys = 128, kStages = 4;
constexpr int kWarps = 8, kThreads = 384;  // kWarps multiply, kStages copy
constexpr uint32_t kPanelBytes = 128 * 128;
template <int D> constexpr uint32_t kTileBytes = D / 64 * kPanelBytes;
// Shared memory: q, the ring, 16 rows of results for each warp that multiplies, barriers.
template <int D> constexpr uint32_t kRing = kTileBytes<D>;
template <int D> constexpr uint32_t kResults = kRing<D> + kStages * kTileBytes<D>;
template <int D> constexpr uint32_t kBarriers = kResults<D> + kWarps * 16 * kPitch<D>;

// The barriers of a stage, or of q, which is behind them: `full` when it has been copied, `drained` when it has been
// read.
constexpr int kRowsOfQ = kStages;
template <int D> DEV uint32_t full(uint32_t shared, uint32_t stage) { return shared + kBarriers<D> + 8 * stage; }
template <int D> DEV uint32_t drained(uint32_t shared, uint32_t stage) { return full<D>(shared, kStages + 1 + stage); }

// Items are all blocks of rows, those of `group` matrices together, whose keys the L2 cache holds: of these the last
// rows first, which see the most keys.
struct Items {
  uint32_t group, count;  // of matrices; of items
};

// each calls f(matrix, first row) for all items of the block.
template <class F> DEV void each(const Attention<float>& z, const Items& items, F f) {
  const uint32_t blocks = (z.t + kRows - 1) / kRows;
#pragma unroll 1
  for (uint32_t item = blockIdx.x; item < items.count; item += gridDim.x) {
    const uint32_t first = item / (items.group * blocks) * items.group, in_group = item - first * blocks;
    const uint32_t group = minimum(items.group, (uint32_t)z.count - first), block = in_group / group;
    f(first + in_group - block * group, (blocks - 1 - block) * kRows);
  }
}

// tiles is the number of tiles of keys that rows from `first` on see.
DEV uint32_t tiles(const Attention<float>& z, uint32_t first) {
  return (visible_keys(z, minimum(first + kRows, z.t) - 1) + kKeys - 1) / kKeys;
}

// fill copies 128 rows of an operand, of which `exist` exist, to a tile, and says so at a barrier. The others are 0.
template <int D, class T>
DEV void fill(uint32_t tile, const Matrix<const T>& from, uint32_t exist, uint32_t barrier) {
  const uint32_t lane = threadIdx.x % 32, row = lane / 8, unit = lane % 8;
  const uint32_t to = tile + swizzle128(row * 128 + unit * 16);
#pragma unroll 1
  for (int i = 0; i < D / 64; i++) {
    const T* p = from.data + row * from.row + i * 64 + unit * kUnit;
    const uint32_t panel = to + i * kPanelBytes, odd = panel ^ 64;  // rows 4 to 7 of 8
#pragma unroll 8
    for (int r = 0; r < 128; r += 4) {
      const bool exists = row + r < exist;
      cp_async<16>((r % 8 ? odd : panel) + r * 128, exists ? p : from.data, exists ? 16 : 0);
      p += 4 * from.row;
    }
  }
  arrive_copied(barrier);
}

// copy is the work of a warp that copies every fourth tile of the block, and the first of them q.
template <class T, int D>
DEV void copy(const Attention<float>& z, const Items& items, uint32_t shared, uint32_t stage) {
  const uint32_t tile = shared + kRing<D> + stage * kTileBytes<D>;
  uint32_t begin = 0, next = stage, item = 0;  // numbers of tiles and items
  each(z, items, [&](uint32_t i, uint32_t first) {
    if (stage == 0) {
      mbarrier_wait(drained<D>(shared, kRowsOfQ), ~item & 1);
      fill<D>(shared, matrix<const T>(z, z.q, i, first), z.t - first, full<D>(shared, kRowsOfQ));
    }
    item++;
    const Matrix<const T> from = matrix<const T>(z, stage % 2 ? z.v : z.k, i, 0);
    const uint32_t end = begin + 2 * tiles(z, first);
#pragma unroll 1
    for (; next < end; next += kStages) {
      const uint32_t key = (next - begin) / 2 * kKeys;
      mbarrier_wait(drained<D>(shared, stage), ~(next / kStages) & 1);
      fill<D>(tile, from.from(key, 0), z.s - key, full<D>(shared, stage));
    }
    begin = end;
  });
}

// multiply is the work of the warps that multiply: y, m and r.
template <class T, int D> DEV void multiply(const Attention<float>& z, const Items& items, unsigned char* memory) {
  const uint32_t shared = shared_address(memory), warp = uniform(threadIdx.x / 32);
  const uint32_t q = shared + warp / 4 * (64 * 128);
  const float c = __fmul_rn(z.scale, kLog2E);
  Products<1, kKeys / 8> s;
  Products<1, D / 8> y;
  auto& scores = reinterpret_cast<float(&)[kKeys / 2]>(s);
  auto& sums = reinterpret_cast<float(&)[D / 2]>(y);
  clear<1, kKeys / 8>(s);
  uint32_t read = 0, item = 0;  // numbers of tiles and items
  auto release = [&](uint32_t stage) {
    if (threadIdx.x % 32 == 0) mbarrier_arrive(drained<D>(shared, stage));
  };
  auto next = [&] {  // waits for a tile, and returns where it is
    mbarrier_wait(full<D>(shared, read % kStages), read / kStages & 1);
    return shared + kRing<D> + read % kStages * kTileBytes<D>;
  };
  each(z, items, [&](uint32_t i, uint32_t first) {
    const uint32_t count = tiles(z, first), own = first + warp * 16;  // own is the warp's first row
    OnlineSoftmax<1> softmax;
    clear<1, D / 8>(y);
    mbarrier_wait(full<D>(shared, kRowsOfQ), item++ & 1);
#pragma unroll 1
    for (uint32_t tile = 0; tile < count; tile++) {
      const uint32_t k = next();
      wgmma_pin(scores);
      wgmma_fence();
#pragma unroll
      for (int d = 0; d < D; d += 16) {
        const uint32_t at = d / 64 * kPanelBytes + d % 64 * 2;
        wgmma(T{}, scores, descriptor128(q + at), descriptor128(k + at), d > 0);
      }
      wgmma_commit();
      wgmma_wait<0>();
      wgmma_pin(scores);
      release(read++ % kStages);
      if (tile == count - 1) release(kRowsOfQ);
      hide(s, z, own, tile * kKeys, -infinity());
      softmax.template take<kKeys / 8, D / 8>(s, y, c);
      Left<1, kKeys / 8> p;
      round<T, 1, kKeys / 8>(p, s);
      const uint32_t v = next();
      wgmma_pin(sums);
      wgmma_fence();
#pragma unroll
      for (int key = 0; key < kKeys; key += 16)
        wgmma<false>(T{}, sums, p[0][key / 16], descriptor128(v + key * 128, kPanelBytes), 1);
      wgmma_commit();
      wgmma_wait<0>();
      wgmma_pin(sums);
      release(read++ % kStages);
    }
    const uint32_t exist = existing(z.t, own);
    softmax.end(z, i, own, exist);
    put<T, D, 1>(matrix<T>(z, z.y, i, own), exist, y, softmax.total, memory + kResults<D> + warp * (16 * kPitch<D>));
  });
}

template <class T, int D> DEV void forward(const Attention<float>& z, const Items& items) {
  SHARED_DYNAMIC(memory);
  const uint32_t shared = shared_address(memory);
  if (threadIdx.x == 0)
    for (uint32_t stage = 0; stage <= kStages; stage++) {
      mbarrier_init(full<D>(shared, stage), 1);
      mbarrier_init(drained<D>(shared, stage), kWarps);
    }
  __syncthreads();
  if (threadIdx.x < 32 * kWarps)
    multiply<T, D>(z, items, memory);
  else
    copy<T, D>(z, items, shared, uniform(threadIdx.x / 32 - kWarps));
}

}  // namespace

#define FLASH(name, T, D) \
  ENTRY(flash_hopper_##name, kThreads, 1, (Attention<float> z, Items items), forward<T, D>(z, items))

FLASH(64_f16, f16, 64)
FLASH(64_bf16, bf16, 64)
FLASH(128_f16, f16, 128)
FLASH(128_bf16, bf16, 128)
