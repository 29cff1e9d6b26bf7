// Cross-entropy of rows of logits x with class indices. With m = max(x), s = sum(exp(x - m)) and the label smoothing
// e, the loss of a row is
//
//	(1-e) * (log(s) - (x[target] - m)) + e * (log(s) - sum(x - m)/C)
//
// and its gradient (exp(x - m) * (1/s) - t) * scale, with t the smoothed one-hot row.
#include "report.cuh"
#include "rows.cuh"

// Targets are class indices of any integer type; those equal to `ignore` leave their row out.
struct Targets {
  Rows places;
  Report report;
  int64_t ignore;
  uint32_t bytes;  // of an index: 8, 4 or 1
  uint32_t classes;
};

namespace {

// target_of is the class of row r, -1 for a row to leave out, as is one whose target is no class.
DEV int64_t target_of(const Targets& t, uint64_t r) {
  const int64_t k = index_value(t.places.data, t.bytes, place(t.places.rows, r));
  if (k == t.ignore) return -1;
  if (k >= 0 && k < t.classes) return k;
  report(t.report, r, k);
  return -1;
}

// The loss, m and s of each row.
template <class T, class Team, class N = typename NumberOf<T>::Type>
DEV void cross_entropy_rows(const Result& loss, N* most, N* sums, const Rows& x_, const Targets& targets, uint64_t rows, double smoothing) {
  const uint64_t r = Team::row();
  if (r >= rows) return;
  const uint32_t n = targets.classes;
  const auto x = kept<Team>(n, Row<T, Team>(x_, r));
  const N m = row_fold<Max, N, Team>(n, x);
  const N s = row_fold<Sum, N, Team>(n, [&](Place i) { return num::exp(num::sub(x(i), m)); });
  const N e = (N)smoothing;
  N spread = 0;
  if (e > 0) spread = num::div(row_fold<Sum, N, Team>(n, [&](Place i) { return num::sub(x(i), m); }), (N)n);
  if (Team::thread()) return;
  most[r] = m;
  sums[r] = s;
  const int64_t k = target_of(targets, r);
  if (k < 0) {
    put(loss, r, N(0));
    return;
  }
  const N log = num::log(s), own = num::sub(log, num::sub(Row<T>(x_, r)((uint32_t)k), m));
  put(loss, r, e > 0 ? num::add(num::mul(num::sub(N(1), e), own), num::mul(e, num::sub(log, spread))) : own);
}

// The gradient of row r of a result without gaps, which may lie where the logits do: a thread writes what it alone has read,
// and reads as many elements as it can keep before it writes. g is the gradient of the result, of each row if each is 1; count
// is null but for the mean.
template <class T, class Team>
DEV void cross_entropy_grad(T* dx, const Rows& x_, const Targets& targets, const Rows& most, const Rows& sums, const Rows& g, const uint32_t* count, uint64_t rows,
                   uint32_t each, double smoothing) {
  using N = typename NumberOf<T>::Type;
  const uint64_t r = Team::row();
  if (r >= rows) return;
  const uint32_t n = targets.classes;
  T* d = dx + r * n;
  const int64_t k = target_of(targets, r);
  if (k < 0) {
    for (uint32_t i = Team::thread(); i < n; i += Team::threads()) d[i] = element<T>(N(0));
    return;
  }
  const Row<T, Team> x(x_, r);
  const N m = Row<N>(most, r)(0), inverse = num::div(N(1), Row<N>(sums, r)(0));
  // The smoothed target beside and at the class.
  const N e = (N)smoothing, off = num::div(e, (N)n), on = num::add(num::sub(N(1), e), off);
  N scale = Row<T>(g, each ? r : 0)(0);
  if (count) scale = num::div(scale, (N)*count);
  for (uint32_t from = 0; from < n; from += Team::threads() * Team::slots()) {
    const auto part = kept<Team>(n - from, [&](Place i) { return x(from + i); });
    row_each<Team>(n - from, [&](Place i) {
      const N p = num::mul(num::exp(num::sub(part(i), m)), inverse);
      d[from + i] = element<T>(num::mul(num::sub(p, from + i == (uint32_t)k ? on : off), scale));
    });
  }
}

struct Count {
  DEV_METHOD static uint32_t combine(uint32_t x, uint32_t y) { return x + y; }
};

}  // namespace

// The number of rows that count. One block.
constexpr uint32_t kCountThreads = 1024;
KERNEL(cross_entropy_count, kCountThreads, 1)(uint32_t* count, Targets targets, uint64_t rows) {
  SHARED(uint32_t, counts, [kCountThreads / 32]);
  uint32_t n = 0;
#pragma unroll 4
  for (uint64_t r = threadIdx.x; r < rows; r += kCountThreads) n += target_of(targets, r) >= 0;
  n = warp_all<Count>(n);
  if (threadIdx.x % 32 == 0) counts[threadIdx.x / 32] = n;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  n = warp_all<Count>(counts[threadIdx.x]);
  if (threadIdx.x == 0) *count = n;
}
EXPORT(cross_entropy_count);

// The mean: a sum divided by the number of rows that count.
#define MEAN(suffix, N)                                                                                   \
  KERNEL(cross_entropy_mean##suffix, 32, 1)(Result y, const N* sum, const uint32_t* count) {              \
    if (threadIdx.x == 0) put(y, 0, num::div(*sum, (N)*count));                                           \
  }                                                                                                       \
  EXPORT(cross_entropy_mean##suffix);

MEAN(_f32, float)
MEAN(_f64, double)

// The elements of a row of classes are of one axis, and can always be kept.
#define GRADIENT(name, suffix, T, threads, blocks, Team)                                                                     \
  KERNEL(name##suffix, threads, blocks)(T* dx, Rows x, Targets targets, Rows most, Rows sums, Rows g, const uint32_t* count, \
                                        uint64_t rows, uint32_t each, double smoothing) {                                    \
    cross_entropy_grad<T, Team<slots<Team, T>()>>(dx, x, targets, most, sums, g, count, rows, each, smoothing);              \
  }                                                                                                                          \
  EXPORT(name##suffix);

#define CROSS_ENTROPY(suffix, T)                                                                                             \
  ROW_KERNELS(cross_entropy_rows, suffix, T,                                                                                 \
              (Result loss, NumberOf<T>::Type* most, NumberOf<T>::Type* sums, Rows x, Targets targets, uint64_t rows,        \
               double smoothing),                                                                                            \
              (targets.classes, x), loss, most, sums, x, targets, rows, smoothing)                                           \
  GRADIENT(cross_entropy_grad, suffix, T, kRowThreads, 4, Warp)                                                              \
  GRADIENT(cross_entropy_grad_long, suffix, T, kBlockThreads, 2, Block)

FLOATS(CROSS_ENTROPY)
