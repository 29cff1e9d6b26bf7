// f64.cuh: the instructions of expressions on double. Those that IEEE 754 defines, and choices, have the bits of
// kernels/cpu; exp and the like are CUDA's own functions, where the CPU has those of kernels/expr/double (see
// docs/adr/0002-double-functions.md).
#pragma once
#include "element.cuh"

DEV uint64_t f64_bits(double x) { return (uint64_t)__double_as_longlong(x); }
DEV double f64_from(uint64_t bits) { return __longlong_as_double((int64_t)bits); }

DEV double f64_add(double x, double y) { return __dadd_rn(x, y); }
DEV double f64_sub(double x, double y) { return __dsub_rn(x, y); }
DEV double f64_mul(double x, double y) { return __dmul_rn(x, y); }
DEV double f64_div(double x, double y) { return __ddiv_rn(x, y); }
DEV double f64_fma(double x, double y, double z) { return __fma_rn(x, y, z); }
DEV double f64_fmod(double x, double y) { return fmod(x, y); }  // exact
DEV double f64_sqrt(double x) { return __dsqrt_rn(x); }
DEV double f64_rsqrt(double x) { return __ddiv_rn(1, __dsqrt_rn(x)); }

DEV double f64_neg(double x) { return f64_from(f64_bits(x) ^ 1ull << 63); }
DEV double f64_abs(double x) { return f64_from(f64_bits(x) & ~0ull >> 1); }
DEV double f64_floor(double x) { return floor(x); }
DEV double f64_ceil(double x) { return ceil(x); }
DEV double f64_round(double x) { return rint(x); }
DEV double f64_trunc(double x) { return trunc(x); }

// Both choices of a tie are taken and their bits joined, which settles the sign of zero, as in float32.
DEV double f64_min(double x, double y) { return f64_from(f64_bits(x < y ? x : y) | f64_bits(y < x ? y : x)); }
DEV double f64_max(double x, double y) {
  const double most = x > y || x != x ? x : y;  // the first NaN, if there is one
  return x == y ? f64_from(f64_bits(x) & f64_bits(y)) : most;
}

DEV double f64_lt(double x, double y) { return x < y ? 1 : 0; }
DEV double f64_le(double x, double y) { return x <= y ? 1 : 0; }
DEV double f64_eq(double x, double y) { return x == y ? 1 : 0; }
DEV double f64_where(double c, double x, double y) { return c != 0 ? x : y; }

DEV double f64_f16(double x) { return to_float(to_element<f16>(x)); }
DEV double f64_bf16(double x) { return to_float(to_element<bf16>(x)); }

DEV double f64_exp(double x) { return exp(x); }
DEV double f64_exp2(double x) { return exp2(x); }
DEV double f64_expm1(double x) { return expm1(x); }

// f64_log has an error below 1 unit in the last place by the algorithm of FDLIBM (Sun Microsystems 1993), with the bits
// of package double: with x = 2^k (1+f), sqrt(1/2) <= 1+f < sqrt(2), s = f/(2+f) and h = f^2/2,
//
//	log(1+f) = 2 artanh(s) = f - (h - s (h + r(s^2))), r(z) = L1 z + L2 z^2 + ... + L7 z^7
//
// CUDA's own leaves it to the compiler whether a product is fused, so that its bits depend on who compiles it.
DEV double f64_log(double x) {
  if (!(x > 0)) return x == 0 ? f64_from(0xfffull << 52) : f64_from(0x7ff8ull << 48);
  if (f64_bits(x) == 0x7ffull << 52) return x;
  const bool subnormal = x < 0x1p-1022;
  const uint64_t u = f64_bits(subnormal ? __dmul_rn(x, 0x1p54) : x);
  const double half = f64_from((u & ~(0xfffull << 52)) | 0x3feull << 52);  // in [1/2, 1)
  const bool low = half < 0x1.6a09e667f3bcdp-1;                            // sqrt(1/2)
  const double k = (int)(u >> 52) - 1022 - (subnormal ? 54 : 0) - (low ? 1 : 0);
  const double f = __dsub_rn(low ? __dadd_rn(half, half) : half, 1), s = __ddiv_rn(f, __dadd_rn(2, f));
  const double z = __dmul_rn(s, s), w = __dmul_rn(z, z), h = __dmul_rn(__dmul_rn(0.5, f), f);
  double odd = __dadd_rn(__dmul_rn(w, 0x1.2f112df3e5244p-3), 0x1.7466496cb03dep-3);  // L7, L5, L3, L1
  odd = __dadd_rn(__dmul_rn(w, odd), 0x1.2492494229359p-2);
  odd = __dadd_rn(__dmul_rn(w, odd), 0x1.5555555555593p-1);
  double even = __dadd_rn(__dmul_rn(w, 0x1.39a09d078c69fp-3), 0x1.c71c51d8e78afp-3);  // L6, L4, L2
  even = __dadd_rn(__dmul_rn(w, even), 0x1.999999997fa04p-2);
  const double r = __dadd_rn(__dmul_rn(z, odd), __dmul_rn(w, even));
  const double tail = __dadd_rn(__dmul_rn(s, __dadd_rn(h, r)), __dmul_rn(k, 0x1.a39ef35793c76p-33));  // of ln 2
  return __dsub_rn(__dmul_rn(k, 0x1.62e42feep-1), __dsub_rn(__dsub_rn(h, tail), f));
}

DEV double f64_log2(double x) { return log2(x); }
DEV double f64_log10(double x) { return log10(x); }
DEV double f64_log1p(double x) { return log1p(x); }
DEV double f64_pow(double x, double y) { return pow(x, y); }
DEV double f64_sin(double x) { return sin(x); }
DEV double f64_cos(double x) { return cos(x); }
DEV double f64_tan(double x) { return tan(x); }
DEV double f64_asin(double x) { return asin(x); }
DEV double f64_acos(double x) { return acos(x); }
DEV double f64_atan(double x) { return atan(x); }
DEV double f64_sinh(double x) { return sinh(x); }
DEV double f64_cosh(double x) { return cosh(x); }
DEV double f64_tanh(double x) { return tanh(x); }
DEV double f64_asinh(double x) { return asinh(x); }
DEV double f64_acosh(double x) { return acosh(x); }
DEV double f64_atanh(double x) { return atanh(x); }
DEV double f64_erf(double x) { return erf(x); }
DEV double f64_erfc(double x) { return erfc(x); }
DEV double f64_normpdf(double x) { return __dmul_rn(exp(__dmul_rn(-0.5, __dmul_rn(x, x))), 0.3989422804014327); }
DEV double f64_normcdf(double x) { return __dmul_rn(0.5, erfc(__dmul_rn(x, -0.7071067811865476))); }
DEV double f64_sigmoid(double x) { return __ddiv_rn(1, __dadd_rn(1, exp(f64_neg(x)))); }
