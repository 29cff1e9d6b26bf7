// Generated from the instructions of package kernels/expr by internal/tools/gencuda. DO NOT EDIT.
#pragma once
#include "lane.cuh"

DEV float f32_exp_below(float in0) {
  const float v2 = max_nan((-0x1.ap+06f), in0);
  const float v5 = __fmaf_rn(v2, 0x1.715476p+00f, 0x1.80008p+23f);
  const float v6 = __fsub_rn(v5, 0x1.80008p+23f);
  const float v9 = __fmaf_rn(-v6, 0x1.62e4p-01f, v2);
  const float v10 = __fmaf_rn(-v6, 0x1.7f7d1cp-20f, v9);
  const float v13 = __fmaf_rn(0x1.6ad122p-10f, v10, 0x1.123f2ep-07f);
  const float v15 = __fmaf_rn(v13, v10, 0x1.55584ep-05f);
  const float v17 = __fmaf_rn(v15, v10, 0x1.55548ap-03f);
  const float v19 = __fmaf_rn(v17, v10, 0x1.fffffcp-02f);
  const float v21 = __fmaf_rn(v19, v10, 0x1p+00f);
  const float v22 = __fmaf_rn(v21, v10, 0x1p+00f);
  const uint32_t v23 = __float_as_uint(v5) << 23;
  const uint32_t v24 = __float_as_uint(v22) + v23;
  const float v26 = __fmul_rn(__uint_as_float(v24), 0x1p-64f);
  return v26;
}
