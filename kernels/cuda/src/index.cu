// Operations with a tensor of indices: gather, index_add, scatter_add, one_hot. Indices are int64, int32 or uint8. For
// one outside its axis, gather gives 0 and the additions add nothing. Gather does not look at values: its kernels are
// by the width of an element.
#include "copy.cuh"
#include "index_error.cuh"
#include "row.cuh"

// Indices is the operand of indices.
struct Indices {
  const void* data;
  IndexErrors errors;
  uint64_t bytes, size;  // of an index; of the axis that they choose from
  Axes axes;
};

// IndexedAxis is the axis of x that indices of `bytes` bytes select from. With 4 bytes or fewer, size is 2^31 at most,
// so that negative indices are outside.
struct IndexedAxis {
  uint64_t bytes, size;
  int64_t stride;
  IndexErrors errors;
};

// LineStrides are those along a line, the elements that differ in their coordinate on the axis only. `inner` is the
// number of elements of the axes behind it.
struct LineStrides { uint64_t y, x, indices, inner; };

namespace {

constexpr int kThreads = 256;

// checked is index number k, at offset `at`; -1 if it is outside its axis.
DEV int64_t checked(const Indices& a, uint64_t k, uint64_t at) {
  const int64_t i = index_value(a.data, a.bytes, at);
  if (i >= 0 && i < (int64_t)a.size) return i;
  report(a.errors, k, i);
  return -1;
}

DEV int64_t index_at(const Indices& a, uint64_t k) { return checked(a, k, offset_of(a.axes, k)); }

// ---- gather -------------------------------------------------------------------------------------------

// An index as an unsigned number: a negative one becomes too large.
DEV uint64_t positive(int64_t i) { return (uint64_t)i; }
DEV uint32_t positive(int32_t i) { return (uint32_t)i; }
DEV uint32_t positive(uint8_t i) { return i; }

// gather_by is gather for indices of one type. Of several that are outside, a thread reports the first.
template <class T, class I>
DEV void gather_by(T* y, const T* x, const I* indices, uint64_t number, const Offsets<T, 4>& p,
                   const IndexedAxis& axis) {
  using Index = decltype(positive(I()));
  const Index size = (Index)axis.size;
  uint32_t outside = 0;
  store_each(y, p, [&](int e) {
    const Index i = positive(load<I>(indices + p.of(2, e)));
    if (i >= size) outside |= 1u << e;
    return i < size ? load<T>(x + p.of(1, e) + (int64_t)i * axis.stride) : T{};
  });
  if (!outside) return;
  int e = 0;
  while (!(outside >> e & 1)) e++;
  report(axis.errors, number + p.of(3, e), indices[p.of(2, e)]);
}

// gather: an element of y is the element of x that an index selects along an axis. Operand 1 is the offset of the axis
// in x, operand 2 that of the index, and operand 3, from `number` on, the row-major number of the index.
template <class T>
DEV void gather(T* y, const T* x, const void* indices, uint64_t number, const StridedRange<4>& range,
                const Shape32<4>& shape, const IndexedAxis& axis) {
  const Offsets<T, 4> p(range, shape);
  switch (axis.bytes) {
    case 8: return gather_by(y, x, static_cast<const int64_t*>(indices), number, p, axis);
    case 4: return gather_by(y, x, static_cast<const int32_t*>(indices), number, p, axis);
    default: return gather_by(y, x, static_cast<const uint8_t*>(indices), number, p, axis);
  }
}

// ---- ordered additions -------------------------------------------------------------------------------

template <class N> DEV N plus(N x, N y) { return math::add(x, y); }
DEV int32_t plus(int32_t x, int32_t y) { return (int32_t)((uint32_t)x + (uint32_t)y); }
DEV uint8_t plus(uint8_t x, uint8_t y) { return (uint8_t)(x + y); }

// Total is the type of sums: elements of half precision are added up in FP32 and rounded once.
template <class T> struct TotalOf { using Type = T; };
template <> struct TotalOf<f16> { using Type = float; };
template <> struct TotalOf<bf16> { using Type = float; };
template <class T> using Total = typename TotalOf<T>::Type;

constexpr int kWarps = 4, kEach = 8;  // elements of an entry that a thread adds up
constexpr uint64_t kColumns = 32 * kEach;

// index_add: y [outer, axis, width] gets x[k] added to its entry indices[k], k ascending. Columns are the elements of
// all outer slabs; a warp has one k and 256 columns. If no earlier index equals its own, it adds up all equal ones, in
// order.
template <class T>
DEV void index_add(T* y, const T* x, uint64_t n, uint64_t columns, uint64_t width, const Indices& indices,
                   const Axes& column_axes, const Axes& entry_axes) {
  const uint64_t tiles = (columns + kColumns - 1) / kColumns;
  const uint64_t number = (uint64_t)blockIdx.x * kWarps + threadIdx.x / 32, k = number / tiles;
  if (k >= n) return;
  const int lane = threadIdx.x % 32;
  const int64_t mine = index_at(indices, k);
  if (mine < 0) return;
  for (uint64_t from = 0; from < k; from += 32)
    if (ballot(from + lane < k && index_at(indices, from + lane) == mine)) return;

  const uint64_t first = number % tiles * kColumns + lane;
  Total<T> sum[kEach];
  T* to[kEach];
  const T* added[kEach];
#pragma unroll
  for (int e = 0; e < kEach; e++) {
    const uint64_t c = first + 32 * e;
    if (c >= columns) continue;
    const uint64_t slab = c / width;
    to[e] = y + (slab * indices.size + mine) * width + (c - slab * width);
    added[e] = x + offset_of(column_axes, c);
    sum[e] = to_compute<Total<T>>(*to[e]);
  }
  for (uint64_t from = k / 32 * 32; from < n; from += 32) {
    uint32_t same = ballot(from + lane >= k && from + lane < n && index_at(indices, from + lane) == mine);
    for (int j = 0; same >> j; j++) {
      if (!(same >> j & 1)) continue;
      const uint64_t entry = offset_of(entry_axes, from + j);
#pragma unroll
      for (int e = 0; e < kEach; e++)
        if (first + 32 * e < columns) sum[e] = plus(sum[e], to_compute<Total<T>>(added[e][entry]));
      if (j == 31) break;
    }
  }
#pragma unroll
  for (int e = 0; e < kEach; e++)
    if (first + 32 * e < columns) *to[e] = to_element<T>(sum[e]);
}

// scatter_add: a thread adds the n elements of a line, one after the other. `lines` has the offsets of lines in the
// indices, y and x. Sums of half precision are in `sums` [axis lines].
template <class T>
DEV void scatter_add(T* y, const T* x, Total<T>* sums, uint64_t count, uint64_t n, const Indices& indices,
                     const LineStrides& stride, const Shape64<3>& lines) {
  const uint64_t line = thread_index();
  if (line >= count) return;
  uint64_t at[3];
  locate(lines, line, at);
  // each calls f(element of y, index of its sum, element of x) for the elements of the line in order.
  auto each = [&](auto f) {
    for (uint64_t k = 0; k < n; k++) {
      const uint64_t outer = line / stride.inner;
      const int64_t i = checked(indices, (outer * (n - 1) + k) * stride.inner + line, at[0] + k * stride.indices);
      if (i >= 0) f(y[at[1] + i * stride.y], i * count + line, x[at[2] + k * stride.x]);
    }
  };
  if constexpr (sizeof(Total<T>) == sizeof(T)) {
    each([](T& to, uint64_t, const T& added) { to = plus(to, added); });
  } else {
    each([&](T& to, uint64_t sum, const T&) { sums[sum] = to_compute<Total<T>>(to); });
    each([&](T&, uint64_t sum, const T& added) { sums[sum] = plus(sums[sum], to_compute<Total<T>>(added)); });
    each([&](T& to, uint64_t sum, const T&) { to = to_element<T>(sums[sum]); });
  }
}

}  // namespace

#define GATHER(name, T)                                                                                   \
  ENTRY(gather_##name, kThreads, 3,                                                                       \
        (T* y, const T* x, const void* indices, uint64_t number, StridedRange<4> range, Shape32<4> shape, \
         IndexedAxis axis),                                                                               \
        gather(y, x, indices, number, range, shape, axis))

GATHER(b1, uint8_t)
GATHER(b2, uint16_t)
GATHER(b4, uint32_t)
GATHER(b8, uint64_t)
GATHER(b16, uint4)

#define ADD(name, T)                                                                                        \
  ENTRY(index_add_##name, 32 * kWarps, 4,                                                                   \
        (T* y, const T* x, uint64_t n, uint64_t columns, uint64_t width, Indices indices, Axes column_axes, \
         Axes entry_axes),                                                                                  \
        index_add(y, x, n, columns, width, indices, column_axes, entry_axes))                               \
  ENTRY(scatter_add_##name, kThreads, 4,                                                                    \
        (T* y, const T* x, Total<T>* sums, uint64_t count, uint64_t n, Indices indices, LineStrides stride, \
         Shape64<3> lines),                                                                                 \
        scatter_add(y, x, sums, count, n, indices, stride, lines))

ADD(f32, float)
ADD(f64, double)
ADD(f16, f16)
ADD(bf16, bf16)
ADD(i64, int64_t)
ADD(i32, int32_t)
ADD(u8, uint8_t)

// one_hot: y[k, c] is 1 where c is index k.
KERNEL(one_hot, kThreads, 8)(int64_t* y, uint64_t total, Indices indices) {
  const uint64_t i = thread_index();
  if (i >= total) return;
  const uint64_t k = i / indices.size;
  y[i] = index_at(indices, k) == (int64_t)(i - k * indices.size);
}
EXPORT(one_hot);
