// report.cuh: indices outside their axis. A kernel that meets one notes it, leaves it out and goes on: a trap would end
// the use of the GPU. The host learns of it when it waits the next time.
#pragma once
#include "prim_atomic.cuh"

// Report is where the kernels of one operation note such indices.
struct Report {
  uint64_t* first;  // the lowest number of one, times 2^32, and the index itself, both saturated; all ones at first
  uint32_t* seen;   // memory of the host: 1 if any operation has noted one
};

// report notes that number `number` of the indices is out of its axis.
DEV void report(const Report& to, uint64_t number, int64_t index) {
  constexpr int64_t kLeast = -(1ll << 31), kMost = (1ll << 31) - 1;
  constexpr uint64_t kAll = (1ull << 32) - 1;
  const int64_t low = index < kLeast ? kLeast : index > kMost ? kMost : index;
  atomic_min(to.first, (number < kAll ? number : kAll) << 32 | (uint32_t)low);
  signal(to.seen, 1);
}

// index_value is an element of indices, whose type `bytes` tells: int64, int32 or uint8.
DEV int64_t index_value(const void* data, uint64_t bytes, uint64_t at) {
  if (bytes == 8) return static_cast<const int64_t*>(data)[at];
  if (bytes == 4) return static_cast<const int32_t*>(data)[at];
  return static_cast<const uint8_t*>(data)[at];
}
