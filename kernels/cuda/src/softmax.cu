// The softmax family along rows of any layout, each operation rounded by itself and sums canonical, as in kernels/cpu; what
// is stored is rounded once.
#include "rows.cuh"

namespace {

// e = exp(x - max(x)), y = e * (1 / sum(e))
template <class T, class Team> DEV void softmax(const Rows& y_, const Rows& x_, uint64_t rows, uint32_t n) {
  using N = typename NumberOf<T>::Type;
  const uint64_t r = Team::row();
  if (r >= rows) return;
  const Row<T, Team> y(y_, r);
  const auto x = kept<Team>(n, Row<T, Team>(x_, r));
  const N m = row_fold<Max, N, Team>(n, x);
  const auto e = kept<Team>(n, [&](Place i) { return num::exp(num::sub(x(i), m)); });
  const N scale = num::div(N(1), row_fold<Sum, N, Team>(n, e));
  row_each<Team>(n, [&](Place i) { y.set(i, num::mul(e(i), scale)); });
}

// dx = y * (g - sum(g*y))
template <class T, class Team> DEV void softmax_grad(const Rows& dx_, const Rows& y_, const Rows& g_, uint64_t rows, uint32_t n) {
  using N = typename NumberOf<T>::Type;
  const uint64_t r = Team::row();
  if (r >= rows) return;
  const Row<T, Team> dx(dx_, r);
  const auto y = kept<Team>(n, Row<T, Team>(y_, r)), g = kept<Team>(n, Row<T, Team>(g_, r));
  const N dot = row_fold<Sum, N, Team>(n, [&](Place i) { return num::mul(g(i), y(i)); });
  row_each<Team>(n, [&](Place i) { dx.set(i, num::mul(y(i), num::sub(g(i), dot))); });
}

// y = (x - m) - log(sum(exp(x - m))), m = max(x)
template <class T, class Team> DEV void log_softmax(const Rows& y_, const Rows& x_, uint64_t rows, uint32_t n) {
  using N = typename NumberOf<T>::Type;
  const uint64_t r = Team::row();
  if (r >= rows) return;
  const Row<T, Team> y(y_, r);
  const auto x = kept<Team>(n, Row<T, Team>(x_, r));
  const N m = row_fold<Max, N, Team>(n, x);
  const N s = num::log(row_fold<Sum, N, Team>(n, [&](Place i) { return num::exp(num::sub(x(i), m)); }));
  row_each<Team>(n, [&](Place i) { y.set(i, num::sub(num::sub(x(i), m), s)); });
}

// dx = g - exp(y) * sum(g)
template <class T, class Team> DEV void log_softmax_grad(const Rows& dx_, const Rows& y_, const Rows& g_, uint64_t rows, uint32_t n) {
  using N = typename NumberOf<T>::Type;
  const uint64_t r = Team::row();
  if (r >= rows) return;
  const Row<T, Team> dx(dx_, r), y(y_, r);
  const auto g = kept<Team>(n, Row<T, Team>(g_, r));
  const N s = row_fold<Sum, N, Team>(n, g);
  row_each<Team>(n, [&](Place i) { dx.set(i, num::sub(g(i), num::mul(num::exp(y(i)), s))); });
}

}  // namespace

#define SOFTMAX(suffix, T)                                                                                                 \
  ROW_KERNELS(softmax, suffix, T, (Rows y, Rows x, uint64_t rows, uint32_t n), (n, y, x), y, x, rows, n)                   \
  ROW_KERNELS(softmax_grad, suffix, T, (Rows dx, Rows y, Rows g, uint64_t rows, uint32_t n), (n, dx, y, g), dx, y, g, rows, n) \
  ROW_KERNELS(log_softmax, suffix, T, (Rows y, Rows x, uint64_t rows, uint32_t n), (n, y, x), y, x, rows, n)               \
  ROW_KERNELS(log_softmax_grad, suffix, T, (Rows dx, Rows y, Rows g, uint64_t rows, uint32_t n), (n, dx, y, g), dx, y, g, rows, n)

FLOATS(SOFTMAX)
