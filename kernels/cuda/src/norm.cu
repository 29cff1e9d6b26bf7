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

KERNEL(norm_f32, kRowThreads, 4)(float* y, float* mean, float* rstd, Rows x_, Rows weight_, Rows bias_, uint64_t rows, uint32_t n, float eps) {
  const uint64_t r = row_of_warp();
  if (r >= rows) return;
  const Row<const float> x(x_, r), weight(weight_, 0), bias(bias_, 0);
  const float count = __uint2float_rn(n);
  float c = 0.f;
  if (mean) c = __fdiv_rn(row_fold<Sum>(n, [&](uint32_t i) { return x[i]; }), count);
  const float squares = row_fold<Sum>(n, [&](uint32_t i) {
    const float d = __fsub_rn(x[i], c);
    return __fmul_rn(d, d);
  });
  const float scale = __fdiv_rn(1.f, __fsqrt_rn(__fadd_rn(__fdiv_rn(squares, count), eps)));
  if (threadIdx.x % 32 == 0) {
    if (mean) mean[r] = c;
    rstd[r] = scale;
  }
  float* out = y + r * n;
  row_each(n, [&](uint32_t i) {
    float v = __fmul_rn(__fsub_rn(x[i], c), scale);
    if (weight_.data) v = __fmul_rn(v, weight[i]);
    if (bias_.data) v = __fadd_rn(v, bias[i]);
    out[i] = v;
  });
}
EXPORT(norm_f32);

KERNEL(norm_grad_f32, kRowThreads, 4)(float* dx, Rows g_, Rows x_, Rows mean, Rows rstd, Rows weight_, uint64_t rows, uint32_t n) {
  const uint64_t r = row_of_warp();
  if (r >= rows) return;
  const Row<const float> g(g_, r), x(x_, r), weight(weight_, 0);
  const float count = __uint2float_rn(n), scale = Row<const float>(rstd, r)[0];
  const float c = mean.data ? Row<const float>(mean, r)[0] : 0.f;
  const auto h = [&](uint32_t i) { return __fmul_rn(__fsub_rn(x[i], c), scale); };
  const auto gw = [&](uint32_t i) { return weight_.data ? __fmul_rn(g[i], weight[i]) : g[i]; };
  float p = 0.f;
  if (mean.data) p = row_fold<Sum>(n, gw);
  p = __fdiv_rn(p, count);
  const float q = __fdiv_rn(row_fold<Sum>(n, [&](uint32_t i) { return __fmul_rn(gw(i), h(i)); }), count);
  float* out = dx + r * n;
  row_each(n, [&](uint32_t i) { out[i] = __fmul_rn(__fsub_rn(__fsub_rn(gw(i), p), __fmul_rn(h(i), q)), scale); });
}
EXPORT(norm_grad_f32);

namespace {
constexpr int kColumns = 32, kGroups = 8;
constexpr int kLanes = kFoldLanes / kGroups;
}  // namespace

// The gradients of weight and bias. Thread (c, g) has column c and the lanes g, g+8, ..., g+56 of it. Results are
// [n blocks], for blocks of 16,384 rows; with more than one the host adds them up.
KERNEL(norm_parameters_f32, kColumns * kGroups, 2)(float* dweight, float* dbias, Rows g_, Rows x_, Rows mean, Rows rstd, uint64_t rows, uint32_t n) {
  SHARED(float, partial, [2][kGroups][kColumns]);
  const uint32_t c = threadIdx.x % kColumns, group = threadIdx.x / kColumns;
  const uint32_t column = blockIdx.x * kColumns + c;
  const uint64_t from = (uint64_t)blockIdx.y * kFoldBlock, to = from + kFoldBlock < rows ? from + kFoldBlock : rows;
  float scales[kLanes], shifts[kLanes];
#pragma unroll
  for (int k = 0; k < kLanes; k++) scales[k] = shifts[k] = 0.f;
  if (column < n)
    for (uint64_t i = from; i < to; i += kFoldLanes)
#pragma unroll
      for (int k = 0; k < kLanes; k++) {
        const uint64_t r = i + group + k * kGroups;
        if (r >= to) continue;
        const float g = Row<const float>(g_, r)[column];
        const float m = mean.data ? Row<const float>(mean, r)[0] : 0.f;
        const float h = __fmul_rn(__fsub_rn(Row<const float>(x_, r)[column], m), Row<const float>(rstd, r)[0]);
        scales[k] = __fadd_rn(scales[k], __fmul_rn(g, h));
        shifts[k] = __fadd_rn(shifts[k], g);
      }
  // h = 32, 16 and 8 are between lanes of one thread.
#pragma unroll
  for (int h = kLanes / 2; h > 0; h /= 2)
#pragma unroll
    for (int k = 0; k < h; k++) {
      scales[k] = __fadd_rn(scales[k], scales[k + h]);
      shifts[k] = __fadd_rn(shifts[k], shifts[k + h]);
    }
  partial[0][group][c] = scales[0];
  partial[1][group][c] = shifts[0];
  for (uint32_t h = kGroups / 2; h > 0; h /= 2) {
    __syncthreads();
    if (group < h)
      for (int k = 0; k < 2; k++) partial[k][group][c] = __fadd_rn(partial[k][group][c], partial[k][group + h][c]);
  }
  if (group || column >= n) return;
  const uint64_t at = (uint64_t)column * gridDim.y + blockIdx.y;
  if (dweight) dweight[at] = partial[0][0][c];
  if (dbias) dbias[at] = partial[1][0][c];
}
EXPORT(norm_parameters_f32);
