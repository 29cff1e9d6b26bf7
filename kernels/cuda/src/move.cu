// Moving elements to other places among a filling, by the width of an element in bytes.
#include "rows.cuh"

// Region is where the elements of x lie in y: on axis d those at lo + i*step for i < count, which lie `stride` apart in x.
struct Region {
  uint64_t rank;
  uint64_t size[kMaxDims];  // of y
  uint64_t lo[kMaxDims], step[kMaxDims], count[kMaxDims], stride[kMaxDims];
};

namespace {

constexpr int kThreads = 256;

// pad: y is x in the region and `value` elsewhere.
template <class T> DEV void pad(T* y, const T* x, T value, uint64_t total, const Region& region) {
  const uint64_t i = thread_number();
  if (i >= total) return;
  uint64_t rest = i, at = 0;
  bool inside = true;
#pragma unroll
  for (int d = kMaxDims - 1; d >= 0; d--) {
    if (d >= (int)region.rank) continue;
    uint64_t j;
    rest = divide(rest, region.size[d], j);
    j -= region.lo[d];  // wraps below the region
    const uint64_t n = region.step[d] == 1 ? j : j / region.step[d];
    inside = inside && n < region.count[d] && n * region.step[d] == j;
    at += n * region.stride[d];
  }
  y[i] = inside ? x[at] : value;
}

// triangle: y [.., rows, columns] is x where row + diagonal >= column, or <= if upper, and 0 elsewhere.
template <class T>
DEV void triangle(T* y, const T* x, uint64_t total, uint64_t rows, uint64_t columns, int64_t diagonal, int32_t upper, const Axes& axes) {
  const uint64_t i = thread_number();
  if (i >= total) return;
  const uint64_t line = i / columns;
  const int64_t above = (int64_t)(i - line * columns) - (int64_t)(line % rows) - diagonal;
  y[i] = (upper ? above >= 0 : above <= 0) ? x[place(axes, i)] : T(0);
}

}  // namespace

#define WIDTH(name, T)                                                                                                    \
  KERNEL(pad_##name, kThreads, 4)(T* y, const T* x, T value, uint64_t total, Region region) { pad(y, x, value, total, region); } \
  EXPORT(pad_##name);                                                                                                     \
  KERNEL(triangle_##name, kThreads, 4)(T* y, const T* x, uint64_t total, uint64_t rows, uint64_t columns, int64_t diagonal, \
                                       int32_t upper, Axes axes) {                                                        \
    triangle(y, x, total, rows, columns, diagonal, upper, axes);                                                          \
  }                                                                                                                       \
  EXPORT(triangle_##name);

WIDTH(b1, uint8_t)
WIDTH(b2, uint16_t)
WIDTH(b4, uint32_t)
WIDTH(b8, uint64_t)
