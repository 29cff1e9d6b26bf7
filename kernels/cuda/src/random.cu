// Random numbers by counter.
#include "index.cuh"
#include "philox.cuh"

// Numbers first, first+1, ... of a stream as uniform numbers in [0, 1). A thread makes the four of one block.
KERNEL(uniform_f32, 256, 8)(float* to, uint64_t n, uint64_t key, uint64_t counter, uint32_t stream, uint64_t first) {
  const uint64_t block = first / 4 + thread_number();
  const Words w = philox_block(key, counter + block, stream);
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const uint64_t i = 4 * block + j - first;  // wraps for what comes before the first
    if (i < n) to[i] = philox_uniform(w.x[j]);
  }
}
EXPORT(uniform_f32);
