// half.cuh: functions whose results are rounded to half precision, by the approximate units of the GPU. Before that
// rounding they are within 2^-17 of the value, relatively; those below 2^-126 are 0. Those of z_lane.cuh would take
// more instructions than an H200 issues while it moves the 4 bytes of an element.
#pragma once
#include "prim_fast.cuh"

constexpr float kLog2E = 0x1.715476p+00f;

DEV float half_exp(float x) { return exp2_fast(__fmul_rn(x, kLog2E)); }

// 1 is exact, for gradients multiply its distance from 1 by x.
DEV float half_sigmoid(float x) {
  const float d = __fadd_rn(1, exp2_fast(__fmul_rn(x, -kLog2E)));
  return d == 1 ? 1 : reciprocal_fast(d);
}

// 1 - 2/(1 + exp(2x)), and where that cancels x - x^3/3.
DEV float half_tanh(float x) {
  const float y = __fmaf_rn(-2, reciprocal_fast(__fadd_rn(1, exp2_fast(__fmul_rn(x, 2 * kLog2E)))), 1);
  const float small = __fmul_rn(x, __fmaf_rn(__fmul_rn(x, x), -0x1.555556p-02f, 1));
  return fabsf(x) < 0x1p-04f ? small : y;
}

DEV float half_normpdf(float x) {
  return __fmul_rn(exp2_fast(__fmul_rn(__fmul_rn(x, x), -kLog2E / 2)), 0x1.988454p-02f);
}

// The density times Mills' ratio, a polynomial of 1/(1 + 0.31 |x|) fitted to within 2^-17.7 for |x| up to 14.5.
DEV float half_normcdf(float x) {
  const float u = reciprocal_fast(__fmaf_rn(fabsf(x), 0.31f, 1));
  float p = __fmaf_rn(-0.07392871f, u, 0.18044907f);
  p = __fmaf_rn(p, u, 0.01574623f);
  p = __fmaf_rn(p, u, 0.13342888f);
  p = __fmaf_rn(p, u, 0.12044155f);
  p = __fmaf_rn(p, u, 0.12386067f);
  p = __fmul_rn(__fmul_rn(p, u), exp2_fast(__fmul_rn(__fmul_rn(x, x), -kLog2E / 2)));
  return x < 0 ? p : __fsub_rn(1, p);
}
