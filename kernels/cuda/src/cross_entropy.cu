// Cross-entropy of rows of logits x with class indices. With m = max(x), s = sum(exp(x - m)) and the label smoothing
// e, the loss of a row is
//
//	(1-e) * (log(s) - (x[target] - m)) + e * (log(s) - sum(x - m)/C)
//
// and its gradient (exp(x - m) * (1/s) - t) * scale, with t the smoothed one-hot row.
#include "index_error.cuh"
#include "row.cuh"

// Targets are class indices of any integer type; rows with the target `ignore` do not count.
struct Targets {
  Rows indices;
  IndexErrors errors;
  int64_t ignore;
  uint32_t bytes;  // of an index: 8, 4 or 1
  uint32_t classes;
};

namespace {

// target_of is the class of row r, -1 for a row that does not count or whose target is no class.
DEV int64_t target_of(const Targets& t, uint64_t r) {
  const int64_t k = index_value(t.indices.data, t.bytes, offset_of(t.indices.rows, r));
  if (k == t.ignore) return -1;
  if (k >= 0 && k < t.classes) return k;
  report(t.errors, r, k);
  return -1;
}

// The loss, m and s of each row.
template <class T, class Group, class N = ComputeType<T>>
DEV void cross_entropy_rows(const Result& loss, N* most, N* sums, const Rows& x_, const Targets& targets, uint64_t rows,
                            double smoothing) {
  const uint64_t r = Group::row();
  if (r >= rows) return;
  const uint32_t n = targets.classes;
  const auto x = cached<Group>(n, Row<T, Group>(x_, r));
  const N m = row_fold<Max, N, Group>(n, x);
  const N s = row_fold<Sum, N, Group>(n, [&](ElementIndex i) { return math::exp(math::sub(x(i), m)); });
  const N e = (N)smoothing;
  N spread = 0;
  if (e > 0) spread = math::div(row_fold<Sum, N, Group>(n, [&](ElementIndex i) { return math::sub(x(i), m); }), (N)n);
  if (Group::thread()) return;
  most[r] = m;
  sums[r] = s;
  const int64_t k = target_of(targets, r);
  if (k < 0) {
    put(loss, r, N(0));
    return;
  }
  const N log = math::log(s), own = math::sub(log, math::sub(Row<T>(x_, r)((uint32_t)k), m));
  put(loss, r, e > 0 ? math::add(math::mul(math::sub(N(1), e), own), math::mul(e, math::sub(log, spread))) : own);
}

// The gradient of row r of a contiguous result, which may be in place of the logits: a thread overwrites only what it
// alone has read, and reads as many elements as it can cache before it writes. g is the gradient of the loss, of each
// row if each is 1; count is null but for the mean.
template <class T, class Group>
DEV void cross_entropy_grad(T* dx, const Rows& x_, const Targets& targets, const Rows& most, const Rows& sums,
                            const Rows& g, const uint32_t* count, uint64_t rows, uint32_t each, double smoothing) {
  using N = ComputeType<T>;
  const uint64_t r = Group::row();
  if (r >= rows) return;
  const uint32_t n = targets.classes;
  T* d = dx + r * n;
  const int64_t k = target_of(targets, r);
  if (k < 0) {
    for (uint32_t i = Group::thread(); i < n; i += Group::threads()) d[i] = to_element<T>(N(0));
    return;
  }
  const Row<T, Group> x(x_, r);
  const N m = Row<N>(most, r)(0), inverse = math::div(N(1), Row<N>(sums, r)(0));
  // The smoothed target at other classes, and at the class.
  const N e = (N)smoothing, off = math::div(e, (N)n), on = math::add(math::sub(N(1), e), off);
  N scale = Row<T>(g, each ? r : 0)(0);
  if (count) scale = math::div(scale, (N)*count);
  for (uint32_t from = 0; from < n; from += Group::threads() * Group::slots()) {
    const auto chunk = cached<Group>(n - from, [&](ElementIndex i) { return x(from + i); });
    row_each<Group>(n - from, [&](ElementIndex i) {
      const N p = math::mul(math::exp(math::sub(chunk(i), m)), inverse);
      d[from + i] = to_element<T>(math::mul(math::sub(p, from + i == (uint32_t)k ? on : off), scale));
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
#define MEAN(suffix, N)                                                                     \
  ENTRY(cross_entropy_mean##suffix, 32, 1, (Result y, const N* sum, const uint32_t* count), \
        if (threadIdx.x == 0) put(y, 0, math::div(*sum, (N)*count)))

MEAN(_f32, float)
MEAN(_f64, double)

// The classes of a row are one axis, which can always be cached, a chunk at a time.
#define GRADIENT(name, T, threads, blocks, Group)                                                                    \
  ENTRY(name, threads, blocks, (T* dx, Rows x, Targets targets, Rows most, Rows sums, Rows g, const uint32_t* count, \
                                uint64_t rows, uint32_t each, double smoothing),                                     \
        cross_entropy_grad<T, Group<slots<Group, T>()>>(dx, x, targets, most, sums, g, count, rows, each, smoothing))

#define CROSS_ENTROPY(suffix, T)                                                                                \
  ROW_KERNELS(cross_entropy_rows, suffix, T,                                                                    \
              (Result loss, ComputeType<T>* most, ComputeType<T>* sums, Rows x, Targets targets, uint64_t rows, \
               double smoothing),                                                                               \
              (targets.classes, x), loss, most, sums, x, targets, rows, smoothing)                              \
  GRADIENT(cross_entropy_grad##suffix, T, kRowThreads, 4, Warp)                                                 \
  GRADIENT(cross_entropy_grad_long##suffix, T, kBlockThreads, 2, Block)

FLOATS(CROSS_ENTROPY)
