// Operations along rows of any layout: logsumexp, variances, places of extremes, running sums. Row r of a result without gaps is its element r. Each operation is rounded by itself and sums are
// canonical, as in kernels/cpu; what is stored is rounded once.
#include "rows.cuh"

namespace {

// y = m + log(sum(exp(x - m))), m = max(x), or 0 if that is infinite
template <class T, class Team> DEV void logsumexp(const Result& y, const Rows& x_, uint64_t rows, uint32_t n) {
  using N = typename NumberOf<T>::Type;
  const uint64_t r = Team::row();
  if (r >= rows) return;
  const auto x = kept<Team>(n, Row<T, Team>(x_, r));
  N m = row_fold<Max, N, Team>(n, x);
  if (m == infinity(m) || m == -infinity(m)) m = 0;
  const N s = num::log(row_fold<Sum, N, Team>(n, [&](Place i) { return num::exp(num::sub(x(i), m)); }));
  if (Team::thread() == 0) put(y, r, num::add(m, s));
}

// y = sum((x - mean)^2) / divisor, mean = sum(x) / n
template <class T, class Team> DEV void var(const Result& y, const Rows& x_, uint64_t rows, uint32_t n, double divisor) {
  using N = typename NumberOf<T>::Type;
  const uint64_t r = Team::row();
  if (r >= rows) return;
  const auto x = kept<Team>(n, Row<T, Team>(x_, r));
  const N mean = num::div(row_fold<Sum, N, Team>(n, x), (N)n);
  const N squares = row_fold<Sum, N, Team>(n, [&](Place i) {
    const N d = num::sub(x(i), mean);
    return num::mul(d, d);
  });
  if (Team::thread() == 0) put(y, r, num::div(squares, (N)divisor));
}

// First finds the smallest number that a thread of a team has.
struct First {
  template <class N> DEV_METHOD static N start() { return 0xffffffff; }
  DEV_METHOD static uint32_t combine(uint32_t x, uint32_t y) { return x < y ? x : y; }
};

// The first place of the extreme element, or of a NaN if there is one. values.to may be null.
template <class Fold, class T, class Team> DEV void place_of(int64_t* places, const Result& values, const Rows& x_, uint64_t rows, uint32_t n) {
  using N = typename NumberOf<T>::Type;
  const uint64_t r = Team::row();
  if (r >= rows) return;
  const auto x = kept<Team>(n, Row<T, Team>(x_, r));
  const N v = row_fold<Fold, N, Team>(n, x);
  uint32_t first = First::start<uint32_t>();
  row_each<Team>(n, [&](Place i) {
    const N e = x(i);
    if ((e == v || (v != v && e != e)) && i < first) first = i;
  });
  first = team_all<First, uint32_t, Team>(first);
  if (Team::thread()) return;
  places[r] = first;
  if (values.to) put(values, r, Row<T>(x_, r)(first));
}
template <class T, class Team> DEV void argmax(int64_t* places, const Result& values, const Rows& x, uint64_t rows, uint32_t n) {
  place_of<Max, T, Team>(places, values, x, rows, n);
}
template <class T, class Team> DEV void argmin(int64_t* places, const Result& values, const Rows& x, uint64_t rows, uint32_t n) {
  place_of<Min, T, Team>(places, values, x, rows, n);
}

// The sums of integers are of type int64_t.
template <class T> struct SumOf { using Type = T; };
template <> struct SumOf<integer> { using Type = int64_t; };

DEV bool is_adjacent(const Rows& a) { return a.elements.rank <= 1 && a.elements.stride[0][0] == 1; }

// Running sums from +0, one element after the other, from the end if backward; a thread computes a row. Of rows whose
// elements lie side by side a warp moves 32 by 32 elements at a time through shared memory, so that it reads neighbours.
template <class T> DEV void cumsum(const Rows& y_, const Rows& x_, uint64_t rows, uint32_t n, uint32_t backward) {
  using N = typename NumberOf<T>::Type;
  using Y = Row<typename SumOf<T>::Type>;
  SHARED(N, tiles, [kRowWarps][32][33]);
  const uint64_t r = thread_number();
  const uint32_t lane = threadIdx.x % 32;
  const auto place_of = [&](uint32_t k) { return backward ? n - 1 - k : k; };
  N sum = 0;
  if (!is_adjacent(y_) || !is_adjacent(x_)) {
    if (r >= rows) return;
    const Y y(y_, r);
    const Row<T> x(x_, r);
    for (uint32_t k = 0; k < n; k++) {
      sum = num::add(sum, x(place_of(k)));
      y.set(place_of(k), sum);
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
      for (uint32_t i = 0; i < count; i++) tile[i][lane] = Row<T>(x_, first + i)(place_of(k + lane));
    __syncwarp();
    if (lane < count)
      for (uint32_t j = 0; j < width; j++) tile[lane][j] = sum = num::add(sum, tile[lane][j]);
    __syncwarp();
    if (lane < width)
      for (uint32_t i = 0; i < count; i++) Y(y_, first + i).set(place_of(k + lane), tile[i][lane]);
  }
}

// dx = g times the product of the other elements: of those in front, kept in `front`, and of those behind, in float64 and
// one after the other as package tensor defines it. A thread computes a row.
template <class T> DEV void prod_grad(const Rows& dx_, const Rows& x_, const Rows& g_, double* front, uint64_t rows, uint32_t n) {
  const uint64_t r = thread_number();
  if (r >= rows) return;
  const Row<T> dx(dx_, r), x(x_, r);
  double product = Row<T>(g_, r)(0);
  for (uint32_t i = 0; i < n; i++) {
    front[i * rows + r] = product;
    product = f64_mul(product, x(i));
  }
  product = 1;
  for (uint32_t i = n; i-- > 0;) {
    static_cast<T*>(dx.data)[dx.at(i)] = element<T>(f64_mul(front[i * rows + r], product));
    product = f64_mul(product, x(i));
  }
}

}  // namespace

#define ROWS(suffix, T)                                                                                                       \
  ROW_KERNELS(logsumexp, suffix, T, (Result y, Rows x, uint64_t rows, uint32_t n), (n, x), y, x, rows, n)                     \
  ROW_KERNELS(var, suffix, T, (Result y, Rows x, uint64_t rows, uint32_t n, double divisor), (n, x), y, x, rows, n, divisor)  \
  KERNEL(prod_grad##suffix, kRowThreads, 4)(Rows dx, Rows x, Rows g, double* front, uint64_t rows, uint32_t n) {              \
    prod_grad<T>(dx, x, g, front, rows, n);                                                                                   \
  }                                                                                                                           \
  EXPORT(prod_grad##suffix);

#define PLACES(suffix, T)                                                                                                     \
  ROW_KERNELS(argmax, suffix, T, (int64_t* places, Result y, Rows x, uint64_t rows, uint32_t n), (n, x), places, y, x, rows, n) \
  ROW_KERNELS(argmin, suffix, T, (int64_t* places, Result y, Rows x, uint64_t rows, uint32_t n), (n, x), places, y, x, rows, n) \
  KERNEL(cumsum##suffix, kRowThreads, 4)(Rows y, Rows x, uint64_t rows, uint32_t n, uint32_t backward) {                      \
    cumsum<T>(y, x, rows, n, backward);                                                                                       \
  }                                                                                                                           \
  EXPORT(cumsum##suffix);

FLOATS(ROWS)
FLOATS(PLACES)
PLACES(_integer, integer)
