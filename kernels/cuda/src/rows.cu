// Operations along rows of any layout: the softmax family, variances, places of extremes, running sums. A warp
// computes a row; row r of a result without gaps is its element r. Each operation is rounded by itself and sums are
// canonical, as in kernels/cpu.
#include "rows.cuh"

// e = exp(x - max(x)), y = e * (1 / sum(e))
KERNEL(softmax_rows_f32, kRowThreads, 4)(Rows y_, Rows x_, uint64_t rows, uint32_t n) {
  const uint64_t r = row_of_warp();
  if (r >= rows) return;
  const Row<float> y(y_, r);
  const Row<const float> x(x_, r);
  const float m = row_fold<Max>(n, [&](uint32_t i) { return x[i]; });
  row_each(n, [&](uint32_t i) { y[i] = f32_exp(__fsub_rn(x[i], m)); });
  const float scale = __fdiv_rn(1.f, row_fold<Sum>(n, [&](uint32_t i) { return y[i]; }));
  row_each(n, [&](uint32_t i) { y[i] = __fmul_rn(y[i], scale); });
}
EXPORT(softmax_rows_f32);

// dx = y * (g - sum(g*y))
KERNEL(softmax_grad_f32, kRowThreads, 4)(Rows dx_, Rows y_, Rows g_, uint64_t rows, uint32_t n) {
  const uint64_t r = row_of_warp();
  if (r >= rows) return;
  const Row<float> dx(dx_, r);
  const Row<const float> y(y_, r), g(g_, r);
  const float dot = row_fold<Sum>(n, [&](uint32_t i) { return __fmul_rn(g[i], y[i]); });
  row_each(n, [&](uint32_t i) { dx[i] = __fmul_rn(y[i], __fsub_rn(g[i], dot)); });
}
EXPORT(softmax_grad_f32);

// y = (x - m) - log(sum(exp(x - m))), m = max(x)
KERNEL(log_softmax_f32, kRowThreads, 4)(Rows y_, Rows x_, uint64_t rows, uint32_t n) {
  const uint64_t r = row_of_warp();
  if (r >= rows) return;
  const Row<float> y(y_, r);
  const Row<const float> x(x_, r);
  const float m = row_fold<Max>(n, [&](uint32_t i) { return x[i]; });
  const float s = f32_log(row_fold<Sum>(n, [&](uint32_t i) { return f32_exp(__fsub_rn(x[i], m)); }));
  row_each(n, [&](uint32_t i) { y[i] = __fsub_rn(__fsub_rn(x[i], m), s); });
}
EXPORT(log_softmax_f32);

// dx = g - exp(y) * sum(g)
KERNEL(log_softmax_grad_f32, kRowThreads, 4)(Rows dx_, Rows y_, Rows g_, uint64_t rows, uint32_t n) {
  const uint64_t r = row_of_warp();
  if (r >= rows) return;
  const Row<float> dx(dx_, r);
  const Row<const float> y(y_, r), g(g_, r);
  const float s = row_fold<Sum>(n, [&](uint32_t i) { return g[i]; });
  row_each(n, [&](uint32_t i) { dx[i] = __fsub_rn(g[i], __fmul_rn(f32_exp(y[i]), s)); });
}
EXPORT(log_softmax_grad_f32);

// y = m + log(sum(exp(x - m))), m = max(x), or 0 if that is infinite
KERNEL(logsumexp_f32, kRowThreads, 4)(float* y, Rows x_, uint64_t rows, uint32_t n) {
  const uint64_t r = row_of_warp();
  if (r >= rows) return;
  const Row<const float> x(x_, r);
  float m = row_fold<Max>(n, [&](uint32_t i) { return x[i]; });
  if ((__float_as_uint(m) & 0x7fffffff) == 0x7f800000) m = 0.f;
  const float s = f32_log(row_fold<Sum>(n, [&](uint32_t i) { return f32_exp(__fsub_rn(x[i], m)); }));
  if (threadIdx.x % 32 == 0) y[r] = __fadd_rn(m, s);
}
EXPORT(logsumexp_f32);

// y = sum((x - mean)^2) / divisor, mean = sum(x) / n
KERNEL(var_f32, kRowThreads, 4)(float* y, Rows x_, uint64_t rows, uint32_t n, float divisor) {
  const uint64_t r = row_of_warp();
  if (r >= rows) return;
  const Row<const float> x(x_, r);
  const float mean = __fdiv_rn(row_fold<Sum>(n, [&](uint32_t i) { return x[i]; }), __uint2float_rn(n));
  const float squares = row_fold<Sum>(n, [&](uint32_t i) {
    const float d = __fsub_rn(x[i], mean);
    return __fmul_rn(d, d);
  });
  if (threadIdx.x % 32 == 0) y[r] = __fdiv_rn(squares, divisor);
}
EXPORT(var_f32);

// first_of_warp is the smallest number that a thread of the warp has.
DEV uint32_t first_of_warp(uint32_t i) {
#pragma unroll
  for (int h = 16; h > 0; h /= 2) {
    const uint32_t other = shuffle_xor(i, h);
    i = other < i ? other : i;
  }
  return i;
}

// The first place of the extreme element, or of a NaN if there is one. values may be null.
template <class Fold> DEV void place_of(int64_t* places, float* values, const Rows& x_, uint64_t rows, uint32_t n) {
  const uint64_t r = row_of_warp();
  if (r >= rows) return;
  const Row<const float> x(x_, r);
  const float v = row_fold<Fold>(n, [&](uint32_t i) { return x[i]; });
  uint32_t first = 0xffffffff;
  row_each(n, [&](uint32_t i) {
    const float e = x[i];
    if ((e == v || (v != v && e != e)) && i < first) first = i;
  });
  first = first_of_warp(first);
  if (threadIdx.x % 32) return;
  places[r] = first;
  if (values) values[r] = x[first];
}

KERNEL(argmax_f32, kRowThreads, 4)(int64_t* places, float* values, Rows x, uint64_t rows, uint32_t n) { place_of<Max>(places, values, x, rows, n); }
EXPORT(argmax_f32);
KERNEL(argmin_f32, kRowThreads, 4)(int64_t* places, float* values, Rows x, uint64_t rows, uint32_t n) { place_of<Min>(places, values, x, rows, n); }
EXPORT(argmin_f32);

// Running sums from +0, one element after the other, from the end if backward; a thread computes a row.
KERNEL(cumsum_f32, kRowThreads, 4)(Rows y_, Rows x_, uint64_t rows, uint32_t n, uint32_t backward) {
  const uint64_t r = thread_number();
  if (r >= rows) return;
  const Row<float> y(y_, r);
  const Row<const float> x(x_, r);
  float sum = 0.f;
  for (uint32_t k = 0; k < n; k++) {
    const uint32_t i = backward ? n - 1 - k : k;
    sum = __fadd_rn(sum, x[i]);
    y[i] = sum;
  }
}
EXPORT(cumsum_f32);
