// Softmax, log-softmax, their gradients and logsumexp, along rows of any layout. Each operation is rounded by itself
// and sums are canonical, as in kernels/cpu; the result is rounded once. In half precision exp is that of half.cuh, and
// rows that are not cached are read once for maximum and sum.
#include "exp_sum.cuh"

namespace {

// e = exp(x - max(x)), y = e * (1 / sum(e))
template <class T, class Group> DEV void softmax(const Rows& y_, const Rows& x_, uint64_t rows, uint32_t n) {
  using N = ComputeType<T>;
  const uint64_t r = Group::row();
  if (r >= rows) return;
  const Row<T, Group> y(y_, r), memory(x_, r);
  const auto x = cached<Group>(n, memory);
  if constexpr (one_pass<T, Group>()) {
    const ExpSum<N> sum = exp_sum<T, Group>(n, x);
    const N scale = math::div(N(1), sum.sum);
    set_row<Group>(n, y, map([=](N x) { return math::mul(exp_of<T>(math::sub(x, sum.most)), scale); }, x));
  } else {
    const N m = row_fold<Max, Group>(n, x);
    const auto e = cached_map<Group>(n, [=](N x) { return exp_of<T>(math::sub(x, m)); }, x);
    const N scale = math::div(N(1), row_fold<Sum, Group>(n, e));
    set_row<Group>(n, y, map([=](N e) { return math::mul(e, scale); }, e));
  }
}

// dx = y * (g - sum(g*y))
template <class T, class Group>
DEV void softmax_grad(const Rows& dx_, const Rows& y_, const Rows& g_, uint64_t rows, uint32_t n) {
  using N = ComputeType<T>;
  const uint64_t r = Group::row();
  if (r >= rows) return;
  const Row<T, Group> dx(dx_, r), y_memory(y_, r), g_memory(g_, r);
  const auto y = cached<Group>(n, y_memory);
  const auto g = cached_beside<Group>(n, g_memory);
  const N dot = row_fold<Sum, Group>(n, map([](N g, N y) { return math::mul(g, y); }, g, y));
  set_row<Group>(n, dx, map([=](N g, N y) { return math::mul(y, math::sub(g, dot)); }, g, y));
}

// y = (x - m) - log(sum(exp(x - m))), m = max(x)
template <class T, class Group> DEV void log_softmax(const Rows& y_, const Rows& x_, uint64_t rows, uint32_t n) {
  using N = ComputeType<T>;
  const uint64_t r = Group::row();
  if (r >= rows) return;
  const Row<T, Group> y(y_, r), memory(x_, r);
  const auto x = cached<Group>(n, memory);
  const ExpSum<N> sum = exp_sum<T, Group>(n, x);
  const N s = math::log(sum.sum);
  set_row<Group>(n, y, map([=](N x) { return math::sub(math::sub(x, sum.most), s); }, x));
}

// dx = g - exp(y) * sum(g)
template <class T, class Group>
DEV void log_softmax_grad(const Rows& dx_, const Rows& y_, const Rows& g_, uint64_t rows, uint32_t n) {
  using N = ComputeType<T>;
  const uint64_t r = Group::row();
  if (r >= rows) return;
  const Row<T, Group> dx(dx_, r), y_memory(y_, r), g_memory(g_, r);
  const auto g = cached<Group>(n, g_memory);
  const auto y = cached_beside<Group>(n, y_memory);
  const N s = row_fold<Sum, Group>(n, g);
  set_row<Group>(n, dx, map([=](N g, N y) { return math::sub(g, math::mul(exp_of<T>(y), s)); }, g, y));
}

// y = m + log(sum(exp(x - m))), m = max(x), or 0 if that is infinite
template <class T, class Group> DEV void logsumexp(const Result& y, const Rows& x_, uint64_t rows, uint32_t n) {
  using N = ComputeType<T>;
  const uint64_t r = Group::row();
  if (r >= rows) return;
  const Row<T, Group> memory(x_, r);
  const auto x = cached<Group>(n, memory);
  const ExpSum<N> sum = exp_sum<T, Group>(n, x);
  if (Group::thread()) return;
  const bool infinite = sum.most == infinity(N()) || sum.most == -infinity(N());
  put(y, r, infinite ? sum.most : math::add(sum.most, math::log(sum.sum)));
}

}  // namespace

#define SOFTMAX(suffix, T)                                                                                             \
  ROW_KERNELS(softmax, slots, suffix, T, (Rows y, Rows x, uint64_t rows, uint32_t n), (n, y, x), y, x, rows, n)        \
  ROW_KERNELS(softmax_grad, slots, suffix, T, (Rows dx, Rows y, Rows g, uint64_t rows, uint32_t n), (n, dx, y, g), dx, \
              y, g, rows, n)                                                                                           \
  ROW_KERNELS(log_softmax, slots, suffix, T, (Rows y, Rows x, uint64_t rows, uint32_t n), (n, y, x), y, x, rows, n)    \
  ROW_KERNELS(log_softmax_grad, slots, suffix, T, (Rows dx, Rows y, Rows g, uint64_t rows, uint32_t n),                \
              (n, dx, y, g), dx, y, g, rows, n)                                                                        \
  ROW_KERNELS(logsumexp, halves_once, suffix, T, (Result y, Rows x, uint64_t rows, uint32_t n), (n, x), y, x, rows, n)

FLOATS(SOFTMAX)
