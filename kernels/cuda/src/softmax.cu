// Softmax of rows: e = exp(x - max(x)), y = e * (1 / sum(e)), the sum in the canonical order. Rows lie at any
// distance; their elements lie side by side.
#include "reduce.cuh"

namespace {

// ---- short rows: a warp each, in registers -----------------------------------------------------------

constexpr int kWarps = 4;
constexpr int kSteps = 16;  // of 64 elements: rows up to 1024

DEV float max_of_warp(float x) {
#pragma unroll
  for (int h = 16; h > 0; h /= 2) x = Max::combine(x, shuffle_xor(x, h));
  return x;
}

// A thread has the elements whose canonical lanes are its own number and the one 32 above.
DEV void row_by_warp(float* y, const float* x, uint64_t rows, uint32_t n, uint64_t y_step, uint64_t x_step) {
  const uint64_t row = (uint64_t)blockIdx.x * kWarps + threadIdx.x / 32;
  if (row >= rows) return;
  const uint32_t lane = threadIdx.x % 32;
  const float* in = x + row * x_step;
  float* out = y + row * y_step;

  float e[kSteps][2], most = Max::start();
#pragma unroll
  for (int s = 0; s < kSteps; s++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const uint32_t i = 64 * s + 32 * h + lane;
      e[s][h] = i < n ? in[i] : Max::start();
      most = Max::combine(most, e[s][h]);
    }
  most = max_of_warp(most);

  float sum[2] = {0.f, 0.f};
#pragma unroll
  for (int s = 0; s < kSteps; s++)
#pragma unroll
    for (int h = 0; h < 2; h++)
      if (64 * s + 32 * h + lane < n) {
        e[s][h] = f32_exp(__fsub_rn(e[s][h], most));
        sum[h] = __fadd_rn(sum[h], e[s][h]);
      }
  const float scale = __fdiv_rn(1.f, warp_tree<Sum>(sum[0], sum[1]));
#pragma unroll
  for (int s = 0; s < kSteps; s++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const uint32_t i = 64 * s + 32 * h + lane;
      if (i < n) out[i] = __fmul_rn(e[s][h], scale);
    }
}

// ---- long rows: a block each -------------------------------------------------------------------------

constexpr int kThreads = 256;
constexpr uint32_t kTile = 4096;  // a divisor of a canonical block

// max_of_block leaves the result of all threads in room[0].
DEV float max_of_block(float x, float* room) {
  x = max_of_warp(x);
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
  __syncthreads();
  float most = room[0];
  for (int w = 1; w < kThreads / 32; w++) most = Max::combine(most, room[w]);
  return most;
}

// All threads compute exponentials, a tile of them at a time, and leave them in shared memory and in the result.
// The first warp adds them up, its threads holding two lanes of the canonical order each. `total` are the lanes of
// the second level: block b of the row goes to lane b mod 64.
DEV void row_by_block(float* y, const float* x, uint32_t n, uint64_t y_step, uint64_t x_step) {
  SHARED(float, tile, [kTile]);
  SHARED(float, room, [kThreads / 32]);
  const uint32_t t = threadIdx.x;
  const float* in = x + blockIdx.x * x_step;
  float* out = y + blockIdx.x * y_step;

  float most = Max::start();
  for (uint32_t i = t; i < n; i += kThreads) most = Max::combine(most, in[i]);
  most = max_of_block(most, room);

  float low = 0.f, high = 0.f, total_low = 0.f, total_high = 0.f;
  for (uint32_t from = 0; from < n; from += kTile) {
    const uint32_t count = n - from < kTile ? n - from : kTile;
    for (uint32_t i = t; i < count; i += kThreads) {
      const float e = f32_exp(__fsub_rn(in[from + i], most));
      tile[i] = e;
      out[from + i] = e;
    }
    __syncthreads();
    if (t < 32) {
      for (uint32_t i = t; i < count; i += kFoldLanes) {
        low = __fadd_rn(low, tile[i]);
        if (i + 32 < count) high = __fadd_rn(high, tile[i + 32]);
      }
      if ((from + kTile) % kFoldBlock == 0 || from + kTile >= n) {
        const float block = warp_tree<Sum>(low, high);
        const uint32_t lane = from / kFoldBlock % kFoldLanes;
        if (t == lane) total_low = __fadd_rn(total_low, block);
        if (t + 32 == lane) total_high = __fadd_rn(total_high, block);
        low = high = 0.f;
      }
    }
    __syncthreads();
  }
  if (t < 32) {
    const float sum = warp_tree<Sum>(total_low, total_high);
    if (t == 0) room[0] = __fdiv_rn(1.f, sum);
  }
  __syncthreads();
  const float scale = room[0];
  for (uint32_t i = t; i < n; i += kThreads) out[i] = __fmul_rn(out[i], scale);
}

}  // namespace

// Rows of at most 1024 elements, 4 to a block.
KERNEL(softmax_fwd_short_f32, 32 * kWarps, 8)(float* y, const float* x, uint64_t rows, uint32_t n, uint64_t y_step, uint64_t x_step) {
  row_by_warp(y, x, rows, n, y_step, x_step);
}
EXPORT(softmax_fwd_short_f32);

// Rows of at most 2^28 elements, which are the blocks of one block; one row to a block.
KERNEL(softmax_fwd_long_f32, kThreads, 4)(float* y, const float* x, uint32_t n, uint64_t y_step, uint64_t x_step) {
  row_by_block(y, x, n, y_step, x_step);
}
EXPORT(softmax_fwd_long_f32);
