// lane.cuh: what the generated functions of z_lane.cuh call beside CUDA's own.
#pragma once
#include "prim.cuh"

// lane_ldexp is x * 2^n rounded once, for integral |n| <= 252 and |x| in [2^-24, 2^24] or zero, by two powers of
// two. The first product is inexact or infinite only where the second one is 0 or infinite anyway: half of n
// would have to be below -102, or above 103.
DEV float lane_ldexp(float x, float n) {
  const int k = __float2int_rz(n), half = k >> 1;
  const float first = __uint_as_float((uint32_t)(half + 127) << 23),
              second = __uint_as_float((uint32_t)(k - half + 127) << 23);
  return __fmul_rn(__fmul_rn(x, first), second);
}

// ---- sine, cosine and tangent of large arguments -----------------------------------------------------

// Quadrant q and rest r: x = (4k + q) pi/2 + r for some integer k, with |r| <= pi/4.
struct LaneTurn {
  uint32_t quadrant;
  double rest;
};

// The bits of 2/pi after the binary point, behind 64 zeros.
static __constant__ const uint64_t lane_two_over_pi[5] = {
    0, 0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull,
};

// lane_reduce_large is the reduction of Payne and Hanek, as the reduceLarge of kernels/expr describes it.
DEV LaneTurn lane_reduce_large(float x) {
  const uint32_t u = __float_as_uint(x);
  if ((u & 0x7f800000) == 0x7f800000) return {0, __ll2double_rn(0) / __ll2double_rn(0)};
  const uint64_t m = (u & 0x7fffff) | 0x800000;
  const int e = (int)(u >> 23 & 0xff) - 150;
  const unsigned at = (unsigned)(e + 126 + 64 - 128), i = at / 64, s = at % 64;
  auto window = [&](unsigned k) {
    return s ? lane_two_over_pi[k] << s | lane_two_over_pi[k + 1] >> (64 - s) : lane_two_over_pi[k];
  };
  const uint64_t t1 = window(i), t0 = window(i + 1);
  const uint64_t high = __umul64hi(m, t0) + m * t1, low = m * t0;
  uint32_t q = (uint32_t)(high >> 62);
  const int64_t f = (int64_t)(high << 2 | low >> 62);
  if (f < 0) q++;
  const double fraction =
      __dadd_rn(__dmul_rn(__ll2double_rn(f), 0x1p-64), __dmul_rn(__ull2double_rn(low << 2), 0x1p-128));
  const double r = __dmul_rn(fraction, 1.5707963267948966);
  if (u >> 31) return {0 - q, -r};
  return {q, r};
}

// lane_sin_turn is the sine of r plus q quarter turns, by Taylor's series.
DEV double lane_sin_turn(LaneTurn t, uint32_t quarters) {
  const uint32_t q = t.quadrant + quarters;
  const double r = t.rest, s = __dmul_rn(r, r);
  double y;
  if (q & 1) {
    y = __dadd_rn(__dmul_rn(-1.0 / 87178291200, s), 1.0 / 479001600);
    y = __dadd_rn(__dmul_rn(y, s), -(1.0 / 3628800));
    y = __dadd_rn(__dmul_rn(y, s), 1.0 / 40320);
    y = __dadd_rn(__dmul_rn(y, s), -(1.0 / 720));
    y = __dadd_rn(__dmul_rn(y, s), 1.0 / 24);
    y = __dadd_rn(__dmul_rn(y, s), -0.5);
    y = __dadd_rn(__dmul_rn(y, s), 1);
  } else {
    y = __dadd_rn(__dmul_rn(1.0 / 6227020800, s), -(1.0 / 39916800));
    y = __dadd_rn(__dmul_rn(y, s), 1.0 / 362880);
    y = __dadd_rn(__dmul_rn(y, s), -(1.0 / 5040));
    y = __dadd_rn(__dmul_rn(y, s), 1.0 / 120);
    y = __dadd_rn(__dmul_rn(y, s), -(1.0 / 6));
    y = __dadd_rn(__dmul_rn(__dmul_rn(y, s), r), r);
  }
  return q & 2 ? -y : y;
}

// These are slow and rare, and not inlined, lest they take the registers of everything around.
DEV_CALL float lane_sin_large(float x) { return __double2float_rn(lane_sin_turn(lane_reduce_large(x), 0)); }
DEV_CALL float lane_cos_large(float x) { return __double2float_rn(lane_sin_turn(lane_reduce_large(x), 1)); }
DEV_CALL float lane_tan_large(float x) {
  const LaneTurn t = lane_reduce_large(x);
  return __double2float_rn(__ddiv_rn(lane_sin_turn(t, 0), lane_sin_turn(t, 1)));
}
