// Cross-entropy of rows of logits x with class indices. With m = max(x), s = sum(exp(x - m)) and the label smoothing
// e, the loss of a row is
//
//	(1-e) * (log(s) - (x[target] - m)) + e * (log(s) - sum(x - m)/C)
//
// and its gradient (exp(x - m) * (1/s) - t) * scale, with t the smoothed one-hot row.
#include "report.cuh"
#include "rows.cuh"

namespace {

// Targets are class indices of any integer type; those equal to `ignore` leave their row out.
struct Targets {
  Rows places;
  Report report;
  int64_t ignore;
  uint32_t bytes;  // of an index: 8, 4 or 1
  uint32_t classes;
};

// target_of is the class of row r, -1 for a row to leave out, as is one whose target is no class.
DEV int64_t target_of(const Targets& t, uint64_t r) {
  const int64_t k = integer(t.places.data, t.bytes, place(t.places.rows, r));
  if (k == t.ignore) return -1;
  if (k >= 0 && k < t.classes) return k;
  report(t.report, r, k);
  return -1;
}

}  // namespace

// The loss, m and s of each row.
KERNEL(cross_entropy_rows_f32, kRowThreads, 4)(float* loss, float* most, float* sums, Rows x_, Targets targets, uint64_t rows, float smoothing) {
  const uint64_t r = row_of_warp();
  if (r >= rows) return;
  const uint32_t n = targets.classes;
  const Row<const float> x(x_, r);
  const float m = row_fold<Max>(n, [&](uint32_t i) { return x[i]; });
  const float s = row_fold<Sum>(n, [&](uint32_t i) { return f32_exp(__fsub_rn(x[i], m)); });
  float spread = 0.f;
  if (smoothing > 0) spread = __fdiv_rn(row_fold<Sum>(n, [&](uint32_t i) { return __fsub_rn(x[i], m); }), __uint2float_rn(n));
  if (threadIdx.x % 32) return;
  most[r] = m;
  sums[r] = s;
  const int64_t k = target_of(targets, r);
  if (k < 0) {
    loss[r] = 0.f;
    return;
  }
  const float log = f32_log(s), own = __fsub_rn(log, __fsub_rn(x[(uint32_t)k], m));
  loss[r] = smoothing > 0 ? __fadd_rn(__fmul_rn(__fsub_rn(1.f, smoothing), own), __fmul_rn(smoothing, __fsub_rn(log, spread))) : own;
}
EXPORT(cross_entropy_rows_f32);

// The number of rows that count. One warp.
KERNEL(cross_entropy_count, 32, 1)(uint32_t* count, Targets targets, uint64_t rows) {
  uint32_t n = 0;
  for (uint64_t r = threadIdx.x; r < rows; r += 32) n += target_of(targets, r) >= 0;
#pragma unroll
  for (int h = 16; h > 0; h /= 2) n += shuffle_xor(n, h);
  if (threadIdx.x == 0) *count = n;
}
EXPORT(cross_entropy_count);

// The mean: a sum divided by the number of rows that count.
KERNEL(cross_entropy_mean_f32, 32, 1)(float* y, const uint32_t* count) {
  if (threadIdx.x == 0) *y = __fdiv_rn(*y, __uint2float_rn(*count));
}
EXPORT(cross_entropy_mean_f32);

// The gradient of row r of a result without gaps. g is the gradient of the result, of each row if each is 1; count
// is null but for the mean. off and on are t beside and at the target.
KERNEL(cross_entropy_grad_f32, kRowThreads, 4)(float* dx, Rows x_, Targets targets, Rows most, Rows sums, Rows g, const uint32_t* count, uint64_t rows,
                                               uint32_t each, float off, float on) {
  const uint64_t r = row_of_warp();
  if (r >= rows) return;
  const uint32_t n = targets.classes;
  float* d = dx + r * n;
  const int64_t k = target_of(targets, r);
  if (k < 0) {
    row_each(n, [&](uint32_t i) { d[i] = 0.f; });
    return;
  }
  const Row<const float> x(x_, r);
  const float m = Row<const float>(most, r)[0], inverse = __fdiv_rn(1.f, Row<const float>(sums, r)[0]);
  float scale = Row<const float>(g, each ? r : 0)[0];
  if (count) scale = __fdiv_rn(scale, __uint2float_rn(*count));
  row_each(n, [&](uint32_t i) {
    const float p = __fmul_rn(f32_exp(__fsub_rn(x[i], m)), inverse);
    d[i] = __fmul_rn(__fsub_rn(p, i == (uint32_t)k ? on : off), scale);
  });
}
EXPORT(cross_entropy_grad_f32);
