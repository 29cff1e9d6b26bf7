// Running sums, products, recurrences and extremes along rows of any layout, with the bits of kernels/cpu.
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

// The others have a thread to a row, too.
template <class T> DEV void cumprod(const Rows& y_, const Rows& x_, uint64_t rows, uint32_t n) {
  const uint64_t r = thread_index();
  if (r >= rows) return;
  const Row<typename SumOf<T>::Type> y(y_, r);
  const Row<T> x(x_, r);
  ComputeType<T> product = 1;
  for (uint32_t k = 0; k < n; k++) y.set(k, product = math::mul(product, x(k)));
}

// y[k] = a[k]*y[k-1] + b[k] from 0, or a[k]*y[k+1] + b[k] from the end if backward.
template <class T>
DEV void recurrence(const Rows& y_, const Rows& a_, const Rows& b_, uint64_t rows, uint32_t n, uint32_t backward) {
  const uint64_t r = thread_index();
  if (r >= rows) return;
  const Row<T> y(y_, r), a(a_, r), b(b_, r);
  ComputeType<T> v = 0;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t k = backward ? n - 1 - i : i;
    y.set(k, v = math::add(math::mul(a(k), v), b(k)));
  }
}

// The largest element so far, or the smallest, and its index: the last of equal ones, and from a NaN on the latest.
template <class T>
DEV void cumextreme(const Rows& y_, const Rows& at_, const Rows& x_, uint64_t rows, uint32_t n, uint32_t largest) {
  const uint64_t r = thread_index();
  if (r >= rows) return;
  const Row<T> y(y_, r), x(x_, r);
  const Row<int64_t> at(at_, r);
  const Result values{y_.data, 0, y_.type};
  ComputeType<T> best = 0;
  int64_t index = 0;
  for (uint32_t k = 0; k < n; k++) {
    const ComputeType<T> v = x(k);
    if (k == 0 || v != v || (best == best && (largest ? v >= best : v <= best))) {
      best = v;
      index = k;
    }
    put(values, y.at(k), best);
    at.set(k, index);
  }
}

}  // namespace

#define CUMSUM(suffix, T)                                                                               \
  ENTRY(cumsum##suffix, kRowThreads, 4, (Rows y, Rows x, uint64_t rows, uint32_t n, uint32_t backward), \
        cumsum<T>(y, x, rows, n, backward))

FLOATS(CUMSUM)
CUMSUM(_integer, integer)

#define CUMPROD(suffix, T)                                                             \
  ENTRY(cumprod##suffix, kRowThreads, 4, (Rows y, Rows x, uint64_t rows, uint32_t n), \
        cumprod<T>(y, x, rows, n))

FLOATS(CUMPROD)
CUMPROD(_integer, integer)

#define RECURRENCE(suffix, T)                                                                \
  ENTRY(recurrence##suffix, kRowThreads, 4,                                                  \
        (Rows y, Rows a, Rows b, uint64_t rows, uint32_t n, uint32_t backward),              \
        recurrence<T>(y, a, b, rows, n, backward))

FLOATS(RECURRENCE)

#define CUMEXTREME(suffix, T)                                                                \
  ENTRY(cumextreme##suffix, kRowThreads, 4,                                                  \
        (Rows y, Rows at, Rows x, uint64_t rows, uint32_t n, uint32_t largest),              \
        cumextreme<T>(y, at, x, rows, n, largest))

FLOATS(CUMEXTREME)
CUMEXTREME(_integer, integer)
