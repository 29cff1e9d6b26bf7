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

// dx = g times the product of the other elements: of those in front, kept in `front`, and of those behind, in float64
// and one after the other as package tensor defines it. A thread computes a row.
template <class T>
DEV void prod_grad(const Rows& dx_, const Rows& x_, const Rows& g_, double* front, uint64_t rows, uint32_t n) {
  const uint64_t r = thread_index();
  if (r >= rows) return;
  const Row<T> dx(dx_, r), x(x_, r);
  double product = Row<T>(g_, r)(0);
  for (uint32_t i = 0; i < n; i++) {
    front[i * rows + r] = product;
    product = f64_mul(product, x(i));
  }
  product = 1;
  for (uint32_t i = n; i-- > 0;) {
    static_cast<T*>(dx.data)[dx.at(i)] = to_element<T>(f64_mul(front[i * rows + r], product));
    product = f64_mul(product, x(i));
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
