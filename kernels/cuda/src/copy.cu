// Operations that move elements without looking at their values: copies between layouts (contiguous, cat, stack, flip),
// transposed copies, fills, pad with the gradients of slices, and triangles. Kernels are by the width of an element.
#include "copy.cuh"

// Region is the box of y that x fills: of each axis, as the range has it, `count` coordinates from `lo` on.
struct Region {
  int32_t lo[kMaxDims], count[kMaxDims];
};

// Band is the diagonals lo to hi of a matrix; the main one is 0, those above it are positive.
struct Band { int64_t lo, hi; };

namespace {

constexpr int kThreads = 256;

DEV bool aligned16(const void* p) { return (uint64_t)p % 16 == 0; }

// fill writes n elements of one value, 16 bytes a thread.
template <class T> DEV void fill(T* to, T value, uint64_t n) {
  constexpr int kWide = 16 / sizeof(T);
  const uint64_t i = thread_index() * kWide;
  if (aligned16(to) && i + kWide <= n) {
    uint64_t word = value;
#pragma unroll
    for (int bits = 8 * sizeof(T); bits < 64; bits *= 2) word |= word << bits;
    const uint32_t low = (uint32_t)word, high = (uint32_t)(word >> 32);
    store<uint4>(to + i, {low, high, low, high});
    return;
  }
  for (uint64_t j = i; j < i + kWide && j < n; j++) to[j] = value;
}

// copy moves elements between two layouts; operand 0 of the range is the destination.
template <class T> DEV void copy(T* to, const T* from, const StridedRange<2>& range, const Shape32<2>& shape) {
  const Offsets<T, 2> p(range, shape);
  store_each(to, p, [&](int e) { return load<T>(from + p.of(1, e)); });
}

constexpr int kTile = 32;

// transpose copies element (i, j) of matrices from from[i + j * from_stride] to to[i * to_stride + j], by way of tiles
// in shared memory, so that both accesses are coalesced. `shape` is that of the batch; operand 0 is the destination.
template <class T>
DEV void transpose(T* to, const T* from, uint64_t rows, uint64_t columns, uint64_t to_stride, uint64_t from_stride,
                   const Shape64<2>& shape) {
  SHARED(T, tile, [kTile][kTile + 1]);
  const uint64_t across = (columns + kTile - 1) / kTile, down = (rows + kTile - 1) / kTile;
  const uint64_t strip = blockIdx.x / across, matrix = strip / down;
  const uint64_t row = (strip - matrix * down) * kTile, column = (blockIdx.x - strip * across) * kTile;
  uint64_t at[2];
  locate(shape, matrix, at);
  const uint32_t x = threadIdx.x % kTile, y = threadIdx.x / kTile;
  for (uint32_t j = y; j < kTile; j += kThreads / kTile)
    if (row + x < rows && column + j < columns) tile[j][x] = from[at[1] + row + x + (column + j) * from_stride];
  __syncthreads();
  for (uint32_t i = y; i < kTile; i += kThreads / kTile)
    if (row + i < rows && column + x < columns) to[at[0] + (row + i) * to_stride + column + x] = tile[x][i];
}

// pad: y is x in the region and `value` elsewhere. Offsets of x count from where its element at the origin of y would
// be.
template <class T>
DEV void pad(T* y, const T* x, const StridedRange<2>& range, const Shape32<2>& shape, T value, const Region& region) {
  auto within = [&](int d, uint32_t coordinate) { return coordinate - region.lo[d] < (uint32_t)region.count[d]; };
  uint32_t first = 0;
  bool inside = true;
  const Offsets<T, 2> p(range, shape, [&](int d, uint32_t coordinate) {
    if (d == 0) first = coordinate;
    else inside = inside && within(d, coordinate);
  });
  store_each(y, p,
             [&](int e) { return inside && within(0, first + e * range.entries) ? load<T>(x + p.of(1, e)) : value; });
}

// clamp_far clamps x to 32 bits, to values beyond the reach of every range.
DEV int32_t clamp_far(int64_t x) {
  constexpr int64_t kFar = 1 << 30;
  return (int32_t)(x < -kFar ? -kFar : x > kFar ? kFar : x);
}

// triangle: y is x within a band of matrices and 0 elsewhere. Operand 2 is the diagonal of an element, column - row,
// relative to `diagonal`, that of the first element.
template <class T>
DEV void triangle(T* y, const T* x, int64_t diagonal, const StridedRange<3>& range, const Shape32<3>& shape,
                  const Band& band) {
  const int32_t lo = clamp_far(band.lo - diagonal), hi = clamp_far(band.hi - diagonal);
  const Offsets<T, 3> p(range, shape);
  store_each(y, p, [&](int e) { return lo <= p.of(2, e) && p.of(2, e) <= hi ? load<T>(x + p.of(1, e)) : T(0); });
}

}  // namespace

#define COPY(name, T)                                                                              \
  ENTRY(copy_##name, kThreads, 8, (T* to, const T* from, StridedRange<2> range, Shape32<2> shape), \
        copy(to, from, range, shape))                                                              \
  ENTRY(pad_##name, kThreads, 8,                                                                   \
        (T* y, const T* x, StridedRange<2> range, Shape32<2> shape, T value, Region region),       \
        pad(y, x, range, shape, value, region))

#define COPY_AND_FILL(name, T)                                                                            \
  COPY(name, T)                                                                                           \
  ENTRY(fill_##name, kThreads, 8, (T* to, T value, uint64_t n), fill(to, value, n))                       \
  ENTRY(transpose_##name, kThreads, 8,                                                                    \
        (T* to, const T* from, uint64_t rows, uint64_t columns, uint64_t to_stride, uint64_t from_stride, \
         Shape64<2> shape),                                                                               \
        transpose(to, from, rows, columns, to_stride, from_stride, shape))                                \
  ENTRY(triangle_##name, kThreads, 8,                                                                     \
        (T* y, const T* x, int64_t diagonal, StridedRange<3> range, Shape32<3> shape, Band band),         \
        triangle(y, x, diagonal, range, shape, band))

COPY_AND_FILL(b1, uint8_t)
COPY_AND_FILL(b2, uint16_t)
COPY_AND_FILL(b4, uint32_t)
COPY_AND_FILL(b8, uint64_t)
COPY(b16, uint4)
