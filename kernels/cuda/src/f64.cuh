// f64.cuh: the instructions of expressions on double. Those that IEEE 754 defines, and choices, have the bits of
// kernels/cpu; exp, log and the like are CUDA's own functions, where the CPU has those of Go (see
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
DEV double f64_sqrt(double x) { return __dsqrt_rn(x); }
DEV double f64_rsqrt(double x) { return __ddiv_rn(1, __dsqrt_rn(x)); }

DEV double f64_neg(double x) { return f64_from(f64_bits(x) ^ 1ull << 63); }
DEV double f64_abs(double x) { return f64_from(f64_bits(x) & ~0ull >> 1); }
DEV double f64_floor(double x) { return floor(x); }
DEV double f64_ceil(double x) { return ceil(x); }
DEV double f64_round(double x) { return rint(x); }
DEV double f64_trunc(double x) { return trunc(x); }

// Both choices of a tie are taken and their bits joined, which settles the sign of zero; lane.Min has the same.
DEV double f64_min(double x, double y) { return f64_from(f64_bits(x < y ? x : y) | f64_bits(y < x ? y : x)); }
DEV double f64_max(double x, double y) {
  if (x != x) return x;
  if (y != y) return y;
  return f64_from(f64_bits(x > y ? x : y) & f64_bits(y > x ? y : x));
}

DEV double f64_lt(double x, double y) { return x < y ? 1 : 0; }
DEV double f64_le(double x, double y) { return x <= y ? 1 : 0; }
DEV double f64_eq(double x, double y) { return x == y ? 1 : 0; }
DEV double f64_where(double c, double x, double y) { return c != 0 ? x : y; }

DEV double f64_f16(double x) { return to_float(element<f16>(x)); }
DEV double f64_bf16(double x) { return to_float(element<bf16>(x)); }

DEV double f64_exp(double x) { return exp(x); }
DEV double f64_exp2(double x) { return exp2(x); }
DEV double f64_expm1(double x) { return expm1(x); }
DEV double f64_log(double x) { return log(x); }
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
DEV double f64_sigmoid(double x) { return __ddiv_rn(1, __dadd_rn(1, exp(f64_neg(x)))); }
