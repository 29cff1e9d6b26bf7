// Softmax, log-softmax, their gradients and logsumexp, along rows of any layout. Each operation is rounded by itself
// and sums are canonical, as in kernels/cpu; the result is rounded once.
#include "row.cuh"

namespace {

// e = exp(x - max(x)), y = e * (1 / sum(e))
template <class T, class Group> DEV void softmax(const Rows& y_, const Rows& x_, uint64_t rows, uint32_t n) {
  using N = ComputeType<T>;
  const uint64_t r = Group::row();
  if (r >= rows) return;
  const Row<T, Group> y(y_, r);
  const auto x = cached<Group>(n, Row<T, Group>(x_, r));
  const N m = row_fold<Max, N, Group>(n, x);
  const auto e = cached<Group>(n, [&](ElementIndex i) { return math::exp(math::sub(x(i), m)); });
  const N scale = math::div(N(1), row_fold<Sum, N, Group>(n, e));
  row_each<Group>(n, [&](ElementIndex i) { y.set(i, math::mul(e(i), scale)); });
}

// dx = y * (g - sum(g*y))
template <class T, class Group>
DEV void softmax_grad(const Rows& dx_, const Rows& y_, const Rows& g_, uint64_t rows, uint32_t n) {
  using N = ComputeType<T>;
  const uint64_t r = Group::row();
  if (r >= rows) return;
  const Row<T, Group> dx(dx_, r);
  const auto y = cached<Group>(n, Row<T, Group>(y_, r)), g = cached<Group>(n, Row<T, Group>(g_, r));
  const N dot = row_fold<Sum, N, Group>(n, [&](ElementIndex i) { return math::mul(g(i), y(i)); });
  row_each<Group>(n, [&](ElementIndex i) { dx.set(i, math::mul(y(i), math::sub(g(i), dot))); });
}

// y = (x - m) - log(sum(exp(x - m))), m = max(x)
template <class T, class Group> DEV void log_softmax(const Rows& y_, const Rows& x_, uint64_t rows, uint32_t n) {
  using N = ComputeType<T>;
  const uint64_t r = Group::row();
  if (r >= rows) return;
  const Row<T, Group> y(y_, r);
  const auto x = cached<Group>(n, Row<T, Group>(x_, r));
  const N m = row_fold<Max, N, Group>(n, x);
  const N s = math::log(row_fold<Sum, N, Group>(n, [&](ElementIndex i) { return math::exp(math::sub(x(i), m)); }));
  row_each<Group>(n, [&](ElementIndex i) { y.set(i, math::sub(math::sub(x(i), m), s)); });
}

// dx = g - exp(y) * sum(g)
template <class T, class Group>
DEV void log_softmax_grad(const Rows& dx_, const Rows& y_, const Rows& g_, uint64_t rows, uint32_t n) {
  using N = ComputeType<T>;
  const uint64_t r = Group::row();
  if (r >= rows) return;
  const Row<T, Group> dx(dx_, r), y(y_, r);
  const auto g = cached<Group>(n, Row<T, Group>(g_, r));
  const N s = row_fold<Sum, N, Group>(n, g);
  row_each<Group>(n, [&](ElementIndex i) { dx.set(i, math::sub(g(i), math::mul(math::exp(y(i)), s))); });
}

// y = m + log(sum(exp(x - m))), m = max(x), or 0 if that is infinite
template <class T, class Group> DEV void logsumexp(const Result& y, const Rows& x_, uint64_t rows, uint32_t n) {
  using N = ComputeType<T>;
  const uint64_t r = Group::row();
  if (r >= rows) return;
  const auto x = cached<Group>(n, Row<T, Group>(x_, r));
  N m = row_fold<Max, N, Group>(n, x);
  if (m == infinity(m) || m == -infinity(m)) m = 0;
  const N s = math::log(row_fold<Sum, N, Group>(n, [&](ElementIndex i) { return math::exp(math::sub(x(i), m)); }));
  if (Group::thread() == 0) put(y, r, math::add(m, s));
}

}  // namespace

#define SOFTMAX(suffix, T)                                                                                             \
  ROW_KERNELS(softmax, suffix, T, (Rows y, Rows x, uint64_t rows, uint32_t n), (n, y, x), y, x, rows, n)               \
  ROW_KERNELS(softmax_grad, suffix, T, (Rows dx, Rows y, Rows g, uint64_t rows, uint32_t n), (n, dx, y, g), dx, y, g,  \
              rows, n)                                                                                                 \
  ROW_KERNELS(log_softmax, suffix, T, (Rows y, Rows x, uint64_t rows, uint32_t n), (n, y, x), y, x, rows, n)           \
  ROW_KERNELS(log_softmax_grad, suffix, T, (Rows dx, Rows y, Rows g, uint64_t rows, uint32_t n), (n, dx, y, g), dx, y, \
              g, rows, n)                                                                                              \
  ROW_KERNELS(logsumexp, suffix, T, (Result y, Rows x, uint64_t rows, uint32_t n), (n, x), y, x, rows, n)

FLOATS(SOFTMAX)
