// One kernel for each primitive of prim.cuh: raw data in, raw data out. One warp each.
#include "prim_atomic.cuh"
#include "prim_fast.cuh"
#include "prim_tma.cuh"

// 4 matrices of 8 rows of 16 bytes.
KERNEL(v_ldmatrix, 32, 1)(const uint32_t* in, uint32_t* out, int transposed) {
  SHARED(uint32_t, s, [128]);
  const int l = threadIdx.x;
  for (int i = l; i < 128; i += 32) s[i] = in[i];
  __syncwarp();
  uint32_t r[4];
  if (transposed)
    ldmatrix_transposed(r, shared_address(s) + 16 * l);
  else
    ldmatrix(r, shared_address(s) + 16 * l);
  for (int i = 0; i < 4; i++) out[4 * l + i] = r[i];
}
EXPORT(v_ldmatrix);

// A lane's registers: a0 to a3, b0, b1 of A [16 16] and B [16 8].
KERNEL(v_mma, 32, 1)(const uint32_t* in, const float* c, float* out, int bfloat) {
  const int l = threadIdx.x;
  uint32_t a[4];
  float d[4];
  for (int i = 0; i < 4; i++) {
    a[i] = in[6 * l + i];
    d[i] = c[4 * l + i];
  }
  if (bfloat)
    mma(bf16{}, d, a, in[6 * l + 4], in[6 * l + 5]);
  else
    mma(f16{}, d, a, in[6 * l + 4], in[6 * l + 5]);
  mma_done();
  for (int i = 0; i < 4; i++) out[4 * l + i] = d[i];
}
EXPORT(v_mma);

// Copies of 16, 8 and 4 bytes with every number of source bytes.
KERNEL(v_cp_async, 32, 1)(const uint32_t* in, uint32_t* out) {
  SHARED(uint32_t, s, [3 * 32 * 4]);
  const int l = threadIdx.x;
  for (int i = l; i < 384; i += 32) s[i] = 0xdeadbeef;
  __syncwarp();
  const uint32_t at = shared_address(s) + 16 * l;
  cp_async<16>(at, in + 4 * l, l % 17);
  cp_async<8>(at + 512, in + 4 * l, l % 9);
  cp_async<4>(at + 1024, in + 4 * l, l % 5);
  cp_async_commit();
  cp_async_wait<0>();
  __syncwarp();
  for (int i = l; i < 384; i += 32) out[i] = s[i];
}
EXPORT(v_cp_async);

KERNEL(v_convert, 32, 1)(const float* in, uint32_t* out, int n) {
  for (int i = threadIdx.x; i < n; i += 32) {
    out[6 * i] = to_f16(in[i]).bits;
    out[6 * i + 1] = to_bf16(in[i]).bits;
    out[6 * i + 2] = pack(f16{}, in[i], in[n - 1 - i]);
    out[6 * i + 3] = pack(bf16{}, in[i], in[n - 1 - i]);
    out[6 * i + 4] = __float_as_uint(to_float(to_f16(in[i])));
    out[6 * i + 5] = __float_as_uint(to_float(to_bf16(in[i])));
  }
}
EXPORT(v_convert);

KERNEL(v_shuffle, 32, 1)(const uint32_t* in, uint32_t* out) {
  const int l = threadIdx.x;
  for (int k = 0; k < 5; k++) out[32 * k + l] = shuffle_xor(in[l], 1 << k);
  out[160 + l] = shuffle(in[l], (5 * l + 3) % 32);
  out[192 + l] = ballot(in[l] % 3 == 0);
}
EXPORT(v_shuffle);

// The least of 32 numbers, and a signal of every lane.
KERNEL(v_atomic, 32, 1)(const uint64_t* in, uint64_t* least, uint32_t* signals) {
  atomic_min(least, in[threadIdx.x]);
  signal(signals + threadIdx.x, threadIdx.x + 1);
  signal(signals + 32, 7);
}
EXPORT(v_atomic);

KERNEL(v_exp2, 32, 1)(const float* in, float* out, int n) {
  for (int i = threadIdx.x; i < n; i += 32) out[i] = exp2_fast(in[i]);
}
EXPORT(v_exp2);

KERNEL(v_reciprocal, 32, 1)(const float* in, float* out, int n) {
  for (int i = threadIdx.x; i < n; i += 32) out[i] = reciprocal_fast(in[i]);
}
EXPORT(v_reciprocal);
