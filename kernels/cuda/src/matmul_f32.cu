// Matrix products C = A B in float32 and float64, in the canonical order that matmul.cuh describes. A bias, if there is
// one, is added to the finished sums. The plain kernel is `small`, one element of C after the other in tiles of 32 x
// 32; `tiled` computes the same bits from registers.
#include "matmul.cuh"

namespace {

// ---- tiles of 128 x 128 and 64 x 64 -------------------------------------------------------------------

// Operands pass through shared memory by cp.async, in a ring of stages of kStep values of k, both with k as the slower
// dimension. A thread has 8 rows of W columns of C, in strips of 4.
constexpr int kStep = 16;
constexpr int threads_of(int size, int w) { return size * size / (8 * w); }

// A row of a stage: transposing copies write to 32 different banks.
template <int SIZE> using Row = float[SIZE + 4];

// OperandCopy is the part of an operand that a thread copies, x being the row of A or the column of B: 4 elements of
// every eighth k, at once if x is contiguous, else kAcross apart.
template <int SIZE> struct OperandCopy {
  static constexpr int kAcross = SIZE / 4, kEach = 8;
  const float* p;                // the thread's first element of the next stage
  int64_t step, each, stage;     // to its next element, to the k after next, and to the next stage
  uint32_t exist;                // number of elements in range, if vectorised; else bit i: element i is
  int16_t k, x;                  // of its first element, in the tile
  bool wide;                     // vectorised: 16 bytes at once

  // It begins at x = `first` of `size`, with stride `x_stride`; k has stride `k_stride`.
  DEV_METHOD OperandCopy(const float* data, uint32_t first, uint32_t size, int64_t x_stride, int64_t k_stride) {
    const int t = threadIdx.x;
    const float* tile = data + first * x_stride;
    wide = x_stride == 1 && k_stride % 4 == 0 && (uint64_t)tile % 16 == 0;
    const bool k_major = !wide && k_stride == 1;  // then neighbouring threads copy neighbouring k
    k = (int16_t)(k_major ? t % kEach : t / kAcross);
    x = (int16_t)(k_major ? t / kEach : wide ? t % kAcross * 4 : t % kAcross);
    step = kAcross * x_stride;
    each = kEach * k_stride;
    stage = kStep * k_stride;
    p = tile + x * x_stride + k * k_stride;
    const int left = (int)(size - first) - x;
    exist = 0;
    if (wide)
      exist = left >= 4 ? 4 : left > 0 ? left : 0;
    else
#pragma unroll
      for (int i = 0; i < 4; i++) exist |= (uint32_t)(i * kAcross < left) << i;
  }

  // copy brings the next kStep values of k, of which `left` exist, none if it is below 1. What is out of range in x
  // is zero. Beyond the last k one operand is -0, so that products are -0, which change no sum.
  template <bool NEGATIVE> DEV_METHOD void copy(Row<SIZE>* tile, int left) {
#pragma unroll
    for (int g = 0; g < kStep / kEach; g++) {
      const bool any = k + g * kEach < left;
      float* const at = &tile[k + g * kEach][x];
      const float* const from = p + g * each;
      if (wide) {
        if (NEGATIVE && !any)
          store<float4>(at, {-0.f, -0.f, -0.f, -0.f});
        else
          cp_async<16>(shared_address(at), from, any ? 4 * (int)exist : 0);
      } else {
#pragma unroll
        for (int i = 0; i < 4; i++)
          if (NEGATIVE && !any)
            store<float>(at + i * kAcross, -0.f);
          else
            cp_async<4>(shared_address(at + i * kAcross), from + i * step, any && (exist >> i & 1) ? 4 : 0);
      }
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
template <int SIZE, int W, int STAGES> DEV void tiled(Product<float> p, const Batch& batch) {
  SHARED(float, tiles_a, [STAGES][kStep][SIZE + 4]);
  SHARED(float, tiles_b, [STAGES][kStep][SIZE + 4]);
  const uint32_t across = (p.n + SIZE - 1) / SIZE, down = (p.m + SIZE - 1) / SIZE;
  const Tile tile = assign_tile(p, batch, SIZE, SIZE);
  if (gridDim.y > 1) {
    const uint32_t first = blockIdx.y * kChunk;
    p.a += first * p.a_column;
    p.b += first * p.b_row;
    p.c += (uint64_t)blockIdx.y * (gridDim.x / (across * down)) * p.m * p.c_row;
    p.k = p.k - first < kChunk ? p.k - first : kChunk;
  }
  OperandCopy<SIZE> a(p.a, tile.m0, p.m, p.a_row, p.a_column), b(p.b, tile.n0, p.n, p.b_column, p.b_row);

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

  uint32_t copied = 0;
  int written = 0, stage = 0;
  auto next = [](int s) { return s == STAGES - 1 ? 0 : s + 1; };
  auto copy = [&] {
    a.template copy<true>(tiles_a[written], (int)(p.k - copied));
    b.template copy<false>(tiles_b[written], (int)(p.k - copied));
    cp_async_commit();
    copied += kStep;
    written = next(written);
  };
  Fragment<8> u[2];
  Fragment<W> v[2];
  auto read = [&](int k) {
    u[k % 2] = fragment<8>(&tiles_a[stage][k][row], kRows);
    v[k % 2] = fragment<W>(&tiles_b[stage][k][column], kColumns);
  };
  auto arrive = [&] {  // a stage is complete, and all threads have read the one before
    cp_async_wait<STAGES - 2>();
    __syncthreads();
  };

#pragma unroll
  for (int s = 0; s < STAGES - 1; s++) copy();
  arrive();
  read(0);
#pragma unroll 1
  for (uint32_t k0 = 0; k0 < p.k; k0 += kStep) {
    copy();
#pragma unroll
    for (int k = 0; k < kStep; k++) {
      if (k == kStep - 1) {
        stage = next(stage);
        arrive();
      }
      read((k + 1) % kStep);
      unrolled<8, W>([&](int i, int j) { chain[i][j] = __fmaf_rn(u[k % 2].x[i], v[k % 2].x[j], chain[i][j]); });
    }
    if ((k0 + kStep) % kChunk == 0 || k0 + kStep >= p.k)
      unrolled<8, W>([&](int i, int j) {
        total[i][j] = __fadd_rn(total[i][j], chain[i][j]);
        chain[i][j] = 0.f;
      });
  }
  cp_async_wait<0>();
  put(p, total, tile.m0 + row, tile.n0 + column);
}

// add_planes adds the chunks of `count` results in order, and the bias of their columns; if `more`, to those before.
DEV void add_planes(float* c, const float* planes, const float* bias, int64_t bias_step, uint64_t count, uint32_t n,
                    uint32_t chunks, uint32_t more) {
  const uint64_t at = thread_index();
  if (at >= count) return;
  float total = more ? __fadd_rn(c[at], planes[at]) : planes[at];
#pragma unroll 8
  for (uint32_t s = 1; s < chunks; s++) total = __fadd_rn(total, planes[s * count + at]);
  c[at] = bias ? __fadd_rn(total, bias[at % n * bias_step]) : total;
}

// ---- tiles of 32 x 32 --------------------------------------------------------------------------------

// For small results, where most of a large tile would be unused, and for FP64.
template <class T> DEV void small(Product<T> p, const Batch& batch) {
  SHARED(T, tiles, [2][kSmallTile][kSmallTile + 1]);
  const Tile tile = assign_tile(p, batch, kSmallTile, kSmallTile);
  const Matrix<const T> a{p.a, p.a_row, p.a_column}, b{p.b, p.b_row, p.b_column};
  tile_product(tiles, a.from(tile.m0, 0), b.from(0, tile.n0), p.m - tile.m0, p.n - tile.n0, p.k, from_start,
               [&](uint32_t i, uint32_t j, T v) {
                 const uint32_t c = tile.n0 + j;
                 p.c[(uint64_t)(tile.m0 + i) * p.c_row + c] = p.bias ? add(v, p.bias[c * p.bias_step]) : v;
               });
}

}  // namespace

ENTRY(matmul_128_f32, threads_of(128, 8), 1, (Product<float> p, Batch batch), tiled<128, 8, 2>(p, batch))
ENTRY(matmul_64_f32, threads_of(64, 4), 4, (Product<float> p, Batch batch), tiled<64, 4, 3>(p, batch))
ENTRY(matmul_planes_f32, kSmallThreads, 4,
      (float* c, const float* planes, const float* bias, int64_t bias_step, uint64_t count, uint32_t n,
       uint32_t chunks, uint32_t more),
      add_planes(c, planes, bias, bias_step, count, n, chunks, more))
ENTRY(matmul_f32, kSmallThreads, 2, (Product<float> p, Batch batch), small(p, batch))
ENTRY(matmul_f64, kSmallThreads, 2, (Product<double> p, Batch batch), small(p, batch))
