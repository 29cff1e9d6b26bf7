// Layer and RMS normalisation of rows:
//
//	rstd = 1 / sqrt(squares / n + eps)
//	h    = (x - mean) * rstd
//	y    = h * weight + bias
//
// with mean and squares by deviations; for RMS the mean is 0 and squares the sum of x^2. The gradients are,
// with gw = g * weight:
//
//	dx      = ((gw - sum(gw)/n) - h * (sum(gw*h)/n)) * rstd
//	dweight = the sum of g * h over the rows
//	dbias   = the sum of g over the rows
//
// Missing operands and results are null. Results are contiguous; weight and bias are one row.
#include "row.cuh"

// Residual is a sum x + y of contiguous operands, whose rows are normalised, and stored in the norm's operand. y has
// the type of x, or half precision where x is float32. There is none if x is null.
struct Residual {
  void* x;
  void* y;
  uint64_t type;  // of y
};
DEV bool is_wide(const Residual& sum) { return is_wide((const float*)sum.x) && is_wide((const float*)sum.y); }

// Sums folds two sums of a row at once.
template <class N> struct Pair { N first, second; };
struct Sums {
  template <class P> DEV_METHOD static P start() { return {0, 0}; }
  template <class P>
  DEV_METHOD static P combine(P x, P y) {
    return {math::add(x.first, y.first), math::add(x.second, y.second)};
  }
};
template <class N>
DEV Pair<N> shuffle_xor(Pair<N> x, int mask) {
  return {shuffle_xor(x.first, mask), shuffle_xor(x.second, mask)};
}

namespace {

// Tile is a row in shared memory.
template <class N> struct Tile {
  using Value = N;
  static constexpr __device__ bool memory() { return false; }
  N* p;
  DEV_METHOD Four<N> four(At at) const { return existing<N>(p, at); }
  DEV_METHOD void set(At at, const Four<N>& x) const {
    if (at.count) store_four(p + at.i, x);
  }
};
template <class N> DEV N* shared_tile() {
  SHARED_DYNAMIC(memory);
  return reinterpret_cast<N*>(memory);
}

// Parameter is a row of weights or biases. A missing one is `none`, 1 or -0, which changes nothing.
template <class T, class Group> struct Parameter {
  using Value = ComputeType<T>;
  static constexpr __device__ bool memory() { return true; }
  Row<T, Group> row;
  Value none;
  DEV_METHOD Parameter(const Rows& a, Value none) : row(a, 0), none(none) {}
  DEV_METHOD Four<Value> four(At at) const {
    if (row.data) return row.four(at);
    return {none, none, none, none};
  }
};

// parameter is a Parameter; where rows are cached it is a tile, which the block fills. A barrier must follow.
template <class T, class Group, class N = ComputeType<T>>
DEV auto parameter(const Rows& a, N none, N* tile, uint32_t n) {
  const Parameter<T, Group> row(a, none);
  if constexpr (Group::slots() > 0) {
    const Tile<N> to{tile};
    for (At at{4 * threadIdx.x, 0, 4}; at.i < n; at.i += 4 * blockDim.x) to.set(at, row.four(at));
    return to;
  } else {
    return row;
  }
}

// add_as sets a row to that of a sum, with addends of type Y, rounded to elements as an addition of its own would be,
// and returns its values if rows are cached. All of a cached row is read before it is written.
template <class Y, class T, class Group>
DEV auto add_as(const Row<T, Group>& to, const Residual& sum, uint64_t first, uint32_t n) {
  using N = ComputeType<T>;
  const Line<T, Group> x{static_cast<T*>(sum.x) + first};
  const Line<Y, Group> y{static_cast<Y*>(sum.y) + first};
  const auto rounded = map([](N x, N y) { return to_compute<N>(to_element<T>(math::add(x, y))); }, x, y);
  const auto s = cached<Group>(n, rounded);
  set_row<Group>(n, to, s);
  if constexpr (Group::slots() > 0) return s;
}
template <class T, class Group>
DEV auto add(const Row<T, Group>& to, const Residual& sum, uint64_t first, uint32_t n) {
  if constexpr (Same<T, float>::value()) {
    if (sum.type == kFloat16) return add_as<f16>(to, sum, first, n);
    if (sum.type == kBFloat16) return add_as<bf16>(to, sum, first, n);
  }
  return add_as<T>(to, sum, first, n);
}

// norm_row is row r of what is normalised, that of a sum if there is one.
template <class T, class Group> DEV auto norm_row(const Rows& a, const Residual& sum, uint64_t r, uint32_t n) {
  const Row<T, Group> row(a, r);
  if constexpr (Group::slots() > 0) {
    if (sum.x) return add(row, sum, r * n, n);
    return cached<Group>(n, row);
  } else {
    if (sum.x) add(row, sum, r * n, n);
    return row;
  }
}

// mean and rstd are of the compute type, unrounded. A grid-stride loop gives rows to thread groups; with cached rows a
// block has weight and bias in shared memory, so that it reads them once for all of its rows.
template <class T, class Group, class N = ComputeType<T>>
DEV void norm(T* y, N* mean, N* rstd, const Rows& x_, const Rows& weight_, const Rows& bias_, const Residual& sum,
              uint64_t rows, uint32_t n, double eps) {
  N* tile = nullptr;
  if constexpr (Group::slots() > 0) tile = shared_tile<N>();
  const auto weight = parameter<T, Group>(weight_, N(1), tile, n);
  const auto bias = parameter<T, Group>(bias_, -N(0), tile + n, n);
  __syncthreads();
#pragma unroll 1
  for (uint64_t r = Group::row(); r < rows; r += Group::rows()) {
    const auto x = norm_row<T, Group>(x_, sum, r, n);
    N c = 0, squares;
    if (mean) {
      const auto deviation = deviations<Group>(n, x);
      c = deviation.mean, squares = deviation.squares;
    } else {
      squares = row_fold<Sum, Group>(n, map([](N x) { return math::mul(x, x); }, x));
    }
    const N scale = math::div(N(1), math::sqrt(math::add(math::div(squares, (N)n), (N)eps)));
    if (Group::thread() == 0) {
      if (mean) mean[r] = c;
      rstd[r] = scale;
    }
    const auto result = map([=](N x, N w, N b) {
      return math::add(math::mul(math::mul(math::sub(x, c), scale), w), b);
    }, x, weight, bias);
    set_row<Group>(n, Line<T, Group>{y + r * n}, result);
  }
}

// The sums over rows for weight and bias: blocks of 64 rows; inside a block partial sum j has rows 8j to 8j+7, in
// ascending order, and takes partial sum j+h for h = 4, 2, 1. The sums of the blocks, [blocks n], are of the compute
// type, and the host launches their reduction.
constexpr uint32_t kRowPartials = 8, kPartialRows = 8;

// Spread is a block whose threads cache one four of a row each.
struct Spread : Block<4> {
  DEV_METHOD static uint32_t first() { return threadIdx.x / 32 * kFoldPartials; }
};

// Parameters are the sums over rows of a thread's elements: for the weight and for the bias.
template <class N, class Group> struct Parameters {
  Cached<N, Group::slots() ? Group::slots() : 1> scales{}, shifts{};
  // join adds the sums to others, which are those of rows in front.
  template <class S> DEV_METHOD void join(uint32_t n, const S& scale, const S& shift) {
    add_to(scales, n, scale);
    add_to(shifts, n, shift);
  }
  template <class To, class S> DEV_METHOD static void add_to(To& to, uint32_t n, const S& source) {
    each_four<Group>(n, source, [&](At at, const Four<N>& x) {
#pragma unroll
      for (int k = 0; k < 4; k++) to.value[at.slot + k] = math::add(x[k], to.value[at.slot + k]);
    });
  }
};

// spread_fold is the row_fold of a Spread and up to 4,096 elements: through a tile to threads that add up one partial
// sum each.
template <class N, class S> DEV Pair<N> spread_fold(uint32_t n, const S& source) {
  SHARED(Pair<N>, results, [kBlockWarps]);
  N* const first = shared_tile<N>();
  N* const second = first + n;
  each_four<Spread>(n, source, [&](At at, const Four<Pair<N>>& x) {
    Tile<N>{first}.set(at, each_of([](Pair<N> x) { return x.first; }, x));
    Tile<N>{second}.set(at, each_of([](Pair<N> x) { return x.second; }, x));
  });
  __syncthreads();
  const uint32_t warp = threadIdx.x / 32, from = threadIdx.x / kFoldPartials * kFoldBlock;
  Pair<N> sum = {0, 0};
#pragma unroll 4
  for (uint32_t i = from + threadIdx.x % kFoldPartials; i < lesser(n, from + kFoldBlock); i += kFoldPartials)
    sum = Sums::combine(sum, Pair<N>{first[i], second[i]});
  sum = warp_all<Sums>(sum);
  if (threadIdx.x % 32 == 0 && warp < kBlockWarps) results[warp] = sum;
  __syncthreads();
  const uint32_t j = threadIdx.x % kBlockWarps;
  sum = j < blockDim.x / 32 ? results[j] : Pair<N>{0, 0};
#pragma unroll
  for (int h = 1; h < kBlockWarps; h *= 2) sum = Sums::combine(sum, shuffle_xor(sum, h));
  return sum;
}

// norm_grad_row computes dx of row r, whose mean is c and whose rstd is scale. Of a cached row it adds g * h and g to
// the sums.
template <class T, class Group, class N, class Weight>
DEV void norm_grad_row(T* dx, const Rows& g_, const Rows& x_, uint64_t r, uint32_t n, bool layer, N c, N scale,
                       const Weight& weight, Parameters<N, Group>& sums) {
  const N count = (N)n;
  const Row<T, Group> x(x_, r), g_row(g_, r);
  const auto g = cached<Group>(n, g_row);
  const auto h_of_x = map([=](N x) { return math::mul(math::sub(x, c), scale); }, x);
  const auto h = cached<Group>(n, h_of_x);
  const auto gw = map([](N g, N w) { return math::mul(g, w); }, g, weight);
  const auto products = map([](N gw, N h) { return Pair<N>{gw, math::mul(gw, h)}; }, gw, h);
  Pair<N> dots;
  if constexpr (Same<Group, Spread>::value()) dots = spread_fold<N>(n, products);
  else dots = row_fold<Sums, Group>(n, products);
  const N p = layer ? math::div(dots.first, count) : N(0), q = math::div(dots.second, count);
  const auto result = map([=](N gw, N h) {
    return math::mul(math::sub(math::sub(gw, p), math::mul(h, q)), scale);
  }, gw, h);
  set_row<Group>(n, Line<T, Group>{dx + r * n}, result);
  if constexpr (Group::slots() > 0) {
    sums.add_to(sums.scales, n, map([](N g, N h) { return math::mul(g, h); }, g, h));
    sums.add_to(sums.shifts, n, g);
  }
}

// Centers are mean and rstd of the rows of a block.
template <class N> struct Centers { N mean[kRowPartials * kPartialRows], rstd[kRowPartials * kPartialRows]; };

// A barrier must follow read_centers.
template <class N>
DEV void read_centers(Centers<N>& to, const Rows& mean, const Rows& rstd, uint64_t first, uint64_t rows,
                      uint32_t each) {
  if (threadIdx.x >= kRowPartials * each || first + threadIdx.x >= rows) return;
  to.mean[threadIdx.x] = mean.data ? Row<N>(mean, first + threadIdx.x)(0) : N(0);
  to.rstd[threadIdx.x] = Row<N>(rstd, first + threadIdx.x)(0);
}

// put_sums writes the sums of a block, or of the rows that wait for others.
template <class Group, class N> DEV void put_sums(N* scales, N* shifts, uint32_t n, const Parameters<N, Group>& sums) {
  if (scales) set_row<Group>(n, Tile<N>{scales}, sums.scales);
  if (shifts) set_row<Group>(n, Tile<N>{shifts}, sums.shifts);
}

// With g and h of a row in registers, warp j of a block also computes partial sum j, if that is asked for. A warp has
// `each` rows, 8 in that case.
template <class T, class Group, class N = ComputeType<T>>
DEV void norm_grad(T* dx, N* dweight, N* dbias, const Rows& g, const Rows& x, const Rows& mean, const Rows& rstd,
                   const Rows& weight_, uint64_t rows, uint32_t n, uint32_t each) {
  SHARED(Centers<N>, centers, [1]);
  SHARED(N, weights, [Group::slots() ? 32 * Group::slots() : 1]);
  const uint32_t warp = threadIdx.x / 32;
  const uint64_t first = (uint64_t)blockIdx.x * kRowPartials * each;  // of the block
  read_centers(centers[0], mean, rstd, first, rows, each);
  const auto weight = parameter<T, Group>(weight_, N(1), weights, n);
  __syncthreads();
  Parameters<N, Group> sums;
#pragma unroll 1
  for (uint32_t k = warp * each; k < (warp + 1) * each && first + k < rows; k++)
    norm_grad_row<T>(dx, g, x, first + k, n, mean.data, centers[0].mean[k], centers[0].rstd[k], weight, sums);
  if constexpr (Group::slots() > 0) {
    if (!dweight && !dbias) return;
    SHARED(N, upper, [2][kRowPartials / 2][32 * Group::slots()]);
#pragma unroll 1
    for (uint32_t h = kRowPartials / 2; h > 0; h /= 2) {
      if (warp >= h && warp < 2 * h) put_sums(upper[0][warp - h], upper[1][warp - h], n, sums);
      __syncthreads();
      if (warp < h) sums.join(n, Tile<N>{upper[0][warp]}, Tile<N>{upper[1][warp]});
      __syncthreads();
    }
    const uint64_t at = (uint64_t)blockIdx.x * n;
    if (warp == 0) put_sums(dweight ? dweight + at : nullptr, dbias ? dbias + at : nullptr, n, sums);
  }
}

// The same for long rows: a block computes all partial sums, `each` rows of each one after the other. It takes them in
// the order in which the tree joins them, 0 4 2 6 1 5 3 7, so that at most one sum of each level waits: of the first
// level in registers, of the others, [2 2 n], in shared memory.
constexpr int kGradThreads = 1024;
template <class T, class N = ComputeType<T>>
DEV void norm_grad_long(T* dx, N* dweight, N* dbias, const Rows& g, const Rows& x, const Rows& mean, const Rows& rstd,
                        const Rows& weight_, uint64_t rows, uint32_t n, uint32_t each) {
  SHARED(Centers<N>, centers, [1]);
  const uint64_t first = (uint64_t)blockIdx.x * kRowPartials * each;
  read_centers(centers[0], mean, rstd, first, rows, each);
  const auto weight = cached<Spread>(n, Parameter<T, Spread>(weight_, N(1)));
  __syncthreads();
  Parameters<N, Spread> even;
#pragma unroll 1
  for (uint32_t k = 0; k < kRowPartials; k++) {
    const uint32_t index = (k & 1) << 2 | (k & 2) | k >> 2;
    Parameters<N, Spread> sums;
#pragma unroll 1
    for (uint32_t r = index * each; r < (index + 1) * each && first + r < rows; r++)
      norm_grad_row<T>(dx, g, x, first + r, n, mean.data, centers[0].mean[r], centers[0].rstd[r], weight, sums);
    if (k % 2 == 0) {
      even = sums;
      continue;
    }
    sums.join(n, even.scales, even.shifts);
    N* waiting = shared_tile<N>() + 2 * n;  // behind the products of a row
    uint32_t level = k / 2;
    for (; level % 2; level /= 2, waiting += 2 * n) sums.join(n, Tile<N>{waiting}, Tile<N>{waiting + n});
    if (k < kRowPartials - 1) {
      put_sums(waiting, waiting + n, n, sums);
    } else {
      const uint64_t at = (uint64_t)blockIdx.x * n;
      put_sums(dweight ? dweight + at : nullptr, dbias ? dbias + at : nullptr, n, sums);
    }
  }
}

constexpr int kColumns = 32;

// The sums alone, for rows of any length. Thread (c, j) has partial sum j of column c; blocks count columns first.
template <class T, class N = ComputeType<T>>
DEV void norm_parameters(N* dweight, N* dbias, const Rows& g_, const Rows& x_, const Rows& mean, const Rows& rstd,
                         uint64_t rows, uint32_t n) {
  SHARED(N, partial, [2][kRowPartials][kColumns]);
  const uint32_t c = threadIdx.x % kColumns, index = threadIdx.x / kColumns, across = (n + kColumns - 1) / kColumns;
  const uint64_t block = blockIdx.x / across, first = (block * kRowPartials + index) * kPartialRows;
  const uint32_t column = (uint32_t)(blockIdx.x - block * across) * kColumns + c;
  N scales = 0, shifts = 0;
  if (column < n)
#pragma unroll 2
    for (uint32_t k = 0; k < kPartialRows; k++) {
      const uint64_t r = first + k;
      if (r >= rows) break;
      const N g = Row<T>(g_, r)(column);
      const N m = mean.data ? Row<N>(mean, r)(0) : N(0);
      const N h = math::mul(math::sub(Row<T>(x_, r)(column), m), Row<N>(rstd, r)(0));
      scales = math::add(scales, math::mul(g, h));
      shifts = math::add(shifts, g);
    }
  partial[0][index][c] = scales;
  partial[1][index][c] = shifts;
  for (uint32_t h = kRowPartials / 2; h > 0; h /= 2) {
    __syncthreads();
    if (index < h)
      for (int k = 0; k < 2; k++) partial[k][index][c] = math::add(partial[k][index][c], partial[k][index + h][c]);
  }
  if (index || column >= n) return;
  const uint64_t at = block * n + column;
  if (dweight) dweight[at] = partial[0][0][c];
  if (dbias) dbias[at] = partial[1][0][c];
}

}  // namespace

#define GRAD_PARAMETERS(T)                                                                                   \
  (T* dx, ComputeType<T>* dweight, ComputeType<T>* dbias, Rows g, Rows x, Rows mean, Rows rstd, Rows weight, \
   uint64_t rows, uint32_t n, uint32_t each)

#define NORM_PARAMETERS(T)                                                                                        \
  (T* y, ComputeType<T>* mean, ComputeType<T>* rstd, Rows x, Rows weight, Rows bias, Residual sum, uint64_t rows, \
   uint32_t n, double eps)

#define NORM(suffix, T)                                                                                              \
  ENTRY(norm##suffix, kRowThreads, 3, NORM_PARAMETERS(T),                                                            \
        BY_LENGTH(Warp, slots, T, (n, y, x, weight, bias, sum), norm, y, mean, rstd, x, weight, bias, sum, rows, n,  \
                  eps))                                                                                              \
  ENTRY(norm_long##suffix, kBlockThreads / 2, 3, NORM_PARAMETERS(T),                                                 \
        BY_LENGTH(Block, slots, T, (n, y, x, weight, bias, sum), norm, y, mean, rstd, x, weight, bias, sum, rows, n, \
                  eps))                                                                                              \
  ENTRY(norm_grad##suffix, 32 * kRowPartials, 1, GRAD_PARAMETERS(T),                                                 \
        BY_LENGTH(Warp, slots, T, (n, dx, g, x, weight, dweight, dbias), norm_grad, dx, dweight, dbias, g, x, mean,  \
                  rstd, weight, rows, n, each))                                                                      \
  ENTRY(norm_parameters##suffix, kColumns * kRowPartials, 4,                                                         \
        (ComputeType<T>* dweight, ComputeType<T>* dbias, Rows g, Rows x, Rows mean, Rows rstd, uint64_t rows,        \
         uint32_t n),                                                                                                \
        norm_parameters<T>(dweight, dbias, g, x, mean, rstd, rows, n))

FLOATS(NORM)

// Rows of up to 4,096 elements, all wide.
#define LONG_GRADIENT(suffix, T)                                     \
  ENTRY(norm_grad_long##suffix, kGradThreads, 1, GRAD_PARAMETERS(T), \
        norm_grad_long<T>(dx, dweight, dbias, g, x, mean, rstd, weight, rows, n, each))
LONG_GRADIENT(_f32, float)
LONG_GRADIENT(_f16, f16)
LONG_GRADIENT(_bf16, bf16)
