// number.cuh: arithmetic on any of the numbers that kernels compute with, by the instructions of expressions.
#pragma once
#include "f64.cuh"
#include "i64.cuh"
#include "z_lane.cuh"

namespace num {

#define NUMBER_FLOATING(name)                          \
  DEV float name(float x) { return f32_##name(x); }    \
  DEV double name(double x) { return f64_##name(x); }
#define NUMBER(name)                                                   \
  DEV float name(float x, float y) { return f32_##name(x, y); }        \
  DEV double name(double x, double y) { return f64_##name(x, y); }     \
  DEV int64_t name(int64_t x, int64_t y) { return i64_##name(x, y); }

NUMBER(add)
NUMBER(sub)
NUMBER(mul)
NUMBER(div)
NUMBER(min)
NUMBER(max)
NUMBER_FLOATING(exp)
NUMBER_FLOATING(log)
NUMBER_FLOATING(sqrt)

#undef NUMBER
#undef NUMBER_FLOATING

}  // namespace num

DEV float infinity(float) { return __uint_as_float(0x7f800000); }
DEV double infinity(double) { return f64_from(0x7ffull << 52); }
