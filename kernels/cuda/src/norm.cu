// Layer and RMS normalisation of rows:
//
//	mean = sum(x) / n                               (0 for RMS)
//	rstd = 1 / sqrt(sum((x - mean)^2) / n + eps)
//	h    = (x - mean) * rstd
//	y    = h * weight + bias
//
// and their gradients, with gw = g * weight:
//
//	dx      = ((gw - sum(gw)/n) - h * (sum(gw*h)/n)) * rstd
//	dweight = the sum of g * h over the rows
//	dbias   = the sum of g over the rows
//
// Missing operands and results are null. Results have no gaps; weight and bias are one row.
#include "rows.cuh"

// Residual is a sum x + y of operands without gaps, whose rows are normalised, and stored where the norm's operand lies. y has
// the type of x, or any of half precision beside float32. There is none if x is null.
struct Residual {
  const void* x;
  const void* y;
  uint64_t type;  // of y
};

// Two sums of a row at once.
template <class N> struct Pair { N first, second; };
struct Sums {
  template <class P> DEV_METHOD static P start() { return {0, 0}; }
  template <class P> DEV_METHOD static P combine(P x, P y) { return {num::add(x.first, y.first), num::add(x.second, y.second)}; }
};
template <class N> DEV Pair<N> shuffle_xor(Pair<N> x, int mask) { return {shuffle_xor(x.first, mask), shuffle_xor(x.second, mask)}; }

namespace {

// addend is a row of y.
template <class T, class Team> DEV auto addend(const Residual& sum, uint64_t first, uint32_t n) {
  using N = typename NumberOf<T>::Type;
  const auto of = [&](auto* y) { return kept<Team>(n, [&](Place i) { return number<N>(y[first + i]); }); };
  if constexpr (Same<T, float>::value()) {
    if (sum.type == kFloat16) return of(static_cast<const f16*>(sum.y));
    if (sum.type == kBFloat16) return of(static_cast<const bf16*>(sum.y));
  }
  return of(static_cast<const T*>(sum.y));
}

// norm_row is row r of what is normalised. Only rows that are kept may be those of a sum, which has no gaps and is rounded
// to elements as the sum alone would be.
template <class T, class Team> DEV auto norm_row(const Rows& a, const Residual& sum, uint64_t r, uint32_t n) {
  if constexpr (Team::slots() > 0) {
    if (sum.x) {
      using N = typename NumberOf<T>::Type;
      auto s = addend<T, Team>(sum, r * n, n);
      const T* x = static_cast<const T*>(sum.x) + r * n;
      T* to = static_cast<T*>(a.data) + r * n;
      row_each<Team>(n, [&](Place i) { s.value[i.slot] = number<N>(to[i] = element<T>(num::add(number<N>(x[i]), s(i)))); });
      return s;
    }
  }
  return kept<Team>(n, Row<T, Team>(a, r));
}

// mean and rstd are numbers, unrounded. A team takes every row whose distance is that of all teams; with rows that are kept a
// block keeps weight and bias in shared memory, so that they are read once for all of its rows.
template <class T, class Team, class N = typename NumberOf<T>::Type>
DEV void norm(T* y, N* mean, N* rstd, const Rows& x_, const Rows& weight_, const Rows& bias_, const Residual& sum, uint64_t rows, uint32_t n, double eps) {
  N* const weights = room<N>() + (Team::is_block() ? n : 0);
  const Row<T, Team> weight(weight_, 0), bias(bias_, 0);
  if constexpr (Team::slots() > 0) {
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
      if (weight_.data) weights[i] = weight(i);
      if (bias_.data) weights[n + i] = bias(i);
    }
    __syncthreads();
  }
#pragma unroll 1
  for (uint64_t r = Team::row(); r < rows; r += Team::rows()) {
    const auto x = norm_row<T, Team>(x_, sum, r, n);
    const N count = (N)n;
    N c = 0;
    if (mean) c = num::div(row_fold<Sum, N, Team>(n, x), count);
    const N squares = row_fold<Sum, N, Team>(n, [&](Place i) {
      const N d = num::sub(x(i), c);
      return num::mul(d, d);
    });
    const N scale = num::div(N(1), num::sqrt(num::add(num::div(squares, count), (N)eps)));
    if (Team::thread() == 0) {
      if (mean) mean[r] = c;
      rstd[r] = scale;
    }
    T* out = y + r * n;
    row_each<Team>(n, [&](Place i) {
      N v = num::mul(num::sub(x(i), c), scale);
      if (weight_.data) v = num::mul(v, Team::slots() ? weights[i] : weight(i));
      if (bias_.data) v = num::add(v, Team::slots() ? weights[n + i] : bias(i));
      out[i] = element<T>(v);
    });
  }
}

// The sums over rows for weight and bias: blocks of 64 rows; inside a block lane j has rows 8j to 8j+7, in ascending order,
// and takes lane j+h for h = 4, 2, 1. The sums of the blocks, [blocks n], are numbers, and the host adds them up.
constexpr uint32_t kLanes = 8, kLaneRows = 8;

// Parameters are the sums over rows of a thread's elements: for the weight and for the bias.
template <class N, class Team> struct Parameters {
  Kept<N, Team::slots() ? Team::slots() : 1> scales{}, shifts{};
};

// norm_grad_row computes dx of row r, whose mean is c and whose rstd is scale, and adds g and h to the sums of rows that are kept.
template <class T, class Team, class N, class Weight>
DEV void norm_grad_row(T* dx, const Rows& g_, const Rows& x_, uint64_t r, uint32_t n, bool layer, N c, N scale, Weight weight, Parameters<N, Team>& sums) {
  const N count = (N)n;
  const Row<T, Team> x(x_, r);
  const auto g = kept<Team>(n, Row<T, Team>(g_, r));
  const auto h = kept<Team>(n, [&](Place i) { return num::mul(num::sub(x(i), c), scale); });
  const auto gw = [&](Place i) { return num::mul(g(i), weight(i)); };
  const Pair<N> dots = row_fold<Sums, Pair<N>, Team>(n, [&](Place i) { return Pair<N>{gw(i), num::mul(gw(i), h(i))}; });
  const N p = layer ? num::div(dots.first, count) : N(0), q = num::div(dots.second, count);
  T* out = dx + r * n;
  row_each<Team>(n, [&](Place i) { out[i] = element<T>(num::mul(num::sub(num::sub(gw(i), p), num::mul(h(i), q)), scale)); });
  if constexpr (Team::slots() > 0)
    row_each<Team>(n, [&](Place i) {
      sums.scales.value[i.slot] = num::add(sums.scales(i), num::mul(g(i), h(i)));
      sums.shifts.value[i.slot] = num::add(sums.shifts(i), g(i));
    });
}

// Centers are mean and rstd of the rows of a block.
template <class N> struct Centers { N mean[kLanes * kLaneRows], rstd[kLanes * kLaneRows]; };

// read_centers needs a barrier behind it.
template <class N> DEV void read_centers(Centers<N>& to, const Rows& mean, const Rows& rstd, uint64_t first, uint64_t rows, uint32_t each) {
  if (threadIdx.x >= kLanes * each || first + threadIdx.x >= rows) return;
  to.mean[threadIdx.x] = mean.data ? Row<N>(mean, first + threadIdx.x)(0) : N(0);
  to.rstd[threadIdx.x] = Row<N>(rstd, first + threadIdx.x)(0);
}

// With g and h of a row in registers, warp j of a block adds up lane j, too, if that is wanted. A warp has `each` rows, then 8.
template <class T, class Team, class N = typename NumberOf<T>::Type>
DEV void norm_grad(T* dx, N* dweight, N* dbias, const Rows& g, const Rows& x, const Rows& mean, const Rows& rstd, const Rows& weight_, uint64_t rows,
                   uint32_t n, uint32_t each) {
  SHARED(Centers<N>, centers, [1]);
  SHARED(N, weights, [Team::slots() ? 32 * Team::slots() : 1]);
  const uint32_t warp = threadIdx.x / 32;
  const uint64_t first = (uint64_t)blockIdx.x * kLanes * each;  // of the block
  const Row<T, Team> weight_row(weight_, 0);
  const auto weight_at = [&](uint32_t i) { return weight_.data ? weight_row(i) : N(1); };
  read_centers(centers[0], mean, rstd, first, rows, each);
  if (Team::slots())
    for (uint32_t i = threadIdx.x; i < n; i += 32 * kLanes) weights[i] = weight_at(i);
  __syncthreads();
  const auto weight = [&](Place i) { return Team::slots() ? weights[i] : weight_at(i); };
  Parameters<N, Team> sums;
  for (uint32_t k = warp * each; k < (warp + 1) * each && first + k < rows; k++)
    norm_grad_row<T>(dx, g, x, first + k, n, mean.data, centers[0].mean[k], centers[0].rstd[k], weight, sums);
  if constexpr (Team::slots() > 0) {
    if (!dweight && !dbias) return;
    SHARED(N, upper, [2][kLanes / 2][32 * Team::slots()]);
#pragma unroll 1
    for (uint32_t h = kLanes / 2; h > 0; h /= 2) {
      if (warp >= h && warp < 2 * h)
        row_each<Team>(n, [&](Place i) {
          upper[0][warp - h][i] = sums.scales(i);
          upper[1][warp - h][i] = sums.shifts(i);
        });
      __syncthreads();
      if (warp < h)
        row_each<Team>(n, [&](Place i) {
          sums.scales.value[i.slot] = num::add(sums.scales(i), upper[0][warp][i]);
          sums.shifts.value[i.slot] = num::add(sums.shifts(i), upper[1][warp][i]);
        });
      __syncthreads();
    }
    if (warp) return;
    const uint64_t at = (uint64_t)blockIdx.x * n;
    row_each<Team>(n, [&](Place i) {
      if (dweight) dweight[at + i] = sums.scales(i);
      if (dbias) dbias[at + i] = sums.shifts(i);
    });
  }
}

// The same for long rows: a block has all lanes, `each` rows of a lane one after the other. It takes lanes in the order in which
// the tree joins them, 0 4 2 6 1 5 3 7, so that at most one sum of each level waits: of the first in registers, of the others,
// [2 2 n], in shared memory.
constexpr int kGradThreads = 1024;
template <class T, class N = typename NumberOf<T>::Type>
DEV void norm_grad_long(T* dx, N* dweight, N* dbias, const Rows& g, const Rows& x, const Rows& mean, const Rows& rstd, const Rows& weight_, uint64_t rows,
                        uint32_t n, uint32_t each) {
  using Team = Block<16 / sizeof(N)>;
  SHARED(Centers<N>, centers, [1]);
  const uint64_t first = (uint64_t)blockIdx.x * kLanes * each;
  const Row<T, Team> weight_row(weight_, 0);
  read_centers(centers[0], mean, rstd, first, rows, each);
  const auto weight = kept<Team>(n, [&](Place i) { return weight_.data ? weight_row(i) : N(1); });
  __syncthreads();
  Parameters<N, Team> even;
#pragma unroll 1
  for (uint32_t k = 0; k < kLanes; k++) {
    const uint32_t lane = (k & 1) << 2 | (k & 2) | k >> 2;
    Parameters<N, Team> sums;
#pragma unroll 1
    for (uint32_t r = lane * each; r < (lane + 1) * each && first + r < rows; r++)
      norm_grad_row<T>(dx, g, x, first + r, n, mean.data, centers[0].mean[r], centers[0].rstd[r], weight, sums);
    if (k % 2 == 0) {
      even = sums;
      continue;
    }
    const auto join = [&](Place i, N scale, N shift) {
      sums.scales.value[i.slot] = num::add(scale, sums.scales(i));
      sums.shifts.value[i.slot] = num::add(shift, sums.shifts(i));
    };
    row_each<Team>(n, [&](Place i) { join(i, even.scales(i), even.shifts(i)); });
    N* waiting = room<N>() + 2 * n;  // behind the sums of a row
    uint32_t level = k / 2;
    for (; level % 2; level /= 2, waiting += 2 * n) row_each<Team>(n, [&](Place i) { join(i, waiting[i], waiting[n + i]); });
    const bool all = k == kLanes - 1;
    N* const scales = all ? dweight + (uint64_t)blockIdx.x * n : waiting;
    N* const shifts = all ? dbias + (uint64_t)blockIdx.x * n : waiting + n;
    row_each<Team>(n, [&](Place i) {
      if (!all || dweight) scales[i] = sums.scales(i);
      if (!all || dbias) shifts[i] = sums.shifts(i);
    });
  }
}

constexpr int kColumns = 32;

// The sums alone, for rows of any length. Thread (c, j) has lane j of column c; blocks of threads go along the columns first.
template <class T, class N = typename NumberOf<T>::Type>
DEV void norm_parameters(N* dweight, N* dbias, const Rows& g_, const Rows& x_, const Rows& mean, const Rows& rstd, uint64_t rows, uint32_t n) {
  SHARED(N, partial, [2][kLanes][kColumns]);
  const uint32_t c = threadIdx.x % kColumns, lane = threadIdx.x / kColumns, across = (n + kColumns - 1) / kColumns;
  const uint64_t block = blockIdx.x / across, first = (block * kLanes + lane) * kLaneRows;
  const uint32_t column = (uint32_t)(blockIdx.x - block * across) * kColumns + c;
  N scales = 0, shifts = 0;
  if (column < n)
#pragma unroll 2
    for (uint32_t k = 0; k < kLaneRows; k++) {
      const uint64_t r = first + k;
      if (r >= rows) break;
      const N g = Row<T>(g_, r)(column);
      const N m = mean.data ? Row<N>(mean, r)(0) : N(0);
      const N h = num::mul(num::sub(Row<T>(x_, r)(column), m), Row<N>(rstd, r)(0));
      scales = num::add(scales, num::mul(g, h));
      shifts = num::add(shifts, g);
    }
  partial[0][lane][c] = scales;
  partial[1][lane][c] = shifts;
  for (uint32_t h = kLanes / 2; h > 0; h /= 2) {
    __syncthreads();
    if (lane < h)
      for (int k = 0; k < 2; k++) partial[k][lane][c] = num::add(partial[k][lane][c], partial[k][lane + h][c]);
  }
  if (lane || column >= n) return;
  const uint64_t at = block * n + column;
  if (dweight) dweight[at] = partial[0][0][c];
  if (dbias) dbias[at] = partial[1][0][c];
}

}  // namespace

#define NORM(suffix, T)                                                                                                    \
  ROW_KERNELS(norm, suffix, T, (T* y, NumberOf<T>::Type* mean, NumberOf<T>::Type* rstd, Rows x, Rows weight, Rows bias,    \
                                Residual sum, uint64_t rows, uint32_t n, double eps),                                      \
              (n, x, weight, bias), y, mean, rstd, x, weight, bias, sum, rows, n, eps)                                     \
  KERNEL(norm_grad##suffix, 32 * kLanes, 1)(T* dx, NumberOf<T>::Type* dweight, NumberOf<T>::Type* dbias, Rows g, Rows x, Rows mean, Rows rstd, Rows weight, \
                                            uint64_t rows, uint32_t n, uint32_t each) {                                    \
    BY_LENGTH(Warp, T, (n, g, x, weight), norm_grad, dx, dweight, dbias, g, x, mean, rstd, weight, rows, n, each);         \
  }                                                                                                                        \
  EXPORT(norm_grad##suffix);                                                                                               \
  KERNEL(norm_grad_long##suffix, kGradThreads, 1)(T* dx, NumberOf<T>::Type* dweight, NumberOf<T>::Type* dbias, Rows g, Rows x, Rows mean, Rows rstd, \
                                                  Rows weight, uint64_t rows, uint32_t n, uint32_t each) {                 \
    norm_grad_long<T>(dx, dweight, dbias, g, x, mean, rstd, weight, rows, n, each);                                        \
  }                                                                                                                        \
  EXPORT(norm_grad_long##suffix);                                                                                          \
  KERNEL(norm_parameters##suffix, kColumns * kLanes, 4)(NumberOf<T>::Type* dweight, NumberOf<T>::Type* dbias, Rows g, Rows x, Rows mean, Rows rstd, \
                                                         uint64_t rows, uint32_t n) {                                      \
    norm_parameters<T>(dweight, dbias, g, x, mean, rstd, rows, n);                                                         \
  }                                                                                                                        \
  EXPORT(norm_parameters##suffix);

FLOATS(NORM)
