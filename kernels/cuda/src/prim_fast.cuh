// prim_fast.cuh: approximate arithmetic, beside exp2_fast.
#pragma once
#include "prim.cuh"

#ifdef ON_DEVICE

// reciprocal_fast is 1/x within a unit in the last place; subnormal numbers count as 0.
DEV float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#else

// The emulator errs by that unit.
DEV float reciprocal_fast(float x) {
  const float y = fabsf(x) < 0x1p-126f ? copysignf(1, x) / 0.f : 1 / x;
  if (fabsf(y) < 0x1p-126f) return copysignf(0, y);
  return fabsf(y) <= 0x1.fffffep+127f ? __uint_as_float(__float_as_uint(y) ^ 1) : y;
}

#endif
