// index_error.cuh: indices outside their axis. A kernel records the first one, skips it and goes on: a trap would make
// the context unusable. The host sees the record when it next waits.
#pragma once
#include "prim_atomic.cuh"

// IndexErrors is where the kernels of one operation record such indices.
struct IndexErrors {
  uint64_t* first;  // lowest position << 32 | the index itself, both saturated; all ones at first
  uint32_t* seen;   // host memory: 1 if any operation has recorded one
};

// report records that the index at position `number` is outside its axis.
DEV void report(const IndexErrors& to, uint64_t number, int64_t index) {
  constexpr int64_t kLeast = -(1ll << 31), kMost = (1ll << 31) - 1;
  constexpr uint64_t kAll = (1ull << 32) - 1;
  const int64_t low = index < kLeast ? kLeast : index > kMost ? kMost : index;
  atomic_min(to.first, (number < kAll ? number : kAll) << 32 | (uint32_t)low);
  signal(to.seen, 1);
}

// index_value is element `at` of a tensor of indices, int64, int32 or uint8 by the `bytes` of an element.
DEV int64_t index_value(const void* data, uint64_t bytes, uint64_t at) {
  if (bytes == 8) return static_cast<const int64_t*>(data)[at];
  if (bytes == 4) return static_cast<const int32_t*>(data)[at];
  return static_cast<const uint8_t*>(data)[at];
}
