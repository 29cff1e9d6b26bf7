// Moving and filling memory, by the width of an element in bytes: values are only passed on.
#include "walk.cuh"

namespace {

constexpr int kThreads = 256;

DEV bool aligned16(const void* p) { return (uint64_t)p % 16 == 0; }

// fill writes n elements of one value, 16 bytes a thread.
template <class T> DEV void fill(T* to, T value, uint64_t n) {
  constexpr int kWide = 16 / sizeof(T);
  const uint64_t i = thread_number() * kWide;
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

// copy moves elements between two layouts; operand 0 of the walk is where they go.
template <class T> DEV void copy(T* to, const T* from, const Walk<2>& walk, const Shape32<2>& shape) {
  const Places<T, 2> p(walk, shape);
  move(to, p, [&](int e) { return load<T>(from + p.in(1, e)); });
}

constexpr int kTile = 32;

// transpose copies element (i, j) of matrices from from[i + j * from_step] to to[i * to_step + j], by tiles, so that
// neighbours read and write neighbours; operand 0 of the shape, that of the matrices, is where they go.
template <class T>
DEV void transpose(T* to, const T* from, uint64_t rows, uint64_t columns, uint64_t to_step, uint64_t from_step, const Shape64<2>& shape) {
  SHARED(T, tile, [kTile][kTile + 1]);
  const uint64_t across = (columns + kTile - 1) / kTile, down = (rows + kTile - 1) / kTile;
  const uint64_t strip = blockIdx.x / across, matrix = strip / down;
  const uint64_t row = (strip - matrix * down) * kTile, column = (blockIdx.x - strip * across) * kTile;
  uint64_t at[2];
  locate(shape, matrix, at);
  const uint32_t x = threadIdx.x % kTile, y = threadIdx.x / kTile;
  for (uint32_t j = y; j < kTile; j += kThreads / kTile)
    if (row + x < rows && column + j < columns) tile[j][x] = from[at[1] + row + x + (column + j) * from_step];
  __syncthreads();
  for (uint32_t i = y; i < kTile; i += kThreads / kTile)
    if (row + i < rows && column + x < columns) to[at[0] + (row + i) * to_step + column + x] = tile[x][i];
}

}  // namespace

#define COPY(name, T)                                                                                            \
  KERNEL(copy_##name, kThreads, 8)(T* to, const T* from, Walk<2> walk, Shape32<2> shape) { copy(to, from, walk, shape); } \
  EXPORT(copy_##name);

#define WIDTH(name, T)                                                                                           \
  COPY(name, T)                                                                                                  \
  KERNEL(fill_##name, kThreads, 8)(T* to, T value, uint64_t n) { fill(to, value, n); }                           \
  EXPORT(fill_##name);                                                                                           \
  KERNEL(transpose_##name, kThreads, 8)(T* to, const T* from, uint64_t rows, uint64_t columns, uint64_t to_step, \
                                        uint64_t from_step, Shape64<2> shape) {                                  \
    transpose(to, from, rows, columns, to_step, from_step, shape);                                               \
  }                                                                                                              \
  EXPORT(transpose_##name);

WIDTH(b1, uint8_t)
WIDTH(b2, uint16_t)
WIDTH(b4, uint32_t)
WIDTH(b8, uint64_t)
COPY(b16, uint4)
