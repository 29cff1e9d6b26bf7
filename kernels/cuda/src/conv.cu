// What convolutions add to matrix products: copies of what windows see, in the order of the terms; results put in their
// places, with the bias; sums of products. The products are those of matmul_f32.cu, and so is the order of the terms.
#include "matmul.cuh"
#include "row.cuh"

// UnfoldAxis is a spatial axis of n elements, `step` apart in memory: at a position, element t of the window is element
// start + position*stride + t*dilation. Those outside of the axis are zero.
struct UnfoldAxis {
  int64_t n, step, start, stride, dilation;
  uint32_t positions, size;
};

// Unfolding is a matrix with a row for each channel and element of the window, and a column for each image and
// position, from column `first` on. Steps are those of x, then those of the matrix, whose positions follow each other.
struct Unfolding {
  UnfoldAxis axis[3];
  int64_t image, channel, to_image, to_row;
  uint32_t first, columns, positions, window;
};

namespace {

constexpr int kThreads = 256;

template <class T> DEV void unfold(T* to, const T* x, uint64_t n, const Unfolding& u) {
  const uint64_t i = thread_index();
  if (i >= n) return;
  const uint32_t row = (uint32_t)(i / u.columns), column = (uint32_t)(i - (uint64_t)row * u.columns) + u.first;
  const uint32_t image = column / u.positions, channel = row / u.window;
  uint32_t position = column - image * u.positions, t = row - channel * u.window;
  to += image * u.to_image + row * u.to_row + position - u.first;
  int64_t at = image * u.image + channel * u.channel;
  bool inside = true;
#pragma unroll
  for (int d = 2; d >= 0; d--) {
    const UnfoldAxis& a = u.axis[d];
    const uint32_t outer = position / a.positions, outer_t = t / a.size;
    const int64_t k = a.start + (position - outer * a.positions) * a.stride + (t - outer_t * a.size) * a.dilation;
    inside = inside && k >= 0 && k < a.n;
    at += k * a.step;
    position = outer;
    t = outer_t;
  }
  *to = inside ? x[at] : T(0);
}

// place: y[n, channel, position] = x[n, channel, position] + bias[channel], unless that is null. x is contiguous, and
// may be y.
template <class T>
DEV void place(T* y, const T* x, const T* bias, int64_t bias_step, uint64_t n, uint64_t channels, uint64_t positions,
               const Axes& axes) {
  const uint64_t i = thread_index();
  if (i >= n) return;
  const T v = x[i];
  y[offset_of(axes, i)] = bias ? add(v, bias[i / positions % channels * bias_step]) : v;
}

// add_products: y = the sum of products of n elements each, one after the other, with y as the first one if `more`.
template <class T> DEV void add_products(T* y, const T* products, uint64_t n, uint64_t count, uint32_t more) {
  const uint64_t i = thread_index();
  if (i >= n) return;
  T total = more ? y[i] : -T(0);
  for (uint64_t k = 0; k < count; k++) total = add(total, products[k * n + i]);
  y[i] = total;
}

}  // namespace

#define CONV(suffix, T)                                                                                              \
  ENTRY(conv_unfold##suffix, kThreads, 4, (T* to, const T* x, uint64_t n, Unfolding u), unfold(to, x, n, u))         \
  ENTRY(conv_place##suffix, kThreads, 4,                                                                             \
        (T* y, const T* x, const T* bias, int64_t step, uint64_t n, uint64_t channels, uint64_t positions, Axes a),  \
        place(y, x, bias, step, n, channels, positions, a))                                                          \
  ENTRY(conv_add##suffix, kThreads, 4, (T* y, const T* products, uint64_t n, uint64_t count, uint32_t more),         \
        add_products(y, products, n, count, more))

CONV(_f32, float)
CONV(_f64, double)
