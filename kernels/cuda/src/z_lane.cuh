// Generated from the instructions of package kernels/expr by internal/tools/gencuda. DO NOT EDIT.
#pragma once
#include "lane.cuh"

DEV float f32_add(float in0, float in1) {
  const float v2 = __fadd_rn(in0, in1);
  return v2;
}

DEV float f32_sub(float in0, float in1) {
  const float v2 = __fsub_rn(in0, in1);
  return v2;
}

DEV float f32_mul(float in0, float in1) {
  const float v2 = __fmul_rn(in0, in1);
  return v2;
}

DEV float f32_div(float in0, float in1) {
  const float v2 = __fdiv_rn(in0, in1);
  return v2;
}

DEV float f32_fmod(float in0, float in1) {
  const uint32_t v3 = __float_as_uint(in0) & 0x7fffffffu;
  const uint32_t v4 = __float_as_uint(in1) & 0x7fffffffu;
  const float v6 = __fmul_rn(__uint_as_float(v4), 0x1p+24f);
  const float v8 = __fmul_rn(__uint_as_float(v4), 0x1p+48f);
  const float v10 = __fmul_rn(__uint_as_float(v4), 0x1p+72f);
  const float v12 = __fmul_rn(__uint_as_float(v4), 0x1p+96f);
  const float v14 = __fmul_rn(__uint_as_float(v4), 0x1p+120f);
  const float v15 = __fmul_rn(v14, 0x1p+24f);
  const float v16 = __fmul_rn(v14, 0x1p+48f);
  const float v17 = __fmul_rn(v14, 0x1p+72f);
  const float v18 = __fmul_rn(v14, 0x1p+96f);
  const float v19 = __fmul_rn(v14, 0x1p+120f);
  const float v20 = __fmul_rn(v19, 0x1p+24f);
  const float v21 = __fdiv_rn(__uint_as_float(v3), v20);
  const float v22 = truncf(v21);
  const float v23 = __fmaf_rn(-v22, v20, __uint_as_float(v3));
  const bool v25 = v23 < 0x0p+00f;
  const float v26 = __fadd_rn(v23, v20);
  const float v27 = v25 ? v26 : v23;
  const bool v28 = __uint_as_float(v3) < v20;
  const uint32_t v29 = v28 ? v3 : __float_as_uint(v27);
  const float v30 = __fdiv_rn(__uint_as_float(v29), v19);
  const float v31 = truncf(v30);
  const float v32 = __fmaf_rn(-v31, v19, __uint_as_float(v29));
  const bool v33 = v32 < 0x0p+00f;
  const float v34 = __fadd_rn(v32, v19);
  const float v35 = v33 ? v34 : v32;
  const bool v36 = __uint_as_float(v29) < v19;
  const uint32_t v37 = v36 ? v29 : __float_as_uint(v35);
  const float v38 = __fdiv_rn(__uint_as_float(v37), v18);
  const float v39 = truncf(v38);
  const float v40 = __fmaf_rn(-v39, v18, __uint_as_float(v37));
  const bool v41 = v40 < 0x0p+00f;
  const float v42 = __fadd_rn(v40, v18);
  const float v43 = v41 ? v42 : v40;
  const bool v44 = __uint_as_float(v37) < v18;
  const uint32_t v45 = v44 ? v37 : __float_as_uint(v43);
  const float v46 = __fdiv_rn(__uint_as_float(v45), v17);
  const float v47 = truncf(v46);
  const float v48 = __fmaf_rn(-v47, v17, __uint_as_float(v45));
  const bool v49 = v48 < 0x0p+00f;
  const float v50 = __fadd_rn(v48, v17);
  const float v51 = v49 ? v50 : v48;
  const bool v52 = __uint_as_float(v45) < v17;
  const uint32_t v53 = v52 ? v45 : __float_as_uint(v51);
  const float v54 = __fdiv_rn(__uint_as_float(v53), v16);
  const float v55 = truncf(v54);
  const float v56 = __fmaf_rn(-v55, v16, __uint_as_float(v53));
  const bool v57 = v56 < 0x0p+00f;
  const float v58 = __fadd_rn(v56, v16);
  const float v59 = v57 ? v58 : v56;
  const bool v60 = __uint_as_float(v53) < v16;
  const uint32_t v61 = v60 ? v53 : __float_as_uint(v59);
  const float v62 = __fdiv_rn(__uint_as_float(v61), v15);
  const float v63 = truncf(v62);
  const float v64 = __fmaf_rn(-v63, v15, __uint_as_float(v61));
  const bool v65 = v64 < 0x0p+00f;
  const float v66 = __fadd_rn(v64, v15);
  const float v67 = v65 ? v66 : v64;
  const bool v68 = __uint_as_float(v61) < v15;
  const uint32_t v69 = v68 ? v61 : __float_as_uint(v67);
  const float v70 = __fdiv_rn(__uint_as_float(v69), v14);
  const float v71 = truncf(v70);
  const float v72 = __fmaf_rn(-v71, v14, __uint_as_float(v69));
  const bool v73 = v72 < 0x0p+00f;
  const float v74 = __fadd_rn(v72, v14);
  const float v75 = v73 ? v74 : v72;
  const bool v76 = __uint_as_float(v69) < v14;
  const uint32_t v77 = v76 ? v69 : __float_as_uint(v75);
  const float v78 = __fdiv_rn(__uint_as_float(v77), v12);
  const float v79 = truncf(v78);
  const float v80 = __fmaf_rn(-v79, v12, __uint_as_float(v77));
  const bool v81 = v80 < 0x0p+00f;
  const float v82 = __fadd_rn(v80, v12);
  const float v83 = v81 ? v82 : v80;
  const bool v84 = __uint_as_float(v77) < v12;
  const uint32_t v85 = v84 ? v77 : __float_as_uint(v83);
  const float v86 = __fdiv_rn(__uint_as_float(v85), v10);
  const float v87 = truncf(v86);
  const float v88 = __fmaf_rn(-v87, v10, __uint_as_float(v85));
  const bool v89 = v88 < 0x0p+00f;
  const float v90 = __fadd_rn(v88, v10);
  const float v91 = v89 ? v90 : v88;
  const bool v92 = __uint_as_float(v85) < v10;
  const uint32_t v93 = v92 ? v85 : __float_as_uint(v91);
  const float v94 = __fdiv_rn(__uint_as_float(v93), v8);
  const float v95 = truncf(v94);
  const float v96 = __fmaf_rn(-v95, v8, __uint_as_float(v93));
  const bool v97 = v96 < 0x0p+00f;
  const float v98 = __fadd_rn(v96, v8);
  const float v99 = v97 ? v98 : v96;
  const bool v100 = __uint_as_float(v93) < v8;
  const uint32_t v101 = v100 ? v93 : __float_as_uint(v99);
  const float v102 = __fdiv_rn(__uint_as_float(v101), v6);
  const float v103 = truncf(v102);
  const float v104 = __fmaf_rn(-v103, v6, __uint_as_float(v101));
  const bool v105 = v104 < 0x0p+00f;
  const float v106 = __fadd_rn(v104, v6);
  const float v107 = v105 ? v106 : v104;
  const bool v108 = __uint_as_float(v101) < v6;
  const uint32_t v109 = v108 ? v101 : __float_as_uint(v107);
  const float v110 = __fdiv_rn(__uint_as_float(v109), __uint_as_float(v4));
  const float v111 = truncf(v110);
  const float v112 = __fmaf_rn(-v111, __uint_as_float(v4), __uint_as_float(v109));
  const bool v113 = v112 < 0x0p+00f;
  const float v114 = __fadd_rn(v112, __uint_as_float(v4));
  const float v115 = v113 ? v114 : v112;
  const bool v116 = __uint_as_float(v109) < __uint_as_float(v4);
  const uint32_t v117 = v116 ? v109 : __float_as_uint(v115);
  const uint32_t v119 = __float_as_uint(in0) & 0x80000000u;
  const uint32_t v120 = v117 | v119;
  return __uint_as_float(v120);
}

DEV float f32_fma(float in0, float in1, float in2) {
  const float v3 = __fmaf_rn(in0, in1, in2);
  return v3;
}

DEV float f32_neg(float in0) {
  const uint32_t v2 = __float_as_uint(in0) ^ 0x80000000u;
  return __uint_as_float(v2);
}

DEV float f32_abs(float in0) {
  const uint32_t v2 = __float_as_uint(in0) & 0x7fffffffu;
  return __uint_as_float(v2);
}

DEV float f32_min(float in0, float in1) { return min_nan(in0, in1); }

DEV float f32_max(float in0, float in1) { return max_nan(in0, in1); }

DEV float f32_exp(float in0) {
  const float v3 = min_nan(0x1.64p+06f, in0);
  const float v4 = max_nan((-0x1.ap+06f), v3);
  const float v7 = __fmaf_rn(v4, 0x1.715476p+00f, 0x1.8p+23f);
  const float v8 = __fsub_rn(v7, 0x1.8p+23f);
  const float v10 = __fmaf_rn(-v8, 0x1.62e4p-01f, v4);
  const float v12 = __fmaf_rn(-v8, 0x1.7f7d1cp-20f, v10);
  const float v15 = __fmaf_rn(0x1.6ad122p-10f, v12, 0x1.123f2ep-07f);
  const float v17 = __fmaf_rn(v15, v12, 0x1.55584ep-05f);
  const float v19 = __fmaf_rn(v17, v12, 0x1.55548ap-03f);
  const float v21 = __fmaf_rn(v19, v12, 0x1.fffffcp-02f);
  const float v23 = __fmaf_rn(v21, v12, 0x1p+00f);
  const float v24 = __fmaf_rn(v23, v12, 0x1p+00f);
  const float v25 = lane_ldexp(v24, v8);
  return v25;
}

DEV float f32_exp2(float in0) {
  const float v3 = min_nan(0x1.02p+07f, in0);
  const float v4 = max_nan((-0x1.2ep+07f), v3);
  const float v6 = __fadd_rn(v4, 0x1.8p+23f);
  const float v7 = __fsub_rn(v6, 0x1.8p+23f);
  const float v8 = __fsub_rn(v4, v7);
  const float v11 = __fmaf_rn(0x1.17b7c8p-13f, v8, 0x1.5ef50ep-10f);
  const float v13 = __fmaf_rn(v11, v8, 0x1.3b680ap-07f);
  const float v15 = __fmaf_rn(v13, v8, 0x1.c6af9ep-05f);
  const float v17 = __fmaf_rn(v15, v8, 0x1.ebfb94p-03f);
  const float v19 = __fmaf_rn(v17, v8, 0x1.62e43p-01f);
  const float v21 = __fmaf_rn(v19, v8, 0x1p+00f);
  const float v22 = lane_ldexp(v21, v7);
  return v22;
}

DEV float f32_expm1(float in0) {
  const float v3 = min_nan(0x1.64p+06f, in0);
  const float v4 = max_nan((-0x1.2p+04f), v3);
  const float v7 = __fmaf_rn(v4, 0x1.715476p+00f, 0x1.8p+23f);
  const float v8 = __fsub_rn(v7, 0x1.8p+23f);
  const float v10 = __fmaf_rn(-v8, 0x1.62e4p-01f, v4);
  const float v12 = __fmaf_rn(-v8, 0x1.7f7d1cp-20f, v10);
  const float v15 = __fmaf_rn(0x1.6ac052p-10f, v12, 0x1.122e28p-07f);
  const float v17 = __fmaf_rn(v15, v12, 0x1.555796p-05f);
  const float v19 = __fmaf_rn(v17, v12, 0x1.5554a8p-03f);
  const float v21 = __fmaf_rn(v19, v12, 0x1.fffffep-02f);
  const float v22 = __fmul_rn(v12, v12);
  const float v23 = __fmaf_rn(v21, v22, v12);
  const uint32_t v24 = __float_as_uint(v7) << 23;
  const uint32_t v26 = v24 + 0x3f000000u;
  const float v27 = __fsub_rn(__uint_as_float(v26), 0x1p-01f);
  const float v28 = __fmaf_rn(v23, __uint_as_float(v26), v27);
  const float v29 = __fadd_rn(v28, v28);
  const uint32_t v31 = __float_as_uint(in0) & 0x7fffffffu;
  const bool v33 = __uint_as_float(v31) < 0x1p-25f;
  const float v34 = v33 ? in0 : v29;
  return v34;
}

DEV float f32_log(float in0) {
  const bool v2 = in0 < 0x1p-126f;
  const float v4 = __fmul_rn(in0, 0x1p+24f);
  const float v5 = v2 ? v4 : in0;
  const uint32_t v7 = __float_as_uint(v5) - 0x3f2aaaabu;
  const uint32_t v8 = (uint32_t)((int)v7 >> 23);
  const uint32_t v9 = v8 << 23;
  const uint32_t v10 = __float_as_uint(v5) - v9;
  const float v12 = __fsub_rn(__uint_as_float(v10), 0x1p+00f);
  const uint32_t v14 = v8 - 0x18u;
  const uint32_t v15 = v2 ? v14 : v8;
  const float v16 = __int2float_rn((int)v15);
  const float v17 = __fmul_rn(v12, v12);
  const float v18 = __fmul_rn(v12, v17);
  const float v21 = __fmaf_rn(0x1.e05332p-04f, v12, (-0x1.07d896p-03f));
  const float v23 = __fmaf_rn(v21, v12, 0x1.bb47a8p-04f);
  const float v25 = __fmaf_rn(v23, v12, (-0x1.f3365ep-04f));
  const float v27 = __fmaf_rn(v25, v12, 0x1.24d7aap-03f);
  const float v29 = __fmaf_rn(v27, v12, (-0x1.559bb2p-03f));
  const float v31 = __fmaf_rn(v29, v12, 0x1.99985ep-03f);
  const float v33 = __fmaf_rn(v31, v12, (-0x1.ffff02p-03f));
  const float v35 = __fmaf_rn(v33, v12, 0x1.555556p-02f);
  const float v36 = __fmul_rn(v18, v35);
  const float v38 = __fmaf_rn(v16, 0x1.7f7d1cp-20f, v36);
  const float v40 = __fmaf_rn(-v17, 0x1p-01f, v38);
  const float v42 = __fadd_rn(v12, v40);
  const float v43 = __fmaf_rn(v16, 0x1.62e4p-01f, v42);
  const bool v45 = in0 < __uint_as_float(0x7f800000u);
  const float v46 = v45 ? v43 : in0;
  const bool v48 = in0 <= 0x0p+00f;
  const float v50 = v48 ? __uint_as_float(0x7fc00000u) : v46;
  const bool v51 = in0 == 0x0p+00f;
  const float v53 = v51 ? __uint_as_float(0xff800000u) : v50;
  return v53;
}

DEV float f32_log2(float in0) {
  const bool v2 = in0 < 0x1p-126f;
  const float v4 = __fmul_rn(in0, 0x1p+24f);
  const float v5 = v2 ? v4 : in0;
  const uint32_t v7 = __float_as_uint(v5) - 0x3f2aaaabu;
  const uint32_t v8 = (uint32_t)((int)v7 >> 23);
  const uint32_t v9 = v8 << 23;
  const uint32_t v10 = __float_as_uint(v5) - v9;
  const float v12 = __fsub_rn(__uint_as_float(v10), 0x1p+00f);
  const uint32_t v14 = v8 - 0x18u;
  const uint32_t v15 = v2 ? v14 : v8;
  const float v16 = __int2float_rn((int)v15);
  const float v17 = __fmul_rn(v12, v12);
  const float v19 = __fmul_rn(v12, v17);
  const float v22 = __fmaf_rn(0x1.e05332p-04f, v12, (-0x1.07d896p-03f));
  const float v24 = __fmaf_rn(v22, v12, 0x1.bb47a8p-04f);
  const float v26 = __fmaf_rn(v24, v12, (-0x1.f3365ep-04f));
  const float v28 = __fmaf_rn(v26, v12, 0x1.24d7aap-03f);
  const float v30 = __fmaf_rn(v28, v12, (-0x1.559bb2p-03f));
  const float v32 = __fmaf_rn(v30, v12, 0x1.99985ep-03f);
  const float v34 = __fmaf_rn(v32, v12, (-0x1.ffff02p-03f));
  const float v36 = __fmaf_rn(v34, v12, 0x1.555556p-02f);
  const float v37 = __fmul_rn(v19, v36);
  const float v38 = __fmaf_rn(-v17, 0x1p-01f, v37);
  const float v41 = __fmul_rn(v38, 0x1.715476p+00f);
  const float v42 = __fmaf_rn(v12, 0x1.4ae0cp-26f, v41);
  const float v43 = __fmaf_rn(v12, 0x1.715476p+00f, v42);
  const float v44 = __fadd_rn(v16, v43);
  const bool v46 = in0 < __uint_as_float(0x7f800000u);
  const float v47 = v46 ? v44 : in0;
  const bool v49 = in0 <= 0x0p+00f;
  const float v51 = v49 ? __uint_as_float(0x7fc00000u) : v47;
  const bool v52 = in0 == 0x0p+00f;
  const float v54 = v52 ? __uint_as_float(0xff800000u) : v51;
  return v54;
}

DEV float f32_log10(float in0) {
  const bool v2 = in0 < 0x1p-126f;
  const float v4 = __fmul_rn(in0, 0x1p+24f);
  const float v5 = v2 ? v4 : in0;
  const uint32_t v7 = __float_as_uint(v5) - 0x3f2aaaabu;
  const uint32_t v8 = (uint32_t)((int)v7 >> 23);
  const uint32_t v9 = v8 << 23;
  const uint32_t v10 = __float_as_uint(v5) - v9;
  const float v12 = __fsub_rn(__uint_as_float(v10), 0x1p+00f);
  const uint32_t v14 = v8 - 0x18u;
  const uint32_t v15 = v2 ? v14 : v8;
  const float v16 = __int2float_rn((int)v15);
  const float v17 = __fmul_rn(v12, v12);
  const float v19 = __fmul_rn(v12, v17);
  const float v22 = __fmaf_rn(0x1.e05332p-04f, v12, (-0x1.07d896p-03f));
  const float v24 = __fmaf_rn(v22, v12, 0x1.bb47a8p-04f);
  const float v26 = __fmaf_rn(v24, v12, (-0x1.f3365ep-04f));
  const float v28 = __fmaf_rn(v26, v12, 0x1.24d7aap-03f);
  const float v30 = __fmaf_rn(v28, v12, (-0x1.559bb2p-03f));
  const float v32 = __fmaf_rn(v30, v12, 0x1.99985ep-03f);
  const float v34 = __fmaf_rn(v32, v12, (-0x1.ffff02p-03f));
  const float v36 = __fmaf_rn(v34, v12, 0x1.555556p-02f);
  const float v37 = __fmul_rn(v19, v36);
  const float v38 = __fmaf_rn(-v17, 0x1p-01f, v37);
  const float v42 = __fmul_rn(v38, 0x1.bcb7b2p-02f);
  const float v43 = __fmaf_rn(v12, (-0x1.5b235ep-27f), v42);
  const float v44 = __fmaf_rn(v16, 0x1.3509f8p-18f, v43);
  const float v46 = __fmul_rn(v16, 0x1.344p-02f);
  const float v47 = __fmaf_rn(v12, 0x1.bcb7b2p-02f, v44);
  const float v48 = __fadd_rn(v46, v47);
  const bool v50 = in0 < __uint_as_float(0x7f800000u);
  const float v51 = v50 ? v48 : in0;
  const bool v53 = in0 <= 0x0p+00f;
  const float v55 = v53 ? __uint_as_float(0x7fc00000u) : v51;
  const bool v56 = in0 == 0x0p+00f;
  const float v58 = v56 ? __uint_as_float(0xff800000u) : v55;
  return v58;
}

DEV float f32_log1p(float in0) {
  const float v2 = __fadd_rn(in0, 0x1p+00f);
  const uint32_t v4 = __float_as_uint(v2) - 0x3f2aaaabu;
  const uint32_t v5 = (uint32_t)((int)v4 >> 23);
  const uint32_t v6 = v5 << 23;
  const uint32_t v8 = 0x40800000u - v6;
  const float v10 = __fmul_rn(in0, 0x1p-02f);
  const float v12 = __fmaf_rn(__uint_as_float(v8), 0x1p-02f, (-0x1p+00f));
  const float v13 = __fmaf_rn(__uint_as_float(v8), v10, v12);
  const uint32_t v14 = (uint32_t)((int)v6 >> 23);
  const float v15 = __int2float_rn((int)v14);
  const float v16 = __fmul_rn(v13, v13);
  const float v17 = __fmul_rn(v13, v16);
  const float v20 = __fmaf_rn(0x1.e05332p-04f, v13, (-0x1.07d896p-03f));
  const float v22 = __fmaf_rn(v20, v13, 0x1.bb47a8p-04f);
  const float v24 = __fmaf_rn(v22, v13, (-0x1.f3365ep-04f));
  const float v26 = __fmaf_rn(v24, v13, 0x1.24d7aap-03f);
  const float v28 = __fmaf_rn(v26, v13, (-0x1.559bb2p-03f));
  const float v30 = __fmaf_rn(v28, v13, 0x1.99985ep-03f);
  const float v32 = __fmaf_rn(v30, v13, (-0x1.ffff02p-03f));
  const float v34 = __fmaf_rn(v32, v13, 0x1.555556p-02f);
  const float v35 = __fmul_rn(v17, v34);
  const float v37 = __fmaf_rn(v15, 0x1.7f7d1cp-20f, v35);
  const float v39 = __fmaf_rn(-v16, 0x1p-01f, v37);
  const float v41 = __fadd_rn(v13, v39);
  const float v42 = __fmaf_rn(v15, 0x1.62e4p-01f, v41);
  const bool v44 = v2 < __uint_as_float(0x7f800000u);
  const float v45 = v44 ? v42 : v2;
  const bool v47 = v2 <= 0x0p+00f;
  const float v49 = v47 ? __uint_as_float(0x7fc00000u) : v45;
  const bool v50 = v2 == 0x0p+00f;
  const float v52 = v50 ? __uint_as_float(0xff800000u) : v49;
  const uint32_t v54 = __float_as_uint(in0) & 0x7fffffffu;
  const bool v56 = __uint_as_float(v54) < 0x1p-25f;
  const float v57 = v56 ? in0 : v52;
  return v57;
}

DEV float f32_tanh(float in0) {
  const uint32_t v3 = __float_as_uint(in0) & 0x7fffffffu;
  const float v4 = min_nan(0x1.4p+03f, __uint_as_float(v3));
  const float v5 = __fadd_rn(v4, v4);
  const float v8 = __fmaf_rn(v5, 0x1.715476p+00f, 0x1.8p+23f);
  const float v9 = __fsub_rn(v8, 0x1.8p+23f);
  const float v11 = __fmaf_rn(-v9, 0x1.62e4p-01f, v5);
  const float v13 = __fmaf_rn(-v9, 0x1.7f7d1cp-20f, v11);
  const uint32_t v14 = __float_as_uint(v8) << 23;
  const uint32_t v16 = v14 + 0x3f800000u;
  const float v19 = __fmaf_rn(0x1.6ac052p-10f, v13, 0x1.122e28p-07f);
  const float v21 = __fmaf_rn(v19, v13, 0x1.555796p-05f);
  const float v23 = __fmaf_rn(v21, v13, 0x1.5554a8p-03f);
  const float v25 = __fmaf_rn(v23, v13, 0x1.fffffep-02f);
  const float v26 = __fmul_rn(v13, v13);
  const float v27 = __fmaf_rn(v25, v26, v13);
  const float v28 = __fsub_rn(__uint_as_float(v16), 0x1p+00f);
  const float v29 = __fmaf_rn(v27, __uint_as_float(v16), v28);
  const float v31 = __fadd_rn(v29, 0x1p+01f);
  const float v32 = __fdiv_rn(v29, v31);
  const uint32_t v34 = __float_as_uint(in0) & 0x80000000u;
  const uint32_t v35 = __float_as_uint(v32) | v34;
  return __uint_as_float(v35);
}

static __constant__ const uint32_t f32_erf_table0[16] = {
    0x00000000, 0x3e81ef28, 0x3f0203d4, 0x3f42ff80, 0x3f81fc66, 0x3fa282e4, 0x3fc30154, 0x3fe37ff2,
    0x4001f8fc, 0x4012415c, 0x40228260, 0x4032b778, 0x40430210, 0x40534128, 0x4063895c, 0x4073c95c,
};
static __constant__ const uint32_t f32_erf_table1[16] = {
    0x3de435bb, 0x3da3e620, 0x3bca6996, 0xbd5f258d, 0xbd8c16cc, 0xbd36da7c, 0xbc4a7b79, 0x3c004078,
    0x3c557955, 0x3c242547, 0x3bb40ae4, 0x3b1ba68c, 0x3a5b031c, 0x3980fab3, 0x3880035d, 0x3759200f,
};
static __constant__ const uint32_t f32_erf_table2[16] = {
    0x00000000, 0x3e02a050, 0x3e3a914f, 0x3e1676f7, 0x3d830612, 0xbc26aab9, 0xbd3b74eb, 0xbd40316d,
    0xbd04d48c, 0xbc8df60c, 0xbbf74857, 0xbb3435cf, 0xba5ce804, 0xb967c5b1, 0xb8500733, 0xb7216870,
};
static __constant__ const uint32_t f32_erf_table3[16] = {
    0xbec0912a, 0xbe9d5196, 0xbe101881, 0x3d0a50d6, 0x3e11ea8c, 0x3e2ae143, 0x3e09b73c, 0x3dadfac7,
    0x3d34a3b1, 0x3c9cfec1, 0x3be845f4, 0x3b13bbde, 0x3a20de09, 0x3917fce7, 0x37f82318, 0x36b087af,
};
static __constant__ const uint32_t f32_erf_table4[16] = {
    0x00000000, 0xbe8977c6, 0xbee2b386, 0xbef656cf, 0xbed13025, 0xbe9255c9, 0xbe2cd31a, 0xbdae70df,
    0xbd17d414, 0xbc63ea17, 0xbb94bd76, 0xbaa993a4, 0xb9a7629a, 0xb890c2a0, 0xb759f848, 0xb60ff604,
};
static __constant__ const uint32_t f32_erf_table5[16] = {
    0x3f906eba, 0x3f876c81, 0x3f5f30d7, 0x3f21b3be, 0x3ecdfde1, 0x3e66841b, 0x3de2e0f8, 0x3d444ac2,
    0x3c958633, 0x3bc778b8, 0x3aea5341, 0x39f2f08f, 0x38dbc98b, 0x37af7be6, 0x36755da1, 0x35174956,
};
static __constant__ const uint32_t f32_erf_table6[16] = {
    0x00000000, 0x3e8f8707, 0x3f0702fe, 0x3f37f76a, 0x3f595ace, 0x3f6d6bec, 0x3f780355, 0x3f7cf0ad,
    0x3f7ef4b4, 0x3f7faf63, 0x3f7fea69, 0x3f7ffadc, 0x3f7ffeed, 0x3f7fffcd, 0x3f7ffff8, 0x3f7fffff,
};
DEV float f32_erf(float in0) {
  const uint32_t v3 = __float_as_uint(in0) & 0x7fffffffu;
  const float v4 = min_nan(0x1.f70a3ep+01f, __uint_as_float(v3));
  const float v7 = __fmaf_rn(v4, 0x1.f81f82p+01f, 0x1.8p+23f);
  const float v8 = __uint_as_float(f32_erf_table0[__float_as_uint(v7) & 15]);
  const float v9 = __fsub_rn(v4, v8);
  const float v10 = __uint_as_float(f32_erf_table1[__float_as_uint(v7) & 15]);
  const float v11 = __uint_as_float(f32_erf_table2[__float_as_uint(v7) & 15]);
  const float v12 = __fmaf_rn(v10, v9, v11);
  const float v13 = __uint_as_float(f32_erf_table3[__float_as_uint(v7) & 15]);
  const float v14 = __fmaf_rn(v12, v9, v13);
  const float v15 = __uint_as_float(f32_erf_table4[__float_as_uint(v7) & 15]);
  const float v16 = __fmaf_rn(v14, v9, v15);
  const float v17 = __uint_as_float(f32_erf_table5[__float_as_uint(v7) & 15]);
  const float v18 = __fmaf_rn(v16, v9, v17);
  const float v19 = __uint_as_float(f32_erf_table6[__float_as_uint(v7) & 15]);
  const float v20 = __fmaf_rn(v18, v9, v19);
  const uint32_t v22 = __float_as_uint(in0) & 0x80000000u;
  const uint32_t v23 = __float_as_uint(v20) | v22;
  return __uint_as_float(v23);
}

static __constant__ const uint32_t f32_erfc_table0[16] = {
    0x00000000, 0x3e81ef28, 0x3f0203d4, 0x3f42ff80, 0x3f81fc66, 0x3fa282e4, 0x3fc30154, 0x3fe37ff2,
    0x4001f8fc, 0x4012415c, 0x40228260, 0x4032b778, 0x40430210, 0x40534128, 0x4063895c, 0x4073c95c,
};
static __constant__ const uint32_t f32_erfc_table1[16] = {
    0x3de435bb, 0x3da3e620, 0x3bca6996, 0xbd5f258d, 0xbd8c16cc, 0xbd36da7c, 0xbc4a7b79, 0x3c004078,
    0x3c557955, 0x3c242547, 0x3bb40ae4, 0x3b1ba68c, 0x3a5b031c, 0x3980fab3, 0x3880035d, 0x3759200f,
};
static __constant__ const uint32_t f32_erfc_table2[16] = {
    0x00000000, 0x3e02a050, 0x3e3a914f, 0x3e1676f7, 0x3d830612, 0xbc26aab9, 0xbd3b74eb, 0xbd40316d,
    0xbd04d48c, 0xbc8df60c, 0xbbf74857, 0xbb3435cf, 0xba5ce804, 0xb967c5b1, 0xb8500733, 0xb7216870,
};
static __constant__ const uint32_t f32_erfc_table3[16] = {
    0xbec0912a, 0xbe9d5196, 0xbe101881, 0x3d0a50d6, 0x3e11ea8c, 0x3e2ae143, 0x3e09b73c, 0x3dadfac7,
    0x3d34a3b1, 0x3c9cfec1, 0x3be845f4, 0x3b13bbde, 0x3a20de09, 0x3917fce7, 0x37f82318, 0x36b087af,
};
static __constant__ const uint32_t f32_erfc_table4[16] = {
    0x00000000, 0xbe8977c6, 0xbee2b386, 0xbef656cf, 0xbed13025, 0xbe9255c9, 0xbe2cd31a, 0xbdae70df,
    0xbd17d414, 0xbc63ea17, 0xbb94bd76, 0xbaa993a4, 0xb9a7629a, 0xb890c2a0, 0xb759f848, 0xb60ff604,
};
static __constant__ const uint32_t f32_erfc_table5[16] = {
    0x3f906eba, 0x3f876c81, 0x3f5f30d7, 0x3f21b3be, 0x3ecdfde1, 0x3e66841b, 0x3de2e0f8, 0x3d444ac2,
    0x3c958633, 0x3bc778b8, 0x3aea5341, 0x39f2f08f, 0x38dbc98b, 0x37af7be6, 0x36755da1, 0x35174956,
};
static __constant__ const uint32_t f32_erfc_table6[16] = {
    0x00000000, 0x3e8f8707, 0x3f0702fe, 0x3f37f76a, 0x3f595ace, 0x3f6d6bec, 0x3f780355, 0x3f7cf0ad,
    0x3f7ef4b4, 0x3f7faf63, 0x3f7fea69, 0x3f7ffadc, 0x3f7ffeed, 0x3f7fffcd, 0x3f7ffff8, 0x3f7fffff,
};
DEV float f32_erfc(float in0) {
  const uint32_t v2 = __float_as_uint(in0) & 0x7fffffffu;
  const float v4 = min_nan(0x1.466666p+03f, __uint_as_float(v2));
  const float v6 = __fsub_rn(v4, 0x1p+01f);
  const float v7 = __fadd_rn(v4, 0x1p+01f);
  const float v8 = __fdiv_rn(v6, v7);
  const float v11 = __fmaf_rn(0x1.01649ep-11f, v8, (-0x1.7b2f44p-12f));
  const float v13 = __fmaf_rn(v11, v8, (-0x1.cdcca2p-10f));
  const float v15 = __fmaf_rn(v13, v8, 0x1.49d0a4p-10f);
  const float v17 = __fmaf_rn(v15, v8, 0x1.218c54p-07f);
  const float v19 = __fmaf_rn(v17, v8, (-0x1.07519cp-07f));
  const float v21 = __fmaf_rn(v19, v8, (-0x1.bc4feep-05f));
  const float v23 = __fmaf_rn(v21, v8, 0x1.4ffa58p-03f);
  const float v25 = __fmaf_rn(v23, v8, (-0x1.540742p-03f));
  const float v27 = __fmaf_rn(v25, v8, (-0x1.7bf5fp-04f));
  const float v29 = __fmaf_rn(v27, v8, 0x1.46e80ep+00f);
  const float v31 = __fmaf_rn(0x1p+01f, v4, 0x1p+00f);
  const float v32 = __fdiv_rn(v29, v31);
  const float v33 = __fmul_rn(v4, v4);
  const uint32_t v35 = __float_as_uint(v33) ^ 0x80000000u;
  const float v36 = __fmaf_rn(v4, v4, __uint_as_float(v35));
  const float v39 = __fmaf_rn(__uint_as_float(v35), 0x1.715476p+00f, 0x1.8p+23f);
  const float v40 = __fsub_rn(v39, 0x1.8p+23f);
  const float v42 = __fmaf_rn(-v40, 0x1.62e4p-01f, __uint_as_float(v35));
  const float v44 = __fmaf_rn(-v40, 0x1.7f7d1cp-20f, v42);
  const float v47 = __fmaf_rn(0x1.6ad122p-10f, v44, 0x1.123f2ep-07f);
  const float v49 = __fmaf_rn(v47, v44, 0x1.55584ep-05f);
  const float v51 = __fmaf_rn(v49, v44, 0x1.55548ap-03f);
  const float v53 = __fmaf_rn(v51, v44, 0x1.fffffcp-02f);
  const float v54 = __fmaf_rn(v53, v44, 0x1p+00f);
  const float v55 = __fmaf_rn(v54, v44, 0x1p+00f);
  const float v56 = __fmaf_rn(-v55, v36, v55);
  const float v57 = __fmul_rn(v56, v32);
  const float v58 = lane_ldexp(v57, v40);
  const bool v60 = in0 < 0x0p+00f;
  const float v61 = __fsub_rn(0x1p+01f, v58);
  const float v62 = v60 ? v61 : v58;
  const float v64 = min_nan(0x1.f70a3ep+01f, __uint_as_float(v2));
  const float v66 = __fmaf_rn(v64, 0x1.f81f82p+01f, 0x1.8p+23f);
  const float v67 = __uint_as_float(f32_erfc_table0[__float_as_uint(v66) & 15]);
  const float v68 = __fsub_rn(v64, v67);
  const float v69 = __uint_as_float(f32_erfc_table1[__float_as_uint(v66) & 15]);
  const float v70 = __uint_as_float(f32_erfc_table2[__float_as_uint(v66) & 15]);
  const float v71 = __fmaf_rn(v69, v68, v70);
  const float v72 = __uint_as_float(f32_erfc_table3[__float_as_uint(v66) & 15]);
  const float v73 = __fmaf_rn(v71, v68, v72);
  const float v74 = __uint_as_float(f32_erfc_table4[__float_as_uint(v66) & 15]);
  const float v75 = __fmaf_rn(v73, v68, v74);
  const float v76 = __uint_as_float(f32_erfc_table5[__float_as_uint(v66) & 15]);
  const float v77 = __fmaf_rn(v75, v68, v76);
  const float v78 = __uint_as_float(f32_erfc_table6[__float_as_uint(v66) & 15]);
  const float v79 = __fmaf_rn(v77, v68, v78);
  const uint32_t v80 = __float_as_uint(in0) & 0x80000000u;
  const uint32_t v81 = __float_as_uint(v79) | v80;
  const float v82 = __fsub_rn(0x1p+00f, __uint_as_float(v81));
  const bool v84 = __uint_as_float(v2) < 0x1p-01f;
  const float v85 = v84 ? v82 : v62;
  return v85;
}

DEV float f32_normpdf(float in0) {
  const uint32_t v3 = __float_as_uint(in0) & 0x7fffffffu;
  const float v4 = min_nan(0x1.ccccccp+03f, __uint_as_float(v3));
  const float v6 = __fmul_rn(v4, 0x1.715476p-01f);
  const float v8 = __fmaf_rn(v6, v4, 0x1.8p+23f);
  const float v9 = __fsub_rn(v8, 0x1.8p+23f);
  const float v11 = __fmul_rn(v4, 0x1p-01f);
  const float v13 = __fmul_rn(v9, 0x1.62e4p-01f);
  const float v14 = __fmaf_rn(-v11, v4, v13);
  const float v16 = __fmaf_rn(v9, 0x1.7f7d1cp-20f, v14);
  const uint32_t v18 = __float_as_uint(v8) << 23;
  const uint32_t v19 = 0x5f800000u - v18;
  const float v22 = __fmaf_rn(0x1.6ad122p-10f, v16, 0x1.123f2ep-07f);
  const float v24 = __fmaf_rn(v22, v16, 0x1.55584ep-05f);
  const float v26 = __fmaf_rn(v24, v16, 0x1.55548ap-03f);
  const float v28 = __fmaf_rn(v26, v16, 0x1.fffffcp-02f);
  const float v30 = __fmaf_rn(v28, v16, 0x1p+00f);
  const float v31 = __fmaf_rn(v30, v16, 0x1p+00f);
  const float v32 = __fmul_rn(v31, __uint_as_float(v19));
  const float v34 = __fmul_rn(v32, 0x1.988454p-66f);
  return v34;
}

DEV float f32_normcdf(float in0) {
  const uint32_t v3 = __float_as_uint(in0) & 0x7fffffffu;
  const float v4 = min_nan(0x1.ccccccp+03f, __uint_as_float(v3));
  const float v6 = __fmul_rn(v4, 0x1.715476p-01f);
  const float v8 = __fmaf_rn(v6, v4, 0x1.8p+23f);
  const float v9 = __fsub_rn(v8, 0x1.8p+23f);
  const float v11 = __fmul_rn(v4, 0x1p-01f);
  const float v13 = __fmul_rn(v9, 0x1.62e4p-01f);
  const float v14 = __fmaf_rn(-v11, v4, v13);
  const float v16 = __fmaf_rn(v9, 0x1.7f7d1cp-20f, v14);
  const uint32_t v18 = __float_as_uint(v8) << 23;
  const uint32_t v19 = 0x5f800000u - v18;
  const float v22 = __fmaf_rn(0x1.6ad122p-10f, v16, 0x1.123f2ep-07f);
  const float v24 = __fmaf_rn(v22, v16, 0x1.55584ep-05f);
  const float v26 = __fmaf_rn(v24, v16, 0x1.55548ap-03f);
  const float v28 = __fmaf_rn(v26, v16, 0x1.fffffcp-02f);
  const float v30 = __fmaf_rn(v28, v16, 0x1p+00f);
  const float v31 = __fmaf_rn(v30, v16, 0x1p+00f);
  const float v32 = __fmul_rn(v31, __uint_as_float(v19));
  const float v34 = __fsub_rn(v4, 0x1.8p+01f);
  const float v35 = __fadd_rn(v4, 0x1.8p+01f);
  const float v36 = __fdiv_rn(v34, v35);
  const float v39 = __fmaf_rn(0x1.c34774p-15f, v36, 0x1.e5233ep-14f);
  const float v41 = __fmaf_rn(v39, v36, (-0x1.6443a8p-12f));
  const float v43 = __fmaf_rn(v41, v36, (-0x1.01f158p-10f));
  const float v45 = __fmaf_rn(v43, v36, 0x1.7cbb18p-09f);
  const float v47 = __fmaf_rn(v45, v36, 0x1.91e0bap-08f);
  const float v49 = __fmaf_rn(v47, v36, (-0x1.7a9468p-05f));
  const float v51 = __fmaf_rn(v49, v36, 0x1.f8bacap-04f);
  const float v53 = __fmaf_rn(v51, v36, (-0x1.a6b66ap-03f));
  const float v55 = __fmaf_rn(v53, v36, 0x1.f1b89cp-04f);
  const float v57 = __fmul_rn(v55, 0x1p-64f);
  const float v58 = __fmul_rn(v32, v57);
  const bool v60 = in0 < 0x0p+00f;
  const float v61 = __fsub_rn(0x1p+00f, v58);
  const float v62 = v60 ? v58 : v61;
  return v62;
}

DEV float f32_sigmoid(float in0) {
  const uint32_t v2 = __float_as_uint(in0) | 0x80000000u;
  const float v5 = min_nan(0x1.64p+06f, __uint_as_float(v2));
  const float v6 = max_nan((-0x1.ap+06f), v5);
  const float v9 = __fmaf_rn(v6, 0x1.715476p+00f, 0x1.8p+23f);
  const float v10 = __fsub_rn(v9, 0x1.8p+23f);
  const float v12 = __fmaf_rn(-v10, 0x1.62e4p-01f, v6);
  const float v14 = __fmaf_rn(-v10, 0x1.7f7d1cp-20f, v12);
  const float v17 = __fmaf_rn(0x1.6ad122p-10f, v14, 0x1.123f2ep-07f);
  const float v19 = __fmaf_rn(v17, v14, 0x1.55584ep-05f);
  const float v21 = __fmaf_rn(v19, v14, 0x1.55548ap-03f);
  const float v23 = __fmaf_rn(v21, v14, 0x1.fffffcp-02f);
  const float v25 = __fmaf_rn(v23, v14, 0x1p+00f);
  const float v26 = __fmaf_rn(v25, v14, 0x1p+00f);
  const float v27 = lane_ldexp(v26, v10);
  const bool v29 = in0 < 0x0p+00f;
  const float v30 = v29 ? v27 : 0x1p+00f;
  const float v31 = __fadd_rn(v27, 0x1p+00f);
  const float v32 = __fdiv_rn(v30, v31);
  return v32;
}

DEV float f32_sqrt(float in0) {
  const float v1 = __fsqrt_rn(in0);
  return v1;
}

DEV float f32_rsqrt(float in0) {
  const float v2 = __fsqrt_rn(in0);
  const float v3 = __fdiv_rn(0x1p+00f, v2);
  return v3;
}

DEV float f32_reciprocal(float in0) {
  const float v2 = __fdiv_rn(0x1p+00f, in0);
  return v2;
}

DEV float f32_sin(float in0) {
  if (!(in0 >= -48000.f && in0 <= 48000.f)) return lane_sin_large(in0);
  const float v3 = __fmaf_rn(in0, 0x1.45f306p-01f, 0x1.8p+23f);
  const float v4 = __fsub_rn(v3, 0x1.8p+23f);
  const float v6 = __fmaf_rn(-v4, 0x1.921fb6p+00f, in0);
  const float v8 = __fmaf_rn(-v4, (-0x1.777a5cp-25f), v6);
  const float v10 = __fmaf_rn(-v4, (-0x1.ee59dap-50f), v8);
  const bool v12 = in0 == 0x0p+00f;
  const float v13 = __fmul_rn(v10, v10);
  const uint32_t v14 = __float_as_uint(v3) << 31;
  const bool v15 = (int)v14 < (int)0x0u;
  const float v18 = __fmaf_rn(0x1.9b2b72p-16f, v13, (-0x1.6c1144p-10f));
  const float v20 = __fmaf_rn(v18, v13, 0x1.555554p-05f);
  const float v22 = __fmaf_rn(v20, v13, (-0x1p-01f));
  const float v24 = __fmaf_rn(v22, v13, 0x1p+00f);
  const float v27 = __fmaf_rn(0x1.7c2c4ep-19f, v13, (-0x1.a05954p-13f));
  const float v29 = __fmaf_rn(v27, v13, 0x1.111174p-07f);
  const float v31 = __fmaf_rn(v29, v13, (-0x1.555556p-03f));
  const float v32 = __fmul_rn(v10, v13);
  const float v33 = __fmaf_rn(v32, v31, v10);
  const float v34 = v15 ? v24 : v33;
  const uint32_t v35 = __float_as_uint(v3) << 30;
  const uint32_t v37 = v35 & 0x80000000u;
  const uint32_t v38 = __float_as_uint(v34) ^ v37;
  const float v39 = v12 ? in0 : __uint_as_float(v38);
  return v39;
}

DEV float f32_cos(float in0) {
  if (!(in0 >= -48000.f && in0 <= 48000.f)) return lane_cos_large(in0);
  const float v3 = __fmaf_rn(in0, 0x1.45f306p-01f, 0x1.8p+23f);
  const float v4 = __fsub_rn(v3, 0x1.8p+23f);
  const float v6 = __fmaf_rn(-v4, 0x1.921fb6p+00f, in0);
  const float v8 = __fmaf_rn(-v4, (-0x1.777a5cp-25f), v6);
  const float v10 = __fmaf_rn(-v4, (-0x1.ee59dap-50f), v8);
  const uint32_t v12 = __float_as_uint(v3) + 0x1u;
  const float v13 = __fmul_rn(v10, v10);
  const uint32_t v14 = v12 << 31;
  const bool v16 = (int)v14 < (int)0x0u;
  const float v19 = __fmaf_rn(0x1.9b2b72p-16f, v13, (-0x1.6c1144p-10f));
  const float v21 = __fmaf_rn(v19, v13, 0x1.555554p-05f);
  const float v23 = __fmaf_rn(v21, v13, (-0x1p-01f));
  const float v25 = __fmaf_rn(v23, v13, 0x1p+00f);
  const float v28 = __fmaf_rn(0x1.7c2c4ep-19f, v13, (-0x1.a05954p-13f));
  const float v30 = __fmaf_rn(v28, v13, 0x1.111174p-07f);
  const float v32 = __fmaf_rn(v30, v13, (-0x1.555556p-03f));
  const float v33 = __fmul_rn(v10, v13);
  const float v34 = __fmaf_rn(v33, v32, v10);
  const float v35 = v16 ? v25 : v34;
  const uint32_t v36 = v12 << 30;
  const uint32_t v38 = v36 & 0x80000000u;
  const uint32_t v39 = __float_as_uint(v35) ^ v38;
  return __uint_as_float(v39);
}

DEV float f32_tan(float in0) {
  if (!(in0 >= -48000.f && in0 <= 48000.f)) return lane_tan_large(in0);
  const float v3 = __fmaf_rn(in0, 0x1.45f306p-01f, 0x1.8p+23f);
  const float v4 = __fsub_rn(v3, 0x1.8p+23f);
  const float v6 = __fmaf_rn(-v4, 0x1.921fb6p+00f, in0);
  const float v8 = __fmaf_rn(-v4, (-0x1.777a5cp-25f), v6);
  const float v10 = __fmaf_rn(-v4, (-0x1.ee59dap-50f), v8);
  const float v11 = __fmul_rn(v10, v10);
  const float v14 = __fmaf_rn(0x1.7c2c4ep-19f, v11, (-0x1.a05954p-13f));
  const float v16 = __fmaf_rn(v14, v11, 0x1.111174p-07f);
  const float v18 = __fmaf_rn(v16, v11, (-0x1.555556p-03f));
  const float v19 = __fmul_rn(v10, v11);
  const float v20 = __fmaf_rn(v19, v18, v10);
  const float v23 = __fmaf_rn(0x1.9b2b72p-16f, v11, (-0x1.6c1144p-10f));
  const float v25 = __fmaf_rn(v23, v11, 0x1.555554p-05f);
  const float v27 = __fmaf_rn(v25, v11, (-0x1p-01f));
  const float v29 = __fmaf_rn(v27, v11, 0x1p+00f);
  const uint32_t v30 = __float_as_uint(v3) << 31;
  const bool v32 = (int)v30 < (int)0x0u;
  const uint32_t v34 = __float_as_uint(v29) ^ 0x80000000u;
  const uint32_t v35 = v32 ? v34 : __float_as_uint(v20);
  const float v36 = v32 ? v20 : v29;
  const float v37 = __fdiv_rn(__uint_as_float(v35), v36);
  const bool v38 = in0 == 0x0p+00f;
  const float v39 = v38 ? in0 : v37;
  return v39;
}

DEV float f32_asin(float in0) {
  const uint32_t v2 = __float_as_uint(in0) & 0x7fffffffu;
  const bool v4 = 0x1p-01f < __uint_as_float(v2);
  const float v5 = __fmaf_rn(-__uint_as_float(v2), 0x1p-01f, 0x1p-01f);
  const float v6 = __fmul_rn(__uint_as_float(v2), __uint_as_float(v2));
  const float v7 = v4 ? v5 : v6;
  const float v8 = __fsqrt_rn(v5);
  const float v9 = v4 ? v8 : __uint_as_float(v2);
  const float v12 = __fmaf_rn(0x1.59f904p-05f, v7, 0x1.8b8e3cp-06f);
  const float v14 = __fmaf_rn(v12, v7, 0x1.748cbap-05f);
  const float v16 = __fmaf_rn(v14, v7, 0x1.33015ep-04f);
  const float v18 = __fmaf_rn(v16, v7, 0x1.5555cap-03f);
  const float v19 = __fmul_rn(v9, v7);
  const float v20 = __fmul_rn(v19, v18);
  const float v21 = __fadd_rn(v9, v20);
  const float v23 = __fadd_rn(v21, v21);
  const float v25 = __fsub_rn(v23, (-0x1.777a5cp-25f));
  const float v26 = __fsub_rn(0x1.921fb6p+00f, v25);
  const float v27 = v4 ? v26 : v21;
  const uint32_t v28 = __float_as_uint(v27) & 0x7fffffffu;
  const uint32_t v30 = __float_as_uint(in0) & 0x80000000u;
  const uint32_t v31 = v28 | v30;
  return __uint_as_float(v31);
}

DEV float f32_acos(float in0) {
  const uint32_t v2 = __float_as_uint(in0) & 0x7fffffffu;
  const bool v4 = 0x1p-01f < __uint_as_float(v2);
  const float v5 = __fmaf_rn(-__uint_as_float(v2), 0x1p-01f, 0x1p-01f);
  const float v6 = __fmul_rn(__uint_as_float(v2), __uint_as_float(v2));
  const float v7 = v4 ? v5 : v6;
  const float v8 = __fsqrt_rn(v5);
  const float v9 = v4 ? v8 : __uint_as_float(v2);
  const float v12 = __fmaf_rn(0x1.59f904p-05f, v7, 0x1.8b8e3cp-06f);
  const float v14 = __fmaf_rn(v12, v7, 0x1.748cbap-05f);
  const float v16 = __fmaf_rn(v14, v7, 0x1.33015ep-04f);
  const float v18 = __fmaf_rn(v16, v7, 0x1.5555cap-03f);
  const float v19 = __fmul_rn(v9, v7);
  const float v20 = __fmul_rn(v19, v18);
  const uint32_t v22 = __float_as_uint(in0) & 0x80000000u;
  const uint32_t v23 = __float_as_uint(v20) ^ v22;
  const float v25 = __fsub_rn(__uint_as_float(v23), (-0x1.777a5cp-25f));
  const uint32_t v27 = __float_as_uint(v9) ^ v22;
  const float v28 = __fadd_rn(__uint_as_float(v27), v25);
  const float v29 = __fsub_rn(0x1.921fb6p+00f, v28);
  const float v30 = __fadd_rn(v9, v9);
  const float v31 = __fadd_rn(v20, v20);
  const float v32 = __fadd_rn(v30, v31);
  const float v35 = __fsub_rn(v32, (-0x1.777a5cp-24f));
  const float v36 = __fsub_rn(0x1.921fb6p+01f, v35);
  const bool v38 = in0 < 0x0p+00f;
  const float v39 = v38 ? v36 : v32;
  const float v40 = v4 ? v39 : v29;
  return v40;
}

DEV float f32_atan(float in0) {
  const uint32_t v2 = __float_as_uint(in0) & 0x7fffffffu;
  const bool v4 = 0x1p+00f < __uint_as_float(v2);
  const float v5 = __fdiv_rn(0x1p+00f, __uint_as_float(v2));
  const float v6 = v4 ? v5 : __uint_as_float(v2);
  const float v7 = __fmul_rn(v6, v6);
  const float v10 = __fmaf_rn((-0x1.d36fe8p-10f), v7, 0x1.642d0ap-07f);
  const float v12 = __fmaf_rn(v10, v7, (-0x1.fd82ccp-06f));
  const float v14 = __fmaf_rn(v12, v7, 0x1.da2b56p-05f);
  const float v16 = __fmaf_rn(v14, v7, (-0x1.580946p-04f));
  const float v18 = __fmaf_rn(v16, v7, 0x1.c08c52p-04f);
  const float v20 = __fmaf_rn(v18, v7, (-0x1.242086p-03f));
  const float v22 = __fmaf_rn(v20, v7, 0x1.9991e4p-03f);
  const float v24 = __fmaf_rn(v22, v7, (-0x1.55553ep-02f));
  const float v25 = __fmul_rn(v6, v7);
  const float v26 = __fmaf_rn(v25, v24, v6);
  const float v29 = __fsub_rn(v26, (-0x1.777a5cp-25f));
  const float v30 = __fsub_rn(0x1.921fb6p+00f, v29);
  const float v31 = v4 ? v30 : v26;
  const uint32_t v33 = __float_as_uint(in0) & 0x80000000u;
  const uint32_t v34 = __float_as_uint(v31) | v33;
  return __uint_as_float(v34);
}

DEV float f32_sinh(float in0) {
  const uint32_t v2 = __float_as_uint(in0) & 0x7fffffffu;
  const float v4 = min_nan(0x1.6cp+06f, __uint_as_float(v2));
  const float v7 = __fmaf_rn(v4, 0x1.715476p+00f, 0x1.8p+23f);
  const float v8 = __fsub_rn(v7, 0x1.8p+23f);
  const float v10 = __fmaf_rn(-v8, 0x1.62e4p-01f, v4);
  const float v12 = __fmaf_rn(-v8, 0x1.7f7d1cp-20f, v10);
  const float v15 = __fmaf_rn(0x1.6ad122p-10f, v12, 0x1.123f2ep-07f);
  const float v17 = __fmaf_rn(v15, v12, 0x1.55584ep-05f);
  const float v19 = __fmaf_rn(v17, v12, 0x1.55548ap-03f);
  const float v21 = __fmaf_rn(v19, v12, 0x1.fffffcp-02f);
  const float v23 = __fmaf_rn(v21, v12, 0x1p+00f);
  const float v24 = __fmaf_rn(v23, v12, 0x1p+00f);
  const float v25 = __fsub_rn(v8, 0x1p+00f);
  const float v26 = lane_ldexp(v24, v25);
  const float v28 = __fdiv_rn(0x1p-02f, v26);
  const float v29 = __fsub_rn(v26, v28);
  const float v30 = __fmul_rn(__uint_as_float(v2), __uint_as_float(v2));
  const float v33 = __fmaf_rn(0x1.756fd4p-19f, v30, 0x1.a022bp-13f);
  const float v35 = __fmaf_rn(v33, v30, 0x1.1110ep-07f);
  const float v37 = __fmaf_rn(v35, v30, 0x1.555556p-03f);
  const float v38 = __fmul_rn(__uint_as_float(v2), v30);
  const float v39 = __fmaf_rn(v38, v37, __uint_as_float(v2));
  const bool v40 = __uint_as_float(v2) < 0x1p+00f;
  const float v41 = v40 ? v39 : v29;
  const uint32_t v43 = __float_as_uint(in0) & 0x80000000u;
  const uint32_t v44 = __float_as_uint(v41) | v43;
  return __uint_as_float(v44);
}

DEV float f32_cosh(float in0) {
  const uint32_t v2 = __float_as_uint(in0) & 0x7fffffffu;
  const float v4 = min_nan(0x1.6cp+06f, __uint_as_float(v2));
  const float v7 = __fmaf_rn(v4, 0x1.715476p+00f, 0x1.8p+23f);
  const float v8 = __fsub_rn(v7, 0x1.8p+23f);
  const float v10 = __fmaf_rn(-v8, 0x1.62e4p-01f, v4);
  const float v12 = __fmaf_rn(-v8, 0x1.7f7d1cp-20f, v10);
  const float v15 = __fmaf_rn(0x1.6ad122p-10f, v12, 0x1.123f2ep-07f);
  const float v17 = __fmaf_rn(v15, v12, 0x1.55584ep-05f);
  const float v19 = __fmaf_rn(v17, v12, 0x1.55548ap-03f);
  const float v21 = __fmaf_rn(v19, v12, 0x1.fffffcp-02f);
  const float v23 = __fmaf_rn(v21, v12, 0x1p+00f);
  const float v24 = __fmaf_rn(v23, v12, 0x1p+00f);
  const float v25 = __fsub_rn(v8, 0x1p+00f);
  const float v26 = lane_ldexp(v24, v25);
  const float v28 = __fdiv_rn(0x1p-02f, v26);
  const float v29 = __fadd_rn(v26, v28);
  return v29;
}

DEV float f32_asinh(float in0) {
  const uint32_t v2 = __float_as_uint(in0) & 0x7fffffffu;
  const float v3 = __fmul_rn(__uint_as_float(v2), __uint_as_float(v2));
  const float v5 = __fmaf_rn(__uint_as_float(v2), __uint_as_float(v2), 0x1p+00f);
  const float v6 = __fsqrt_rn(v5);
  const float v7 = __fadd_rn(v6, 0x1p+00f);
  const float v8 = __fdiv_rn(v3, v7);
  const float v9 = __fadd_rn(__uint_as_float(v2), v8);
  const float v10 = __fadd_rn(v9, 0x1p+00f);
  const uint32_t v12 = __float_as_uint(v10) - 0x3f2aaaabu;
  const uint32_t v13 = (uint32_t)((int)v12 >> 23);
  const uint32_t v14 = v13 << 23;
  const uint32_t v16 = 0x40800000u - v14;
  const float v18 = __fmul_rn(v9, 0x1p-02f);
  const float v20 = __fmaf_rn(__uint_as_float(v16), 0x1p-02f, (-0x1p+00f));
  const float v21 = __fmaf_rn(__uint_as_float(v16), v18, v20);
  const uint32_t v22 = (uint32_t)((int)v14 >> 23);
  const float v23 = __int2float_rn((int)v22);
  const float v24 = __fmul_rn(v21, v21);
  const float v25 = __fmul_rn(v21, v24);
  const float v28 = __fmaf_rn(0x1.e05332p-04f, v21, (-0x1.07d896p-03f));
  const float v30 = __fmaf_rn(v28, v21, 0x1.bb47a8p-04f);
  const float v32 = __fmaf_rn(v30, v21, (-0x1.f3365ep-04f));
  const float v34 = __fmaf_rn(v32, v21, 0x1.24d7aap-03f);
  const float v36 = __fmaf_rn(v34, v21, (-0x1.559bb2p-03f));
  const float v38 = __fmaf_rn(v36, v21, 0x1.99985ep-03f);
  const float v40 = __fmaf_rn(v38, v21, (-0x1.ffff02p-03f));
  const float v42 = __fmaf_rn(v40, v21, 0x1.555556p-02f);
  const float v43 = __fmul_rn(v25, v42);
  const float v45 = __fmaf_rn(v23, 0x1.7f7d1cp-20f, v43);
  const float v47 = __fmaf_rn(-v24, 0x1p-01f, v45);
  const float v49 = __fadd_rn(v21, v47);
  const float v50 = __fmaf_rn(v23, 0x1.62e4p-01f, v49);
  const bool v52 = v10 < __uint_as_float(0x7f800000u);
  const float v53 = v52 ? v50 : v10;
  const bool v55 = v10 <= 0x0p+00f;
  const float v57 = v55 ? __uint_as_float(0x7fc00000u) : v53;
  const bool v58 = v10 == 0x0p+00f;
  const float v61 = v58 ? __uint_as_float(0xff800000u) : v57;
  const uint32_t v62 = __float_as_uint(v9) & 0x7fffffffu;
  const bool v64 = __uint_as_float(v62) < 0x1p-25f;
  const float v65 = v64 ? v9 : v61;
  const bool v67 = __uint_as_float(v2) < 0x1p-126f;
  const float v69 = __fmul_rn(__uint_as_float(v2), 0x1p+24f);
  const float v70 = v67 ? v69 : __uint_as_float(v2);
  const uint32_t v71 = __float_as_uint(v70) - 0x3f2aaaabu;
  const uint32_t v72 = (uint32_t)((int)v71 >> 23);
  const uint32_t v73 = v72 << 23;
  const uint32_t v74 = __float_as_uint(v70) - v73;
  const float v75 = __fsub_rn(__uint_as_float(v74), 0x1p+00f);
  const uint32_t v77 = v72 - 0x18u;
  const uint32_t v78 = v67 ? v77 : v72;
  const float v79 = __int2float_rn((int)v78);
  const float v80 = __fmul_rn(v75, v75);
  const float v81 = __fmul_rn(v75, v80);
  const float v82 = __fmaf_rn(0x1.e05332p-04f, v75, (-0x1.07d896p-03f));
  const float v83 = __fmaf_rn(v82, v75, 0x1.bb47a8p-04f);
  const float v84 = __fmaf_rn(v83, v75, (-0x1.f3365ep-04f));
  const float v85 = __fmaf_rn(v84, v75, 0x1.24d7aap-03f);
  const float v86 = __fmaf_rn(v85, v75, (-0x1.559bb2p-03f));
  const float v87 = __fmaf_rn(v86, v75, 0x1.99985ep-03f);
  const float v88 = __fmaf_rn(v87, v75, (-0x1.ffff02p-03f));
  const float v89 = __fmaf_rn(v88, v75, 0x1.555556p-02f);
  const float v90 = __fmul_rn(v81, v89);
  const float v91 = __fmaf_rn(v79, 0x1.7f7d1cp-20f, v90);
  const float v92 = __fmaf_rn(-v80, 0x1p-01f, v91);
  const float v93 = __fadd_rn(v75, v92);
  const float v94 = __fmaf_rn(v79, 0x1.62e4p-01f, v93);
  const bool v95 = __uint_as_float(v2) < __uint_as_float(0x7f800000u);
  const float v96 = v95 ? v94 : __uint_as_float(v2);
  const bool v97 = __uint_as_float(v2) <= 0x0p+00f;
  const float v98 = v97 ? __uint_as_float(0x7fc00000u) : v96;
  const bool v99 = __uint_as_float(v2) == 0x0p+00f;
  const float v100 = v99 ? __uint_as_float(0xff800000u) : v98;
  const float v102 = __fadd_rn(v100, 0x1.62e43p-01f);
  const bool v104 = __uint_as_float(v2) < 0x1p+20f;
  const float v105 = v104 ? v65 : v102;
  const uint32_t v106 = __float_as_uint(in0) & 0x80000000u;
  const uint32_t v107 = __float_as_uint(v105) | v106;
  return __uint_as_float(v107);
}

DEV float f32_acosh(float in0) {
  const float v2 = __fsub_rn(in0, 0x1p+00f);
  const float v3 = __fadd_rn(v2, v2);
  const float v4 = __fmaf_rn(v2, v2, v3);
  const float v5 = __fsqrt_rn(v4);
  const float v6 = __fadd_rn(v2, v5);
  const float v7 = __fadd_rn(v6, 0x1p+00f);
  const uint32_t v9 = __float_as_uint(v7) - 0x3f2aaaabu;
  const uint32_t v10 = (uint32_t)((int)v9 >> 23);
  const uint32_t v11 = v10 << 23;
  const uint32_t v13 = 0x40800000u - v11;
  const float v15 = __fmul_rn(v6, 0x1p-02f);
  const float v17 = __fmaf_rn(__uint_as_float(v13), 0x1p-02f, (-0x1p+00f));
  const float v18 = __fmaf_rn(__uint_as_float(v13), v15, v17);
  const uint32_t v19 = (uint32_t)((int)v11 >> 23);
  const float v20 = __int2float_rn((int)v19);
  const float v21 = __fmul_rn(v18, v18);
  const float v22 = __fmul_rn(v18, v21);
  const float v25 = __fmaf_rn(0x1.e05332p-04f, v18, (-0x1.07d896p-03f));
  const float v27 = __fmaf_rn(v25, v18, 0x1.bb47a8p-04f);
  const float v29 = __fmaf_rn(v27, v18, (-0x1.f3365ep-04f));
  const float v31 = __fmaf_rn(v29, v18, 0x1.24d7aap-03f);
  const float v33 = __fmaf_rn(v31, v18, (-0x1.559bb2p-03f));
  const float v35 = __fmaf_rn(v33, v18, 0x1.99985ep-03f);
  const float v37 = __fmaf_rn(v35, v18, (-0x1.ffff02p-03f));
  const float v39 = __fmaf_rn(v37, v18, 0x1.555556p-02f);
  const float v40 = __fmul_rn(v22, v39);
  const float v42 = __fmaf_rn(v20, 0x1.7f7d1cp-20f, v40);
  const float v44 = __fmaf_rn(-v21, 0x1p-01f, v42);
  const float v46 = __fadd_rn(v18, v44);
  const float v47 = __fmaf_rn(v20, 0x1.62e4p-01f, v46);
  const bool v49 = v7 < __uint_as_float(0x7f800000u);
  const float v50 = v49 ? v47 : v7;
  const bool v52 = v7 <= 0x0p+00f;
  const float v54 = v52 ? __uint_as_float(0x7fc00000u) : v50;
  const bool v55 = v7 == 0x0p+00f;
  const float v57 = v55 ? __uint_as_float(0xff800000u) : v54;
  const uint32_t v59 = __float_as_uint(v6) & 0x7fffffffu;
  const bool v61 = __uint_as_float(v59) < 0x1p-25f;
  const float v62 = v61 ? v6 : v57;
  const bool v64 = in0 < 0x1p-126f;
  const float v66 = __fmul_rn(in0, 0x1p+24f);
  const float v67 = v64 ? v66 : in0;
  const uint32_t v68 = __float_as_uint(v67) - 0x3f2aaaabu;
  const uint32_t v69 = (uint32_t)((int)v68 >> 23);
  const uint32_t v70 = v69 << 23;
  const uint32_t v71 = __float_as_uint(v67) - v70;
  const float v72 = __fsub_rn(__uint_as_float(v71), 0x1p+00f);
  const uint32_t v74 = v69 - 0x18u;
  const uint32_t v75 = v64 ? v74 : v69;
  const float v76 = __int2float_rn((int)v75);
  const float v77 = __fmul_rn(v72, v72);
  const float v78 = __fmul_rn(v72, v77);
  const float v79 = __fmaf_rn(0x1.e05332p-04f, v72, (-0x1.07d896p-03f));
  const float v80 = __fmaf_rn(v79, v72, 0x1.bb47a8p-04f);
  const float v81 = __fmaf_rn(v80, v72, (-0x1.f3365ep-04f));
  const float v82 = __fmaf_rn(v81, v72, 0x1.24d7aap-03f);
  const float v83 = __fmaf_rn(v82, v72, (-0x1.559bb2p-03f));
  const float v84 = __fmaf_rn(v83, v72, 0x1.99985ep-03f);
  const float v85 = __fmaf_rn(v84, v72, (-0x1.ffff02p-03f));
  const float v86 = __fmaf_rn(v85, v72, 0x1.555556p-02f);
  const float v87 = __fmul_rn(v78, v86);
  const float v88 = __fmaf_rn(v76, 0x1.7f7d1cp-20f, v87);
  const float v89 = __fmaf_rn(-v77, 0x1p-01f, v88);
  const float v90 = __fadd_rn(v72, v89);
  const float v91 = __fmaf_rn(v76, 0x1.62e4p-01f, v90);
  const bool v92 = in0 < __uint_as_float(0x7f800000u);
  const float v93 = v92 ? v91 : in0;
  const bool v94 = in0 <= 0x0p+00f;
  const float v95 = v94 ? __uint_as_float(0x7fc00000u) : v93;
  const bool v96 = in0 == 0x0p+00f;
  const float v97 = v96 ? __uint_as_float(0xff800000u) : v95;
  const float v99 = __fadd_rn(v97, 0x1.62e43p-01f);
  const bool v101 = in0 < 0x1p+20f;
  const float v102 = v101 ? v62 : v99;
  const bool v103 = in0 < 0x1p+00f;
  const float v104 = v103 ? __uint_as_float(0x7fc00000u) : v102;
  return v104;
}

DEV float f32_atanh(float in0) {
  const uint32_t v2 = __float_as_uint(in0) & 0x7fffffffu;
  const float v3 = __fadd_rn(__uint_as_float(v2), __uint_as_float(v2));
  const float v5 = __fsub_rn(0x1p+00f, __uint_as_float(v2));
  const float v6 = __fdiv_rn(v3, v5);
  const float v7 = __fadd_rn(v6, 0x1p+00f);
  const uint32_t v9 = __float_as_uint(v7) - 0x3f2aaaabu;
  const uint32_t v10 = (uint32_t)((int)v9 >> 23);
  const uint32_t v11 = v10 << 23;
  const uint32_t v13 = 0x40800000u - v11;
  const float v15 = __fmul_rn(v6, 0x1p-02f);
  const float v17 = __fmaf_rn(__uint_as_float(v13), 0x1p-02f, (-0x1p+00f));
  const float v18 = __fmaf_rn(__uint_as_float(v13), v15, v17);
  const uint32_t v19 = (uint32_t)((int)v11 >> 23);
  const float v20 = __int2float_rn((int)v19);
  const float v21 = __fmul_rn(v18, v18);
  const float v22 = __fmul_rn(v18, v21);
  const float v25 = __fmaf_rn(0x1.e05332p-04f, v18, (-0x1.07d896p-03f));
  const float v27 = __fmaf_rn(v25, v18, 0x1.bb47a8p-04f);
  const float v29 = __fmaf_rn(v27, v18, (-0x1.f3365ep-04f));
  const float v31 = __fmaf_rn(v29, v18, 0x1.24d7aap-03f);
  const float v33 = __fmaf_rn(v31, v18, (-0x1.559bb2p-03f));
  const float v35 = __fmaf_rn(v33, v18, 0x1.99985ep-03f);
  const float v37 = __fmaf_rn(v35, v18, (-0x1.ffff02p-03f));
  const float v39 = __fmaf_rn(v37, v18, 0x1.555556p-02f);
  const float v40 = __fmul_rn(v22, v39);
  const float v42 = __fmaf_rn(v20, 0x1.7f7d1cp-20f, v40);
  const float v44 = __fmaf_rn(-v21, 0x1p-01f, v42);
  const float v46 = __fadd_rn(v18, v44);
  const float v47 = __fmaf_rn(v20, 0x1.62e4p-01f, v46);
  const bool v49 = v7 < __uint_as_float(0x7f800000u);
  const float v50 = v49 ? v47 : v7;
  const bool v52 = v7 <= 0x0p+00f;
  const float v54 = v52 ? __uint_as_float(0x7fc00000u) : v50;
  const bool v55 = v7 == 0x0p+00f;
  const float v58 = v55 ? __uint_as_float(0xff800000u) : v54;
  const uint32_t v59 = __float_as_uint(v6) & 0x7fffffffu;
  const bool v61 = __uint_as_float(v59) < 0x1p-25f;
  const float v62 = v61 ? v6 : v58;
  const float v63 = __fmul_rn(v62, 0x1p-01f);
  const bool v65 = __uint_as_float(v2) < 0x1p-13f;
  const uint32_t v66 = v65 ? v2 : __float_as_uint(v63);
  const uint32_t v67 = __float_as_uint(in0) & 0x80000000u;
  const uint32_t v68 = v66 | v67;
  return __uint_as_float(v68);
}

DEV float f32_floor(float in0) {
  const float v1 = floorf(in0);
  return v1;
}

DEV float f32_ceil(float in0) {
  const float v1 = ceilf(in0);
  return v1;
}

DEV float f32_round(float in0) {
  const float v1 = rintf(in0);
  return v1;
}

DEV float f32_trunc(float in0) {
  const float v1 = truncf(in0);
  return v1;
}

DEV float f32_pow(float in0, float in1) {
  const uint32_t v3 = __float_as_uint(in0) & 0x7fffffffu;
  const bool v5 = __uint_as_float(v3) < 0x1p-126f;
  const float v7 = __fmul_rn(__uint_as_float(v3), 0x1p+24f);
  const float v8 = v5 ? v7 : __uint_as_float(v3);
  const uint32_t v10 = __float_as_uint(v8) - 0x3f2aaaabu;
  const uint32_t v11 = (uint32_t)((int)v10 >> 23);
  const uint32_t v12 = v11 << 23;
  const uint32_t v13 = __float_as_uint(v8) - v12;
  const float v15 = __fsub_rn(__uint_as_float(v13), 0x1p+00f);
  const uint32_t v17 = v11 - 0x18u;
  const uint32_t v18 = v5 ? v17 : v11;
  const float v19 = __int2float_rn((int)v18);
  const float v21 = __fadd_rn(v15, 0x1p+01f);
  const float v22 = __fsub_rn(v21, 0x1p+01f);
  const float v23 = __fsub_rn(v15, v22);
  const float v24 = __fdiv_rn(v15, v21);
  const float v25 = __fmaf_rn(-v24, v21, v15);
  const float v26 = __fmaf_rn(-v24, v23, v25);
  const float v27 = __fdiv_rn(v26, v21);
  const float v28 = __fmul_rn(v24, v24);
  const uint32_t v30 = __float_as_uint(v28) ^ 0x80000000u;
  const float v31 = __fmaf_rn(v24, v24, __uint_as_float(v30));
  const float v32 = __fadd_rn(v24, v24);
  const float v33 = __fmaf_rn(v32, v27, v31);
  const float v36 = __fmaf_rn(0x1.e8e776p-04f, v28, 0x1.241a42p-03f);
  const float v38 = __fmaf_rn(v36, v28, 0x1.999aap-03f);
  const float v40 = __fmul_rn(v28, 0x1.555556p-02f);
  const uint32_t v41 = __float_as_uint(v40) ^ 0x80000000u;
  const float v42 = __fmaf_rn(v28, 0x1.555556p-02f, __uint_as_float(v41));
  const float v44 = __fmaf_rn(v33, 0x1.555556p-02f, v42);
  const float v45 = __fmaf_rn(v28, (-0x1.555556p-27f), v44);
  const float v46 = __fmul_rn(v28, v28);
  const float v47 = __fmaf_rn(v46, v38, v45);
  const float v48 = __fmul_rn(v24, v40);
  const uint32_t v49 = __float_as_uint(v48) ^ 0x80000000u;
  const float v50 = __fmaf_rn(v24, v40, __uint_as_float(v49));
  const float v51 = __fmaf_rn(v27, v40, v50);
  const float v52 = __fmaf_rn(v24, v47, v51);
  const float v53 = __fadd_rn(v24, v48);
  const float v54 = __fsub_rn(v24, v53);
  const float v55 = __fadd_rn(v54, v48);
  const float v56 = __fadd_rn(v52, v27);
  const float v57 = __fadd_rn(v55, v56);
  const float v59 = __fmul_rn(v53, 0x1.715476p+01f);
  const uint32_t v60 = __float_as_uint(v59) ^ 0x80000000u;
  const float v61 = __fmaf_rn(v53, 0x1.715476p+01f, __uint_as_float(v60));
  const float v63 = __fmaf_rn(v57, 0x1.715476p+01f, v61);
  const float v64 = __fmaf_rn(v53, 0x1.4ae0cp-25f, v63);
  const float v65 = __fadd_rn(v19, v59);
  const float v66 = __fsub_rn(v19, v65);
  const float v67 = __fadd_rn(v66, v59);
  const float v68 = __fadd_rn(v67, v64);
  const bool v70 = __uint_as_float(v3) == 0x0p+00f;
  const float v73 = v70 ? __uint_as_float(0xff800000u) : v65;
  const bool v74 = __uint_as_float(v3) == __uint_as_float(0x7f800000u);
  const uint32_t v75 = v74 ? v3 : __float_as_uint(v73);
  const float v76 = __fmul_rn(in1, __uint_as_float(v75));
  const uint32_t v77 = __float_as_uint(v76) ^ 0x80000000u;
  const float v78 = __fmaf_rn(in1, __uint_as_float(v75), __uint_as_float(v77));
  const float v79 = __fmaf_rn(in1, v68, v78);
  const uint32_t v80 = __float_as_uint(v76) & 0x7fffffffu;
  const bool v82 = __uint_as_float(v80) < 0x1.9p+07f;
  const float v83 = v82 ? v79 : 0x0p+00f;
  const float v85 = min_nan(0x1.9p+07f, v76);
  const float v86 = max_nan((-0x1.9p+07f), v85);
  const float v88 = __fadd_rn(v86, 0x1.8p+23f);
  const float v89 = __fsub_rn(v88, 0x1.8p+23f);
  const float v90 = __fsub_rn(v86, v89);
  const float v91 = __fadd_rn(v90, v83);
  const float v94 = __fmaf_rn(0x1.17b7c8p-13f, v91, 0x1.5ef50ep-10f);
  const float v96 = __fmaf_rn(v94, v91, 0x1.3b680ap-07f);
  const float v98 = __fmaf_rn(v96, v91, 0x1.c6af9ep-05f);
  const float v100 = __fmaf_rn(v98, v91, 0x1.ebfb94p-03f);
  const float v102 = __fmaf_rn(v100, v91, 0x1.62e43p-01f);
  const float v103 = __fmaf_rn(v102, v91, 0x1p+00f);
  const float v104 = lane_ldexp(v103, v89);
  const bool v105 = __uint_as_float(v3) == 0x1p+00f;
  const float v106 = v105 ? 0x1p+00f : v104;
  const float v107 = truncf(in1);
  const bool v108 = v107 == in1;
  const float v110 = __fmul_rn(in1, 0x1p-01f);
  const float v111 = truncf(v110);
  const bool v112 = v111 == v110;
  const bool v113 = !v112;
  const bool v114 = v108 && v113;
  const uint32_t v115 = __float_as_uint(in0) & 0x80000000u;
  const uint32_t v116 = v114 ? v115 : 0x0u;
  const uint32_t v117 = __float_as_uint(v106) ^ v116;
  const bool v118 = in0 < 0x0p+00f;
  const bool v119 = __uint_as_float(v3) < __uint_as_float(0x7f800000u);
  const bool v120 = v118 && v119;
  const bool v121 = !v108;
  const bool v122 = v120 && v121;
  const uint32_t v124 = v122 ? 0x7fc00000u : v117;
  const bool v125 = in0 != in0 || in1 != in1;
  const uint32_t v126 = v125 ? 0x7fc00000u : v124;
  const bool v127 = in1 == 0x0p+00f;
  const bool v128 = in0 == 0x1p+00f;
  const bool v129 = v127 || v128;
  const uint32_t v130 = v129 ? 0x3f800000u : v126;
  return __uint_as_float(v130);
}

DEV float f32_lt(float in0, float in1) {
  const bool v2 = in0 < in1;
  const float v5 = v2 ? 0x1p+00f : 0x0p+00f;
  return v5;
}

DEV float f32_le(float in0, float in1) {
  const bool v2 = in0 <= in1;
  const float v5 = v2 ? 0x1p+00f : 0x0p+00f;
  return v5;
}

DEV float f32_eq(float in0, float in1) {
  const bool v2 = in0 == in1;
  const float v5 = v2 ? 0x1p+00f : 0x0p+00f;
  return v5;
}

DEV float f32_where(float in0, float in1, float in2) {
  const bool v4 = in0 == 0x0p+00f;
  const float v5 = v4 ? in2 : in1;
  return v5;
}

DEV float f32_bf16(float in0) {
  const uint32_t v1 = __float_as_uint(in0) >> 16;
  const uint32_t v3 = v1 & 0x1u;
  const uint32_t v5 = v3 + 0x7fffu;
  const uint32_t v6 = __float_as_uint(in0) + v5;
  const bool v7 = in0 != in0 || in0 != in0;
  const uint32_t v9 = __float_as_uint(in0) | 0x400000u;
  const uint32_t v10 = v7 ? v9 : v6;
  const uint32_t v12 = v10 & 0xffff0000u;
  return __uint_as_float(v12);
}

DEV float f32_f16(float in0) {
  const uint32_t v2 = __float_as_uint(in0) & 0x7fffffffu;
  const uint32_t v3 = v2 >> 13;
  const uint32_t v5 = v3 & 0x1u;
  const uint32_t v7 = v5 + 0xfffu;
  const uint32_t v8 = v2 + v7;
  const uint32_t v10 = v8 & 0xffffe000u;
  const bool v12 = __uint_as_float(v10) < 0x1p+16f;
  const uint32_t v14 = v12 ? v10 : 0x7f800000u;
  const float v16 = __fadd_rn(__uint_as_float(v2), 0x1p-01f);
  const float v17 = __fsub_rn(v16, 0x1p-01f);
  const bool v19 = __uint_as_float(v2) < 0x1p-14f;
  const float v20 = v19 ? v17 : __uint_as_float(v14);
  const bool v21 = in0 != in0 || in0 != in0;
  const uint32_t v24 = __float_as_uint(in0) & 0x80000000u;
  const uint32_t v25 = __float_as_uint(v20) | v24;
  const uint32_t v26 = v21 ? 0x7fc00000u : v25;
  return __uint_as_float(v26);
}

DEV float f32_copy(float in0) {
  return in0;
}
