// Cross-entropy of rows of logits x with class indices. With m = max(x), s = sum(exp(x - m)) and the label smoothing
// e, the loss of a row is
//
//	(1-e) * (log(s) - (x[target] - m)) + e * (log(s) - sum(x - m)/C)
//
// and its gradient (exp(x - m) * (1/s) - t) * scale, with t the smoothed one-hot row.
//
// In half precision exp is that of half.cuh, and rows that are not cached are read once for m and s.
#include "exp_sum.cuh"
#include "index_error.cuh"

// Targets are class indices of any integer type; rows with the target `ignore` do not count.
struct Targets {
  Rows indices;
  IndexErrors errors;
  int64_t ignore;
  uint32_t bytes;  // of an index: 8, 4 or 1
  uint32_t classes;
};

namespace {

// index_of is the target of row r, class_of the class that it names, -1 for a row that does not count or whose target
// is no class, which is reported.
DEV int64_t index_of(const Targets& t, uint64_t r) {
  return index_value(t.indices.data, t.bytes, offset_of(t.indices.rows, r));
}
DEV bool counts(const Targets& t, int64_t k) { return k != t.ignore && k >= 0 && k < t.classes; }
DEV int64_t class_of(const Targets& t, uint64_t r, int64_t k) {
  if (counts(t, k)) return k;
  if (k != t.ignore) report(t.errors, r, k);
  return -1;
}

// The loss, m and s of each row. The target, and its logit, are read beside the row.
template <class T, class Group, class N = ComputeType<T>>
DEV void cross_entropy_rows(const Result& loss, N* most, N* sums, const Rows& x_, const Targets& targets, uint64_t rows,
                            double smoothing) {
  const uint64_t r = Group::row();
  if (r >= rows) return;
  const uint32_t n = targets.classes;
  const Row<T, Group> memory(x_, r);
  const int64_t index = index_of(targets, r);
  const auto x = cached<Group>(n, memory);
  const int64_t k = Group::thread() ? -1 : class_of(targets, r, index);
  const N target = k < 0 ? N(0) : Row<T>(x_, r)((uint32_t)k);
  const ExpSum<N> sum = exp_sum<T, Group>(n, x);
  const N m = sum.most, s = sum.sum, e = (N)smoothing;
  N spread = 0;
  if (e > 0) spread = math::div(row_fold<Sum, Group>(n, map([=](N x) { return math::sub(x, m); }, x)), (N)n);
  if (Group::thread()) return;
  most[r] = m;
  sums[r] = s;
  if (k < 0) {
    put(loss, r, N(0));
    return;
  }
  const N log = math::log(s), own = math::sub(log, math::sub(target, m));
  put(loss, r, e > 0 ? math::add(math::mul(math::sub(N(1), e), own), math::mul(e, math::sub(log, spread))) : own);
}

// Rows that count are counted by kCountBlocks blocks, one number each.
constexpr uint32_t kCountBlocks = 32, kCountThreads = 256;
struct Count {
  DEV_METHOD static uint32_t combine(uint32_t x, uint32_t y) { return x + y; }
};
DEV uint32_t count_of(const uint32_t* counts) { return warp_all<Count>(counts[threadIdx.x % kCountBlocks]); }

// counted is how many of the rows first, first + step and so on count. It reads 8 targets at a time.
DEV uint32_t counted(const Targets& t, uint64_t first, uint32_t step, uint64_t rows) {
  uint32_t n = 0;
#pragma unroll 1
  for (uint64_t r = first; r < rows; r += 8 * step) {
    int64_t k[8];
#pragma unroll
    for (uint32_t j = 0; j < 8; j++) k[j] = r + j * step < rows ? index_of(t, r + j * step) : -1;
#pragma unroll
    for (uint32_t j = 0; j < 8; j++) n += counts(t, k[j]);
  }
  return n;
}

// The gradient of row r of a contiguous result, which may be in place of the logits: a thread overwrites only what it
// alone has read. g is the gradient of the loss, of each row if each is 1; counted, the number of rows that count,
// is null but for the mean.
template <class T, class Group>
DEV void cross_entropy_grad(T* dx, const Rows& x_, const Targets& targets, const Rows& most, const Rows& sums,
                            const Rows& g, const ComputeType<T>* counted, uint64_t rows, uint32_t each,
                            double smoothing) {
  using N = ComputeType<T>;
  const uint64_t r = Group::row();
  if (r >= rows) return;
  const uint32_t n = targets.classes;
  const Row<T, Group> memory(x_, r);
  const Line<T, Group> d{dx + r * n};
  const int64_t index = index_of(targets, r);
  const N m = Row<N>(most, r)(0), s = Row<N>(sums, r)(0);
  N scale = Row<T>(g, each ? r : 0)(0);
  const N count = counted ? *counted : N(1);
  const auto x = cached<Group>(n, memory);
  const int64_t target = class_of(targets, r, index);
  if (target < 0) {
    set_row<Group>(n, d, values([](uint32_t) { return N(0); }));
    return;
  }
  const N inverse = math::div(N(1), s);
  // The smoothed target at other classes, and at the class.
  const N e = (N)smoothing, off = math::div(e, (N)n), on = math::add(math::sub(N(1), e), off);
  if (counted) scale = math::div(scale, count);
  const auto p = map([=](N x) { return math::mul(exp_of<T>(math::sub(x, m)), inverse); }, x);
  each_four<Group>(n, p, [&](At at, const Four<N>& p) {
    Four<N> t{off, off, off, off};
    const uint32_t own = (uint32_t)target - at.i;
    if (own < 4)
#pragma unroll
      for (uint32_t k = 0; k < 4; k++) t[k] = own == k ? on : off;
    d.set(at, each_of([=](N p, N t) { return math::mul(math::sub(p, t), scale); }, p, t));
  });
}

}  // namespace

KERNEL(cross_entropy_count, kCountThreads, 4)(uint32_t* counts, Targets targets, uint64_t rows) {
  SHARED(uint32_t, warps, [kCountThreads / 32]);
  uint32_t n = warp_all<Count>(counted(targets, thread_index(), kCountBlocks * kCountThreads, rows));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = n;
  __syncthreads();
  if (threadIdx.x) return;
  n = 0;
  for (uint32_t w = 0; w < kCountThreads / 32; w++) n += warps[w];
  counts[blockIdx.x] = n;
}
EXPORT(cross_entropy_count);

// The mean: a sum divided by the number of rows that count.
template <class N> DEV void cross_entropy_mean(const Result& y, N* counted, const N* sum, const uint32_t* counts) {
  const N count = (N)count_of(counts);
  if (threadIdx.x > 0) return;
  *counted = count;
  put(y, 0, math::div(*sum, count));
}

// The same by one block, which adds up the losses, too, at most kMeanBlocks blocks of them.
constexpr uint32_t kMeanBlocks = 32, kMeanThreads = 1024;
template <class N>
DEV void cross_entropy_short_mean(const Result& y, N* counted_, const N* losses, const Targets& targets,
                                  uint32_t rows) {
  SHARED(N, partial, [kMeanBlocks]);
  SHARED(uint32_t, numbers, [kMeanThreads / 32]);
  const uint32_t warp = threadIdx.x / 32, blocks = (rows + kFoldBlock - 1) / kFoldBlock;
  auto some = [](const N* from, uint32_t count) {
    Four<N> x{};
#pragma unroll
    for (uint32_t k = 0; k < 4; k++)
      if (k < count) x[k] = from[k];
    return x;
  };
  N own = 0;
  if (warp < blocks) {
    const N* const from = losses + warp * kFoldBlock;
    own = warp_fold<Sum, N, 4>(lesser(rows - warp * kFoldBlock, kFoldBlock), [=](uint32_t i, uint32_t count) {
      return count == 4 ? load_four<N>(from + i) : some(from + i, count);
    });
  }
  if (threadIdx.x % 32 == 0) partial[warp] = own;
  uint32_t n = warp_all<Count>(counted(targets, threadIdx.x, kMeanThreads, rows));
  if (threadIdx.x % 32 == 0) numbers[warp] = n;
  __syncthreads();
  if (warp > 0) return;
  const N sum = blocks == 1 ? partial[0] : warp_fold<Sum, N, 1>(blocks, [=](uint32_t i, uint32_t count) {
    return some(partial + i, count);
  });
  n = warp_all<Count>(numbers[threadIdx.x]);
  if (threadIdx.x > 0) return;
  *counted_ = (N)n;
  put(y, 0, math::div(sum, (N)n));
}
#define MEAN(suffix, N)                                                                                            \
  ENTRY(cross_entropy_mean##suffix, 32, 1, (Result y, N* counted, const N* sum, const uint32_t* counts),           \
        cross_entropy_mean(y, counted, sum, counts))                                                               \
  ENTRY(cross_entropy_short_mean##suffix, kMeanThreads, 1,                                                         \
        (Result y, N* counted, const N* losses, Targets targets, uint32_t rows),                                   \
        cross_entropy_short_mean(y, counted, losses, targets, rows))

MEAN(_f32, float)
MEAN(_f64, double)

#define GRADIENT(name, T, threads, blocks, Group)                                                                     \
  ENTRY(name, threads, blocks, (T* dx, Rows x, Targets targets, Rows most, Rows sums, Rows g,                         \
                                const ComputeType<T>* counted, uint64_t rows, uint32_t each, double smoothing),       \
        BY_LENGTH(Group, warps_cache, T, (targets.classes, dx, x), cross_entropy_grad, dx, x, targets, most, sums, g, \
                  counted, rows, each, smoothing))

#define CROSS_ENTROPY(suffix, T)                                                                                \
  ROW_KERNELS(cross_entropy_rows, halves_once, suffix, T,                                                       \
              (Result loss, ComputeType<T>* most, ComputeType<T>* sums, Rows x, Targets targets, uint64_t rows, \
               double smoothing),                                                                               \
              (targets.classes, x), loss, most, sums, x, targets, rows, smoothing)                              \
  GRADIENT(cross_entropy_grad##suffix, T, kRowThreads, (sizeof(T) > 4 ? 3 : sizeof(T) > 2 ? 5 : 6), Warp)       \
  GRADIENT(cross_entropy_grad_long##suffix, T, kBlockThreads, 3, Block)

FLOATS(CROSS_ENTROPY)
