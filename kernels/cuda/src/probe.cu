// What units of a GPU do by themselves, for "weft probe"; no operation uses it: loads that wait for each other, loads
// of a width with so many of them in flight, chains of products on tensor cores and of fused multiply-adds. The host
// knows each result, so that what is timed is what was asked for.
#include "prim.cuh"

namespace {

constexpr int kThreads = 256;
constexpr uint32_t kLine = 32;  // words of a line of the cache

DEV uint32_t thread() { return blockIdx.x * kThreads + threadIdx.x; }

// ring makes the first words of `lines` lines, a power of two, one cycle: each has the index of the one that is `step`
// lines, an odd number, behind.
DEV void ring(uint32_t* x, uint32_t lines, uint32_t step) {
  const uint32_t i = thread();
  if (i < lines) x[i * kLine] = (i + step) % lines * kLine;
}

// chase follows the ring: a load has its address from the one before.
DEV void chase(uint32_t* out, const uint32_t* x, uint32_t steps) {
  uint32_t at = 0;
  for (uint32_t i = 0; i < steps; i++) at = load<uint32_t>(x + at);
  *out = at;
}

DEV uint32_t words(uint16_t x) { return x; }
DEV uint32_t words(uint32_t x) { return x; }
DEV uint32_t words(uint2 x) { return x.x + x.y; }
DEV uint32_t words(uint4 x) { return x.x + x.y + x.z + x.w; }

// loads adds up n elements. A thread has EACH of them in flight, then it waits for all.
template <class T, int EACH> DEV void loads(uint32_t* out, const T* x, uint64_t n) {
  constexpr uint32_t kPart = EACH * kThreads;
  uint32_t sum = 0;
#pragma unroll 1
  for (uint64_t i = blockIdx.x * kPart + threadIdx.x; i < n; i += gridDim.x * kPart) {
    T v[EACH];
#pragma unroll
    for (int k = 0; k < EACH; k++) v[k] = load<T>(x + i + k * kThreads);
#pragma unroll
    for (int k = 0; k < EACH; k++) sum += words(v[k]);
  }
  out[thread()] = sum;
}

// products: each step of a chain adds 16 to the elements of its accumulator, which begin with the chain's number.
template <class T, int CHAINS> DEV void products(float* out, uint32_t steps) {
  const uint32_t ones = pack(T{}, 1.f, 1.f), a[4] = {ones, ones, ones, ones};
  float d[CHAINS][4], sum = 0.f;
#pragma unroll
  for (int c = 0; c < CHAINS; c++)
    for (int e = 0; e < 4; e++) d[c][e] = (float)c;
#pragma unroll 1
  for (uint32_t i = 0; i < steps; i++)
#pragma unroll
    for (int c = 0; c < CHAINS; c++) mma(T{}, d[c], a, ones, ones);
  mma_done();
#pragma unroll
  for (int c = 0; c < CHAINS; c++)
    for (int e = 0; e < 4; e++) sum = __fadd_rn(sum, d[c][e]);
  out[thread()] = sum;
}

// multiply_adds: each step of a chain makes x, first the chain's number, a x + b.
template <int CHAINS> DEV void multiply_adds(float* out, uint32_t steps, float a, float b) {
  float x[CHAINS], sum = 0.f;
#pragma unroll
  for (int c = 0; c < CHAINS; c++) x[c] = (float)c;
#pragma unroll 4
  for (uint32_t i = 0; i < steps; i++)
#pragma unroll
    for (int c = 0; c < CHAINS; c++) x[c] = __fmaf_rn(x[c], a, b);
#pragma unroll
  for (int c = 0; c < CHAINS; c++) sum = __fadd_rn(sum, x[c]);
  out[thread()] = sum;
}

}  // namespace

ENTRY(probe_ring, kThreads, 8, (uint32_t* x, uint32_t lines, uint32_t step), ring(x, lines, step))
ENTRY(probe_chase, kThreads, 8, (uint32_t* out, const uint32_t* x, uint32_t steps), chase(out, x, steps))

#define LOADS(bytes, T, n) \
  ENTRY(probe_load_##bytes##x##n, kThreads, 8, (uint32_t* out, const T* x, uint64_t count), loads<T, n>(out, x, count))
LOADS(2, uint16_t, 1)
LOADS(2, uint16_t, 4)
LOADS(4, uint32_t, 1)
LOADS(4, uint32_t, 4)
LOADS(8, uint2, 1)
LOADS(8, uint2, 4)
LOADS(16, uint4, 1)
LOADS(16, uint4, 4)

#define PRODUCTS(T)                                                                               \
  ENTRY(probe_mma_##T##x1, kThreads, 2, (float* out, uint32_t steps), products<T, 1>(out, steps)) \
  ENTRY(probe_mma_##T##x8, kThreads, 2, (float* out, uint32_t steps), products<T, 8>(out, steps))
PRODUCTS(f16)
PRODUCTS(bf16)

#define MULTIPLY_ADDS(n)                                                             \
  ENTRY(probe_fma_x##n, kThreads, 4, (float* out, uint32_t steps, float a, float b), \
        multiply_adds<n>(out, steps, a, b))
MULTIPLY_ADDS(1)
MULTIPLY_ADDS(8)
