// One kernel for each primitive of prim_hopper.cuh and prim_tma.cuh: raw data in, raw data out.
#include "prim_tma.cuh"

KERNEL(v_stmatrix, 32, 1)(const uint32_t* in, uint32_t* out) {
  SHARED(uint32_t, s, [128]);
  const int l = threadIdx.x;
  const uint32_t r[4] = {in[4 * l], in[4 * l + 1], in[4 * l + 2], in[4 * l + 3]};
  stmatrix(shared_address(s) + 16 * l, r);
  __syncwarp();
  for (int i = l; i < 128; i += 32) out[i] = s[i];
}
EXPORT(v_stmatrix);

// The box at (x, y), as it lies in shared memory.
KERNEL(v_tma_load, 128, 1)(const __grid_constant__ TensorMap map, uint32_t* out, int x, int y, int bytes) {
  SHARED_DYNAMIC(smem);
  SHARED(uint64_t, barrier, [1]);
  const uint32_t s = shared_address(smem), b = shared_address(barrier);
  if (threadIdx.x == 0) {
    mbarrier_init(b, 1);
    mbarrier_fence();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    mbarrier_expect(b, bytes);
    tma_load(s, &map, x, y, b);
  }
  mbarrier_wait(b, 0);
  for (int i = threadIdx.x; i < bytes / 4; i += 128) out[i] = *(const uint32_t*)(smem + 4 * i);
}
EXPORT(v_tma_load);

KERNEL(v_tma_store, 128, 1)(const __grid_constant__ TensorMap map, const uint32_t* in, int x, int y, int bytes) {
  SHARED_DYNAMIC(smem);
  for (int i = threadIdx.x; i < bytes / 4; i += 128) *(uint32_t*)(smem + 4 * i) = in[i];
  fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    tma_store(&map, shared_address(smem), x, y);
    tma_commit();
    tma_wait<0>();
  }
}
EXPORT(v_tma_store);

// d = 1 + A B, A [64 64] and B [64 N] as swizzled panels of 64 rows of 128 bytes, in four slices of k. A row is 64 k of
// a row of A or column of B, or if the operand is not K-major 64 rows or columns of a k. Where keep is 0 the first
// product takes the place of d.
DEV uint64_t slice(bool k_major, uint32_t panel, int k) {
  return k_major ? descriptor128(panel + 32 * k) : descriptor128(panel + 2048 * k, 8192);
}
#define WGMMA(N, half, layout, A_K_MAJOR, B_K_MAJOR)                                                             \
  KERNEL(v_wgmma_##N##_##half##_##layout, 128, 1)(const uint32_t* a, const uint32_t* b, float* out, int keep) {  \
    SHARED_DYNAMIC(smem);                                                                                        \
    const int t = threadIdx.x;                                                                                   \
    for (int i = t; i < 64 * 32; i += 128) *(uint32_t*)(smem + swizzle128(4 * i)) = a[i];                        \
    for (int i = t; i < N * 32; i += 128) *(uint32_t*)(smem + 8192 + swizzle128(4 * i)) = b[i];                  \
    fence_proxy_async();                                                                                         \
    __syncthreads();                                                                                             \
    const uint32_t s = uniform(shared_address(smem));                                                            \
    float d[N / 2];                                                                                              \
    for (int i = 0; i < N / 2; i++) d[i] = 1;                                                                    \
    wgmma_pin(d);                                                                                                \
    wgmma_fence();                                                                                               \
    for (int k = 0; k < 4; k++)                                                                                  \
      wgmma<A_K_MAJOR, B_K_MAJOR>(half{}, d, slice(A_K_MAJOR, s, k), slice(B_K_MAJOR, s + 8192, k),         \
                                       k > 0 || keep);                                                           \
    wgmma_commit();                                                                                              \
    wgmma_wait<0>();                                                                                             \
    wgmma_pin(d);                                                                                                \
    for (int i = 0; i < N / 2; i++) out[t * (N / 2) + i] = d[i];                                                 \
  }                                                                                                              \
  EXPORT(v_wgmma_##N##_##half##_##layout);
// The same with A in registers, 16 rows in each warp.
#define WGMMA_LEFT(N, half, layout, B_K_MAJOR)                                                                        \
  KERNEL(v_wgmma_left_##N##_##half##_##layout, 128, 1)(const uint32_t* a, const uint32_t* b, float* out, int keep) {  \
    SHARED_DYNAMIC(smem);                                                                                             \
    const int t = threadIdx.x;                                                                                        \
    for (int i = t; i < N * 32; i += 128) *(uint32_t*)(smem + swizzle128(4 * i)) = b[i];                              \
    fence_proxy_async();                                                                                              \
    __syncthreads();                                                                                                  \
    const uint32_t s = uniform(shared_address(smem));                                                                 \
    uint32_t left[4][4];                                                                                              \
    for (int k = 0; k < 4; k++)                                                                                       \
      for (int i = 0; i < 4; i++)                                                                                     \
        left[k][i] = a[(t / 32 * 16 + t % 32 / 4 + i % 2 * 8) * 32 + 8 * k + i / 2 * 4 + t % 4];                      \
    float d[N / 2];                                                                                                   \
    for (int i = 0; i < N / 2; i++) d[i] = 1;                                                                         \
    wgmma_pin(d);                                                                                                     \
    wgmma_fence();                                                                                                    \
    for (int k = 0; k < 4; k++)                                                                                       \
      wgmma<B_K_MAJOR>(half{}, d, left[k], slice(B_K_MAJOR, s, k), k > 0 || keep);                               \
    wgmma_commit();                                                                                                   \
    wgmma_wait<0>();                                                                                                  \
    wgmma_pin(d);                                                                                                     \
    for (int i = 0; i < N / 2; i++) out[t * (N / 2) + i] = d[i];                                                      \
  }                                                                                                                   \
  EXPORT(v_wgmma_left_##N##_##half##_##layout);
WGMMA_LEFT(64, bf16, nt, true)
WGMMA_LEFT(64, f16, nn, false)
WGMMA_LEFT(128, bf16, nn, false)
WGMMA(64, f16, nt, true, true)
WGMMA(128, bf16, nt, true, true)
WGMMA(256, f16, nt, true, true)
WGMMA(256, bf16, nt, true, true)
WGMMA(64, bf16, tn, false, false)
WGMMA(256, bf16, nn, true, false)
WGMMA(256, f16, tt, false, true)
WGMMA(256, f16, tn, false, false)
