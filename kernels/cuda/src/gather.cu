// Elements at places that a tensor of indices gives: taking them, and adding to them. Indices are int64, int32 or uint8;
// of one outside its axis, 0 is taken and nothing is added. Values are only passed on where they are taken: those kernels
// go by the width of an element in bytes.
#include "report.cuh"
#include "rows.cuh"
#include "walk.cuh"

// Indices are the operand that holds them.
struct Indices {
  const void* data;
  Report report;
  uint64_t bytes, size;  // of an index; of the axis that they choose from
  Axes axes;
};

// Entries are what an index chooses from: `size` entries, `step` apart, by indices of so many bytes. Of 4 bytes, those are
// outside that have the uppermost bit: then the size is 2^31 at most.
struct Entries {
  uint64_t bytes, size;
  int64_t step;
  Report report;
};

// Steps are those of a line: the elements whose indices differ along the axis only. `inner` counts the elements behind
// the axis.
struct Steps { uint64_t y, x, indices, inner; };

namespace {

constexpr int kThreads = 256;

// checked is index number k, which lies at place `at`; -1 if it is outside its axis.
DEV int64_t checked(const Indices& a, uint64_t k, uint64_t at) {
  const int64_t i = index_value(a.data, a.bytes, at);
  if (i >= 0 && i < (int64_t)a.size) return i;
  report(a.report, k, i);
  return -1;
}

DEV int64_t index_at(const Indices& a, uint64_t k) { return checked(a, k, place(a.axes, k)); }

// ---- taking -------------------------------------------------------------------------------------------

// An index as a number that is too large if the index is negative.
DEV uint64_t positive(int64_t i) { return (uint64_t)i; }
DEV uint32_t positive(int32_t i) { return (uint32_t)i; }
DEV uint32_t positive(uint8_t i) { return i; }

// gather_by is gather for indices of one type. Of several that are outside, a thread reports the first.
template <class T, class I>
DEV void gather_by(T* y, const T* x, const I* indices, uint64_t number, const Places<T, 4>& p, const Entries& entries) {
  using Index = decltype(positive(I()));
  const Index size = (Index)entries.size;
  uint32_t outside = 0;
  move(y, p, [&](int e) {
    const Index i = positive(load<I>(indices + p.in(2, e)));
    if (i >= size) outside |= 1u << e;
    return i < size ? load<T>(x + p.in(1, e) + (int64_t)i * entries.step) : T{};
  });
  if (!outside) return;
  int e = 0;
  while (!(outside >> e & 1)) e++;
  report(entries.report, number + p.in(3, e), indices[p.in(2, e)]);
}

// gather: an element of y is the one of x with an index along an axis. Where the axis begins in x, operand 1 tells,
// operand 2 where the index is, and operand 3, which begins at `number`, how many indices are before it.
template <class T>
DEV void gather(T* y, const T* x, const void* indices, uint64_t number, const Walk<4>& walk, const Shape32<4>& shape, const Entries& entries) {
  const Places<T, 4> p(walk, shape);
  switch (entries.bytes) {
    case 8: return gather_by(y, x, static_cast<const int64_t*>(indices), number, p, entries);
    case 4: return gather_by(y, x, static_cast<const int32_t*>(indices), number, p, entries);
    default: return gather_by(y, x, static_cast<const uint8_t*>(indices), number, p, entries);
  }
}

// ---- ordered additions -------------------------------------------------------------------------------

DEV float plus(float x, float y) { return __fadd_rn(x, y); }
DEV double plus(double x, double y) { return __dadd_rn(x, y); }
DEV int64_t plus(int64_t x, int64_t y) { return (int64_t)((uint64_t)x + (uint64_t)y); }
DEV int32_t plus(int32_t x, int32_t y) { return (int32_t)((uint32_t)x + (uint32_t)y); }
DEV uint8_t plus(uint8_t x, uint8_t y) { return (uint8_t)(x + y); }

// Elements of half precision add up in FP32 and are rounded once.
template <class T> DEV T wide(T x) { return x; }
DEV float wide(f16 x) { return to_float(x); }
DEV float wide(bf16 x) { return to_float(x); }
template <class T> DEV void narrow(T& to, T x) { to = x; }
DEV void narrow(f16& to, float x) { to = to_f16(x); }
DEV void narrow(bf16& to, float x) { to = to_bf16(x); }
template <class T> using Total = decltype(wide(T{}));

constexpr int kWarps = 4, kEach = 8;  // elements of an entry that a thread adds up
constexpr uint64_t kColumns = 32 * kEach;

// index_add: y [outer, entries, width] gets x[k] added to its entry indices[k], k ascending. The elements of all slabs
// are columns; a warp has one k and 256 columns. If no earlier index is the same, it adds up all that are, in order.
template <class T>
DEV void index_add(T* y, const T* x, uint64_t n, uint64_t columns, uint64_t width, const Indices& indices, const Axes& column_axes,
                   const Axes& entry_axes) {
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
    added[e] = x + place(column_axes, c);
    sum[e] = wide(*to[e]);
  }
  for (uint64_t from = k / 32 * 32; from < n; from += 32) {
    uint32_t same = ballot(from + lane >= k && from + lane < n && index_at(indices, from + lane) == mine);
    for (int j = 0; same >> j; j++) {
      if (!(same >> j & 1)) continue;
      const uint64_t entry = place(entry_axes, from + j);
#pragma unroll
      for (int e = 0; e < kEach; e++)
        if (first + 32 * e < columns) sum[e] = plus(sum[e], wide(added[e][entry]));
      if (j == 31) break;
    }
  }
#pragma unroll
  for (int e = 0; e < kEach; e++)
    if (first + 32 * e < columns) narrow(*to[e], sum[e]);
}

// scatter_add: a thread adds the n elements of a line, one after the other. `lines` places lines in the indices, in y
// and in x. Elements of half precision add up in `room` [entries lines].
template <class T>
DEV void scatter_add(T* y, const T* x, Total<T>* room, uint64_t count, uint64_t n, const Indices& indices, const Steps& step,
                     const Shape64<3>& lines) {
  const uint64_t line = thread_number();
  if (line >= count) return;
  uint64_t at[3];
  locate(lines, line, at);
  // each calls f(element of y, place of its sum, element of x) for the elements of the line in order.
  auto each = [&](auto f) {
    for (uint64_t k = 0; k < n; k++) {
      const uint64_t outer = line / step.inner;
      const int64_t i = checked(indices, (outer * (n - 1) + k) * step.inner + line, at[0] + k * step.indices);
      if (i >= 0) f(y[at[1] + i * step.y], i * count + line, x[at[2] + k * step.x]);
    }
  };
  if constexpr (sizeof(Total<T>) == sizeof(T)) {
    each([](T& to, uint64_t, const T& added) { to = plus(to, added); });
  } else {
    each([&](T& to, uint64_t sum, const T&) { room[sum] = wide(to); });
    each([&](T&, uint64_t sum, const T& added) { room[sum] = plus(room[sum], wide(added)); });
    each([&](T& to, uint64_t sum, const T&) { narrow(to, room[sum]); });
  }
}

}  // namespace

#define WIDTH(name, T)                                                                                                     \
  KERNEL(gather_##name, kThreads, 3)(T* y, const T* x, const void* indices, uint64_t number, Walk<4> walk,                 \
                                     Shape32<4> shape, Entries entries) {                                                  \
    gather(y, x, indices, number, walk, shape, entries);                                                                   \
  }                                                                                                                        \
  EXPORT(gather_##name);

WIDTH(b1, uint8_t)
WIDTH(b2, uint16_t)
WIDTH(b4, uint32_t)
WIDTH(b8, uint64_t)
WIDTH(b16, uint4)

#define ADD(name, T)                                                                                                       \
  KERNEL(index_add_##name, 32 * kWarps, 4)(T* y, const T* x, uint64_t n, uint64_t columns, uint64_t width, Indices indices, \
                                           Axes column_axes, Axes entry_axes) {                                            \
    index_add(y, x, n, columns, width, indices, column_axes, entry_axes);                                                  \
  }                                                                                                                        \
  EXPORT(index_add_##name);                                                                                                \
  KERNEL(scatter_add_##name, kThreads, 4)(T* y, const T* x, Total<T>* room, uint64_t count, uint64_t n, Indices indices,   \
                                          Steps step, Shape64<3> lines) {                                                  \
    scatter_add(y, x, room, count, n, indices, step, lines);                                                               \
  }                                                                                                                        \
  EXPORT(scatter_add_##name);

ADD(f32, float)
ADD(f64, double)
ADD(f16, f16)
ADD(bf16, bf16)
ADD(i64, int64_t)
ADD(i32, int32_t)
ADD(u8, uint8_t)

// one_hot: y[k, c] is 1 where c is index k.
KERNEL(one_hot, kThreads, 8)(int64_t* y, uint64_t total, Indices indices) {
  const uint64_t i = thread_number();
  if (i >= total) return;
  const uint64_t k = i / indices.size;
  y[i] = index_at(indices, k) == (int64_t)(i - k * indices.size);
}
EXPORT(one_hot);
