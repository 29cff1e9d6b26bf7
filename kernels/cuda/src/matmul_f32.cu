// Matrix products C = A B in float32 and float64, in the canonical order that matmul.cuh describes. A bias, if there is
// one, is added to the finished sums. The plain kernel is `small`, one element of C after the other in tiles of 32 x
// 32; `large` computes the same bits from registers.
#include "matmul.cuh"

namespace {

// ---- tiles of 128 x 128 ------------------------------------------------------------------------------

// 256 threads, 8 x 8 elements of C each, as two strips of 4 rows and two of 4 columns. Operands pass through shared
// memory by cp.async, in two stages of 8 values of k, both with k as the slower dimension.
constexpr int kTile = 128, kStep = 8, kThreads = 256;
constexpr int kPitch = kTile + 4;  // so that transposing copies write to 32 different banks

// OperandCopy is the part of an operand that a thread copies, x being the row of A or the column of B. A thread has 4
// elements of one k of each stage: consecutive x, which one vectorised copy moves, or x 32 apart.
struct OperandCopy {
  const float* p;        // the thread's first element of the next stage
  int64_t element_stride, tile_stride;  // to its next element; to the same element of the next stage
  uint32_t exist;        // number of elements in range, if vectorised; else bit i: element i is
  int16_t k, x;          // of its first element, in the tile
  bool wide;                            // vectorised: 16 bytes at once
};

// operand_copy begins at x = `first` of `size`, with stride `x_stride`; k has stride `k_stride`.
DEV OperandCopy operand_copy(const float* p, uint32_t first, uint32_t size, int64_t x_stride, int64_t k_stride) {
  const int t = threadIdx.x;
  const float* tile = p + first * x_stride;
  OperandCopy s;
  s.wide = x_stride == 1 && k_stride % 4 == 0 && (uint64_t)tile % 16 == 0;
  const bool k_major = !s.wide && k_stride == 1;  // then neighbouring threads copy neighbouring k
  s.k = (int16_t)(k_major ? t % kStep : t / 32);
  s.x = (int16_t)(k_major ? t / kStep : s.wide ? t % 32 * 4 : t % 32);
  s.element_stride = 32 * x_stride;
  s.tile_stride = kStep * k_stride;
  s.p = tile + s.x * x_stride + s.k * k_stride;
  const int left = (int)(size - first) - s.x;
  s.exist = 0;
  if (s.wide)
    s.exist = left >= 4 ? 4 : left > 0 ? left : 0;
  else
    for (int i = 0; i < 4; i++) s.exist |= (uint32_t)(32 * i < left) << i;
  return s;
}

// copy_tile copies the next kStep values of k into shared memory, of which `left` exist. What is out of range in x is
// zero. Beyond the last k one operand is -0, so that products are -0, which change no sum.
template <bool NEGATIVE> DEV void copy_tile(OperandCopy& s, float (*tile)[kPitch], uint32_t left) {
  float* to = &tile[s.k][s.x];
  const bool any = s.k < (int)left;
  if (NEGATIVE && !any) {
#pragma unroll
    for (int i = 0; i < 4; i++) store<float>(to + (s.wide ? i : 32 * i), -0.f);
  } else if (s.wide) {
    const int bytes = any ? 4 * (int)s.exist : 0;
    cp_async<16>(shared_address(to), s.p, bytes);
  } else {
    const float* from = s.p;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const bool exists = any && (s.exist >> i & 1);
      cp_async<4>(shared_address(to + 32 * i), from, exists ? 4 : 0);
      from += s.element_stride;
    }
  }
  s.p += s.tile_stride;
}

struct Fragment {
  float x[8];
};

DEV Fragment fragment(const float* row, int second) {
  const float4 u = load<float4>(row), v = load<float4>(row + second);
  return {{u.x, u.y, u.z, u.w, v.x, v.y, v.z, v.w}};
}

// A thread has strips 16 rows and 32 columns apart.
enum : int { kRows = 16, kColumns = 32 };

// put adds the bias and writes a thread's sums, from row `row` and column `column` on.
DEV void put(const Product<float>& p, float (&sum)[8][8], uint32_t row, uint32_t column) {
  if (p.bias) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
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
    for (int h = 0; h < 2; h++) {
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

DEV void large(Product<float> p, const Batch& batch) {
  SHARED(float, tiles_a, [2][kStep][kPitch]);
  SHARED(float, tiles_b, [2][kStep][kPitch]);
  const Tile tile = assign_tile(p, batch, kTile);
  const uint32_t m0 = tile.m0, n0 = tile.n0;
  OperandCopy a = operand_copy(p.a, m0, p.m, p.a_row, p.a_column), b = operand_copy(p.b, n0, p.n, p.b_column, p.b_row);

  // Warps are 4 x 2 over the tile, 32 x 64 each; lanes are 4 x 8.
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int row = warp / 2 * 32 + lane / 8 * 4, column = warp % 2 * 64 + lane % 8 * 4;

  // -0 plus the first chain is that chain.
  const float start = p.k ? -0.f : 0.f;
  float chain[8][8], total[8][8];
  unrolled<8, 8>([&](int i, int j) {
    chain[i][j] = 0.f;
    total[i][j] = start;
  });

  auto copy = [&](uint32_t k0) {
    if (k0 < p.k) {
      copy_tile<true>(a, tiles_a[k0 / kStep % 2], p.k - k0);
      copy_tile<false>(b, tiles_b[k0 / kStep % 2], p.k - k0);
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
      const Fragment u = fragment(&tiles_a[stage][k][row], kRows), v = fragment(&tiles_b[stage][k][column], kColumns);
      unrolled<8, 8>([&](int i, int j) { chain[i][j] = __fmaf_rn(u.x[i], v.x[j], chain[i][j]); });
    }
    __syncthreads();
    if ((k0 + kStep) % kChunk == 0 || k0 + kStep >= p.k)
      unrolled<8, 8>([&](int i, int j) {
        total[i][j] = __fadd_rn(total[i][j], chain[i][j]);
        chain[i][j] = 0.f;
      });
  }
  put(p, total, m0 + row, n0 + column);
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

ENTRY(matmul_large_f32, kThreads, 1, (Product<float> p, Batch batch), large(p, batch))
ENTRY(matmul_f32, kSmallThreads, 2, (Product<float> p, Batch batch), small(p, batch))
ENTRY(matmul_f64, kSmallThreads, 2, (Product<double> p, Batch batch), small(p, batch))
