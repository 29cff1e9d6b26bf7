// Matrix products C = A B in float32 and float64, in the canonical order that matmul.cuh describes. A bias, if there is
// one, is added to the finished sums. The plain kernel is `small`, one element of C after the other in tiles of 32 x
// 32; `tiled` computes the same bits from registers.
#include "matmul.cuh"

namespace {

// ---- tiles of 128 x 128 and 64 x 64 -------------------------------------------------------------------

// Operands pass through shared memory by cp.async, in two stages of 8 values of k, both with k as the slower dimension.
// A thread has 8 rows of W columns of C, in strips of 4.
constexpr int kStep = 8;
constexpr int threads_of(int size, int w) { return size * size / (8 * w); }

// A row of a stage: transposing copies write to 32 different banks.
template <int SIZE> using Row = float[SIZE + 4];

// OperandCopy is the part of an operand that a thread copies, x being the row of A or the column of B. A thread has
// SIZE / 32 elements of each of `kGroups` values of k or of x; or, where x is contiguous, 4 of each of kVectors.
template <int SIZE, int THREADS> struct OperandCopy {
  static constexpr int kElements = SIZE / 32, kGroups = 256 / THREADS, kVectors = 2 * SIZE / THREADS;
  const float* p;                    // the thread's first element of the next stage
  int64_t step, group_step, stage;   // to its next element, its next group, and the next stage
  uint32_t exist;                    // number of elements in range, if vectorised; else bit i: element i is
  int16_t k, x, group_k;             // of its first element, in the tile; from group to group
  int16_t to, group_to;              // to the next element and group, in shared memory
  bool wide;                         // vectorised: 16 bytes at once

  // It begins at x = `first` of `size`, with stride `x_stride`; k has stride `k_stride`.
  DEV_METHOD OperandCopy(const float* data, uint32_t first, uint32_t size, int64_t x_stride, int64_t k_stride) {
    const int t = threadIdx.x;
    const float* tile = data + first * x_stride;
    wide = x_stride == 1 && k_stride % 4 == 0 && (uint64_t)tile % 16 == 0;
    const bool k_major = !wide && k_stride == 1;  // then neighbouring threads copy neighbouring k
    const int across = wide ? SIZE / 4 : 32;      // threads of one k
    k = (int16_t)(k_major ? t % kStep : t / across);
    x = (int16_t)(k_major ? t / kStep : wide ? t % across * 4 : t % across);
    to = (int16_t)(k_major ? THREADS / kStep : 32);
    group_k = (int16_t)(k_major ? 0 : THREADS / across);
    const int group_x = k_major ? THREADS / kStep * kElements : 0;
    group_to = (int16_t)(group_k * (SIZE + 4) + group_x);
    step = to * x_stride;
    group_step = group_k * k_stride + group_x * x_stride;
    stage = kStep * k_stride;
    p = tile + x * x_stride + k * k_stride;
    const int left = (int)(size - first) - x;
    exist = 0;
    if (wide)
      exist = left >= 4 ? 4 : left > 0 ? left : 0;
    else
      unrolled<kGroups, kElements>(
          [&](int g, int i) { exist |= (uint32_t)(g * group_x + i * to < left) << (g * kElements + i); });
  }

  // copy brings the next kStep values of k, of which `left` exist. What is out of range in x is zero. Beyond the last k
  // one operand is -0, so that products are -0, which change no sum.
  template <bool NEGATIVE> DEV_METHOD void copy(Row<SIZE>* tile, uint32_t left) {
    float* const first = &tile[k][x];
    if (wide) {
#pragma unroll
      for (int g = 0; g < kVectors; g++) {
        const bool any = k + g * group_k < (int)left;
        float* const at = first + g * group_to;
        if (NEGATIVE && !any)
          store<float4>(at, {-0.f, -0.f, -0.f, -0.f});
        else
          cp_async<16>(shared_address(at), p + g * group_step, any ? 4 * (int)exist : 0);
      }
    } else {
      unrolled<kGroups, kElements>([&](int g, int i) {
        const bool any = k + g * group_k < (int)left;
        float* const at = first + g * group_to + i * to;
        if (NEGATIVE && !any)
          store<float>(at, -0.f);
        else
          cp_async<4>(shared_address(at), p + g * group_step + i * step,
                      any && (exist >> (g * kElements + i) & 1) ? 4 : 0);
      });
    }
    p += stage;
  }
};

template <int COUNT> struct Fragment {
  float x[COUNT];
};

// fragment reads strips of 4, so many elements apart.
template <int COUNT> DEV Fragment<COUNT> fragment(const float* row, int apart) {
  Fragment<COUNT> f;
#pragma unroll
  for (int h = 0; h < COUNT / 4; h++) {
    const float4 v = load<float4>(row + h * apart);
    f.x[4 * h] = v.x, f.x[4 * h + 1] = v.y, f.x[4 * h + 2] = v.z, f.x[4 * h + 3] = v.w;
  }
  return f;
}

// A thread has strips 16 rows and 32 columns apart.
enum : int { kRows = 16, kColumns = 32 };

// put adds the bias and writes a thread's sums, from row `row` and column `column` on.
template <int W> DEV void put(const Product<float>& p, float (&sum)[8][W], uint32_t row, uint32_t column) {
  if (p.bias) {
#pragma unroll
    for (int j = 0; j < W; j++) {
      const uint32_t c = column + j / 4 * kColumns + j % 4;
      const float bias = c < p.n ? p.bias[c * p.bias_step] : 0.f;
#pragma unroll
      for (int i = 0; i < 8; i++) sum[i][j] = __fadd_rn(sum[i][j], bias);
    }
  }
  const bool wide = p.n % 4 == 0 && p.c_row % 4 == 0 && (uint64_t)p.c % 16 == 0;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const uint32_t r = row + i / 4 * kRows + i % 4;
    if (r >= p.m) continue;
#pragma unroll
    for (int h = 0; h < W / 4; h++) {
      const uint32_t c = column + h * kColumns;
      float* to = p.c + (uint64_t)r * p.c_row + c;
      if (wide && c < p.n)
        store<float4>(to, {sum[i][4 * h], sum[i][4 * h + 1], sum[i][4 * h + 2], sum[i][4 * h + 3]});
      else
#pragma unroll
        for (int j = 0; j < 4; j++)
          if (c + j < p.n) store<float>(to + j, sum[i][4 * h + j]);
    }
  }
}

// tiled computes a tile. A second dimension of the grid has the chunks of k: then C is a plane of results for each
// chunk, which add_planes adds.
template <int SIZE, int W> DEV void tiled(Product<float> p, const Batch& batch) {
  constexpr int kThreads = threads_of(SIZE, W);
  SHARED(float, tiles_a, [2][kStep][SIZE + 4]);
  SHARED(float, tiles_b, [2][kStep][SIZE + 4]);
  const uint32_t across = (p.n + SIZE - 1) / SIZE, down = (p.m + SIZE - 1) / SIZE;
  const Tile tile = assign_tile(p, batch, SIZE);
  if (gridDim.y > 1) {
    const uint32_t first = blockIdx.y * kChunk;
    p.a += first * p.a_column;
    p.b += first * p.b_row;
    p.c += (uint64_t)blockIdx.y * (gridDim.x / (across * down)) * p.m * p.c_row;
    p.k = p.k - first < kChunk ? p.k - first : kChunk;
  }
  using Copy = OperandCopy<SIZE, kThreads>;
  Copy a(p.a, tile.m0, p.m, p.a_row, p.a_column), b(p.b, tile.n0, p.n, p.b_column, p.b_row);

  // A warp has 32 rows and 8 W columns; its lanes are 4 x 8.
  constexpr int kAcross = SIZE / (8 * W);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row = warp / kAcross * 32 + lane / 8 * 4, column = warp % kAcross * 8 * W + lane % 8 * 4;

  // -0 plus the first chain is that chain.
  const float start = p.k ? -0.f : 0.f;
  float chain[8][W], total[8][W];
  unrolled<8, W>([&](int i, int j) {
    chain[i][j] = 0.f;
    total[i][j] = start;
  });

  auto copy = [&](uint32_t k0) {
    if (k0 < p.k) {
      a.template copy<true>(tiles_a[k0 / kStep % 2], p.k - k0);
      b.template copy<false>(tiles_b[k0 / kStep % 2], p.k - k0);
    }
    cp_async_commit();
  };
  copy(0);
#pragma unroll 1
  for (uint32_t k0 = 0; k0 < p.k; k0 += kStep) {
    copy(k0 + kStep);
    cp_async_wait<1>();
    __syncthreads();
    const int stage = k0 / kStep % 2;
#pragma unroll
    for (int k = 0; k < kStep; k++) {
      const auto u = fragment<8>(&tiles_a[stage][k][row], kRows);
      const auto v = fragment<W>(&tiles_b[stage][k][column], kColumns);
      unrolled<8, W>([&](int i, int j) { chain[i][j] = __fmaf_rn(u.x[i], v.x[j], chain[i][j]); });
    }
    __syncthreads();
    if ((k0 + kStep) % kChunk == 0 || k0 + kStep >= p.k)
      unrolled<8, W>([&](int i, int j) {
        total[i][j] = __fadd_rn(total[i][j], chain[i][j]);
        chain[i][j] = 0.f;
      });
  }
  put(p, total, tile.m0 + row, tile.n0 + column);
}

// add_planes adds the chunks of `count` results in order, and the bias of their columns.
DEV void add_planes(float* c, const float* planes, const float* bias, int64_t bias_step, uint64_t count, uint32_t n,
                    uint32_t chunks) {
  const uint64_t at = thread_index();
  if (at >= count) return;
  float total = planes[at];
#pragma unroll 8
  for (uint32_t s = 1; s < chunks; s++) total = __fadd_rn(total, planes[s * count + at]);
  c[at] = bias ? __fadd_rn(total, bias[at % n * bias_step]) : total;
}

// ---- tiles of 32 x 32 --------------------------------------------------------------------------------

// For small results, where most of a large tile would be unused, and for FP64.
template <class T> DEV void small(Product<T> p, const Batch& batch) {
  SHARED(T, tiles, [2][kSmallTile][kSmallTile + 1]);
  const Tile tile = assign_tile(p, batch, kSmallTile);
  const Matrix<const T> a{p.a, p.a_row, p.a_column}, b{p.b, p.b_row, p.b_column};
  tile_product(tiles, a.from(tile.m0, 0), b.from(0, tile.n0), p.m - tile.m0, p.n - tile.n0, p.k, from_start,
               [&](uint32_t i, uint32_t j, T v) {
                 const uint32_t c = tile.n0 + j;
                 p.c[(uint64_t)(tile.m0 + i) * p.c_row + c] = p.bias ? add(v, p.bias[c * p.bias_step]) : v;
               });
}

}  // namespace

ENTRY(matmul_128_f32, threads_of(128, 8), 1, (Product<float> p, Batch batch), tiled<128, 8>(p, batch))
ENTRY(matmul_64_f32, threads_of(64, 4), 4, (Product<float> p, Batch batch), tiled<64, 4>(p, batch))
ENTRY(matmul_planes_f32, kSmallThreads, 4,
      (float* c, const float* planes, const float* bias, int64_t bias_step, uint64_t count, uint32_t n,
       uint32_t chunks),
      add_planes(c, planes, bias, bias_step, count, n, chunks))
ENTRY(matmul_f32, kSmallThreads, 2, (Product<float> p, Batch batch), small(p, batch))
ENTRY(matmul_f64, kSmallThreads, 2, (Product<double> p, Batch batch), small(p, batch))
