// Softmax of long rows, a block each: e = exp(x - max(x)), y = e * (1 / sum(e)), the sum in the canonical order. Rows lie
// at any distance; their elements lie side by side. Other rows: rows.cu.
#include "reduce.cuh"

namespace {

constexpr int kThreads = 256;
constexpr uint32_t kTile = 8192;  // a divisor of a canonical block

// max_of_block leaves the result of all threads in room[0].
template <class N> DEV N max_of_block(N x, N* room) {
  x = warp_all<Max>(x);
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
  __syncthreads();
  N most = room[0];
  for (int w = 1; w < kThreads / 32; w++) most = Max::combine(most, room[w]);
  return most;
}

// All threads compute exponentials, a tile of them at a time, and leave them in shared memory. The first warp adds them
// up, its threads holding two lanes of the canonical order each. `total` are the lanes of the second level: block b of
// the row goes to lane b mod 64. A row that is one tile is read once; of others, exponentials are computed again for the
// results. A thread has the same elements of a tile each time.
template <class T> DEV void softmax_long(T* y, const T* x, uint32_t n, uint64_t y_step, uint64_t x_step) {
  using N = typename NumberOf<T>::Type;
  SHARED(N, tile, [kTile]);
  SHARED(N, room, [kThreads / 32]);
  const uint32_t t = threadIdx.x;
  const T* in = x + blockIdx.x * x_step;
  T* out = y + blockIdx.x * y_step;

  const bool one = n <= kTile;
  N most = Max::start<N>();
  for (uint32_t i = t; i < n; i += kThreads) {
    const N v = number<N>(in[i]);
    if (one) tile[i] = v;
    most = Max::combine(most, v);
  }
  most = max_of_block(most, room);

  N low = 0, high = 0, total_low = 0, total_high = 0;
  for (uint32_t from = 0; from < n; from += kTile) {
    const uint32_t count = n - from < kTile ? n - from : kTile;
    for (uint32_t i = t; i < count; i += kThreads) tile[i] = num::exp(num::sub(one ? tile[i] : number<N>(in[from + i]), most));
    __syncthreads();
    if (t < 32) {
      for (uint32_t i = t; i < count; i += kFoldLanes) {
        low = num::add(low, tile[i]);
        if (i + 32 < count) high = num::add(high, tile[i + 32]);
      }
      if ((from + kTile) % kFoldBlock == 0 || from + kTile >= n) {
        const N block = warp_tree<Sum>(low, high);
        const uint32_t lane = from / kFoldBlock % kFoldLanes;
        if (t == lane) total_low = num::add(total_low, block);
        if (t + 32 == lane) total_high = num::add(total_high, block);
        low = high = 0;
      }
    }
    __syncthreads();
  }
  if (t < 32) {
    const N sum = warp_tree<Sum>(total_low, total_high);
    if (t == 0) room[0] = num::div(N(1), sum);
  }
  __syncthreads();
  const N scale = room[0];
  for (uint32_t i = t; i < n; i += kThreads) {
    const N e = one ? tile[i] : num::exp(num::sub(number<N>(in[i]), most));
    out[i] = element<T>(num::mul(e, scale));
  }
}

}  // namespace

// Rows of at most 2^28 elements, whose blocks are one block of the second level.
#define SOFTMAX(suffix, T)                                                                                                 \
  KERNEL(softmax_long##suffix, kThreads, 4)(T* y, const T* x, uint32_t n, uint64_t y_step, uint64_t x_step) {              \
    softmax_long(y, x, n, y_step, x_step);                                                                                 \
  }                                                                                                                        \
  EXPORT(softmax_long##suffix);

SOFTMAX(_f32, float)
SOFTMAX(_f16, f16)
SOFTMAX(_bf16, bf16)
