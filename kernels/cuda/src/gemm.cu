// Matrix products C = A B in half precision on tensor cores: exact products, sums in FP32 over k in ascending steps of
// 16, a bias added in FP32, one rounding of the result. What a tensor core does within 16 steps is its own affair; the
// order outside is fixed, and the same for every size and layout.
//
// A block of 4 warps computes a tile of 128 x 128, each warp 64 x 64. Tiles of the operands, 32 steps of k long, pass
// through a ring of kStages in shared memory. Each lies there as it does in global memory, with k (ALONG) or with the
// rows of A or columns of B, here called x, as the faster dimension; ldmatrix transposes the latter. Units of 16 bytes
// are permuted so that the 8 that ldmatrix reads at once lie in different banks.
#include "batch.cuh"

namespace {

constexpr int kTile = 128, kSteps = 32, kThreads = 128, kStages = 3;
constexpr int kWarpTile = 64, kTileBytes = kTile * kSteps * 2, kStageBytes = 2 * kTileBytes;
constexpr int kUnit = 8;  // elements of 16 bytes

// unit_at is where the unit that begins with step k of row x lies in a tile, in bytes.
template <bool ALONG> DEV uint32_t unit_at(uint32_t x, uint32_t k) {
  return ALONG ? x * 64 + (k / kUnit ^ x / 2 % 4) * 16 : k * 256 + (x / kUnit ^ k % 8) * 16;
}

DEV int clamp(int n, int most) { return n < 0 ? 0 : n < most ? n : most; }

// Source is one operand as a thread copies it: 4 units of each tile, 32 rows or 8 steps apart.
template <bool ALONG> struct Source {
  const uint16_t* p;           // the first unit of the next tile
  int64_t hop, advance, step;  // to the next unit, to the next tile, within a unit
  uint32_t to;                 // where the first unit goes; the others follow 2048 bytes apart
  int x, k;                    // how many rows there are from the first unit on, and its first step
  bool wide;                   // units may be copied at once

  DEV_METHOD Source(const void* first, uint32_t x0, uint32_t size, int64_t x_step, int64_t k_step, bool wide) : wide(wide) {
    const uint32_t t = threadIdx.x, x_ = ALONG ? t / 4 : t % 16 * kUnit, k_ = ALONG ? t % 4 * kUnit : t / 16;
    p = static_cast<const uint16_t*>(first) + (x0 + x_) * x_step + k_ * k_step;
    hop = ALONG ? 32 * x_step : 8 * k_step;
    step = ALONG ? k_step : x_step;
    advance = kSteps * k_step;
    to = unit_at<ALONG>(x_, k_);
    x = (int)(size - x0) - (int)x_;
    k = (int)k_;
  }

  // copy brings the next tile, of which `left` steps exist, to shared memory. What does not exist is 0.
  DEV_METHOD void copy(unsigned char* tile, int left) {
    const uint16_t* from = p;
    if (wide) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        cp_async<16>(shared_address(tile + to + 2048 * i), from, 2 * exist(i, left));
        from += hop;
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < 4; i++) {
        store<uint4>(tile + to + 2048 * i, gathered(from, exist(i, left)));
        from += hop;
      }
    }
    p += advance;
  }

  // exist is the number of elements of unit i that exist.
  DEV_METHOD int exist(int i, int left) const {
    return ALONG ? (32 * i < x ? clamp(left - k, kUnit) : 0) : (k + 8 * i < left ? clamp(x, kUnit) : 0);
  }

  // gathered is a unit whose elements are read one by one.
  DEV_METHOD uint4 gathered(const uint16_t* from, int count) const {
    uint32_t e[kUnit];
#pragma unroll
    for (int i = 0; i < kUnit; i++) e[i] = i < count ? from[i * step] : 0;
    return {e[0] | e[1] << 16, e[2] | e[3] << 16, e[4] | e[5] << 16, e[6] | e[7] << 16};
  }
};

// Fragments are 64 rows by 16 steps of a tile as mma takes them: [i] has rows 16i to 16i+15, in four matrices of 8 x 8.
using Fragments = uint32_t[4][4];

// Reader loads fragments. Matrices count rows first for A, and steps of k first for B.
template <bool ALONG> struct Reader {
  uint32_t at;  // of this lane's unit in matrix 0 of fragment 0
  DEV_METHOD Reader(uint32_t x0, bool rows_first) {
    const uint32_t lane = threadIdx.x % 32, row = lane % 8, second = lane / 8 % 2 * 8, third = lane / 16 * 8;
    const uint32_t x = x0 + (rows_first ? second : third), k = rows_first ? third : second;
    at = ALONG ? unit_at<ALONG>(x + row, k) : unit_at<ALONG>(x, k + row);
  }
  // load reads steps 16*half and on. Half and i change bits that are apart from those of the lane.
  DEV_METHOD void load(Fragments& r, uint32_t tile, int half) const {
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (ALONG)
        ldmatrix(r[i], tile + (at ^ 32 * half) + 1024 * i);
      else
        ldmatrix_transposed(r[i], tile + (at ^ 32 * i) + 4096 * half);
  }
};

// Bits of `wide`: operands that are read, and a result that is written, 16 bytes at a time.
constexpr uint32_t kWideA = 1, kWideB = 2, kWideC = 4;

template <class T> struct Results {
  float sum[4][8][4];  // of a warp: 4 x 8 products of mma

  DEV_METHOD void clear() {
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) sum[i][j][e] = 0.f;
  }

  DEV_METHOD void multiply(const Fragments& a, const Fragments& b) {
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 8; j++) mma(T{}, sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
  }

  // put adds the bias, rounds, and writes the warp's part of C, from row m0 and column n0 on. It passes through shared
  // memory, so that neighbouring lanes write neighbouring units.
  DEV_METHOD void put(const Product<T>& p, uint32_t m0, uint32_t n0, bool wide, unsigned char* room) {
    constexpr int kPitch = kWarpTile * 2 + 16;
    const uint32_t lane = threadIdx.x % 32;
    room += threadIdx.x / 32 * (kWarpTile * kPitch);
#pragma unroll
    for (int j = 0; j < 8; j++) {
      const uint32_t c = 8 * j + lane % 4 * 2, n = n0 + c;
      float bias[2] = {-0.f, -0.f};  // which change nothing
      if (p.bias) {
        if (n < p.n) bias[0] = to_float(p.bias[n * p.bias_step]);
        if (n + 1 < p.n) bias[1] = to_float(p.bias[(n + 1) * p.bias_step]);
      }
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int h = 0; h < 2; h++)
          store<uint32_t>(room + (16 * i + 8 * h + lane / 4) * kPitch + 2 * c,
                          pack(T{}, __fadd_rn(sum[i][j][2 * h], bias[0]), __fadd_rn(sum[i][j][2 * h + 1], bias[1])));
    }
    __syncwarp();
    const uint32_t c = lane % 8 * kUnit, n = n0 + c;
#pragma unroll 4
    for (uint32_t r = lane / 8; r < kWarpTile; r += 4) {
      if (m0 + r >= p.m || n >= p.n) continue;
      const unsigned char* from = room + r * kPitch + 2 * c;
      T* to = p.c + (uint64_t)(m0 + r) * p.c_row + n;
      if (wide && n + kUnit <= p.n)
        store<uint4>(to, load<uint4>(from));
      else
        for (uint32_t e = 0; e < kUnit && n + e < p.n; e++) to[e] = {load<uint16_t>(from + 2 * e)};
    }
  }
};

template <class T, bool A_ALONG, bool B_ALONG, int STAGES>
DEV void gemm(Product<T> p, const Batch& batch, uint32_t wide) {
  SHARED(unsigned char, ring, [STAGES * kStageBytes]);
  const Tile tile = choose(p, batch, kTile);
  Source<A_ALONG> a(p.a, tile.m0, p.m, p.a_row, p.a_column, wide & kWideA);
  Source<B_ALONG> b(p.b, tile.n0, p.n, p.b_column, p.b_row, wide & kWideB);
  const uint32_t warp = threadIdx.x / 32, m = warp / 2 * kWarpTile, n = warp % 2 * kWarpTile;
  const Reader<A_ALONG> read_a(m, true);
  const Reader<B_ALONG> read_b(n, false);
  Results<T> results;
  results.clear();

  uint32_t copied = 0, written = 0, stage = 0;
  auto copy = [&] {
    const int left = (int)(p.k - copied);  // below 0 past the end
    a.copy(ring + written, left);
    b.copy(ring + written + kTileBytes, left);
    cp_async_commit();
    copied += kSteps;
    written = written == (STAGES - 1) * kStageBytes ? 0 : written + kStageBytes;
  };
  Fragments fa[2], fb[2];
  const uint32_t base = shared_address(ring);
  auto read = [&](int half) {
    read_a.load(fa[half], base + stage, half);
    read_b.load(fb[half], base + stage + kTileBytes, half);
  };

#pragma unroll
  for (int s = 0; s < STAGES - 1; s++) copy();
  cp_async_wait<STAGES - 2>();
  __syncthreads();
  read(0);
#pragma unroll 1
  for (uint32_t k = 0; k < p.k; k += kSteps) {
    copy();  // into the stage that all warps have read before the last barrier
    read(1);
    results.multiply(fa[0], fb[0]);
    cp_async_wait<STAGES - 2>();
    __syncthreads();  // the next stage is there for all
    stage = stage == (STAGES - 1) * kStageBytes ? 0 : stage + kStageBytes;
    read(0);
    results.multiply(fa[1], fb[1]);
  }
  cp_async_wait<0>();
  __syncthreads();
  mma_done();
  results.put(p, tile.m0 + m, tile.n0 + n, wide & kWideC, ring);
}

}  // namespace

// The letters are those of BLAS: n for a matrix whose rows lie side by side, t for one whose columns do.
#define LAYOUT(name, T, A_ALONG, B_ALONG)                                                              \
  KERNEL(gemm_##name, kThreads, 2)(Product<T> p, Batch batch, uint32_t wide) {                         \
    gemm<T, A_ALONG, B_ALONG, kStages>(p, batch, wide);                                                \
  }                                                                                                    \
  EXPORT(gemm_##name);

LAYOUT(nn_f16, f16, true, false)
LAYOUT(nt_f16, f16, true, true)
LAYOUT(tn_f16, f16, false, false)
LAYOUT(tt_f16, f16, false, true)
LAYOUT(nn_bf16, bf16, true, false)
LAYOUT(nt_bf16, bf16, true, true)
LAYOUT(tn_bf16, bf16, false, false)
LAYOUT(tt_bf16, bf16, false, true)
