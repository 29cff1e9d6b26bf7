// Operations whose results are made from windows of the last axes: max pooling and its inverse, weighted sums along an
// axis, sums of windows. Operands have any layout, results are contiguous, and a thread has an element of the result.
// Sums have the order of kernels/cpu.
#include "index_error.cuh"
#include "row.cuh"

// PoolAxis is a kernels.WindowAxis, with the size of the axis and the stride of x along it.
struct PoolAxis {
  int64_t size, stride, before, dilation, count, n, step;
};

// Pooling is windows over planes of three axes.
struct Pooling {
  PoolAxis axis[3];
  Axes planes;
};

// Resampling is an axis of n elements, behind which x has `inner` ones: the result has `rows` along it. `others` are
// the other axes of x, and `width` is that of a row of weights.
struct Resampling {
  uint64_t rows, inner, width, step;
  Axes others;
};

// Folding is windows of `size` elements, `apart` from each other, of which there are `windows` along an axis; the
// result has n elements there, and `inner` behind it. Steps are those of x along the windows and inside of one.
struct Folding {
  uint64_t n, windows, size, apart, inner, window_step, step;
  Axes others;
};

namespace {

constexpr int kThreads = 256;

// window sets [from, to) to the elements of window o.
DEV void window(const PoolAxis& a, int64_t o, int64_t& from, int64_t& to) {
  if (a.stride == 0) {
    from = o * a.n / a.count;
    to = ((o + 1) * a.n + a.count - 1) / a.count;
    return;
  }
  from = o * a.stride - a.before;
  to = from + (a.size - 1) * a.dilation + 1;
  if (to > a.n) to = a.n;
  if (from < 0) from += (a.dilation - 1 - from) / a.dilation * a.dilation;
}

// max_pool: the first of the largest elements of a window, or the last NaN, and its index in the plane.
template <class T>
DEV void max_pool(T* y, int64_t* indices, const T* x, uint64_t n, const Pooling& p) {
  const uint64_t i = thread_index();
  if (i >= n) return;
  uint64_t rest = i;
  int64_t from[3], to[3];
#pragma unroll
  for (int d = 2; d >= 0; d--) {
    const uint64_t outer = rest / p.axis[d].count;
    window(p.axis[d], rest - outer * p.axis[d].count, from[d], to[d]);
    rest = outer;
  }
  x += offset_of(p.planes, rest);
  T most = {};
  ComputeType<T> value = 0;
  int64_t found = -1;
  for (int64_t a = from[0]; a < to[0]; a += p.axis[0].dilation)
    for (int64_t b = from[1]; b < to[1]; b += p.axis[1].dilation)
      for (int64_t c = from[2]; c < to[2]; c += p.axis[2].dilation) {
        const T element = x[a * p.axis[0].step + b * p.axis[1].step + c * p.axis[2].step];
        const ComputeType<T> v = to_compute<ComputeType<T>>(element);
        if (found >= 0 && !(v > value) && v == v) continue;
        most = element;
        value = v;
        found = (a * p.axis[1].n + b) * p.axis[2].n + c;
      }
  y[i] = most;
  indices[i] = found;
}

// resample: y = the sum over k in [bounds[o][0], bounds[o][1]) of the weights of row o times x, one after the other
// from the first product on.
template <class T>
DEV void resample(T* y, const T* x, const int64_t* bounds, const ComputeType<T>* weights, uint64_t n,
                  const Resampling& r) {
  const uint64_t i = thread_index();
  if (i >= n) return;
  const uint64_t row = i / r.inner, outer = row / r.rows, o = row - outer * r.rows;
  x += offset_of(r.others, outer * r.inner + (i - row * r.inner));
  const int64_t from = bounds[2 * o], to = bounds[2 * o + 1];
  const ComputeType<T>* const w = weights + o * r.width;
  ComputeType<T> sum = 0;
  for (int64_t k = from; k < to; k++) {
    const ComputeType<T> product = math::mul(w[k - from], to_compute<ComputeType<T>>(x[k * r.step]));
    sum = k == from ? product : math::add(sum, product);
  }
  y[i] = to_element<T>(sum);
}

// fold: y = the sum of the elements of windows that lie there, in ascending order of windows.
template <class T> DEV void fold(T* y, const T* x, uint64_t n, const Folding& f) {
  const uint64_t i = thread_index();
  if (i >= n) return;
  const uint64_t row = i / f.inner, outer = row / f.n, at = row - outer * f.n;
  x += offset_of(f.others, outer * f.inner + (i - row * f.inner));
  ComputeType<T> sum = 0;
  const uint64_t first = at < f.size ? 0 : (at - f.size + f.apart) / f.apart;
  for (uint64_t o = first; o < f.windows && o * f.apart <= at; o++)
    sum = math::add(sum, to_compute<ComputeType<T>>(x[o * f.window_step + (at - o * f.apart) * f.step]));
  y[i] = to_element<T>(sum);
}

// max_unpool: y is the element that has taken its place, or 0.
template <class T>
DEV void max_unpool(T* y, const T* x, const uint64_t* last, uint64_t n, uint64_t count, const Axes& axes) {
  const uint64_t i = thread_index();
  if (i >= n) return;
  y[i] = last[i] < count ? x[offset_of(axes, count - 1 - last[i])] : T{};
}

}  // namespace

// max_unpool_last: each place of planes of `to` elements becomes the number of the last element that goes there,
// counted from the end. There are `count` elements, `from` of them in a plane.
KERNEL(max_unpool_last, kThreads, 8)(uint64_t* last, const void* indices, uint64_t bytes, uint64_t count, uint64_t from,
                                     uint64_t to, IndexErrors errors, Axes axes) {
  const uint64_t i = thread_index();
  if (i >= count) return;
  const int64_t at = index_value(indices, bytes, offset_of(axes, i));
  if (at < 0 || at >= (int64_t)to) return report(errors, i, at);
  atomic_min(&last[i / from * to + at], count - 1 - i);
}
EXPORT(max_unpool_last);

#define WINDOWS(suffix, T)                                                                                            \
  ENTRY(max_pool##suffix, kThreads, 4, (T* y, int64_t* indices, const T* x, uint64_t n, Pooling p),                   \
        max_pool(y, indices, x, n, p))                                                                                \
  ENTRY(resample##suffix, kThreads, 4,                                                                                \
        (T* y, const T* x, const int64_t* bounds, const ComputeType<T>* weights, uint64_t n, Resampling r),           \
        resample(y, x, bounds, weights, n, r))                                                                        \
  ENTRY(fold##suffix, kThreads, 4, (T* y, const T* x, uint64_t n, Folding f), fold(y, x, n, f))                       \
  ENTRY(max_unpool##suffix, kThreads, 8, (T* y, const T* x, const uint64_t* last, uint64_t n, uint64_t count, Axes a), \
        max_unpool(y, x, last, n, count, a))

FLOATS(WINDOWS)
