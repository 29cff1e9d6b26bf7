// Softmax of rows: e = exp(x - max(x)), y = e * (1 / sum(e)), the sum in the canonical order. Rows lie at any
// distance; their elements lie side by side.
#include "reduce.cuh"

namespace {

// ---- short rows: a warp each, in registers -----------------------------------------------------------

constexpr int kWarps = 4;
constexpr int kSteps = 16;  // of 64 elements: rows up to 1024

// A thread has the elements whose canonical lanes are its own number and the one 32 above.
template <class T> DEV void row_by_warp(T* y, const T* x, uint64_t rows, uint32_t n, uint64_t y_step, uint64_t x_step) {
  using N = typename NumberOf<T>::Type;
  const uint64_t row = (uint64_t)blockIdx.x * kWarps + threadIdx.x / 32;
  if (row >= rows) return;
  const uint32_t lane = threadIdx.x % 32;
  const T* in = x + row * x_step;
  T* out = y + row * y_step;

  N e[kSteps][2], most = Max::start<N>();
#pragma unroll
  for (int s = 0; s < kSteps; s++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const uint32_t i = 64 * s + 32 * h + lane;
      e[s][h] = i < n ? number<N>(in[i]) : Max::start<N>();
      most = Max::combine(most, e[s][h]);
    }
  most = warp_all<Max>(most);

  N sum[2] = {0, 0};
#pragma unroll
  for (int s = 0; s < kSteps; s++)
#pragma unroll
    for (int h = 0; h < 2; h++)
      if (64 * s + 32 * h + lane < n) {
        e[s][h] = num::exp(num::sub(e[s][h], most));
        sum[h] = num::add(sum[h], e[s][h]);
      }
  const N scale = num::div(N(1), warp_tree<Sum>(sum[0], sum[1]));
#pragma unroll
  for (int s = 0; s < kSteps; s++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const uint32_t i = 64 * s + 32 * h + lane;
      if (i < n) out[i] = element<T>(num::mul(e[s][h], scale));
    }
}

// ---- long rows: a block each -------------------------------------------------------------------------

constexpr int kThreads = 256;
constexpr uint32_t kTile = 4096;  // a divisor of a canonical block

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
// the row goes to lane b mod 64. Results are computed anew, since elements may have fewer bits than exponentials.
template <class T> DEV void row_by_block(T* y, const T* x, uint32_t n, uint64_t y_step, uint64_t x_step) {
  using N = typename NumberOf<T>::Type;
  SHARED(N, tile, [kTile]);
  SHARED(N, room, [kThreads / 32]);
  const uint32_t t = threadIdx.x;
  const T* in = x + blockIdx.x * x_step;
  T* out = y + blockIdx.x * y_step;

  N most = Max::start<N>();
  for (uint32_t i = t; i < n; i += kThreads) most = Max::combine(most, number<N>(in[i]));
  most = max_of_block(most, room);

  N low = 0, high = 0, total_low = 0, total_high = 0;
  for (uint32_t from = 0; from < n; from += kTile) {
    const uint32_t count = n - from < kTile ? n - from : kTile;
    for (uint32_t i = t; i < count; i += kThreads) tile[i] = num::exp(num::sub(number<N>(in[from + i]), most));
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
  for (uint32_t i = t; i < n; i += kThreads) out[i] = element<T>(num::mul(num::exp(num::sub(number<N>(in[i]), most)), scale));
}

}  // namespace

// Rows of at most 1024 elements, 4 to a block; and of at most 2^28 elements, which are the blocks of one block, one row
// to a block.
#define SOFTMAX(suffix, T)                                                                                                 \
  KERNEL(softmax_fwd_short##suffix, 32 * kWarps, 4)(T* y, const T* x, uint64_t rows, uint32_t n, uint64_t y_step, uint64_t x_step) { \
    row_by_warp(y, x, rows, n, y_step, x_step);                                                                            \
  }                                                                                                                        \
  EXPORT(softmax_fwd_short##suffix);                                                                                       \
  KERNEL(softmax_fwd_long##suffix, kThreads, 4)(T* y, const T* x, uint32_t n, uint64_t y_step, uint64_t x_step) {          \
    row_by_block(y, x, n, y_step, x_step);                                                                                 \
  }                                                                                                                        \
  EXPORT(softmax_fwd_long##suffix);

SOFTMAX(_f32, float)
SOFTMAX(_f16, f16)
SOFTMAX(_bf16, bf16)
