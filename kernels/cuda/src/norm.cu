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

namespace {

// mean and rstd are numbers, unrounded. A warp takes every row whose distance is that of all warps; for short rows a block
// keeps weight and bias, so that they are read once for all of its rows.
template <class T, uint32_t SLOTS, class N = typename NumberOf<T>::Type>
DEV void norm(T* y, N* mean, N* rstd, const Rows& x_, const Rows& weight_, const Rows& bias_, uint64_t rows, uint32_t n, double eps) {
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
    const auto x = kept<SLOTS>(n, Row<T, SLOTS>(x_, r));
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

template <class T, uint32_t SLOTS>
DEV void norm_grad(T* dx, const Rows& g_, const Rows& x_, const Rows& mean, const Rows& rstd, const Rows& weight_, uint64_t rows, uint32_t n) {
  using N = typename NumberOf<T>::Type;
  const uint64_t r = row_of_warp();
  if (r >= rows) return;
  const Row<T, SLOTS> weight(weight_, 0);
  const N count = (N)n, scale = Row<N>(rstd, r)(0);
  const N c = mean.data ? Row<N>(mean, r)(0) : N(0);
  const Row<T, SLOTS> g(g_, r), x(x_, r);
  const auto h = kept<SLOTS>(n, [&](Place i) { return num::mul(num::sub(x(i), c), scale); });
  const auto gw = kept<SLOTS>(n, [&](Place i) { return weight_.data ? num::mul(g(i), weight(i)) : g(i); });
  N p = 0;
  if (mean.data) p = row_fold<Sum, N, SLOTS>(n, gw);
  p = num::div(p, count);
  const N q = num::div(row_fold<Sum, N, SLOTS>(n, [&](Place i) { return num::mul(gw(i), h(i)); }), count);
  T* out = dx + r * n;
  row_each<SLOTS>(n, [&](Place i) { out[i] = element<T>(num::mul(num::sub(num::sub(gw(i), p), num::mul(h(i), q)), scale)); });
}

constexpr int kColumns = 32, kGroups = 8;
constexpr int kLanes = kFoldLanes / kGroups;

// The gradients of weight and bias. Thread (c, g) has column c and the lanes g, g+8, ..., g+56 of it. Results are
// [n blocks], for blocks of 16,384 rows; with more than one these are numbers, and the host adds them up.
template <class T>
DEV void norm_parameters(const Result& dweight, const Result& dbias, const Rows& g_, const Rows& x_, const Rows& mean, const Rows& rstd, uint64_t rows, uint32_t n) {
  using N = typename NumberOf<T>::Type;
  SHARED(N, partial, [2][kGroups][kColumns]);
  const uint32_t c = threadIdx.x % kColumns, group = threadIdx.x / kColumns;
  const uint32_t column = blockIdx.x * kColumns + c;
  const uint64_t from = (uint64_t)blockIdx.y * kFoldBlock, to = from + kFoldBlock < rows ? from + kFoldBlock : rows;
  N scales[kLanes], shifts[kLanes];
#pragma unroll
  for (int k = 0; k < kLanes; k++) scales[k] = shifts[k] = 0;
  if (column < n)
    for (uint64_t i = from; i < to; i += kFoldLanes)
#pragma unroll
      for (int k = 0; k < kLanes; k++) {
        const uint64_t r = i + group + k * kGroups;
        if (r >= to) continue;
        const N g = Row<T>(g_, r)(column);
        const N m = mean.data ? Row<N>(mean, r)(0) : N(0);
        const N h = num::mul(num::sub(Row<T>(x_, r)(column), m), Row<N>(rstd, r)(0));
        scales[k] = num::add(scales[k], num::mul(g, h));
        shifts[k] = num::add(shifts[k], g);
      }
  // h = 32, 16 and 8 are between lanes of one thread.
#pragma unroll
  for (int h = kLanes / 2; h > 0; h /= 2)
#pragma unroll
    for (int k = 0; k < h; k++) {
      scales[k] = num::add(scales[k], scales[k + h]);
      shifts[k] = num::add(shifts[k], shifts[k + h]);
    }
  partial[0][group][c] = scales[0];
  partial[1][group][c] = shifts[0];
  for (uint32_t h = kGroups / 2; h > 0; h /= 2) {
    __syncthreads();
    if (group < h)
      for (int k = 0; k < 2; k++) partial[k][group][c] = num::add(partial[k][group][c], partial[k][group + h][c]);
  }
  if (group || column >= n) return;
  const uint64_t at = (uint64_t)column * gridDim.y + blockIdx.y;
  if (dweight.to) put(dweight, at, partial[0][0][c]);
  if (dbias.to) put(dbias, at, partial[1][0][c]);
}

}  // namespace

#define NORM(suffix, T)                                                                                                    \
  KERNEL(norm##suffix, kRowThreads, 4)(T* y, NumberOf<T>::Type* mean, NumberOf<T>::Type* rstd, Rows x, Rows weight, Rows bias, \
                                       uint64_t rows, uint32_t n, double eps) {                                            \
    BY_LENGTH(are_short<T>(n, x, weight, bias), norm, T, y, mean, rstd, x, weight, bias, rows, n, eps);                       \
  }                                                                                                                        \
  EXPORT(norm##suffix);                                                                                                    \
  KERNEL(norm_grad##suffix, kRowThreads, 4)(T* dx, Rows g, Rows x, Rows mean, Rows rstd, Rows weight, uint64_t rows, uint32_t n) { \
    BY_LENGTH(are_short<T>(n, g, x, weight), norm_grad, T, dx, g, x, mean, rstd, weight, rows, n);                            \
  }                                                                                                                        \
  EXPORT(norm_grad##suffix);                                                                                               \
  KERNEL(norm_parameters##suffix, kColumns * kGroups, 2)(Result dweight, Result dbias, Rows g, Rows x, Rows mean, Rows rstd, \
                                                         uint64_t rows, uint32_t n) {                                      \
    norm_parameters<T>(dweight, dbias, g, x, mean, rstd, rows, n);                                                         \
  }                                                                                                                        \
  EXPORT(norm_parameters##suffix);

FLOATS(NORM)
