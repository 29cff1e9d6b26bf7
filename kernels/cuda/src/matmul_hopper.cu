// targets: sm_90a
//
// Matrix products C = A B in half precision by wgmma, for compute capability 9.0 and matrices whose rows are aligned to
// 16 bytes, of C too; matmul_half.cu is the same operation for all others. Products are exact, sums FP32 over k in
// ascending steps of 16, a bias is added in FP32, and the result rounded once.
//
// Tiles are 128 x 256. Two warpgroups multiply, 64 x 256 each; four more warps fill four stages in shared memory, each
// a quarter of every stage, which has 64 k. A block computes several tiles; the next one is copied while results are
// written.
//
// In a stage operands are panels of 64 rows of 128 bytes, swizzled as wgmma reads them: a row is 64 k of a row of A or
// column of B (K_MAJOR), or 64 rows or columns, called x, of a k. Stages are handed over by mbarriers: `full` when the
// copies have arrived and the asynchronous proxy may read them, `drained` when no product reads them any more. A warp
// begins the copies of a stage before it waits for those of the one before: so copies of two are in flight.
//
// Parts of k are as in matmul_half.cu, but a warp hands its sums to the same warp of the next part.
#include "matmul_half.cuh"
#include "prim_hopper.cuh"
#include "prim_turns.cuh"

namespace {

constexpr int kTileRows = 128, kTileColumns = 256, kSteps = 64, kStages = 4;
constexpr int kPanel = 64, kPanelBytes = kPanel * 128;
constexpr int kPanelsA = kTileRows / kPanel, kPanelsB = kTileColumns / kPanel;
constexpr int kStageBytes = (kPanelsA + kPanelsB) * kPanelBytes;
constexpr int kWarps = 8, kCopying = 4, kThreads = 384;  // warps that multiply, that copy
constexpr int kWarpRows = 16, kWarpBytes = 4096;  // of a tile; of shared memory, for results
constexpr int kBarriers = kStages * kStageBytes + kWarps * kWarpBytes, kShared = 229440;  // offset in it, and its size
static_assert(kThreads == 32 * (kWarps + kCopying) && kShared == kBarriers + 2 * kStages * 8, "");

DEV uint32_t full(uint32_t shared, uint32_t stage) { return shared + kBarriers + 8 * stage; }
DEV uint32_t drained(uint32_t shared, uint32_t stage) { return full(shared, kStages + stage); }

// Source is the part of an operand that a lane copies: unit `lane % 8` of every fourth of its warp's rows, which are in
// one panel. Copies must be few instructions, since those of all warps wait while tensor cores use the registers.
template <bool K_MAJOR, int PANELS> struct Source {
  static constexpr int kRows = PANELS * kPanel / kCopying;
  const char* p;             // the next step of the tile
  uint32_t from[kRows / 4];  // offsets of units in it
  int64_t step_stride;       // in bytes
  uint32_t to;               // offset of the first unit in the panels
  int x, k;                  // number of x in range from the first unit on; its k
  bool whole;                // all x of the tile are in range

  DEV_METHOD Source(const void* first, uint32_t x0, uint32_t size, int64_t x_stride, int64_t k_stride) {
    const uint32_t warp_row = threadIdx.x / 32 % kCopying * kRows, panel = warp_row / kPanel;
    const uint32_t row = warp_row % kPanel + threadIdx.x % 32 / 8, unit = threadIdx.x % 8;
    const uint32_t x_ = panel * kPanel + (K_MAJOR ? row : unit * kUnit), k_ = K_MAJOR ? unit * kUnit : row;
    p = static_cast<const char*>(first) + 2 * (x0 * x_stride);
    const uint32_t offset = 2 * (x_ * (uint32_t)x_stride + k_ * (uint32_t)k_stride);
    const uint32_t row_stride = 8 * (uint32_t)(K_MAJOR ? x_stride : k_stride);
#pragma unroll
    for (int r = 0; r < kRows / 4; r++) from[r] = in_register(offset + r * row_stride);
    step_stride = 2 * kSteps * k_stride;
    to = panel * kPanelBytes + swizzle128(row * 128 + unit * 16);
    x = (int)(size - x0) - (int)x_;
    k = (int)k_;
    whole = size - x0 >= PANELS * kPanel;
  }

  // copy copies the next step, of which `left` values of k exist, to shared memory. The rest is 0.
  DEV_METHOD void copy(uint32_t panels, int left) {
    if (whole && left >= kSteps)
      copy<true>(panels, left);
    else
      copy<false>(panels, left);
    p += step_stride;
  }
  template <bool WHOLE> DEV_METHOD void copy(uint32_t panels, int left) const {
    const uint32_t panel = panels + to, odd = panel ^ 64;  // rows 4 to 7 of 8
    const int rows = K_MAJOR ? x : left - k, bytes = 2 * clamp(K_MAJOR ? left - k : x, kUnit);
#pragma unroll
    for (int r = 0; r < kRows; r += 4)
      cp_async<16>((r % 8 ? odd : panel) + r * 128, p + from[r / 4], WHOLE ? 16 : r < rows ? bytes : 0);
  }
};

// Range is the k that a block adds up for a tile: a part of them.
struct Range {
  uint32_t part, first, size;
  DEV_METHOD Range(const Parts& parts, uint32_t k, uint32_t part)
      : part(part), first(part * parts.k), size(k - first < parts.k ? k - first : parts.k) {}
  // steps are those of a range without any k, too: its sums are 0.
  DEV_METHOD uint32_t steps() const { return size ? (size + kSteps - 1) / kSteps : 1; }
};

// each calls f(tile, range) for all tiles, or parts of them, that a block computes, from number `first` on.
template <class F> DEV void each(const Parts& parts, uint32_t tiles, uint32_t k, uint32_t first, F f) {
#pragma unroll 1
  for (uint32_t number = first; number < tiles * parts.count; number += gridDim.x) {
    const uint32_t part = parts.count > 1 ? number / tiles : 0;
    f(number - part * tiles, Range(parts, k, part));
  }
}

// slice describes 16 k of an operand, of which the first panel is at an address.
template <bool K_MAJOR> DEV uint64_t slice(uint32_t panel, int k) {
  return K_MAJOR ? descriptor128(panel + 2 * k) : descriptor128(panel + 128 * k, kPanelBytes);
}

struct Results {
  float sum[kTileColumns / 2];  // of a warp: 4j + e is in columns 8j + 2(l mod 4) + e mod 2, and in rows l/4 + 8(e/2)

  // join adds the sums of the parts before this one, and tells whether it is the last; others leave them to the next.
  DEV_METHOD bool join(const Parts& parts, uint32_t tile, uint32_t part, unsigned char* shared) {
    constexpr int kAtOnce = kWarpBytes / 512;
    const uint32_t lane = threadIdx.x % 32, number = tile * kWarps + threadIdx.x / 32;
    uint32_t* const turn = parts.turns + number;
    float* const sums = parts.sums + (uint64_t)number * (kWarpRows * kTileColumns) + lane * 4;
    unsigned char* const copy = shared + lane * 16;
    if (part > 0) {
      if (lane == 0) wait_acquire(turn, part);
      __syncwarp();
#pragma unroll
      for (int from = 0; from < 32; from += kAtOnce) {
#pragma unroll
        for (int k = 0; k < kAtOnce; k++) cp_async<16>(shared_address(copy) + k * 512, sums + (from + k) * 128, 16);
        cp_async_commit();
        cp_async_wait<0>();
#pragma unroll
        for (int k = 0; k < kAtOnce; k++) {
          float* const s = sum + (from + k) * 4;
          const float4 v = load<float4>(copy + k * 512);
          s[0] = __fadd_rn(v.x, s[0]), s[1] = __fadd_rn(v.y, s[1]);
          s[2] = __fadd_rn(v.z, s[2]), s[3] = __fadd_rn(v.w, s[3]);
        }
      }
    }
    if (part == parts.count - 1) return true;
#pragma unroll
    for (int k = 0; k < 32; k++)
      store<float4>(sums + k * 128, {sum[4 * k], sum[4 * k + 1], sum[4 * k + 2], sum[4 * k + 3]});
    __syncwarp();
    if (lane == 0) store_release(turn, part + 1);
    return false;
  }

  // put adds the bias, rounds, and writes the warp's rows of C from m0 on, 64 columns at a time. They pass through
  // shared memory, so that the stores are coalesced; there 16 bytes between rows avoid bank conflicts.
  template <class T> DEV_METHOD void put(const Product<T>& p, uint32_t m0, uint32_t n0, unsigned char* shared) {
    constexpr int kColumns = 64, kPitch = 2 * kColumns + 16;
    const uint32_t lane = threadIdx.x % 32;
    uint32_t bias[kTileColumns / kColumns];  // of two columns each
#pragma unroll
    for (int i = 0; i < kTileColumns / kColumns; i++) {
      const uint32_t n = n0 + i * kColumns + 2 * lane;
      bias[i] = 0x80008000;  // -0, which changes nothing
      if (p.bias && n < p.n)
        bias[i] = p.bias[n * p.bias_step].bits | (uint32_t)p.bias[(n + 1) * p.bias_step].bits << 16;
    }
#pragma unroll
    for (int from = 0; from < kTileColumns; from += kColumns) {
      __syncwarp();  // what was there has been read
#pragma unroll
      for (int j = 0; j < kColumns / 8; j++) {
        const uint32_t both = shuffle(bias[from / kColumns], 4 * j + lane % 4);
        const float b0 = to_float(T{(uint16_t)both}), b1 = to_float(T{(uint16_t)(both >> 16)});
        const float* s = sum + from / 2 + 4 * j;
#pragma unroll
        for (int h = 0; h < 2; h++)
          store<uint32_t>(shared + (8 * h + lane / 4) * kPitch + 16 * j + lane % 4 * 4,
                          pack(T{}, __fadd_rn(s[2 * h], b0), __fadd_rn(s[2 * h + 1], b1)));
      }
      __syncwarp();
      const uint32_t n = n0 + from + lane % 8 * kUnit;
#pragma unroll
      for (uint32_t r = lane / 8; r < kWarpRows; r += 4)
        if (m0 + r < p.m && n < p.n)
          store<uint4>(p.c + (uint64_t)(m0 + r) * p.c_row + n, load<uint4>(shared + r * kPitch + lane % 8 * 16));
    }
  }
};

// fill copies the warp's quarter of all steps that the block computes.
template <class T, bool A_K_MAJOR, bool B_K_MAJOR>
DEV void fill(const Product<T>& all, const Batch& batch, const Parts& parts, uint32_t tiles, uint32_t first,
              uint32_t shared) {
  uint32_t begun = 0;  // steps
  each(parts, tiles, all.k, first, [&](uint32_t tile, const Range& k) {
    Product<T> p = all;
    const Tile at = assign_tile(p, batch, kTileRows, kTileColumns, tile);
    Source<A_K_MAJOR, kPanelsA> a(p.a + k.first * p.a_column, at.m0, p.m, p.a_row, p.a_column);
    Source<B_K_MAJOR, kPanelsB> b(p.b + k.first * p.b_row, at.n0, p.n, p.b_column, p.b_row);
#pragma unroll 1
    for (uint32_t step = 0; step < k.steps(); step++, begun++) {
      const uint32_t stage = begun % kStages, panels = shared + stage * kStageBytes;
      const int left = (int)(k.size - step * kSteps);
      mbarrier_wait(drained(shared, stage), ~(begun / kStages) & 1);
      a.copy(panels, left);
      b.copy(panels + kPanelsA * kPanelBytes, left);
      if (begun > 0)
        arrive_copied<1>(full(shared, (begun - 1) % kStages));
      else
        cp_async_commit();
    }
  });
  if (begun > 0) arrive_copied(full(shared, (begun - 1) % kStages));
}

// multiply multiplies what is in the stages, and writes the results.
template <class T, bool A_K_MAJOR, bool B_K_MAJOR>
DEV void multiply(const Product<T>& all, const Batch& batch, const Parts& parts, uint32_t tiles, uint32_t first,
                  unsigned char* memory) {
  const uint32_t shared = shared_address(memory), warp = uniform(threadIdx.x / 32), group = warp / 4;
  unsigned char* const own = memory + kStages * kStageBytes + warp * kWarpBytes;
  Results results;
#pragma unroll
  for (float& s : results.sum) s = 0.f;
  wgmma_pin(results.sum);
  uint32_t read = 0;  // steps so far
  auto release = [&](uint32_t step) {
    if (threadIdx.x % 32 == 0) mbarrier_arrive(drained(shared, step % kStages));
  };
  each(parts, tiles, all.k, first, [&](uint32_t tile, const Range& k) {
#pragma unroll 1
    for (uint32_t step = 0; step < k.steps(); step++, read++) {
      const uint32_t panels = shared + read % kStages * kStageBytes;
      const uint32_t a = panels + group * kPanelBytes, b = panels + kPanelsA * kPanelBytes;
      mbarrier_wait(full(shared, read % kStages), read / kStages & 1);
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < kSteps; i += 16)
        wgmma<A_K_MAJOR, B_K_MAJOR>(T{}, results.sum, slice<A_K_MAJOR>(a, i), slice<B_K_MAJOR>(b, i),
                                         step > 0 || i > 0);
      wgmma_commit();
      wgmma_wait<1>();  // for the step before
      if (step > 0) release(read - 1);
    }
    Product<T> p = all;  // meanwhile
    const Tile at = assign_tile(p, batch, kTileRows, kTileColumns, tile);
    wgmma_wait<0>();
    wgmma_pin(results.sum);
    release(read - 1);
    if (parts.count > 1 && !results.join(parts, tile, k.part, own)) return;
    results.put(p, at.m0 + warp * kWarpRows, at.n0, own);
  });
}

template <class T, bool A_K_MAJOR, bool B_K_MAJOR>
DEV void matmul_hopper(const Product<T>& p, const Batch& batch, const Parts& parts, uint32_t tiles) {
  SHARED_DYNAMIC(memory);
  const uint32_t shared = shared_address(memory);
  if (threadIdx.x == 0) {
    for (uint32_t stage = 0; stage < kStages; stage++) {
      mbarrier_init(full(shared, stage), kCopying);
      mbarrier_init(drained(shared, stage), kWarps);
    }
    store<uint32_t>(memory, parts.count > 1 ? take_ticket(parts.turns + tiles * kWarps) : blockIdx.x);
  }
  __syncthreads();
  const uint32_t first = uniform(load<uint32_t>(memory));
  __syncthreads();
  if (threadIdx.x < 32 * kWarps)
    multiply<T, A_K_MAJOR, B_K_MAJOR>(p, batch, parts, tiles, first, memory);
  else
    fill<T, A_K_MAJOR, B_K_MAJOR>(p, batch, parts, tiles, first, shared);
}

}  // namespace

// The letters are those of BLAS: n for a matrix with contiguous rows, t for one with contiguous columns.
#define LAYOUT(name, T, A_K_MAJOR, B_K_MAJOR)                                                          \
  ENTRY(matmul_hopper_##name, kThreads, 1, (Product<T> p, Batch batch, Parts parts, uint32_t tiles), \
        matmul_hopper<T, A_K_MAJOR, B_K_MAJOR>(p, batch, parts, tiles))

LAYOUT(nn_f16, f16, true, false)
LAYOUT(nt_f16, f16, true, true)
LAYOUT(tn_f16, f16, false, false)
LAYOUT(tt_f16, f16, false, true)
LAYOUT(nn_bf16, bf16, true, false)
LAYOUT(nt_bf16, bf16, true, true)
LAYOUT(tn_bf16, bf16, false, false)
LAYOUT(tt_bf16, bf16, false, true)
