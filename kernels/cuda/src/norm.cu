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
// Missing operands and results are null. Results are contiguous; weight and bias are one row.
#include "row.cuh"

// Residual is a sum x + y of contiguous operands, whose rows are normalised, and stored in the norm's operand. y has
// the type of x, or half precision where x is float32. There is none if x is null.
struct Residual {
  const void* x;
  const void* y;
  uint64_t type;  // of y
};

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

// addend is a row of y.
template <class T, class Group> DEV auto addend(const Residual& sum, uint64_t first, uint32_t n) {
  using N = ComputeType<T>;
  const auto of = [&](auto* y) {
    return cached<Group>(n, [&](ElementIndex i) { return to_compute<N>(y[first + i]); });
  };
  if constexpr (Same<T, float>::value()) {
    if (sum.type == kFloat16) return of(static_cast<const f16*>(sum.y));
    if (sum.type == kBFloat16) return of(static_cast<const bf16*>(sum.y));
  }
  return of(static_cast<const T*>(sum.y));
}

// norm_row is row r of what is normalised. Only cached rows may be those of a sum, which is contiguous, and rounded to
// elements as an addition of its own would be.
template <class T, class Group> DEV auto norm_row(const Rows& a, const Residual& sum, uint64_t r, uint32_t n) {
  if constexpr (Group::slots() > 0) {
    if (sum.x) {
      using N = ComputeType<T>;
      auto s = addend<T, Group>(sum, r * n, n);
      const T* x = static_cast<const T*>(sum.x) + r * n;
      T* to = static_cast<T*>(a.data) + r * n;
      row_each<Group>(n, [&](ElementIndex i) {
        s.value[i.slot] = to_compute<N>(to[i] = to_element<T>(math::add(to_compute<N>(x[i]), s(i))));
      });
      return s;
    }
  }
  return cached<Group>(n, Row<T, Group>(a, r));
}

// mean and rstd are of the compute type, unrounded. A grid-stride loop gives rows to thread groups; with cached rows a
// block has weight and bias in shared memory, so that it reads them once for all of its rows.
template <class T, class Group, class N = ComputeType<T>>
DEV void norm(T* y, N* mean, N* rstd, const Rows& x_, const Rows& weight_, const Rows& bias_, const Residual& sum,
              uint64_t rows, uint32_t n, double eps) {
  N* const weights = shared_tile<N>() + (Group::is_block() ? n : 0);
  const Row<T, Group> weight(weight_, 0), bias(bias_, 0);
  if constexpr (Group::slots() > 0) {
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
      if (weight_.data) weights[i] = weight(i);
      if (bias_.data) weights[n + i] = bias(i);
    }
    __syncthreads();
  }
#pragma unroll 1
  for (uint64_t r = Group::row(); r < rows; r += Group::rows()) {
    const auto x = norm_row<T, Group>(x_, sum, r, n);
    const N count = (N)n;
    N c = 0;
    if (mean) c = math::div(row_fold<Sum, N, Group>(n, x), count);
    const N squares = row_fold<Sum, N, Group>(n, [&](ElementIndex i) {
      const N d = math::sub(x(i), c);
      return math::mul(d, d);
    });
    const N scale = math::div(N(1), math::sqrt(math::add(math::div(squares, count), (N)eps)));
    if (Group::thread() == 0) {
      if (mean) mean[r] = c;
      rstd[r] = scale;
    }
    T* out = y + r * n;
    row_each<Group>(n, [&](ElementIndex i) {
      N v = math::mul(math::sub(x(i), c), scale);
      if (weight_.data) v = math::mul(v, Group::slots() ? weights[i] : weight(i));
      if (bias_.data) v = math::add(v, Group::slots() ? weights[n + i] : bias(i));
      out[i] = to_element<T>(v);
    });
  }
}

// The sums over rows for weight and bias: blocks of 64 rows; inside a block partial sum j has rows 8j to 8j+7, in
// ascending order, and takes partial sum j+h for h = 4, 2, 1. The sums of the blocks, [blocks n], are of the compute
// type, and the host launches their reduction.
constexpr uint32_t kRowPartials = 8, kPartialRows = 8;

// Parameters are the sums over rows of a thread's elements: for the weight and for the bias.
template <class N, class Group> struct Parameters {
  Cached<N, Group::slots() ? Group::slots() : 1> scales{}, shifts{};
};

// norm_grad_row computes dx of row r, whose mean is c and whose rstd is scale. Of a cached row it adds g * h and g to
// the sums.
template <class T, class Group, class N, class Weight>
DEV void norm_grad_row(T* dx, const Rows& g_, const Rows& x_, uint64_t r, uint32_t n, bool layer, N c, N scale,
                       Weight weight, Parameters<N, Group>& sums) {
  const N count = (N)n;
  const Row<T, Group> x(x_, r);
  const auto g = cached<Group>(n, Row<T, Group>(g_, r));
  const auto h = cached<Group>(n, [&](ElementIndex i) { return math::mul(math::sub(x(i), c), scale); });
  const auto gw = [&](ElementIndex i) { return math::mul(g(i), weight(i)); };
  const Pair<N> dots =
      row_fold<Sums, Pair<N>, Group>(n, [&](ElementIndex i) { return Pair<N>{gw(i), math::mul(gw(i), h(i))}; });
  const N p = layer ? math::div(dots.first, count) : N(0), q = math::div(dots.second, count);
  T* out = dx + r * n;
  row_each<Group>(n, [&](ElementIndex i) {
    out[i] = to_element<T>(math::mul(math::sub(math::sub(gw(i), p), math::mul(h(i), q)), scale));
  });
  if constexpr (Group::slots() > 0)
    row_each<Group>(n, [&](ElementIndex i) {
      sums.scales.value[i.slot] = math::add(sums.scales(i), math::mul(g(i), h(i)));
      sums.shifts.value[i.slot] = math::add(sums.shifts(i), g(i));
    });
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

// With g and h of a row in registers, warp j of a block also computes partial sum j, if that is asked for. A warp has
// `each` rows, 8 in that case.
template <class T, class Group, class N = ComputeType<T>>
DEV void norm_grad(T* dx, N* dweight, N* dbias, const Rows& g, const Rows& x, const Rows& mean, const Rows& rstd,
                   const Rows& weight_, uint64_t rows, uint32_t n, uint32_t each) {
  SHARED(Centers<N>, centers, [1]);
  SHARED(N, weights, [Group::slots() ? 32 * Group::slots() : 1]);
  const uint32_t warp = threadIdx.x / 32;
  const uint64_t first = (uint64_t)blockIdx.x * kRowPartials * each;  // of the block
  const Row<T, Group> weight_row(weight_, 0);
  const auto weight_at = [&](uint32_t i) { return weight_.data ? weight_row(i) : N(1); };
  read_centers(centers[0], mean, rstd, first, rows, each);
  if (Group::slots())
    for (uint32_t i = threadIdx.x; i < n; i += 32 * kRowPartials) weights[i] = weight_at(i);
  __syncthreads();
  const auto weight = [&](ElementIndex i) { return Group::slots() ? weights[i] : weight_at(i); };
  Parameters<N, Group> sums;
  for (uint32_t k = warp * each; k < (warp + 1) * each && first + k < rows; k++)
    norm_grad_row<T>(dx, g, x, first + k, n, mean.data, centers[0].mean[k], centers[0].rstd[k], weight, sums);
  if constexpr (Group::slots() > 0) {
    if (!dweight && !dbias) return;
    SHARED(N, upper, [2][kRowPartials / 2][32 * Group::slots()]);
#pragma unroll 1
    for (uint32_t h = kRowPartials / 2; h > 0; h /= 2) {
      if (warp >= h && warp < 2 * h)
        row_each<Group>(n, [&](ElementIndex i) {
          upper[0][warp - h][i] = sums.scales(i);
          upper[1][warp - h][i] = sums.shifts(i);
        });
      __syncthreads();
      if (warp < h)
        row_each<Group>(n, [&](ElementIndex i) {
          sums.scales.value[i.slot] = math::add(sums.scales(i), upper[0][warp][i]);
          sums.shifts.value[i.slot] = math::add(sums.shifts(i), upper[1][warp][i]);
        });
      __syncthreads();
    }
    if (warp) return;
    const uint64_t at = (uint64_t)blockIdx.x * n;
    row_each<Group>(n, [&](ElementIndex i) {
      if (dweight) dweight[at + i] = sums.scales(i);
      if (dbias) dbias[at + i] = sums.shifts(i);
    });
  }
}

// The same for long rows: a block computes all partial sums, `each` rows of each one after the other. It takes them in
// the order in which the tree joins them, 0 4 2 6 1 5 3 7, so that at most one sum of each level waits: of the first
// level in registers, of the others, [2 2 n], in shared memory.
constexpr int kGradThreads = 1024;
template <class T, class N = ComputeType<T>>
DEV void norm_grad_long(T* dx, N* dweight, N* dbias, const Rows& g, const Rows& x, const Rows& mean, const Rows& rstd,
                        const Rows& weight_, uint64_t rows, uint32_t n, uint32_t each) {
  using Group = Block<16 / sizeof(N)>;
  SHARED(Centers<N>, centers, [1]);
  const uint64_t first = (uint64_t)blockIdx.x * kRowPartials * each;
  const Row<T, Group> weight_row(weight_, 0);
  read_centers(centers[0], mean, rstd, first, rows, each);
  const auto weight = cached<Group>(n, [&](ElementIndex i) { return weight_.data ? weight_row(i) : N(1); });
  __syncthreads();
  Parameters<N, Group> even;
#pragma unroll 1
  for (uint32_t k = 0; k < kRowPartials; k++) {
    const uint32_t index = (k & 1) << 2 | (k & 2) | k >> 2;
    Parameters<N, Group> sums;
#pragma unroll 1
    for (uint32_t r = index * each; r < (index + 1) * each && first + r < rows; r++)
      norm_grad_row<T>(dx, g, x, first + r, n, mean.data, centers[0].mean[r], centers[0].rstd[r], weight, sums);
    if (k % 2 == 0) {
      even = sums;
      continue;
    }
    const auto join = [&](ElementIndex i, N scale, N shift) {
      sums.scales.value[i.slot] = math::add(scale, sums.scales(i));
      sums.shifts.value[i.slot] = math::add(shift, sums.shifts(i));
    };
    row_each<Group>(n, [&](ElementIndex i) { join(i, even.scales(i), even.shifts(i)); });
    N* waiting = shared_tile<N>() + 2 * n;  // behind the sums of a row
    uint32_t level = k / 2;
    for (; level % 2; level /= 2, waiting += 2 * n)
      row_each<Group>(n, [&](ElementIndex i) { join(i, waiting[i], waiting[n + i]); });
    const bool all = k == kRowPartials - 1;
    N* const scales = all ? dweight + (uint64_t)blockIdx.x * n : waiting;
    N* const shifts = all ? dbias + (uint64_t)blockIdx.x * n : waiting + n;
    row_each<Group>(n, [&](ElementIndex i) {
      if (!all || dweight) scales[i] = sums.scales(i);
      if (!all || dbias) shifts[i] = sums.shifts(i);
    });
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

#define NORM(suffix, T)                                                                                                \
  ROW_KERNELS(norm, suffix, T, (T* y, ComputeType<T>* mean, ComputeType<T>* rstd, Rows x, Rows weight, Rows bias,      \
                                Residual sum, uint64_t rows, uint32_t n, double eps),                                  \
              (n, x, weight, bias), y, mean, rstd, x, weight, bias, sum, rows, n, eps)                                 \
  ENTRY(norm_grad##suffix, 32 * kRowPartials, 1, GRAD_PARAMETERS(T),                                                   \
        BY_LENGTH(Warp, T, (n, g, x, weight), norm_grad, dx, dweight, dbias, g, x, mean, rstd, weight, rows, n, each)) \
  ENTRY(norm_grad_long##suffix, kGradThreads, 1, GRAD_PARAMETERS(T),                                                   \
        norm_grad_long<T>(dx, dweight, dbias, g, x, mean, rstd, weight, rows, n, each))                                \
  ENTRY(norm_parameters##suffix, kColumns * kRowPartials, 4,                                                           \
        (ComputeType<T>* dweight, ComputeType<T>* dbias, Rows g, Rows x, Rows mean, Rows rstd, uint64_t rows,          \
         uint32_t n),                                                                                                  \
        norm_parameters<T>(dweight, dbias, g, x, mean, rstd, rows, n))

FLOATS(NORM)
