// Running sums along rows of any layout, with the sums of kernels/cpu to the bit.
#include "row.cuh"

namespace {

// The sums of integers are of type int64_t.
template <class T> struct SumOf { using Type = T; };
template <> struct SumOf<integer> { using Type = int64_t; };

DEV bool is_contiguous(const Rows& a) { return a.elements.rank <= 1 && a.elements.stride[0][0] == 1; }

// Running sums from +0, one element after the other, from the end if backward; a thread computes a row. Contiguous rows
// pass through shared memory, 32 by 32 elements of a warp at a time, so that its accesses are coalesced.
template <class T> DEV void cumsum(const Rows& y_, const Rows& x_, uint64_t rows, uint32_t n, uint32_t backward) {
  using N = ComputeType<T>;
  using Y = Row<typename SumOf<T>::Type>;
  SHARED(N, tiles, [kRowWarps][32][33]);
  const uint64_t r = thread_index();
  const uint32_t lane = threadIdx.x % 32;
  const auto index_of = [&](uint32_t k) { return backward ? n - 1 - k : k; };
  N sum = 0;
  if (!is_contiguous(y_) || !is_contiguous(x_)) {
    if (r >= rows) return;
    const Y y(y_, r);
    const Row<T> x(x_, r);
    for (uint32_t k = 0; k < n; k++) {
      sum = math::add(sum, x(index_of(k)));
      y.set(index_of(k), sum);
    }
    return;
  }
  auto& tile = tiles[threadIdx.x / 32];
  const uint64_t first = r - lane;
  if (first >= rows) return;
  const uint32_t count = rows - first < 32 ? (uint32_t)(rows - first) : 32;
  for (uint32_t k = 0; k < n; k += 32) {
    const uint32_t width = n - k < 32 ? n - k : 32;
    if (lane < width)
      for (uint32_t i = 0; i < count; i++) tile[i][lane] = Row<T>(x_, first + i)(index_of(k + lane));
    __syncwarp();
    if (lane < count)
      for (uint32_t j = 0; j < width; j++) tile[lane][j] = sum = math::add(sum, tile[lane][j]);
    __syncwarp();
    if (lane < width)
      for (uint32_t i = 0; i < count; i++) Y(y_, first + i).set(index_of(k + lane), tile[i][lane]);
  }
}

}  // namespace

#define CUMSUM(suffix, T)                                                                               \
  ENTRY(cumsum##suffix, kRowThreads, 4, (Rows y, Rows x, uint64_t rows, uint32_t n, uint32_t backward), \
        cumsum<T>(y, x, rows, n, backward))

FLOATS(CUMSUM)
CUMSUM(_integer, integer)
