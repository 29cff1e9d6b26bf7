// What convolutions add to matrix products: copies of what windows see, in the order of the terms; results put in their
// places, with the bias; sums of products. The products are those of matmul_f32.cu, and so is the order of the terms.
// In half precision they are those of matmul_half.cu, and sums in float32 are rounded once.
#include "matmul.cuh"
#include "row.cuh"

// UnfoldAxis is a spatial axis of n elements, `step` apart in memory: at a position, element t of the window is element
// start + position*stride + t*dilation. Those outside of the axis are zero.
struct UnfoldAxis {
  int64_t n, step, start, stride, dilation;
  uint32_t positions, size;
};

// Unfolding is a matrix with a row for each channel and element of the window, and `each` columns for each image: its
// positions, which follow each other, and zeros. The matrix begins at column `first`. Steps are those of x, then those
// of the matrix; where columns of two images share 16 bytes, images follow each other too.
struct Unfolding {
  UnfoldAxis axis[3];
  int64_t image, channel, to_image, to_row;
  uint32_t first, columns, each, positions, window;
};

namespace {

constexpr int kThreads = 256;

// unfold: a thread has the columns of 16 bytes of a row. Behind the last column there is room for zeros.
template <class T> DEV void unfold(T* to, const T* x, uint64_t n, const Unfolding& u) {
  constexpr uint32_t V = 16 / sizeof(T);
  const uint64_t i = thread_index();
  if (i >= n) return;
  const uint32_t groups = (u.columns + V - 1) / V, row = (uint32_t)(i / groups);
  const uint32_t begin = (uint32_t)(i - (uint64_t)row * groups) * V, column = begin + u.first;
  const uint32_t channel = row / u.window;
  uint32_t image = column / u.each, position = column - image * u.each, t = row - channel * u.window;
  to += (int64_t)image * u.to_image + row * u.to_row + position - u.first;
  x += channel * u.channel;
  uint32_t at[3], rest = position;
  int64_t seen[3];  // by the element of the window, at position 0
#pragma unroll
  for (int d = 2; d >= 0; d--) {
    const UnfoldAxis& a = u.axis[d];
    const uint32_t outer = rest / a.positions, outer_t = t / a.size;
    at[d] = rest - outer * a.positions;
    seen[d] = a.start + (t - outer_t * a.size) * a.dilation;
    rest = outer;
    t = outer_t;
  }
  Pack<T, V> pack;
#pragma unroll
  for (uint32_t e = 0; e < V; e++) {
    bool inside = position < u.positions && begin + e < u.columns;
    int64_t from = image * u.image;
#pragma unroll
    for (int d = 0; d < 3; d++) {
      const int64_t k = seen[d] + at[d] * u.axis[d].stride;
      inside = inside && k >= 0 && k < u.axis[d].n;
      from += k * u.axis[d].step;
    }
    pack.element[e] = inside ? x[from] : T{};
    position++;
    bool carry = true;
#pragma unroll
    for (int d = 2; d >= 0; d--) {
      at[d] += carry;
      carry = carry && at[d] == u.axis[d].positions;
      if (carry) at[d] = 0;
    }
    if (position == u.each) {
      position = 0;
      image++;
    }
  }
  store(to, pack.word);
}

// place: y[n, channel, position] = x[n, channel, position] + bias[channel], unless that is null. x is contiguous, and
// may be y. That of half precision is float, and rounded here.
template <class T>
DEV void place(T* y, const ComputeType<T>* x, const T* bias, int64_t bias_step, uint64_t n, uint64_t channels,
               uint64_t positions, const Axes& axes) {
  const uint64_t i = thread_index();
  if (i >= n) return;
  ComputeType<T> v = x[i];
  if (bias) v = add(v, to_compute<ComputeType<T>>(bias[i / positions % channels * bias_step]));
  y[offset_of(axes, i)] = to_element<T>(v);
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

#define UNFOLD(suffix, T)                                                                            \
  ENTRY(conv_unfold##suffix, kThreads, 4, (T* to, const T* x, uint64_t n, Unfolding u), unfold(to, x, n, u))

UNFOLD(_b2, uint16_t)
UNFOLD(_b4, uint32_t)
UNFOLD(_b8, uint64_t)

#define PLACE(suffix, T)                                                                                            \
  ENTRY(conv_place##suffix, kThreads, 4,                                                                            \
        (T* y, const ComputeType<T>* x, const T* bias, int64_t step, uint64_t n, uint64_t channels,                 \
         uint64_t positions, Axes a),                                                                               \
        place(y, x, bias, step, n, channels, positions, a))

FLOATS(PLACE)

#define ADD_PRODUCTS(suffix, T)                                                                                     \
  ENTRY(conv_add##suffix, kThreads, 4, (T* y, const T* products, uint64_t n, uint64_t count, uint32_t more),        \
        add_products(y, products, n, count, more))

ADD_PRODUCTS(_f32, float)
ADD_PRODUCTS(_f64, double)
