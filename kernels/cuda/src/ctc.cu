// Connectionist temporal classification (Graves et al. 2006) in double: a block has a row of the batch, and its threads
// the positions of the path that alignments follow, the target with blanks before, between and behind.
#include "index_error.cuh"
#include "row.cuh"

// CtcRows are rows of the batch from `first` on, with the steps and targets of each that count. Log-probabilities have
// strides, targets too, and `width` is the length of the longest path.
struct CtcRows {
  uint64_t first, classes, blank, most_steps, width;
  int64_t step, row, of_class, target_row, target;
  const void* targets;
  uint64_t bytes, targets_each;  // of an index; of a row
  IndexErrors errors;
  uint32_t steps[64], targets_of[64];
};

namespace {

constexpr int kThreads = 256;

// A row of the batch: number r of a launch.
template <class T> struct CtcRow {
  const CtcRows& rows;
  const T* x;
  uint32_t r;
  int steps, length;  // of the path
  DEV_METHOD CtcRow(const CtcRows& rows, const T* x, uint32_t r)
      : rows(rows), x(x + (int64_t)(rows.first + r) * rows.row), r(r), steps((int)rows.steps[r]),
        length(2 * (int)rows.targets_of[r] + 1) {}
  DEV_METHOD int64_t number() const { return (int64_t)(rows.first + r); }
  // class_at is the class of a position; an index outside is reported, and counts as the blank.
  DEV_METHOD int64_t class_at(int s, bool tell = false) const {
    if (!(s & 1)) return (int64_t)rows.blank;
    const int64_t k = s / 2, i = index_value(rows.targets, rows.bytes,
                                             (uint64_t)(number() * rows.target_row + k * rows.target));
    if (i >= 0 && i < (int64_t)rows.classes) return i;
    if (tell) report(rows.errors, (uint64_t)number() * rows.targets_each + k, i);
    return (int64_t)rows.blank;
  }
  DEV_METHOD double at(int t, int64_t of) const {
    return to_compute<double>(x[t * rows.step + of * rows.of_class]);
  }
  // skips tells whether an alignment may go from position s-2 to s.
  DEV_METHOD bool skips(int s) const { return s >= 2 && s < length && class_at(s) != class_at(s - 2); }
  DEV_METHOD double* ways(double* all) const { return all + (uint64_t)r * rows.most_steps * rows.width; }
};

DEV double log_add_exp(double a, double b) {
  if (a == b) return f64_add(a, 0.6931471805599453);
  return f64_add(f64_max(a, b), f64_log(f64_add(1, f64_exp(-fabs(f64_sub(a, b))))));
}

// ctc_forward: for each step and position the log-probability of all ways to be there after the step, that of the
// target, and the loss, unless y is null.
template <class T> DEV void ctc_forward(T* y, double* whole, double* all, const T* x, const CtcRows& rows) {
  const CtcRow<T> row(rows, x, blockIdx.x);
  double* const ways = row.ways(all);
  const double impossible = -infinity(double());
  for (int s = threadIdx.x; s < row.length; s += kThreads) row.class_at(s, true);
  for (int t = 0; t < row.steps; t++) {
    for (int s = threadIdx.x; s < row.length; s += kThreads) {
      double v = impossible;
      const int64_t own = row.class_at(s);
      if (t > 0) {
        const double* const last = ways + (uint64_t)(t - 1) * rows.width;
        v = last[s];
        if (s > 0) v = log_add_exp(v, last[s - 1]);
        if (row.skips(s)) v = log_add_exp(v, last[s - 2]);
        v = f64_add(v, row.at(t, own));
      } else if (s < 2) {
        v = row.at(0, own);
      }
      ways[(uint64_t)t * rows.width + s] = v;
    }
    __syncthreads();
  }
  if (threadIdx.x) return;
  double v = row.length == 1 ? 0 : impossible;
  if (row.steps > 0) {
    const double* const last = ways + (uint64_t)(row.steps - 1) * rows.width;
    v = last[row.length - 1];
    if (row.length > 1) v = log_add_exp(v, last[row.length - 2]);
  }
  whole[row.r] = v;
  if (y) y[row.number()] = to_element<T>(f64_neg(v));
}

// ctc_backward: to the log-probabilities of ctc_forward adds that of all ways from there, after the step, to the end.
// `next` has two rows for each row of the batch.
template <class T> DEV void ctc_backward(double* all, double* next, const T* x, const CtcRows& rows) {
  const CtcRow<T> row(rows, x, blockIdx.x);
  double* const ways = row.ways(all);
  next += (uint64_t)row.r * 2 * rows.width;
  for (int t = row.steps - 1; t >= 0; t--) {
    double* const own = next + (t & 1) * rows.width;
    const double* const later = next + (~t & 1) * rows.width;
    for (int s = threadIdx.x; s < row.length; s += kThreads) {
      double v = s >= row.length - 2 ? 0 : -infinity(double());
      if (t < row.steps - 1) {
        v = f64_add(later[s], row.at(t + 1, row.class_at(s)));
        if (s + 1 < row.length) v = log_add_exp(v, f64_add(later[s + 1], row.at(t + 1, row.class_at(s + 1))));
        if (row.skips(s + 2)) v = log_add_exp(v, f64_add(later[s + 2], row.at(t + 1, row.class_at(s + 2))));
      }
      own[s] = v;
      ways[(uint64_t)t * rows.width + s] = f64_add(ways[(uint64_t)t * rows.width + s], v);
    }
    __syncthreads();
  }
}

// ctc_grad: a thread has a class of a step of a row, and adds up the probabilities of its positions.
template <class T>
DEV void ctc_grad(T* dx, const T* g, int64_t g_step, const double* all, const double* whole, const T* x, uint64_t count,
                  uint64_t total, uint64_t all_rows, const CtcRows& rows) {
  const uint64_t i = thread_index();
  if (i >= total) return;
  const uint64_t of_row = i / rows.classes, k = i - of_row * rows.classes, t = of_row / count;
  const CtcRow<T> row(rows, x, (uint32_t)(of_row - t * count));
  double v = 0;
  const double factor = to_compute<double>(g[row.number() * g_step]);
  if (factor != 0 && t < (uint64_t)row.steps) {
    const double* const ways = all + ((uint64_t)row.r * rows.most_steps + t) * rows.width;
    for (int s = 0; s < row.length; s++)
      if (row.class_at(s) == (int64_t)k)
        v = f64_sub(v, f64_mul(factor, f64_exp(f64_sub(ways[s], whole[row.r]))));
  }
  dx[(t * all_rows + (uint64_t)row.number()) * rows.classes + k] = to_element<T>(v);
}

}  // namespace

#define CTC(suffix, T)                                                                                              \
  ENTRY(ctc_forward##suffix, kThreads, 4, (T* y, double* whole, double* all, const T* x, CtcRows rows),             \
        ctc_forward(y, whole, all, x, rows))                                                                        \
  ENTRY(ctc_backward##suffix, kThreads, 4, (double* all, double* next, const T* x, CtcRows rows),                   \
        ctc_backward(all, next, x, rows))                                                                           \
  ENTRY(ctc_grad##suffix, kThreads, 4,                                                                              \
        (T* dx, const T* g, int64_t g_step, const double* all, const double* whole, const T* x, uint64_t count,     \
         uint64_t total, uint64_t all_rows, CtcRows rows),                                                          \
        ctc_grad(dx, g, g_step, all, whole, x, count, total, all_rows, rows))

FLOATS(CTC)
