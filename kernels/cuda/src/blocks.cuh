// blocks.cuh: launches that do many things, each by blocks of its own.
#pragma once
#include "prim.cuh"

// owner_of is the one of `count` things, MOST at most, that a block works on: the last one whose blocks do not begin
// behind it. Thing k has its blocks from all[k].first on.
template <int MOST, class T> DEV const T& owner_of(const T (&all)[MOST], uint32_t count, uint32_t block) {
  uint32_t k = 0;
#pragma unroll
  for (uint32_t h = MOST / 2; h > 0; h /= 2)
    if (k + h < count && all[k + h].first <= block) k += h;
  return all[k];
}
