// attention_flash_hopper.cuh: tiles of flash attention as wgmma reads them, and how warps hand them over.
#pragma once
#include "attention_flash.cuh"
#include "prim_hopper.cuh"

// Ring has the barriers of STAGES places in shared memory that are used in turn: use n is of place n % STAGES. `filled`
// when it has been written, and behind those of all places `drained` when it has been read.
template <int STAGES> struct Ring {
  static constexpr uint32_t kBytes = 16 * STAGES;
  uint32_t barriers;
  DEV_METHOD uint32_t filled(uint32_t n) const { return barriers + n % STAGES * 8; }
  DEV_METHOD uint32_t drained(uint32_t n) const { return filled(n) + 8 * STAGES; }
  DEV_METHOD void init(uint32_t writers, uint32_t readers) const {
    for (uint32_t n = 0; n < STAGES; n++) {
      mbarrier_init(filled(n), writers);
      mbarrier_init(drained(n), readers);
    }
  }
  // await waits for use n to be written, await_room for the place to be read by those of the use before.
  DEV_METHOD void await(uint32_t n) const { mbarrier_wait(filled(n), n / STAGES & 1); }
  DEV_METHOD void await_room(uint32_t n) const { mbarrier_wait(drained(n), ~(n / STAGES) & 1); }
  // fill and drain are for warps that have written or read it.
  DEV_METHOD void fill(uint32_t n) const { arrive(filled(n)); }
  DEV_METHOD void drain(uint32_t n) const { arrive(drained(n)); }
  static DEV_METHOD void arrive(uint32_t barrier) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(barrier);
  }
};

// begin_tile begins to copy ROWS rows of an operand, of which `exist` exist, to a tile, by a warp. The others are 0.
// Panels of 64 columns lie one behind the other: rows of 128 bytes, swizzled.
template <int D, int ROWS, class T> DEV void begin_tile(uint32_t tile, const Matrix<const T>& from, uint32_t exist) {
  const uint32_t lane = threadIdx.x % 32, row = lane / 8, unit = lane % 8;
  const uint32_t to = tile + swizzle128(row * 128 + unit * 16);
#pragma unroll 1
  for (int i = 0; i < D / 64; i++) {
    const T* p = from.data + row * from.row + i * 64 + unit * kUnit;
    const uint32_t panel = to + i * (ROWS * 128), odd = panel ^ 64;  // rows 4 to 7 of 8
#pragma unroll 2
    for (uint32_t r = 0; r < ROWS; r += 4) {
      cp_async<16>((r % 8 ? odd : panel) + r * 128, p, row + r < exist ? 16 : 0);
      p += 4 * from.row;
    }
  }
}
