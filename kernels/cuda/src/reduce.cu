// Sums, sums of squares, products, maxima, minima, any and all, along any axes, in the canonical order
// (docs/adr/0008-order-of-sums.md). Where the innermost axis is reduced, that is the order of reduce.cuh. Where it is
// kept, elements are taken in blocks of 64; partial sum j of a block has elements 8j to 8j+7, in ascending order, and
// takes partial sum j+h for h = 4, 2, 1; the results of the blocks are reduced by the same rule.
//
// A launch reduces blocks; where it leaves several results of blocks, they are of the compute type, unrounded, and the
// host launches a kernel again, on them. The indices of extremes of columns are found in any order, for they are those
// of the first of equal elements.
#include "blocks.cuh"
#include "row.cuh"

constexpr int kMaxSums = 64;

// OneSum is the sums of the columns of a contiguous matrix [n, 4 count] of float32 or half precision: see columns. Its
// blocks begin at block `first` of the launch.
struct OneSum {
  void* to;
  const void* from;
  uint32_t to_type, from_type, first, count, n, each, lanes, tiles;
};
struct Sums {
  OneSum sum[kMaxSums];
  uint32_t count;
};

// Extreme is an element and its index.
template <class N> struct alignas(2 * sizeof(N)) Extreme {
  N value;
  uint32_t index;
};
template <class N> struct ComputeTypeOf<Extreme<N>> { using Type = Extreme<N>; };

namespace {

// What is reduced: the elements of an operand, or the squares of their products with a factor, by default 1. With is
// the second parameter of kernels.
template <class E> struct Elements {
  using T = E;
  using N = ComputeType<T>;
  using With = uint32_t;
  const void* data;
  With type;
  DEV_METHOD N value(N x) const { return x; }
};
template <class E> struct Squares {
  using T = E;
  using N = ComputeType<T>;
  using With = const N*;
  const void* data;
  N factor;
  static constexpr uint32_t type = 0;
  DEV_METHOD Squares(const void* x, With factor) : data(x), factor(factor ? *factor : N(1)) {}
  DEV_METHOD N value(N x) const {
    const N d = math::mul(x, factor);
    return math::mul(d, d);
  }
};
template <class In> DEV typename In::N element(const In& x, uint64_t i) {
  return x.value(read<typename In::T>(x.data, x.type, i));
}

// ---- the innermost axis is reduced -------------------------------------------------------------------

constexpr int kWarps = 4;

// fold_rows gives each warp a block of a result, and y [results blocks] its value. Results of at most 64 elements share
// a warp: each has `lanes` threads, and those have four elements each. row(result, from) is a function of i and
// `count` that reads elements from + i to from + i + 3, of which `count` exist.
template <class Fold, class N, uint32_t AHEAD, class Row>
DEV void fold_rows(const Result& y, uint64_t results, uint64_t n, uint32_t lanes, Row row) {
  if (lanes < 32) {
    const uint64_t result = thread_index() / lanes;
    const uint32_t i = threadIdx.x % lanes * 4;
    Partials<Fold, N> partials;
    if (result < results && i < n) {
      const uint32_t count = lesser((uint32_t)n - i, 4);
      partials.take(row(result, 0)(i, count), count);
    }
    N x = Fold::combine(Fold::combine(partials.own[0], partials.own[1]),
                        Fold::combine(partials.own[2], partials.own[3]));
    for (uint32_t h = 1; h < lanes; h *= 2) x = Fold::combine(x, shuffle_xor(x, h));
    if (result < results && i == 0) put(y, result, x);
    return;
  }
  const uint64_t blocks = (n + kFoldBlock - 1) / kFoldBlock, w = (uint64_t)blockIdx.x * kWarps + threadIdx.x / 32;
  if (w >= results * blocks) return;
  const uint64_t result = blocks == 1 ? w : w / blocks, from = (w - result * blocks) * kFoldBlock;
  const uint32_t count = n - from < kFoldBlock ? (uint32_t)(n - from) : kFoldBlock;
  const N v = warp_fold<Fold, N, AHEAD>(count, row(result, from));
  if (threadIdx.x % 32 == 0) put(y, w, v);
}

// rows: the elements of a result are neighbours, and aligned by fours.
template <class Fold, class In>
DEV void rows(const Result& y, const In& x, uint64_t results, uint64_t n, uint32_t lanes, const Axes& kept) {
  using N = typename In::N;
  using T = typename In::T;
  fold_rows<Fold, N, sizeof(N) == 8 ? 4 : 8>(y, results, n, lanes, [&](uint64_t result, uint64_t from) {
    return [&x, first = static_cast<const T*>(x.data) + offset_of(kept, result) + from](uint32_t i, uint32_t count) {
      Four<N> four{};
      if (count == 4) {
        four = load_four<N>(first + i);
      } else {
#pragma unroll
        for (uint32_t k = 0; k < 3; k++)
          if (k < count) four[k] = to_compute<N>(first[i + k]);
      }
#pragma unroll
      for (int k = 0; k < 4; k++) four[k] = x.value(four[k]);
      return four;
    };
  });
}

// strided_rows: those of any layout. They are read by fours, which are aligned, if that is `wide`.
template <class Fold, class In>
DEV void strided_rows(const Result& y, const In& x, uint64_t results, uint64_t n, uint32_t lanes, uint32_t wide,
                      const Axes& kept, const Axes& reduced) {
  using N = typename In::N;
  using T = typename In::T;
  fold_rows<Fold, N, 2>(y, results, n, lanes, [&](uint64_t result, uint64_t from) {
    return [&, from, first = offset_of(kept, result)](uint32_t i, uint32_t count) {
      Four<N> four{};
      if constexpr (is_floating<T>()) {
        if (wide) {
          if (count) four = load_four<N>(static_cast<const T*>(x.data) + first + offset_of(reduced, from + i));
#pragma unroll
          for (int k = 0; k < 4; k++) four[k] = x.value(four[k]);
          return four;
        }
      }
#pragma unroll
      for (uint32_t k = 0; k < 4; k++)
        if (k < count) four[k] = element(x, first + offset_of(reduced, from + i + k));
      return four;
    };
  });
}

// ---- the innermost axis is kept ----------------------------------------------------------------------

constexpr int kThreads = 256;
constexpr int kPartials = 8, kOwnRows = 8;  // partial sums of a block, elements of each
constexpr int kBlock = kPartials * kOwnRows;
constexpr int kSide = kThreads / kPartials;

// Vector is V neighbours of an operand.
template <class In, int V> struct Vector {
  using T = typename In::T;
  Pack<T, V> pack;
  DEV_METHOD void load_from(const In& x, uint64_t i) { pack.word = load<decltype(pack.word)>((const T*)x.data + i); }
  DEV_METHOD typename In::N get(const In& x, int k) const {
    return x.value(to_compute<typename In::N>(pack.element[k]));
  }
};
template <class In> struct Vector<In, 1> {
  typename In::N one;
  DEV_METHOD void load_from(const In& x, uint64_t i) { one = read<typename In::T>(x.data, x.type, i); }
  DEV_METHOD typename In::N get(const In& x, int) const { return x.value(one); }
};

// Joined is what the threads of a unit see of its results: those of 64 blocks at most, in the order in which they come.
template <class Fold, class N, int V> struct Joined {
  N (*memory)[V][kSide];
  uint32_t slot, blocks = 0;
  N sum[V];
  DEV_METHOD Joined(N (*memory)[V][kSide], uint32_t slot) : memory(memory), slot(slot) { clear(); }
  DEV_METHOD void clear() {
#pragma unroll
    for (int k = 0; k < V; k++) sum[k] = Fold::template start<N>();
  }
  DEV_METHOD void take(const N (&x)[V], bool last) {
#pragma unroll
    for (int k = 0; k < V; k++) sum[k] = Fold::combine(sum[k], x[k]);
    if (blocks++ % kOwnRows == kOwnRows - 1 || last) {
#pragma unroll
      for (int k = 0; k < V; k++) memory[(blocks - 1) / kOwnRows][k][slot] = sum[k];
      clear();
    }
  }
  DEV_METHOD void all(N (&x)[V]) const {
    const uint32_t have = (blocks + kOwnRows - 1) / kOwnRows;
#pragma unroll
    for (int k = 0; k < V; k++) {
      for (uint32_t h = kPartials / 2; h > 0; h /= 2)
        for (uint32_t j = 0; j < h && j + h < have; j++)
          memory[j][k][slot] = Fold::combine(memory[j][k][slot], memory[j + h][k][slot]);
      x[k] = memory[0][k][slot];
    }
  }
};

// Where columns and rows are: Strided those of any layout, Even those whose rows have one stride, Matrix those of a
// contiguous matrix.
struct Strided {
  const Axes& kept;
  const Axes& reduced;
  DEV_METHOD uint64_t column(uint64_t i) const { return offset_of(kept, i); }
  DEV_METHOD uint64_t row(uint64_t i) const { return offset_of(reduced, i); }
};
struct Even {
  const Axes& kept;
  const Axes& reduced;
  DEV_METHOD uint64_t column(uint64_t i) const { return offset_of(kept, i); }
  DEV_METHOD uint64_t row(uint64_t i) const { return i * reduced.stride[0][0]; }
};
template <int V> struct Matrix {
  uint32_t count;
  DEV_METHOD uint64_t column(uint64_t i) const { return i * V; }
  DEV_METHOD uint64_t row(uint64_t i) const { return i * count * V; }
};

// columns: `count` columns of V neighbouring results. 2^lanes threads side by side have columns side by side, and a row
// of all columns takes `tiles` such sides. A unit is `each` blocks of a column, 1 or the 64 whose results are a block
// again; eight sides have a unit, one for each partial sum. y is [units results]. An element is at the sum of what `at`
// says of its column and its row. Blocks are numbered by `block`.
template <class Fold, class In, int V, class At>
DEV void columns(const Result& y, const In& x, uint64_t count, uint64_t n, uint32_t each, uint32_t lanes,
                 uint32_t tiles, uint32_t block, const At& at) {
  using N = typename In::N;
  SHARED(N, partial, [V][kThreads]);
  SHARED(N, second, [kPartials][V][kSide]);
  const uint32_t lane = threadIdx.x & ((1u << lanes) - 1), side = threadIdx.x >> lanes;
  const uint32_t j = side % kPartials, group = block / tiles;
  const uint64_t column = ((uint64_t)(block - group * tiles) << lanes) + lane;
  const uint64_t first_unit = (uint64_t)group * (kSide >> lanes), unit = first_unit + side / kPartials;
  const uint64_t blocks = (n + kBlock - 1) / kBlock, left = blocks - first_unit * each;
  const uint32_t rounds = left < each ? (uint32_t)left : each;
  const uint64_t first = column < count ? at.column(column) : 0;
  N own[V];
  Joined<Fold, N, V> joined(second, (side / kPartials << lanes) + lane);
  for (uint32_t b = 0; b < rounds; b++) {
    const uint64_t row = (unit * each + b) * kBlock + j * kOwnRows;
    const uint32_t rows = column < count && row < n ? (uint32_t)(n - row < kOwnRows ? n - row : kOwnRows) : 0;
    Vector<In, V> v[kOwnRows];
#pragma unroll
    for (uint32_t r = 0; r < kOwnRows; r++)
      if (r < rows)
        v[r].load_from(x, first + at.row(row + r));
#pragma unroll
    for (int k = 0; k < V; k++) own[k] = Fold::template start<N>();
#pragma unroll
    for (uint32_t r = 0; r < kOwnRows; r++)
      if (r < rows)
#pragma unroll
        for (int k = 0; k < V; k++) own[k] = Fold::combine(own[k], v[r].get(x, k));
    if (b > 0) __syncthreads();
#pragma unroll
    for (int k = 0; k < V; k++) partial[k][threadIdx.x] = own[k];
    for (uint32_t h = kPartials / 2; h > 0; h /= 2) {
      __syncthreads();
      if (j < h)
#pragma unroll
        for (int k = 0; k < V; k++) {
          own[k] = Fold::combine(own[k], partial[k][threadIdx.x + (h << lanes)]);
          if (h > 1) partial[k][threadIdx.x] = own[k];
        }
    }
    if (each > 1 && j == 0) joined.take(own, b + 1 == rounds);
  }
  if (j > 0 || column >= count || unit * each >= blocks) return;
  if (each > 1) joined.all(own);
#pragma unroll
  for (int k = 0; k < V; k++) put(y, (unit * count + column) * V + k, own[k]);
}

template <class T> DEV void sums_of(const OneSum& s) {
  constexpr int V = 4;
  columns<Sum, Elements<T>, V>(Result{s.to, 0, s.to_type}, Elements<T>{s.from, 0}, s.count, s.n, s.each, s.lanes,
                               s.tiles, blockIdx.x - s.first, Matrix<V>{s.count});
}

DEV void sums_block(const Sums& all) {
  const OneSum& s = owner_of(all.sum, all.count, blockIdx.x);
  if (s.from_type == kFloat16) sums_of<f16>(s);
  else if (s.from_type == kBFloat16) sums_of<bf16>(s);
  else sums_of<float>(s);
}

// ---- the first of the extremes of columns ------------------------------------------------------------

template <class N> DEV Extreme<N> extreme(const N& x, uint32_t row) { return {x, row}; }
template <class N> DEV Extreme<N> extreme(const Extreme<N>& x, uint32_t) { return x; }

// beats tells whether x is more extreme than y: NaN than any number, and zeros are equal.
template <class Fold, class N> DEV bool beats(const Extreme<N>& x, const Extreme<N>& y) {
  const bool no = Same<Fold, Max>::value() ? x.value <= y.value : x.value >= y.value;
  return !no && y.value == y.value;
}

// arg_columns finds the extremes of columns of V neighbours, which lie side by side as in `columns`. A block has a part
// of them, `each` rows, and each of its sides some of these, in ascending order, AHEAD of them in flight. It puts what
// it finds in `found` [parts, V count], for a launch that reads it as x. values.to may be null.
template <class Fold, int V, uint32_t AHEAD, class N, class In>
DEV void arg_columns(int64_t* indices, const Result& values, Extreme<N>* found, const In& x, uint64_t count, uint32_t n,
                     uint32_t each, uint32_t lanes, uint32_t tiles, const Even& at) {
  SHARED(Extreme<N>, best, [V][kThreads]);
  const uint32_t lane = threadIdx.x & ((1u << lanes) - 1), sides = kThreads >> lanes;
  const uint32_t part = blockIdx.x / tiles, from = part * each, end = n - from < each ? n : from + each;
  const uint64_t column = ((uint64_t)(blockIdx.x - part * tiles) << lanes) + lane;
  Extreme<N> own[V];  // a column in which nothing beats start has it in row 0
#pragma unroll
  for (int k = 0; k < V; k++) own[k] = {Fold::template start<N>(), 0};
  if (column < count) {
    const uint64_t first = at.column(column);
#pragma unroll 1
    for (uint32_t i = from + (threadIdx.x >> lanes); i < end; i += AHEAD * sides) {
      Vector<In, V> v[AHEAD];
#pragma unroll
      for (uint32_t r = 0; r < AHEAD; r++)
        if (i + r * sides < end) v[r].load_from(x, first + at.row(i + r * sides));
#pragma unroll
      for (uint32_t r = 0; r < AHEAD; r++)
        if (i + r * sides < end)
#pragma unroll
          for (int k = 0; k < V; k++) {
            const Extreme<N> e = extreme(v[r].get(x, k), i + r * sides);
            if (beats<Fold>(e, own[k])) own[k] = e;
          }
    }
  }
  for (uint32_t h = kThreads / 2; h >> lanes > 0; h /= 2) {
    if (threadIdx.x >= h && threadIdx.x < 2 * h)
#pragma unroll
      for (int k = 0; k < V; k++) best[k][threadIdx.x] = own[k];
    __syncthreads();
    if (threadIdx.x < h)
#pragma unroll
      for (int k = 0; k < V; k++) {
        const Extreme<N> e = best[k][threadIdx.x + h];
        if (beats<Fold>(e, own[k]) || (!beats<Fold>(own[k], e) && e.index < own[k].index)) own[k] = e;
      }
  }
  if (threadIdx.x >> lanes == 0)
#pragma unroll
    for (int k = 0; k < V; k++) best[k][threadIdx.x] = own[k];
  __syncthreads();
  const uint64_t r = (column - lane) * V + threadIdx.x;
  if (threadIdx.x >= (uint32_t)V << lanes || r >= count * V) return;
  const Extreme<N> e = best[threadIdx.x % V][threadIdx.x / V];  // neighbours are written by neighbours
  if (found) {
    found[part * count * V + r] = e;
  } else {
    indices[r] = e.index;
    if (values.to) put(values, r, e.value);
  }
}

}  // namespace

#define ROWS(name, suffix, Fold, In)                                                                       \
  ENTRY(name##_rows##suffix, 32 * kWarps, 8,                                                               \
        (Result y, const void* x, In::With with, uint64_t results, uint64_t n, uint32_t lanes, Axes kept), \
        rows<Fold>(y, In{x, with}, results, n, lanes, kept))
#define COLUMNS(name, suffix, Fold, In, V)                                                                  \
  ENTRY(name##_columns##suffix, kThreads, V == 2 ? 2 : 3,                                                   \
        (Result y, const void* x, In::With with, uint64_t count, uint64_t n, uint32_t each, uint32_t lanes, \
         uint32_t tiles, Axes kept, Axes reduced),                                                          \
        columns<Fold, In, V>(y, In{x, with}, count, n, each, lanes, tiles, blockIdx.x, Even{kept, reduced}))

// The same of any layout, by vectors if that is `wide`.
#define STRIDED(name, suffix, Fold, In, V)                                                                   \
  ENTRY(name##_strided_rows##suffix, 32 * kWarps, 6,                                                         \
        (Result y, const void* x, In::With with, uint64_t results, uint64_t n, uint32_t lanes, Axes kept,    \
         Axes reduced, uint32_t wide),                                                                       \
        strided_rows<Fold>(y, In{x, with}, results, n, lanes, wide, kept, reduced))                          \
  ENTRY(name##_strided_columns##suffix, kThreads, 3,                                                         \
        (Result y, const void* x, In::With with, uint64_t count, uint64_t n, uint32_t each, uint32_t lanes,  \
         uint32_t tiles, Axes kept, Axes reduced, uint32_t wide),                                            \
        const Strided at{kept, reduced};                                                                     \
        if (wide) columns<Fold, In, V>(y, In{x, with}, count, n, each, lanes, tiles, blockIdx.x, at);        \
        else columns<Fold, In, 1>(y, In{x, with}, count, n, each, lanes, tiles, blockIdx.x, at))

#define ARG_COLUMNS(name, suffix, Fold, T, V)                                                                     \
  ENTRY(name##_columns##suffix, kThreads, V <= 2 ? 3 : 4,                                                         \
        (int64_t* indices, Result y, Extreme<ComputeType<T>>* found, const Extreme<ComputeType<T>>* parts,        \
         const void* x, uint32_t type, uint64_t count, uint64_t n, uint32_t each, uint32_t lanes, uint32_t tiles, \
         Axes kept, Axes reduced, uint32_t wide),                                                                 \
        const Even at{kept, reduced};                                                                             \
        const Elements<T> in{x, type};                                                                            \
        const Elements<Extreme<ComputeType<T>>> finds{parts, 0};                                                  \
        if (parts) arg_columns<Fold, 1, 4>(indices, y, found, finds, count, n, each, lanes, tiles, at);           \
        else if (wide) arg_columns<Fold, V, 4>(indices, y, found, in, count, n, each, lanes, tiles, at);          \
        else arg_columns<Fold, 1, 8>(indices, y, found, in, count, n, each, lanes, tiles, at))

ENTRY(sums, kThreads, 2, (Sums all), sums_block(all))

#define FOLD(name, suffix, Fold, In, V) \
  STRIDED(name, suffix, Fold, In, V)    \
  ROWS(name, suffix, Fold, In)          \
  COLUMNS(name, suffix, Fold, In, V)
#define FOLDS(name, Fold, In)           \
  FOLD(name, _f32, Fold, In<float>, 4)  \
  FOLD(name, _f64, Fold, In<double>, 2) \
  FOLD(name, _f16, Fold, In<f16>, 8)    \
  FOLD(name, _bf16, Fold, In<bf16>, 8)
#define FOLDS_OF_ALL(name, Fold) \
  FOLDS(name, Fold, Elements)    \
  STRIDED(name, _integer, Fold, Elements<integer>, 1)

#define ARG_EXTREMES(name, Fold)           \
  ARG_COLUMNS(name, _f32, Fold, float, 4)  \
  ARG_COLUMNS(name, _f64, Fold, double, 2) \
  ARG_COLUMNS(name, _f16, Fold, f16, 8)    \
  ARG_COLUMNS(name, _bf16, Fold, bf16, 8)  \
  ARG_COLUMNS(name, _integer, Fold, integer, 1)

FOLDS_OF_ALL(sum, Sum)
FOLDS_OF_ALL(prod, Prod)
FOLDS_OF_ALL(max, Max)
FOLDS_OF_ALL(min, Min)
FOLDS(sum_squares, Sum, Squares)
STRIDED(any, _bool, Max, Elements<nonzero>, 1)
STRIDED(all, _bool, Min, Elements<nonzero>, 1)
ARG_EXTREMES(argmax, Max)
ARG_EXTREMES(argmin, Min)
