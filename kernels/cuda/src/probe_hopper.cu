// targets: sm_90a
//
// wgmma for "weft probe", as probe.cu has mma.sync: products of 64 rows by 256 columns in shared memory, one after the
// other.
#include "prim_hopper.cuh"

namespace {

constexpr int kThreads = 256;  // two warpgroups at most
constexpr uint32_t kRows = 64, kColumns = 256, kDepth = 64;

// products: each step adds 64 to the elements of the accumulators.
template <class T> DEV void products(float* out, uint32_t steps) {
  SHARED_DYNAMIC(memory);
  for (uint32_t i = threadIdx.x; i < (kRows + kColumns) * kDepth / 2; i += blockDim.x)
    *(uint32_t*)(memory + 4 * i) = pack(T{}, 1.f, 1.f);
  fence_proxy_async();
  __syncthreads();
  const uint32_t a = uniform(shared_address(memory)), b = a + 2 * kRows * kDepth;
  float d[kColumns / 2], sum = 0.f;
#pragma unroll
  for (uint32_t i = 0; i < kColumns / 2; i++) d[i] = 0.f;
  wgmma_pin(d);
#pragma unroll 1
  for (uint32_t i = 0; i < steps; i++) {
    wgmma_fence();
#pragma unroll
    for (uint32_t k = 0; k < kDepth / 16; k++) wgmma(T{}, d, descriptor128(a + 32 * k), descriptor128(b + 32 * k), 1);
    wgmma_commit();
    wgmma_wait<1>();
  }
  wgmma_wait<0>();
  wgmma_pin(d);
#pragma unroll
  for (uint32_t i = 0; i < kColumns / 2; i++) sum = __fadd_rn(sum, d[i]);
  out[blockIdx.x * kThreads + threadIdx.x] = sum;
}

}  // namespace

ENTRY(probe_wgmma_f16, kThreads, 1, (float* out, uint32_t steps), products<f16>(out, steps))
ENTRY(probe_wgmma_bf16, kThreads, 1, (float* out, uint32_t steps), products<bf16>(out, steps))
