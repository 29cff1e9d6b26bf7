// matmul_half.cuh: what kernels of products in half precision share.
#pragma once
#include "matmul.cuh"

// Parts are `count` parts of k values each, the last of fewer, in the order in which their sums are added. Tiles have
// sums in memory, and the number of parts that have added to them; behind these, tickets for parts.
struct Parts {
  float* sums;
  uint32_t* turns;
  uint32_t count, k;
};

// Bits of `wide`: operands whose loads, and a result whose stores, are vectorised to 16 bytes.
constexpr uint32_t kWideA = 1, kWideB = 2, kWideC = 4;

constexpr int kUnit = 8;  // elements of 16 bytes

DEV int clamp(int n, int most) { return n < 0 ? 0 : n < most ? n : most; }
