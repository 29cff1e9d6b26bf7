// Matrix products C = A B in half precision on tensor cores: exact products, sums in FP32 over k in ascending steps of
// 16, a bias added in FP32, one rounding of the result. The order of the 16 products that one instruction of a tensor
// core adds up is not specified; the order of instructions is fixed, and the same for every size and layout.
// matmul_f32.cu is the plainer kernel of the same operation.
//
// A block of 4 warps computes a tile of 128 x 128, each warp 64 x 64. Tiles of the operands, 32 values of k wide, pass
// through a ring of kStages in shared memory. A tile has the layout of global memory, with k (K_MAJOR) or with the rows
// of A or columns of B, here called x, as the faster dimension; ldmatrix transposes the latter. Units of 16 bytes are
// permuted (swizzled) so that the 8 that ldmatrix reads at once are in different banks.
//
// Where tiles are few, k is split in parts, which are blocks of their own: all first parts, then all second ones and so
// on. A part waits for the sums of the one before it, adds its own, and hands them on; the last one writes the tile.
#include "matmul_half.cuh"
#include "prim_turns.cuh"

namespace {

constexpr int kTile = 128, kSteps = 32, kThreads = 128, kStages = 3;
constexpr int kWarpTile = 64, kTileBytes = kTile * kSteps * 2, kStageBytes = 2 * kTileBytes;

// unit_at is the offset in a tile, in bytes, of the unit that begins at (x, k).
template <bool K_MAJOR> DEV uint32_t unit_at(uint32_t x, uint32_t k) {
  return K_MAJOR ? x * 64 + (k / kUnit ^ x / 2 % 4) * 16 : k * 256 + (x / kUnit ^ k % 8) * 16;
}

// Source is the part of an operand that a thread copies: 4 units of each tile, 32 x or 8 k apart.
template <bool K_MAJOR> struct Source {
  const uint16_t* p;           // the first unit of the next tile
  int64_t unit_stride, tile_stride, stride;  // to the next unit, to the next tile, within a unit
  uint32_t to;                 // offset of the first unit in the tile; the others follow 2048 bytes apart
  int x, k;                    // number of x in range from the first unit on; its k
  bool wide;                   // vectorised: a unit is one copy

  DEV_METHOD Source(const void* first, uint32_t x0, uint32_t size, int64_t x_stride, int64_t k_stride, bool wide)
      : wide(wide) {
    const uint32_t t = threadIdx.x, x_ = K_MAJOR ? t / 4 : t % 16 * kUnit, k_ = K_MAJOR ? t % 4 * kUnit : t / 16;
    p = static_cast<const uint16_t*>(first) + (x0 + x_) * x_stride + k_ * k_stride;
    unit_stride = K_MAJOR ? 32 * x_stride : 8 * k_stride;
    stride = K_MAJOR ? k_stride : x_stride;
    tile_stride = kSteps * k_stride;
    to = unit_at<K_MAJOR>(x_, k_);
    x = (int)(size - x0) - (int)x_;
    k = (int)k_;
  }

  // copy copies the next tile, of which `left` values of k exist, to shared memory. The rest is 0.
  DEV_METHOD void copy(unsigned char* tile, int left) {
    const uint16_t* from = p;
    if (wide) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        cp_async<16>(shared_address(tile + to + 2048 * i), from, 2 * exist(i, left));
        from += unit_stride;
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < 4; i++) {
        store<uint4>(tile + to + 2048 * i, gathered(from, exist(i, left)));
        from += unit_stride;
      }
    }
    p += tile_stride;
  }

  // exist is the number of elements of unit i that exist.
  DEV_METHOD int exist(int i, int left) const {
    return K_MAJOR ? (32 * i < x ? clamp(left - k, kUnit) : 0) : (k + 8 * i < left ? clamp(x, kUnit) : 0);
  }

  // gathered is a unit read element by element.
  DEV_METHOD uint4 gathered(const uint16_t* from, int count) const {
    uint32_t e[kUnit];
#pragma unroll
    for (int i = 0; i < kUnit; i++) e[i] = i < count ? from[i * stride] : 0;
    return {e[0] | e[1] << 16, e[2] | e[3] << 16, e[4] | e[5] << 16, e[6] | e[7] << 16};
  }
};

// Fragments are 64 x by 16 k of a tile as mma takes them: [i] has rows 16i to 16i+15, in four matrices of 8 x 8.
using Fragments = uint32_t[4][4];

// Reader loads fragments. The four matrices are in the order x first for A, k first for B.
template <bool K_MAJOR> struct Reader {
  uint32_t at;  // offset of this lane's unit in matrix 0 of fragment 0
  DEV_METHOD Reader(uint32_t x0, bool rows_first) {
    const uint32_t lane = threadIdx.x % 32, row = lane % 8, second = lane / 8 % 2 * 8, third = lane / 16 * 8;
    const uint32_t x = x0 + (rows_first ? second : third), k = rows_first ? third : second;
    at = K_MAJOR ? unit_at<K_MAJOR>(x + row, k) : unit_at<K_MAJOR>(x, k + row);
  }
  // load reads 16 values of k from 16*half on. half and i change other bits of the offset than the lane does.
  DEV_METHOD void load(Fragments& r, uint32_t tile, int half) const {
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (K_MAJOR)
        ldmatrix(r[i], tile + (at ^ 32 * half) + 1024 * i);
      else
        ldmatrix_transposed(r[i], tile + (at ^ 32 * i) + 4096 * half);
  }
};

template <class T> struct Results {
  float sum[4][8][4];  // of a warp: 4 x 8 products of mma

  DEV_METHOD void clear() {
    unrolled<4, 8, 4>([&](int i, int j, int e) { sum[i][j][e] = 0.f; });
  }

  DEV_METHOD void multiply(const Fragments& a, const Fragments& b) {
    unrolled<4, 8>([&](int i, int j) { mma(T{}, sum[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]); });
  }

  // join adds the sums of the parts before this one, through shared memory, and tells whether it is the last; others
  // leave them to the next.
  DEV_METHOD bool join(const Parts& parts, uint32_t tile, uint32_t part, unsigned char* shared) {
    constexpr int kAtOnce = 16;
    uint32_t* const turn = parts.turns + tile;
    float* const sums = parts.sums + (uint64_t)tile * (kTile * kTile) + threadIdx.x * 4;
    unsigned char* const copy = shared + threadIdx.x * 16;
    if (part > 0) {
      if (threadIdx.x == 0) wait_acquire(turn, part);
      __syncthreads();
#pragma unroll
      for (int from = 0; from < 32; from += kAtOnce) {
#pragma unroll
        for (int k = 0; k < kAtOnce; k++)
          cp_async<16>(shared_address(copy) + k * (16 * kThreads), sums + (from + k) * (4 * kThreads), 16);
        cp_async_commit();
        cp_async_wait<0>();
#pragma unroll
        for (int k = 0; k < kAtOnce; k++) {
          float(&s)[4] = sum[(from + k) / 8][k % 8];
          const float4 v = load<float4>(copy + k * (16 * kThreads));
          s[0] = __fadd_rn(v.x, s[0]), s[1] = __fadd_rn(v.y, s[1]);
          s[2] = __fadd_rn(v.z, s[2]), s[3] = __fadd_rn(v.w, s[3]);
        }
      }
      __syncthreads();  // shared memory is free again
    }
    if (part == parts.count - 1) return true;
#pragma unroll
    for (int k = 0; k < 32; k++) {
      const float(&s)[4] = sum[k / 8][k % 8];
      store<float4>(sums + k * (4 * kThreads), {s[0], s[1], s[2], s[3]});
    }
    __syncthreads();
    if (threadIdx.x == 0) store_release(turn, part + 1);
    return false;
  }

  // put adds the bias, rounds, and writes the warp's tile of C, from row m0 and column n0 on. It passes through shared
  // memory, so that the stores are coalesced.
  DEV_METHOD void put(const Product<T>& p, uint32_t m0, uint32_t n0, bool wide, unsigned char* shared) {
    constexpr int kPitch = kWarpTile * 2 + 16;
    const uint32_t lane = threadIdx.x % 32;
    shared += threadIdx.x / 32 * (kWarpTile * kPitch);
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
          store<uint32_t>(shared + (16 * i + 8 * h + lane / 4) * kPitch + 2 * c,
                          pack(T{}, __fadd_rn(sum[i][j][2 * h], bias[0]), __fadd_rn(sum[i][j][2 * h + 1], bias[1])));
    }
    __syncwarp();
    const uint32_t c = lane % 8 * kUnit, n = n0 + c;
#pragma unroll 4
    for (uint32_t r = lane / 8; r < kWarpTile; r += 4) {
      if (m0 + r >= p.m || n >= p.n) continue;
      const unsigned char* from = shared + r * kPitch + 2 * c;
      T* to = p.c + (uint64_t)(m0 + r) * p.c_row + n;
      if (wide && n + kUnit <= p.n)
        store<uint4>(to, load<uint4>(from));
      else
        for (uint32_t e = 0; e < kUnit && n + e < p.n; e++) to[e] = {load<uint16_t>(from + 2 * e)};
    }
  }

  // put_sums writes the warp's tile without bias or rounding, two neighbours at a time if `wide`.
  DEV_METHOD void put_sums(const Product<T>& p, float* to, uint32_t m0, uint32_t n0, bool wide) {
    const uint32_t lane = threadIdx.x % 32;
    unrolled<4, 8, 2>([&](int i, int j, int h) {
      const uint32_t m = m0 + 16 * i + 8 * h + lane / 4, n = n0 + 8 * j + lane % 4 * 2;
      float* const at = to + (uint64_t)m * p.c_row + n;
      if (m >= p.m) return;
      if (wide && n + 2 <= p.n) {
        store(at, float2{sum[i][j][2 * h], sum[i][j][2 * h + 1]});
      } else {
        if (n < p.n) at[0] = sum[i][j][2 * h];
        if (n + 1 < p.n) at[1] = sum[i][j][2 * h + 1];
      }
    });
  }
};

// matmul_half computes C, whose elements may be float, the sums before they are rounded.
template <class T, bool A_K_MAJOR, bool B_K_MAJOR, int STAGES, class C = T>
DEV void matmul_half(Product<T> p, const Batch& batch, uint32_t wide, const Parts& parts) {
  SHARED(unsigned char, ring, [STAGES * kStageBytes]);
  const T* const c = p.c;
  const uint32_t tiles = gridDim.x / parts.count;
  uint32_t block = blockIdx.x, part = 0;
  if (parts.count > 1) {
    if (threadIdx.x == 0) store<uint32_t>(ring, take_ticket(parts.turns + tiles));
    __syncthreads();
    block = load<uint32_t>(ring);
    __syncthreads();
    part = block / tiles;
    block -= part * tiles;
  }
  const Tile tile = assign_tile(p, batch, kTile, kTile, block);
  const uint32_t first = part * parts.k;
  p.a += first * p.a_column;
  p.b += first * p.b_row;
  p.k = p.k - first < parts.k ? p.k - first : parts.k;
  Source<A_K_MAJOR> a(p.a, tile.m0, p.m, p.a_row, p.a_column, wide & kWideA);
  Source<B_K_MAJOR> b(p.b, tile.n0, p.n, p.b_column, p.b_row, wide & kWideB);
  const uint32_t warp = threadIdx.x / 32, m = warp / 2 * kWarpTile, n = warp % 2 * kWarpTile;
  const Reader<A_K_MAJOR> read_a(m, true);
  const Reader<B_K_MAJOR> read_b(n, false);
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
    __syncthreads();  // the next stage is complete for all warps
    stage = stage == (STAGES - 1) * kStageBytes ? 0 : stage + kStageBytes;
    read(0);
    results.multiply(fa[1], fb[1]);
  }
  cp_async_wait<0>();
  __syncthreads();
  mma_done();
  if (parts.count > 1 && !results.join(parts, block, part, ring)) return;
  if constexpr (Same<C, T>::value())
    results.put(p, tile.m0 + m, tile.n0 + n, wide & kWideC, ring);
  else
    results.put_sums(p, (C*)c + (p.c - c), tile.m0 + m, tile.n0 + n, wide & kWideC);
}

}  // namespace

// The letters are those of BLAS: n for a matrix with contiguous rows, t for one with contiguous columns.
#define LAYOUT(name, T, A_K_MAJOR, B_K_MAJOR)                                        \
  ENTRY(matmul_half_##name, kThreads, 2, (Product<T> p, Batch batch, uint32_t wide, Parts parts), \
        matmul_half<T, A_K_MAJOR, B_K_MAJOR, kStages>(p, batch, wide, parts))

LAYOUT(nn_f16, f16, true, false)
LAYOUT(nt_f16, f16, true, true)
LAYOUT(tn_f16, f16, false, false)
LAYOUT(tt_f16, f16, false, true)
LAYOUT(nn_bf16, bf16, true, false)
LAYOUT(nt_bf16, bf16, true, true)
LAYOUT(tn_bf16, bf16, false, false)
LAYOUT(tt_bf16, bf16, false, true)

// Products whose results are float32, for convolutions.
#define SUMS(name, T, B_K_MAJOR)                                                              \
  ENTRY(matmul_half_sums_##name, kThreads, 2, (Product<T> p, Batch batch, uint32_t wide, Parts parts),     \
        matmul_half<T, true, B_K_MAJOR, kStages, float>(p, batch, wide, parts))

SUMS(nn_f16, f16, false)
SUMS(nt_f16, f16, true)
SUMS(nn_bf16, bf16, false)
SUMS(nt_bf16, bf16, true)
