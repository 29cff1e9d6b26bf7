// Moving elements to places among a filling, by the width of an element in bytes.
#include "walk.cuh"

// Region is the entries of each axis of y, as the walk takes them, where elements of x lie.
struct Region {
  int32_t lo[kMaxDims], count[kMaxDims];
};

// Band is the diagonals lo to hi of a matrix; the main one is 0, those above it are positive.
struct Band { int64_t lo, hi; };

namespace {

constexpr int kThreads = 256;

// pad: y is x in the region and `value` elsewhere. The places of x are counted from where an element at the beginning of y
// would lie.
template <class T>
DEV void pad(T* y, const T* x, const Walk<2>& walk, const Shape32<2>& shape, T value, const Region& region) {
  auto within = [&](int d, uint32_t entry) { return entry - region.lo[d] < (uint32_t)region.count[d]; };
  uint32_t group = 0;
  bool inside = true;
  const Places<T, 2> p(walk, shape, [&](int d, uint32_t entry) {
    if (d == 0) group = entry;
    else inside = inside && within(d, entry);
  });
  move(y, p, [&](int e) { return inside && within(0, group + e * walk.groups) ? load<T>(x + p.in(1, e)) : value; });
}

// nearby is x, or if that is far outside of what a walk spans, a number beyond.
DEV int32_t nearby(int64_t x) {
  constexpr int64_t kFar = 1 << 30;
  return (int32_t)(x < -kFar ? -kFar : x > kFar ? kFar : x);
}

// triangle: y is x within a band of matrices and 0 elsewhere. Operand 2 is the diagonal that an element is on, column - row;
// the first element is on `diagonal`.
template <class T>
DEV void triangle(T* y, const T* x, int64_t diagonal, const Walk<3>& walk, const Shape32<3>& shape, const Band& band) {
  const int32_t lo = nearby(band.lo - diagonal), hi = nearby(band.hi - diagonal);
  const Places<T, 3> p(walk, shape);
  move(y, p, [&](int e) { return lo <= p.in(2, e) && p.in(2, e) <= hi ? load<T>(x + p.in(1, e)) : T(0); });
}

}  // namespace

#define PAD(name, T)                                                                                               \
  KERNEL(pad_##name, kThreads, 8)(T* y, const T* x, Walk<2> walk, Shape32<2> shape, T value, Region region) {      \
    pad(y, x, walk, shape, value, region);                                                                         \
  }                                                                                                                \
  EXPORT(pad_##name);

#define WIDTH(name, T)                                                                                             \
  PAD(name, T)                                                                                                     \
  KERNEL(triangle_##name, kThreads, 8)(T* y, const T* x, int64_t diagonal, Walk<3> walk, Shape32<3> shape, Band band) { \
    triangle(y, x, diagonal, walk, shape, band);                                                                   \
  }                                                                                                                \
  EXPORT(triangle_##name);

WIDTH(b1, uint8_t)
WIDTH(b2, uint16_t)
WIDTH(b4, uint32_t)
WIDTH(b8, uint64_t)
PAD(b16, uint4)
