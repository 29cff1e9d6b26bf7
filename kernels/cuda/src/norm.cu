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

// mean and rstd are of the compute type, unrounded. Groups find weight and bias in the first-level cache, where those
// before have left them: blocks that kept them in shared memory for many rows would be fewer.
template <class T, class Group, class N = ComputeType<T>>
DEV void norm(T* y, N* mean, N* rstd, const Rows& x_, const Rows& weight_, const Rows& bias_, const Residual& sum,
              uint64_t rows, uint32_t n, double eps) {
  const uint64_t r = Group::row();
  if (r >= rows) return;
  const Parameter<T, Group> weight(weight_, N(1)), bias(bias_, -N(0));
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

// The sums over rows for weight and bias: blocks of 64 rows; inside a block partial sum j has rows 8j to 8j+7, in
// ascending order, and takes partial sum j+h for h = 4, 2, 1. The sums of the blocks, [blocks n], are of the compute
// type, and the host launches their reduction.
constexpr uint32_t kRowPartials = 8, kPartialRows = 8;

// Spread is a block whose threads cache as many elements of a row as a partial sum has, so that each partial sum has a
// thread.
constexpr uint32_t kSpread = kFoldBlock / kFoldPartials;
struct Spread : Block<kSpread> {
  DEV_METHOD static uint32_t first() { return threadIdx.x / 32 * 32 * kSpread; }
  DEV_METHOD static uint32_t width() { return blockDim.x * kSpread; }  // of a row and the elements missing behind it
};

// Parameters are the sums over rows of a thread's elements: for the weight and for the bias.
template <class N, class Group> struct Parameters {
  Cached<N, Group::slots() ? Group::slots() : 1> scales{}, shifts{};
  // join adds the sums to others, which are those of rows in front.
  template <class S> DEV_METHOD void join(uint32_t n, const S& scale, const S& shift) {
    add_to(scales, n, scale);
    add_to(shifts, n, shift);
  }
  // take adds those of a row.
  template <class G, class H> DEV_METHOD void take(uint32_t n, const G& g, const H& h) {
    add_to(scales, n, map([](N g, N h) { return math::mul(g, h); }, g, h));
    add_to(shifts, n, g);
  }
  template <class To, class S> DEV_METHOD static void add_to(To& to, uint32_t n, const S& source) {
    each_four<Group>(n, source, [&](At at, const Four<N>& x) {
#pragma unroll
      for (int k = 0; k < 4; k++) to.value[at.slot + k] = math::add(x[k], to.value[at.slot + k]);
    });
  }
};

// normalised is h of a row x.
template <class N, class S> DEV auto normalised(const S& x, N mean, N rstd) {
  return map([=](N x) { return math::mul(math::sub(x, mean), rstd); }, x);
}

// spread_fold is the row_fold of a Spread, through a tile to threads that add up one partial sum each. The tile is 0
// behind the row.
template <class N, class S> DEV Pair<N> spread_fold(uint32_t n, const S& source) {
  N* const first = shared_tile<N>();
  N* const second = first + Spread::width();
  each_four<Spread>(n, source, [&](At at, const Four<Pair<N>>& x) {
    Tile<N>{first}.set(at, each_of([](Pair<N> x) { return x.first; }, x));
    Tile<N>{second}.set(at, each_of([](Pair<N> x) { return x.second; }, x));
  });
  __syncthreads();
  const uint32_t from = threadIdx.x / kFoldPartials * kFoldBlock + threadIdx.x % kFoldPartials;
  Pair<N> sum = {0, 0};
#pragma unroll
  for (uint32_t i = 0; i < kFoldBlock; i += kFoldPartials)
    sum = Sums::combine(sum, Pair<N>{first[from + i], second[from + i]});
  return group_all<Sums, Spread>(sum);
}

// norm_grad_row computes dx of row r, whose mean is c and whose rstd is scale. Of a cached row it adds g * h and g to
// the sums.
template <class T, class Group, class N, class Weight>
DEV void norm_grad_row(T* dx, const Rows& g_, const Rows& x_, uint64_t r, uint32_t n, bool layer, N c, N scale,
                       const Weight& weight, Parameters<N, Group>& sums) {
  const N count = (N)n;
  const Row<T, Group> x(x_, r), g_row(g_, r);
  const auto g = cached<Group>(n, g_row);
  const auto h_of_x = normalised(x, c, scale);
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
  if constexpr (Group::slots() > 0) sums.take(n, g, h);
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

// join_partials joins the partial sums of the warps of a block, each of n columns; warp 0 gets the sums.
template <class Group, class N> DEV void join_partials(uint32_t n, Parameters<N, Group>& sums) {
  SHARED(N, upper, [2][kRowPartials / 2][32 * Group::slots()]);
  const uint32_t warp = threadIdx.x / 32;
#pragma unroll 1
  for (uint32_t h = kRowPartials / 2; h > 0; h /= 2) {
    if (warp >= h && warp < 2 * h) put_sums(upper[0][warp - h], upper[1][warp - h], n, sums);
    __syncthreads();
    if (warp < h) sums.join(n, Tile<N>{upper[0][warp]}, Tile<N>{upper[1][warp]});
    __syncthreads();
  }
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
    join_partials(n, sums);
    const uint64_t at = (uint64_t)blockIdx.x * n;
    if (warp == 0) put_sums(dweight ? dweight + at : nullptr, dbias ? dbias + at : nullptr, n, sums);
  }
}

// The same for long rows: a block computes all partial sums, `each` rows of each one after the other. It takes them in
// the order in which the tree joins them, 0 4 2 6 1 5 3 7, so that at most one sum of each level waits: of the first
// level in registers, of the others, [2 2 n], in shared memory.
constexpr int kGradThreads = 256;
template <class T, class N = ComputeType<T>>
DEV void norm_grad_long(T* dx, N* dweight, N* dbias, const Rows& g, const Rows& x, const Rows& mean, const Rows& rstd,
                        const Rows& weight_, uint64_t rows, uint32_t n, uint32_t each) {
  SHARED(Centers<N>, centers, [1]);
  const uint64_t first = (uint64_t)blockIdx.x * kRowPartials * each;
  read_centers(centers[0], mean, rstd, first, rows, each);
  const Parameter<T, Spread> weight(weight_, N(1));  // from the first-level cache: registers for two blocks
  N* const tile = shared_tile<N>();
  const uint32_t width = Spread::width();
  for (uint32_t i = n + threadIdx.x; i < width; i += blockDim.x) tile[i] = tile[width + i] = 0;
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
    N* waiting = tile + 2 * width;
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

// dx alone, for rows of any length, a block to each.
template <class T, class Group, class N = ComputeType<T>>
DEV void norm_grad_longer(T* dx, const Rows& g, const Rows& x, const Rows& mean, const Rows& rstd, const Rows& weight_,
                          uint32_t n) {
  const Parameter<T, Group> weight(weight_, N(1));
  Parameters<N, Group> none;
  const uint64_t r = Group::row();
  norm_grad_row<T>(dx, g, x, r, n, mean.data, mean.data ? Row<N>(mean, r)(0) : N(0), Row<N>(rstd, r)(0), weight, none);
}

// The sums alone, for rows of any length. Warp j of a block has partial sum j of 128 columns; blocks count columns
// first.
constexpr int kColumns = 128;
template <class T, class Group, class N = ComputeType<T>>
DEV void norm_parameters(N* dweight, N* dbias, const Rows& g_, const Rows& x_, const Rows& mean, const Rows& rstd,
                         uint64_t rows, uint32_t n) {
  SHARED(Centers<N>, centers, [1]);
  SHARED(Start, starts, [2][kRowPartials * kPartialRows]);  // of the rows of g and x
  const uint32_t warp = threadIdx.x / 32, across = (n + kColumns - 1) / kColumns;
  const uint64_t block = blockIdx.x / across, first = block * kRowPartials * kPartialRows;
  const uint32_t i = (uint32_t)(blockIdx.x - block * across) * kColumns + own_index();
  const At at{i, 0, i < n ? lesser(n - i, 4) : 0};
  read_centers(centers[0], mean, rstd, first, rows, kPartialRows);
  if (threadIdx.x < kRowPartials * kPartialRows) {
    const uint64_t r = first + threadIdx.x < rows ? first + threadIdx.x : rows - 1;
    starts[0][threadIdx.x] = {offset_of(g_.rows, r)};
    starts[1][threadIdx.x] = {offset_of(x_.rows, r)};
  }
  __syncthreads();
  Parameters<N, Warp<4>> sums;
  constexpr uint32_t kAhead = 16 / sizeof(N);
  const uint32_t end = at.count ? (warp + 1) * kPartialRows : 0;
#pragma unroll 1
  for (uint32_t r = warp * kPartialRows; r < end && first + r < rows; r += kAhead) {
    Cached<N, 4> g[kAhead], x[kAhead];
#pragma unroll
    for (uint32_t k = 0; k < kAhead; k++) {
      g[k].set(at, Row<T, Group>(g_, starts[0][r + k]).four(at));
      x[k].set(at, Row<T, Group>(x_, starts[1][r + k]).four(at));
    }
#pragma unroll
    for (uint32_t k = 0; k < kAhead; k++)
      if (first + r + k < rows)
        sums.take(kColumns, g[k], normalised(x[k], centers[0].mean[r + k], centers[0].rstd[r + k]));
  }
  join_partials(kColumns, sums);
  if (warp > 0) return;
  if (dweight) Line<N, Group>{dweight + block * n}.set(at, sums.scales.four(at));
  if (dbias) Line<N, Group>{dbias + block * n}.set(at, sums.shifts.four(at));
}

}  // namespace

#define GRAD_PARAMETERS(T)                                                                                   \
  (T* dx, ComputeType<T>* dweight, ComputeType<T>* dbias, Rows g, Rows x, Rows mean, Rows rstd, Rows weight, \
   uint64_t rows, uint32_t n, uint32_t each)

#define NORM_PARAMETERS(T)                                                                                        \
  (T* y, ComputeType<T>* mean, ComputeType<T>* rstd, Rows x, Rows weight, Rows bias, Residual sum, uint64_t rows, \
   uint32_t n, double eps)

// Blocks of long rows on a multiprocessor: some compilers for other GPUs spill registers of two.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != 900
constexpr int kLongBlocks = 1;
#else
constexpr int kLongBlocks = 2;
#endif

#define NORM(suffix, T)                                                                                              \
  ENTRY(norm##suffix, kRowThreads, 4, NORM_PARAMETERS(T),                                                              \
        BY_LENGTH(Warp, slots, T, (n, y, x, weight, bias, sum), norm, y, mean, rstd, x, weight, bias, sum, rows, n,  \
                  eps))                                                                                              \
  ENTRY(norm_long##suffix, kBlockThreads, kLongBlocks, NORM_PARAMETERS(T),                                             \
        BY_LENGTH(Block, slots, T, (n, y, x, weight, bias, sum), norm, y, mean, rstd, x, weight, bias, sum, rows, n, \
                  eps))                                                                                              \
  ENTRY(norm_grad##suffix, 32 * kRowPartials, 1, GRAD_PARAMETERS(T),                                                 \
        BY_LENGTH(Warp, slots, T, (n, dx, g, x, weight, dweight, dbias), norm_grad, dx, dweight, dbias, g, x, mean,  \
                  rstd, weight, rows, n, each))                                                                      \
  ENTRY(norm_grad_longer##suffix, kBlockThreads, (sizeof(ComputeType<T>) > 4 ? 1 : 2),                               \
        (T* dx, Rows g, Rows x, Rows mean, Rows rstd, Rows weight, uint32_t n),                                      \
        BY_LENGTH(Block, read_once, T, (n, dx, g, x, weight), norm_grad_longer, dx, g, x, mean, rstd, weight, n))    \
  ENTRY(norm_parameters##suffix, 32 * kRowPartials, 3,                                                               \
        (ComputeType<T>* dweight, ComputeType<T>* dbias, Rows g, Rows x, Rows mean, Rows rstd, uint64_t rows,        \
         uint32_t n),                                                                                                \
        BY_LENGTH(Warp, read_once, T, (n, g, x, dweight, dbias), norm_parameters, dweight, dbias, g, x, mean, rstd,  \
                  rows, n))

FLOATS(NORM)

// Rows of up to 4,096 elements, all wide.
#define LONG_GRADIENT(suffix, T)                                     \
  ENTRY(norm_grad_long##suffix, kGradThreads, 2, GRAD_PARAMETERS(T), \
        norm_grad_long<T>(dx, dweight, dbias, g, x, mean, rstd, weight, rows, n, each))
LONG_GRADIENT(_f32, float)
LONG_GRADIENT(_f16, f16)
LONG_GRADIENT(_bf16, bf16)
