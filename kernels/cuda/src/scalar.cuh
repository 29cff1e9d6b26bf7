// scalar.cuh: arithmetic on scalars of any compute type (float, double, int64_t), by the instructions of expressions.
#pragma once
#include "f64.cuh"
#include "i64.cuh"
#include "z_lane.cuh"

namespace math {

#define UNARY(name)                                 \
  DEV float name(float x) { return f32_##name(x); } \
  DEV double name(double x) { return f64_##name(x); }
#define BINARY(name)                                               \
  DEV float name(float x, float y) { return f32_##name(x, y); }    \
  DEV double name(double x, double y) { return f64_##name(x, y); } \
  DEV int64_t name(int64_t x, int64_t y) { return i64_##name(x, y); }

BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(div)
BINARY(min)
BINARY(max)
UNARY(exp)
UNARY(log)
UNARY(sqrt)

#undef BINARY
#undef UNARY

}  // namespace math

DEV float infinity(float) { return __uint_as_float(0x7f800000); }
DEV double infinity(double) { return f64_from(0x7ffull << 52); }
