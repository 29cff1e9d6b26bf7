// Running sums, products, recurrences and extremes along rows of any layout, with the bits of kernels/cpu.
#include "row.cuh"

namespace {

// The sums of integers are of type int64_t.
template <class T> struct SumOf { using Type = T; };
template <> struct SumOf<integer> { using Type = int64_t; };

DEV bool is_contiguous(const Rows& a) { return a.elements.rank <= 1 && a.elements.stride[0][0] == 1; }

// A thread has a row, and goes along it one element after the other. A tile in shared memory has some columns of the 32
// rows of a warp: contiguous rows are read and written along their elements, others along rows, which then are near
// each other.
template <class N> static constexpr __device__ uint32_t columns() { return sizeof(N) > 4 ? 16 : 32; }
template <class N> using Tile = N[32][columns<N>() + 1];

// start_of is the start of a row that another lane has.
DEV Start start_of(uint64_t first, uint32_t lane) {
  return {(uint64_t)__double_as_longlong(shuffle(__longlong_as_double((int64_t)first), (int)lane))};
}

// Span is the rows of a warp, from number `first` on, and `width` columns of a tile, from element k on, or, if
// backward, from the end.
struct Span {
  uint64_t first;
  uint32_t count, n, backward, k, width;
  DEV_METHOD Span(uint64_t rows, uint32_t n, uint32_t backward = 0)
      : first(thread_index() - threadIdx.x % 32), n(n), backward(backward), k(0), width(0) {
    count = first >= rows ? 0 : rows - first < 32 ? (uint32_t)(rows - first) : 32;
  }
  DEV_METHOD bool has_row() const { return threadIdx.x % 32 < count; }
  DEV_METHOD uint32_t index(uint32_t j) const { return backward ? n - 1 - (k + j) : k + j; }

  // each calls f(row of an operand, number of the row, column) for the elements that a thread moves.
  template <class T, uint32_t W, class F> DEV_METHOD void each(const Rows& a, F f) const {
    const uint32_t lane = threadIdx.x % 32;
    const Row<T> own(a, first + lane);
    if (is_contiguous(a)) {
      for (uint32_t k = 0; k < 32; k += 32 / W) {
        const uint32_t i = k + lane / W;
        const Row<T> row(a, start_of(own.first, i));
        if (i < count && lane % W < width) f(row, i, lane % W);
      }
    } else if (lane < count) {
      for (uint32_t j = 0; j < width; j++) f(own, lane, j);
    }
  }
  template <class T, class N> DEV_METHOD void load(Tile<N>& tile, const Rows& a) const {
    each<T, columns<N>()>(a, [&](const Row<T>& row, uint32_t i, uint32_t j) { tile[i][j] = row(index(j)); });
  }
  template <class T, class N> DEV_METHOD void store(const Rows& a, const Tile<N>& tile) const {
    each<T, columns<N>()>(a, [&](const Row<T>& row, uint32_t i, uint32_t j) { row.set(index(j), tile[i][j]); });
  }
  // along calls load(), then step(j) for each column of the thread's row, then store(), with all columns of the rows.
  template <class N, class Load, class Step, class Store> DEV_METHOD void along(Load load, Step step, Store store) {
    if (!count) return;
    for (k = 0; k < n; k += columns<N>()) {
      width = lesser(n - k, columns<N>());
      load();
      __syncwarp();
      if (has_row())
        for (uint32_t j = 0; j < width; j++) step(j);
      __syncwarp();
      store();
      __syncwarp();
    }
  }
};

// Sums and products are kept in double, each is rounded once.
template <class N> struct TotalOf { using Type = N; };
template <> struct TotalOf<float> { using Type = double; };

// Running sums from +0, from the end if backward.
template <class T> DEV void cumsum(const Rows& y, const Rows& x, uint64_t rows, uint32_t n, uint32_t backward) {
  using N = ComputeType<T>;
  SHARED(Tile<N>, tiles, [kRowWarps]);
  Tile<N>& tile = tiles[threadIdx.x / 32];
  auto& row = tile[threadIdx.x % 32];
  Span span(rows, n, backward);
  using Total = typename TotalOf<N>::Type;
  Total sum = 0;
  const auto step = [&](uint32_t j) { row[j] = (N)(sum = math::add(sum, (Total)row[j])); };
  span.along<N>([&] { span.load<T, N>(tile, x); }, step,
                [&] { span.store<typename SumOf<T>::Type, N>(y, tile); });
}

template <class T> DEV void cumprod(const Rows& y, const Rows& x, uint64_t rows, uint32_t n) {
  using N = ComputeType<T>;
  SHARED(Tile<N>, tiles, [kRowWarps]);
  Tile<N>& tile = tiles[threadIdx.x / 32];
  auto& row = tile[threadIdx.x % 32];
  Span span(rows, n);
  using Total = typename TotalOf<N>::Type;
  Total product = 1;
  const auto step = [&](uint32_t j) { row[j] = (N)(product = math::mul(product, (Total)row[j])); };
  span.along<N>([&] { span.load<T, N>(tile, x); }, step,
                [&] { span.store<typename SumOf<T>::Type, N>(y, tile); });
}

// y[k] = a[k]*y[k-1] + b[k] from 0, or a[k]*y[k+1] + b[k] from the end if backward.
template <class T>
DEV void recurrence(const Rows& y, const Rows& a, const Rows& b, uint64_t rows, uint32_t n, uint32_t backward) {
  using N = ComputeType<T>;
  SHARED(Tile<N>, tiles, [2 * kRowWarps]);
  Tile<N>&factors = tiles[threadIdx.x / 32], &terms = tiles[kRowWarps + threadIdx.x / 32];
  auto &factor = factors[threadIdx.x % 32], &row = terms[threadIdx.x % 32];
  Span span(rows, n, backward);
  N v = 0;
  const auto load = [&] {
    span.load<T, N>(factors, a);
    span.load<T, N>(terms, b);
  };
  span.along<N>(load, [&](uint32_t j) { row[j] = v = math::add(math::mul(factor[j], v), row[j]); },
                [&] { span.store<T, N>(y, terms); });
}

// The largest element so far, or the smallest, and its index: the last of equal ones, and from a NaN on the latest.
template <class T>
DEV void cumextreme(const Rows& y, const Rows& at, const Rows& x, uint64_t rows, uint32_t n, uint32_t largest) {
  using N = ComputeType<T>;
  SHARED(Tile<N>, tiles, [kRowWarps]);
  SHARED(uint32_t, indices, [kRowWarps][32][columns<N>() + 1]);
  Tile<N>& tile = tiles[threadIdx.x / 32];
  auto& places = indices[threadIdx.x / 32];
  auto& row = tile[threadIdx.x % 32];
  Span span(rows, n);
  const Result values{y.data, 0, y.type};
  N best = 0;
  uint32_t index = 0;
  const auto step = [&](uint32_t j) {
    const N v = row[j];
    if (span.k + j == 0 || v != v || (best == best && (largest ? v >= best : v <= best))) {
      best = v;
      index = span.k + j;
    }
    row[j] = best;
    places[threadIdx.x % 32][j] = index;
  };
  const auto store = [&] {
    span.each<T, columns<N>()>(y, [&](const Row<T>& row, uint32_t i, uint32_t j) {
      put(values, row.at(span.index(j)), tile[i][j]);
    });
    span.each<int64_t, columns<N>()>(at, [&](const Row<int64_t>& row, uint32_t i, uint32_t j) {
      row.set(span.index(j), (int64_t)places[i][j]);
    });
  };
  span.along<N>([&] { span.load<T, N>(tile, x); }, step, store);
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
