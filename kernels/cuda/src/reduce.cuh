// reduce.cuh: reductions in the canonical order (docs/DESIGN.md, section 9). Elements are taken in blocks of
// 16,384; inside a block element i goes to lane i mod 64, in ascending i; then lane j takes lane j+h for h = 32,
// 16, 8, 4, 2, 1. The results of the blocks are reduced by the same rule.
#pragma once
#include "index.cuh"
#include "z_lane.cuh"

constexpr uint32_t kFoldBlock = 16384;
constexpr uint32_t kFoldLanes = 64;

struct Sum {
  DEV_METHOD static float start() { return 0.f; }
  DEV_METHOD static float combine(float x, float y) { return __fadd_rn(x, y); }
};
struct Prod {
  DEV_METHOD static float start() { return 1.f; }
  DEV_METHOD static float combine(float x, float y) { return __fmul_rn(x, y); }
};
struct Max {
  DEV_METHOD static float start() { return __uint_as_float(0xff800000); }
  DEV_METHOD static float combine(float x, float y) { return f32_max(x, y); }
};
struct Min {
  DEV_METHOD static float start() { return __uint_as_float(0x7f800000); }
  DEV_METHOD static float combine(float x, float y) { return f32_min(x, y); }
};

// warp_tree combines the 64 lanes of a block, of which a thread holds number `lane` and the one 32 above it. All
// threads of the warp get the result: threads j and j xor h combine the same two numbers.
template <class Fold> DEV float warp_tree(float low, float high) {
  float x = Fold::combine(low, high);
#pragma unroll
  for (int h = 16; h > 0; h /= 2) x = Fold::combine(x, shuffle_xor(x, h));
  return x;
}

// warp_fold reduces at most one block of elements by a warp; read(i) is element i.
template <class Fold, class Read> DEV float warp_fold(uint32_t n, Read read) {
  const uint32_t lane = threadIdx.x % 32;
  float low = Fold::start(), high = Fold::start();
  uint32_t i = lane;
#pragma unroll 4
  for (; i + 32 < n; i += kFoldLanes) {
    low = Fold::combine(low, read(i));
    high = Fold::combine(high, read(i + 32));
  }
  if (i < n) low = Fold::combine(low, read(i));
  return warp_tree<Fold>(low, high);
}
