// attention_flash.cuh: what kernels of flash attention share: results of a warp, softmax tile by tile, blocks of rows.
#pragma once
#include "attention.cuh"
#include "z_lane.cuh"

constexpr int kUnit = 8;  // elements of 16 bytes
constexpr float kLog2E = 0x1.715476p+0f;
constexpr int kPadded = 128;  // l and dot of each head have a multiple of so many elements
constexpr int kTurn = 32;     // rows for each counter of turns

DEV float infinity() { return __uint_as_float(0x7f800000); }

// Units of 8 rows, which ldmatrix reads at once, must be in different banks. If a row has a power of two of them, they
// are permuted (swizzled); otherwise rows have a unit more than they need, which makes their distance odd.
template <int D> constexpr bool kSwizzled = D % 3 && D % 5;
template <int D> constexpr uint32_t kPitch = 2 * D + (kSwizzled<D> ? 0 : 16);  // bytes of a row in a tile

// unit_at is the offset of a unit of a row in a tile, in bytes. Of 32 elements two rows share 128 bytes.
template <int D> DEV uint32_t unit_at(uint32_t row, uint32_t unit) {
  if (kSwizzled<D>) unit ^= D == 32 ? row / 2 % 4 : row % 8;
  return row * kPitch<D> + unit * 16;
}

// Threads side by side that copy a row, each kEach units of it: as many as a power of two allows.
template <int D> struct Across {
  static constexpr int kUnits = D / kUnit, kAcross = kUnits & -kUnits, kEach = kUnits / kAcross;
};

// Products of a warp: c[i][j] are the 16 x 8 elements from row 16i and column 8j on. A lane has those of rows lane/4 (e
// < 2) and lane/4 + 8, in columns 2(lane%4) and the next.
template <int M, int N> using Products = float[M][N][4];

template <int M, int N> DEV void clear(Products<M, N>& c) {
  unrolled<M, N, 4>([&](int i, int j, int e) { c[i][j][e] = 0.f; });
}

// row_of and column_of are the coordinates of an element of a lane.
DEV uint32_t row_of(int i, int e) { return 16 * i + threadIdx.x % 32 / 4 + e / 2 * 8; }
DEV uint32_t column_of(int j, int e) { return 8 * j + threadIdx.x % 4 * 2 + e % 2; }

// Left is a product [16 M, 8 N], rounded, as mma takes a left operand: [i][k] has the columns from 16k on.
template <int M, int N> using Left = uint32_t[M][N / 2][4];

template <class T, int M, int N> DEV void round(uint32_t (&to)[M][N / 2][4], const Products<M, N>& p) {
  unrolled<M, N / 2, 4>([&](int i, int k, int e) {
    to[i][k][e] = pack(T{}, p[i][2 * k + e / 2][e % 2 * 2], p[i][2 * k + e / 2][e % 2 * 2 + 1]);
  });
}

// each_with_column calls f(i, j, e, x) with the value x of its column.
template <int M, int N, class F> DEV void each_with_column(const unsigned char* values, F f) {
#pragma unroll
  for (int j = 0; j < N; j++) {
    const float2 x = load<float2>(values + 4 * (8 * j + threadIdx.x % 4 * 2));
    unrolled<M, 4>([&](int i, int e) { f(i, j, e, e % 2 ? x.y : x.x); });
  }
}

// rounded is element e of product (i, j).
template <class T, int M, int K> DEV float rounded(const uint32_t (&p)[M][K][4], int i, int j, int e) {
  return to_float(T{(uint16_t)(p[i][j / 2][j % 2 * 2 + e / 2] >> e % 2 * 16)});
}

// put writes factor[i][e/2] * c, of whose rows `exist` exist. It passes through the warp's own strip of a tile in
// shared memory, so that the stores are coalesced.
template <class T, int D, int M>
DEV void put(const Matrix<T>& to, uint32_t exist, const Products<M, D / 8>& c, const float (&factor)[M][2],
             unsigned char* strip) {
  __syncwarp();
  unrolled<M, D / 8, 2>([&](int i, int j, int h) {
    store<uint32_t>(strip + unit_at<D>(row_of(i, 2 * h), j) + threadIdx.x % 4 * 4,
                    pack(T{}, __fmul_rn(c[i][j][2 * h], factor[i][h]), __fmul_rn(c[i][j][2 * h + 1], factor[i][h])));
  });
  __syncwarp();
  constexpr int kAcross = Across<D>::kAcross;
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll 4
  for (uint32_t row = lane / kAcross; row < 16 * M; row += 32 / kAcross)
    for (uint32_t unit = lane % kAcross; unit < D / kUnit; unit += kAcross)
      if (row < exist) store<uint4>(to.data + row * to.row + unit * kUnit, load<uint4>(strip + unit_at<D>(row, unit)));
}

// Block is the work of a block: `size` rows or keys from `from` on, of matrix i. Blocks count
// those of a matrix first, from the last one on.
struct Block {
  uint32_t i, from, size;
  DEV_METHOD Block(uint32_t block, uint32_t n, uint32_t most) {
    const uint32_t blocks = (n + most - 1) / most;
    i = block / blocks;
    from = (blocks - 1 - (block - i * blocks)) * most;
    size = minimum(most, n - from);
  }
};

// existing is how many of n rows there are from `from` on.
DEV uint32_t existing(uint32_t n, uint32_t from) { return n > from ? n - from : 0; }

// hide sets the scores of hidden keys to a value: of keys from `from` on, for the warp's rows from `first` on.
template <int M, int N>
DEV void hide(Products<M, N>& s, const Attention<float>& z, uint32_t first, uint32_t from, float value) {
  if (from + 8 * N > visible_keys(z, first))
    unrolled<M, N, 4>([&](int i, int j, int e) {
      if (from + column_of(j, e) >= visible_keys(z, first + row_of(i, e))) s[i][j][e] = value;
    });
}

// OnlineSoftmax has the maxima of rows' scores before scaling, and the sums of their exponentials in this lane.
template <int M> struct OnlineSoftmax {
  float most[M][2], total[M][2], factor[M][2];
  bool grew;  // a maximum of the warp's rows, with the last scores
  DEV_METHOD OnlineSoftmax() {
    unrolled<M, 2>([&](int i, int h) {
      most[i][h] = -infinity();
      total[i][h] = 0.f;
    });
  }

  // take makes scores s their exponentials, with c = scale * log2(e). shrink follows.
  template <int N> DEV_METHOD void take(Products<M, N>& s, float c) {
    float now[M][2];
    bool larger = false;
    unrolled<M, 2>([&](int i, int h) {
      float x = most[i][h];
#pragma unroll
      for (int j = 0; j < N; j++) x = fmaxf(x, fmaxf(s[i][j][2 * h], s[i][j][2 * h + 1]));
      x = fmaxf(x, shuffle_xor(x, 1));
      x = fmaxf(x, shuffle_xor(x, 2));
      larger |= x > most[i][h];
      now[i][h] = x;
    });
    grew = ballot(larger);
    if (grew)
      unrolled<M, 2>([&](int i, int h) {
        factor[i][h] = exp2_fast(__fsub_rn(__fmul_rn(most[i][h], c), base(now[i][h], c)));
        most[i][h] = now[i][h];
        total[i][h] = __fmul_rn(total[i][h], factor[i][h]);
      });
    unrolled<M, 2>([&](int i, int h) {
      const float from = base(most[i][h], c);
      float sum = 0.f;
      unrolled<N, 2>([&](int j, int e) {
        float& score = s[i][j][2 * h + e];
        score = exp2_fast(__fmaf_rn(score, c, -from));
        sum = __fadd_rn(sum, score);
      });
      total[i][h] = __fadd_rn(total[i][h], sum);
    });
  }

  // shrink multiplies the rows of y whose maxima grew, others by exactly 1: left out if none of the warp's did.
  template <int K> DEV_METHOD void shrink(Products<M, K>& y) const {
    if (grew)
      unrolled<M, K, 4>([&](int i, int j, int e) { y[i][j][e] = __fmul_rn(y[i][j][e], factor[i][e / 2]); });
  }

  // end writes m and r of the warp's rows from `first` on, of which `exist` exist, of one matrix. The sums become their
  // reciprocals.
  DEV_METHOD void end(const Attention<float>& z, uint32_t matrix, uint32_t first, uint32_t exist) {
    unrolled<M, 2>([&](int i, int h) {
      float sum = total[i][h];
      sum = __fadd_rn(sum, shuffle_xor(sum, 1));
      sum = __fadd_rn(sum, shuffle_xor(sum, 2));
      total[i][h] = __fdiv_rn(1.f, sum);
      const uint32_t row = row_of(i, 2 * h);
      if (threadIdx.x % 4 || row >= exist) return;
      const uint64_t at = (uint64_t)matrix * z.t + first + row;
      z.m[at] = __fmul_rn(most[i][h], z.scale);
      z.r[at] = total[i][h];
    });
  }

  // base is c times a maximum. Exponentials of -inf are 0 for the maximum -inf, too, not NaN.
  static DEV_METHOD float base(float x, float c) { return x == -infinity() ? 0.f : __fmul_rn(x, c); }
};

// padded is the number of rows of dot and l: T rounded up to whole tiles of any size.
DEV uint32_t padded(uint32_t t) { return (t + kPadded - 1) / kPadded * kPadded; }

// Turns are what blocks of keys share that add to dq one after another: sums [rows, D] of each head and a counter for
// every 32 rows behind l and dot, all of whose rows are padded. The block of the last keys that a row sees comes first,
// that of key 0 last. It began in time if blocks take their work in the order in which they run: so none waits for one
// that has not begun. With a causal mask those of the last keys have the fewest rows, and nobody waits at first.
struct Turns {
  uint32_t* counters;  // turns that are over; then one more, of blocks that have taken work
  float* sums;
  DEV_METHOD Turns(const Attention<float>& z) {
    const uint64_t rows = z.count * padded(z.t);
    counters = reinterpret_cast<uint32_t*>(z.dot + rows);
    sums = z.dot + rows + (rows / kTurn + 4) / 4 * 4;
  }
};
