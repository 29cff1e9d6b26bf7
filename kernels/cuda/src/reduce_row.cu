// Reductions that need a whole row at once, of any layout: variances, the indices of extremes, the gradient of a
// product. Element r of a contiguous result is that of row r. Each operation is rounded by itself and sums are
// canonical, as in kernels/cpu; the result is rounded once.
#include "row.cuh"

namespace {

// y = squares / divisor, by deviations
template <class T, class Group>
DEV void var(const Result& y, const Rows& x_, uint64_t rows, uint32_t n, double divisor) {
  using N = ComputeType<T>;
  const uint64_t r = Group::row();
  if (r >= rows) return;
  const Row<T, Group> memory(x_, r);
  const auto x = cached<Group>(n, memory);
  const N squares = deviations<Group>(n, x).squares;
  if (Group::thread() == 0) put(y, r, math::div(squares, (N)divisor));
}

// First is the minimum of unsigned indices.
struct First {
  template <class N> DEV_METHOD static N start() { return 0xffffffff; }
  DEV_METHOD static uint32_t combine(uint32_t x, uint32_t y) { return lesser(x, y); }
};

// The first index of the extreme element, or of a NaN if there is one. values.to may be null.
template <class Fold, class T, class Group>
DEV void arg_extreme(int64_t* indices, const Result& values, const Rows& x_, uint64_t rows, uint32_t n) {
  using N = ComputeType<T>;
  const uint64_t r = Group::row();
  if (r >= rows) return;
  const Row<T, Group> memory(x_, r);
  const auto x = cached<Group>(n, memory);
  const N v = row_fold<Fold, Group>(n, x);
  uint32_t first = First::start<uint32_t>();
  each_four<Group>(n, x, [&](At at, const Four<N>& x) {
#pragma unroll
    for (uint32_t k = 0; k < 4; k++)
      if (k < at.count && (x[k] == v || (v != v && x[k] != x[k]))) first = lesser(first, at.i + k);
  });
  first = group_all<First, Group>(first);
  if (Group::thread()) return;
  indices[r] = first;
  if (values.to) put(values, r, Row<T>(x_, r)(first));
}
template <class T, class Group>
DEV void argmax(int64_t* indices, const Result& values, const Rows& x, uint64_t rows, uint32_t n) {
  arg_extreme<Max, T, Group>(indices, values, x, rows, n);
}
template <class T, class Group>
DEV void argmin(int64_t* indices, const Result& values, const Rows& x, uint64_t rows, uint32_t n) {
  arg_extreme<Min, T, Group>(indices, values, x, rows, n);
}

// start_of is the start of a row that another lane has.
DEV Start start_of(uint64_t first, uint32_t lane) {
  return {(uint64_t)__double_as_longlong(shuffle(__longlong_as_double((int64_t)first), (int)lane))};
}

// dx = g times the product of the other elements: of those in front and of those behind, in float64 and one after the
// other as package tensor defines it. A thread has a row, and a warp 32, some columns at a time in a tile of shared
// memory: contiguous rows are read and written along their elements. The product in front of each tile is kept in
// `front`, so that the way back computes those in front of its elements again.
constexpr uint32_t kColumns = 16;

template <class T>
DEV void prod_grad(const Rows& dx_, const Rows& x_, const Rows& g_, double* front, uint64_t rows, uint32_t n) {
  using N = ComputeType<T>;
  SHARED(N, tiles, [kRowWarps][32][kColumns + 1]);
  auto& tile = tiles[threadIdx.x / 32];
  const uint64_t r = thread_index();
  const uint32_t lane = threadIdx.x % 32;
  const uint64_t first = r - lane;
  if (first >= rows) return;
  const uint32_t count = rows - first < 32 ? (uint32_t)(rows - first) : 32;
  auto each = [&](const Rows& a, auto f) {  // f(row, its number, column) of the tile
    const Row<T> own(a, r);
    if (a.elements.rank <= 1 && a.elements.stride[0][0] == 1)
      for (uint32_t k = 0; k < 32; k += 32 / kColumns) {
        const uint32_t i = k + lane / kColumns;
        f(Row<T>(a, start_of(own.first, i)), i, lane % kColumns);
      }
    else
      for (uint32_t j = 0; j < kColumns; j++) f(own, lane, j);
  };
  auto load_tile = [&](uint32_t k) {  // with ones where there are no elements
    __syncwarp();
    each(x_, [&](const Row<T>& x, uint32_t i, uint32_t j) {
      tile[i][j] = i < count && k + j < n ? x(k + j) : N(1);
    });
    __syncwarp();
  };
  double product = lane < count ? Row<T>(g_, r)(0) : N(1);
  const uint32_t last = (n - 1) / kColumns;
  for (uint32_t b = 0; b <= last; b++) {
    if (lane < count) front[b * rows + r] = product;
    if (b == last) break;
    load_tile(b * kColumns);
#pragma unroll
    for (uint32_t j = 0; j < kColumns; j++) product = f64_mul(product, tile[lane][j]);
  }
  double behind = 1;
  for (uint32_t b = last + 1; b-- > 0;) {
    load_tile(b * kColumns);
    double before[kColumns];
    product = lane < count ? front[b * rows + r] : 1;
#pragma unroll
    for (uint32_t j = 0; j < kColumns; j++) {
      before[j] = product;
      product = f64_mul(product, tile[lane][j]);
    }
#pragma unroll
    for (int j = kColumns - 1; j >= 0; j--) {
      const double x = tile[lane][j];
      tile[lane][j] = to_compute<N>(to_element<T>(f64_mul(before[j], behind)));
      behind = f64_mul(behind, x);
    }
    __syncwarp();
    each(dx_, [&](const Row<T>& dx, uint32_t i, uint32_t j) {
      if (i < count && b * kColumns + j < n) dx.set(b * kColumns + j, tile[i][j]);
    });
  }
}

}  // namespace

#define FLOATING_ROWS(suffix, T)                                                                                  \
  ROW_KERNELS(var, slots, suffix, T, (Result y, Rows x, uint64_t rows, uint32_t n, double divisor), (n, x), y, x, \
              rows, n, divisor)                                                                                   \
  ENTRY(prod_grad##suffix, kRowThreads, 4, (Rows dx, Rows x, Rows g, double* front, uint64_t rows, uint32_t n),   \
        prod_grad<T>(dx, x, g, front, rows, n))

#define ARG_EXTREMES(suffix, T)                                                                                  \
  ROW_KERNELS(argmax, slots, suffix, T, (int64_t* indices, Result y, Rows x, uint64_t rows, uint32_t n), (n, x), \
              indices, y, x, rows, n)                                                                            \
  ROW_KERNELS(argmin, slots, suffix, T, (int64_t* indices, Result y, Rows x, uint64_t rows, uint32_t n), (n, x), \
              indices, y, x, rows, n)

FLOATS(FLOATING_ROWS)
FLOATS(ARG_EXTREMES)
ARG_EXTREMES(_integer, integer)
