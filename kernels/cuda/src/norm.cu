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

namespace {

// sum_row is a row of x + y, rounded to elements as the sum alone would be.
template <class T, class Y, uint32_t SLOTS> DEV auto sum_row(const Residual& sum, uint64_t first, uint32_t n) {
  using N = typename NumberOf<T>::Type;
  const T* x = static_cast<const T*>(sum.x) + first;
  const Y* y = static_cast<const Y*>(sum.y) + first;
  return kept<SLOTS>(n, [&](Place i) { return number<N>(element<T>(num::add(number<N>(x[i]), number<N>(y[i])))); });
}

template <class T, uint32_t SLOTS> DEV auto sum_row_of(const Residual& sum, uint64_t first, uint32_t n) {
  if constexpr (Same<T, float>::value()) {
    if (sum.type == kFloat16) return sum_row<T, f16, SLOTS>(sum, first, n);
    if (sum.type == kBFloat16) return sum_row<T, bf16, SLOTS>(sum, first, n);
  }
  return sum_row<T, T, SLOTS>(sum, first, n);
}

// norm_row is row r of what is normalised. Only short rows may be those of a sum.
template <class T, uint32_t SLOTS> DEV auto norm_row(const Rows& x_, const Residual& sum, uint64_t r, uint32_t n) {
  const Row<T, SLOTS> x(x_, r);
  if constexpr (SLOTS > 0) {
    if (sum.x) {
      const auto s = sum_row_of<T, SLOTS>(sum, r * n, n);
      row_each<SLOTS>(n, [&](Place i) { x.set(i, s(i)); });
      return s;
    }
  }
  return kept<SLOTS>(n, x);
}

// mean and rstd are numbers, unrounded. A warp takes every row whose distance is that of all warps; for short rows a block
// keeps weight and bias, so that they are read once for all of its rows.
template <class T, uint32_t SLOTS, class N = typename NumberOf<T>::Type>
DEV void norm(T* y, N* mean, N* rstd, const Rows& x_, const Rows& weight_, const Rows& bias_, const Residual& sum, uint64_t rows, uint32_t n, double eps) {
  SHARED(N, parameters, [2][SLOTS ? 32 * SLOTS : 1]);
  const Row<T, SLOTS> weight(weight_, 0), bias(bias_, 0);
  if constexpr (SLOTS > 0) {
    for (uint32_t i = threadIdx.x; i < n; i += kRowThreads) {
      if (weight_.data) parameters[0][i] = weight(i);
      if (bias_.data) parameters[1][i] = bias(i);
    }
    __syncthreads();
  }
  for (uint64_t r = row_of_warp(); r < rows; r += (uint64_t)gridDim.x * kRowWarps) {
    const auto x = norm_row<T, SLOTS>(x_, sum, r, n);
    const N count = (N)n;
    N c = 0;
    if (mean) c = num::div(row_fold<Sum, N, SLOTS>(n, x), count);
    const N squares = row_fold<Sum, N, SLOTS>(n, [&](Place i) {
      const N d = num::sub(x(i), c);
      return num::mul(d, d);
    });
    const N scale = num::div(N(1), num::sqrt(num::add(num::div(squares, count), (N)eps)));
    if (threadIdx.x % 32 == 0) {
      if (mean) mean[r] = c;
      rstd[r] = scale;
    }
    T* out = y + r * n;
    row_each<SLOTS>(n, [&](Place i) {
      N v = num::mul(num::sub(x(i), c), scale);
      if (weight_.data) v = num::mul(v, SLOTS ? parameters[0][i] : weight(i));
      if (bias_.data) v = num::add(v, SLOTS ? parameters[1][i] : bias(i));
      out[i] = element<T>(v);
    });
  }
}

// The sums over rows for weight and bias: blocks of 64 rows; inside a block lane j has rows 8j to 8j+7, in ascending order,
// and takes lane j+h for h = 4, 2, 1. The sums of the blocks, [blocks n], are numbers, and the host adds them up.
constexpr uint32_t kLanes = 8, kLaneRows = 8;

// With h and g of a row in registers, warp j of a block adds up lane j, too, if that is wanted. A warp has `each` rows, then 8.
template <class T, uint32_t SLOTS, class N = typename NumberOf<T>::Type>
DEV void norm_grad(T* dx, N* dweight, N* dbias, const Rows& g_, const Rows& x_, const Rows& mean, const Rows& rstd, const Rows& weight_, uint64_t rows,
                   uint32_t n, uint32_t each) {
  using Sums = Kept<N, SLOTS ? SLOTS : 1>;
  SHARED(N, centers, [kLanes * kLaneRows]);
  SHARED(N, roots, [kLanes * kLaneRows]);
  SHARED(N, weights, [SLOTS ? 32 * SLOTS : 1]);
  const uint32_t warp = threadIdx.x / 32;
  const uint64_t first = (uint64_t)blockIdx.x * kLanes * each;  // of the block
  const Row<T, SLOTS> weight_row(weight_, 0);
  const auto weight_at = [&](uint32_t i) { return weight_.data ? weight_row(i) : N(1); };
  if (threadIdx.x < kLanes * each && first + threadIdx.x < rows) {
    centers[threadIdx.x] = mean.data ? Row<N>(mean, first + threadIdx.x)(0) : N(0);
    roots[threadIdx.x] = Row<N>(rstd, first + threadIdx.x)(0);
  }
  if (SLOTS)
    for (uint32_t i = threadIdx.x; i < n; i += 32 * kLanes) weights[i] = weight_at(i);
  __syncthreads();
  const auto weight = [&](Place i) { return SLOTS ? weights[i] : weight_at(i); };
  Sums scales{}, shifts{};
  for (uint32_t k = warp * each; k < (warp + 1) * each && first + k < rows; k++) {
    const uint64_t r = first + k;
    const N count = (N)n, c = centers[k], scale = roots[k];
    const Row<T, SLOTS> x(x_, r);
    const auto g = kept<SLOTS>(n, Row<T, SLOTS>(g_, r));
    const auto h = kept<SLOTS>(n, [&](Place i) { return num::mul(num::sub(x(i), c), scale); });
    const auto gw = [&](Place i) { return num::mul(g(i), weight(i)); };
    N p = 0;
    if (mean.data) p = row_fold<Sum, N, SLOTS>(n, gw);
    p = num::div(p, count);
    const N q = num::div(row_fold<Sum, N, SLOTS>(n, [&](Place i) { return num::mul(gw(i), h(i)); }), count);
    T* out = dx + r * n;
    row_each<SLOTS>(n, [&](Place i) { out[i] = element<T>(num::mul(num::sub(num::sub(gw(i), p), num::mul(h(i), q)), scale)); });
    if constexpr (SLOTS > 0)
      row_each<SLOTS>(n, [&](Place i) {
        scales.value[i.slot] = num::add(scales.value[i.slot], num::mul(g(i), h(i)));
        shifts.value[i.slot] = num::add(shifts.value[i.slot], g(i));
      });
  }
  if constexpr (SLOTS > 0) {
    if (!dweight && !dbias) return;
    SHARED(N, upper, [2][kLanes / 2][32 * SLOTS]);
#pragma unroll 1
    for (uint32_t h = kLanes / 2; h > 0; h /= 2) {
      if (warp >= h && warp < 2 * h)
        row_each<SLOTS>(n, [&](Place i) {
          upper[0][warp - h][i] = scales(i);
          upper[1][warp - h][i] = shifts(i);
        });
      __syncthreads();
      if (warp < h)
        row_each<SLOTS>(n, [&](Place i) {
          scales.value[i.slot] = num::add(scales(i), upper[0][warp][i]);
          shifts.value[i.slot] = num::add(shifts(i), upper[1][warp][i]);
        });
      __syncthreads();
    }
    if (warp) return;
    const uint64_t at = (uint64_t)blockIdx.x * n;
    row_each<SLOTS>(n, [&](Place i) {
      if (dweight) dweight[at + i] = scales(i);
      if (dbias) dbias[at + i] = shifts(i);
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
  KERNEL(norm##suffix, kRowThreads, 4)(T* y, NumberOf<T>::Type* mean, NumberOf<T>::Type* rstd, Rows x, Rows weight, Rows bias, \
                                       Residual sum, uint64_t rows, uint32_t n, double eps) {                              \
    BY_LENGTH(are_short<T>(n, x, weight, bias), norm, T, y, mean, rstd, x, weight, bias, sum, rows, n, eps);               \
  }                                                                                                                        \
  EXPORT(norm##suffix);                                                                                                    \
  KERNEL(norm_grad##suffix, 32 * kLanes, 1)(T* dx, NumberOf<T>::Type* dweight, NumberOf<T>::Type* dbias, Rows g, Rows x, Rows mean, Rows rstd, Rows weight, \
                                            uint64_t rows, uint32_t n, uint32_t each) {                                    \
    BY_LENGTH(are_short<T>(n, g, x, weight), norm_grad, T, dx, dweight, dbias, g, x, mean, rstd, weight, rows, n, each);      \
  }                                                                                                                        \
  EXPORT(norm_grad##suffix);                                                                                               \
  KERNEL(norm_parameters##suffix, kColumns * kLanes, 4)(NumberOf<T>::Type* dweight, NumberOf<T>::Type* dbias, Rows g, Rows x, Rows mean, Rows rstd, \
                                                         uint64_t rows, uint32_t n) {                                      \
    norm_parameters<T>(dweight, dbias, g, x, mean, rstd, rows, n);                                                         \
  }                                                                                                                        \
  EXPORT(norm_parameters##suffix);

FLOATS(NORM)
