// Operations with a tensor of indices: gather, index_add, scatter_add, scatter, one_hot. Indices are int64, int32 or
// uint8. For one outside its axis, gather gives 0, and the additions and scatter do nothing. Gather and scatter do not
// look at values: their kernels are by the width of an element.
#include "copy.cuh"
#include "index_error.cuh"
#include "row.cuh"

// Indices is the operand of indices.
struct Indices {
  const void* data;
  IndexErrors errors;
  uint64_t bytes, size;  // of an index; of the axis that they choose from
};

// IndexedAxis is the axis of x that indices of `bytes` bytes select from. With 4 bytes or fewer, size is 2^31 at most,
// so that negative indices are outside.
struct IndexedAxis {
  uint64_t bytes, size;
  int64_t stride;
  IndexErrors errors;
};

// Digit is `bits` bits of a number, from bit `shift` on.
struct Digit { uint32_t shift, bits; };

// Columns are those of y [outer, size, width] and of the entries of x, [outer, width], in vectors of V elements.
// 2^lanes neighbouring threads have one addition; an addition has `tiles` such groups.
struct Columns {
  uint64_t size, width, count;
  uint32_t tiles, lanes;
  Axes axes;  // of x
};

// Lines are along an axis of y, x, the indices and the row-major numbers of these: `count` of them with `length`
// elements of x each. `step` is how far one element is from the next.
struct Lines { uint64_t count, length, step[4]; };

// LineTiles are `count` lines along an axis of y, of `size` elements there, of which a block has 2^tile: neighbours,
// or, if `along` is set, lines whose elements are neighbours. 2^(tile+owners) threads add up. `step` is of y, of what
// it begins with, of x, of the indices and of their row-major numbers; lines of these three have `length` elements.
struct LineTiles {
  uint64_t count, length, size, step[5];
  uint32_t tile, owners, along;
};

namespace {

constexpr int kThreads = 256;

// checked is index number k, at offset `at`; -1 if it is outside its axis.
DEV int64_t checked(const Indices& a, uint64_t k, uint64_t at) {
  const int64_t i = index_value(a.data, a.bytes, at);
  if (i >= 0 && i < (int64_t)a.size) return i;
  report(a.errors, k, i);
  return -1;
}

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

// ---- sorted additions --------------------------------------------------------------------------------
//
// An addition is one number: the entry of y that it goes to, << 32, and its place in the order of additions. They are
// sorted by entries, and where those are equal stay in order: by digits of the entry, the lowest first. For a digit,
// every block of threads counts how often each of its values occurs in a part of the additions; then it knows where its
// own ones go, and moves them.

constexpr int kSortThreads = 512, kSortWarps = kSortThreads / 32;
constexpr int kDigits = kSortThreads;         // values of a digit, one to a thread
constexpr int kMoved = 8;                     // additions that a thread moves at a time
constexpr int kChunk = kSortThreads * kMoved;  // additions that a block moves at a time

DEV uint32_t value_of(const Digit& digit, uint64_t addition) {
  return (uint32_t)(addition >> 32 >> digit.shift) & ((1u << digit.bits) - 1);
}

// count sets counts [blocks, kDigits] to how often each value of a digit occurs in additions block * each and the
// `each` - 1 behind it; addition(k) is number k.
template <class Addition> DEV void count(uint32_t* counts, uint64_t n, uint64_t each, Digit digit, Addition addition) {
  SHARED(uint32_t, found, [kDigits]);
  found[threadIdx.x] = 0;
  __syncthreads();
  const uint64_t from = blockIdx.x * each, to = from + each < n ? from + each : n;
#pragma unroll 4
  for (uint64_t k = from + threadIdx.x; k < to; k += kSortThreads) atomic_add(&found[value_of(digit, addition(k))], 1);
  __syncthreads();
  counts[(uint64_t)blockIdx.x * kDigits + threadIdx.x] = found[threadIdx.x];
}

// first_place is where the block's first addition with the value of this thread goes: behind those with lower values,
// and those with the same one of earlier blocks. `memory` has two rows.
DEV uint32_t first_place(const uint32_t* counts, uint32_t (*memory)[kDigits]) {
  const uint32_t value = threadIdx.x;
  uint32_t earlier = 0, all = 0;
#pragma unroll 8
  for (uint32_t b = 0; b < gridDim.x; b++) {
    const uint32_t c = counts[(uint64_t)b * kDigits + value];
    if (b < blockIdx.x) earlier += c;
    all += c;
  }
  uint32_t sum = all;  // over the values up to this one: over 2 of them, then 4, and so on
  int row = 0;
  for (uint32_t h = 1; h < kDigits; h *= 2, row ^= 1) {
    memory[row][value] = sum;
    __syncthreads();
    if (value >= h) sum += memory[row][value - h];
  }
  __syncthreads();
  return sum - all + earlier;
}

// place moves the additions of a block. Each warp has 32 kMoved of a chunk, and for each value the place of its next
// addition.
DEV void place(uint64_t* sorted, const uint64_t* additions, const uint32_t* counts, uint64_t n, uint64_t each,
               Digit digit) {
  SHARED(uint32_t, next, [kSortWarps][kDigits]);
  const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, value = threadIdx.x;
  uint32_t first = first_place(counts, next);
  const uint64_t from = blockIdx.x * each, to = from + each < n ? from + each : n;
  for (uint64_t chunk = from; chunk < to; chunk += kChunk) {
#pragma unroll
    for (int w = 0; w < kSortWarps; w++) next[w][value] = 0;
    __syncthreads();
    uint64_t own[kMoved];
    uint32_t rank[kMoved];  // among those of the warp with the same value
    const uint64_t begin = chunk + warp * (32 * kMoved) + lane;
#pragma unroll
    for (int r = 0; r < kMoved; r++) own[r] = begin + 32 * r < to ? additions[begin + 32 * r] : 0;
#pragma unroll
    for (int r = 0; r < kMoved; r++) {
      const bool exists = begin + 32 * r < to;
      const uint32_t mine = value_of(digit, own[r]);
      uint32_t same = ballot(exists);
      for (uint32_t b = 0; b < digit.bits; b++) {
        const bool one = mine >> b & 1;
        same &= ballot(one) ^ (one ? 0 : ~0u);
      }
      const uint32_t before = __popc(same & ((1u << lane) - 1));
      rank[r] = next[warp][mine] + before;
      __syncwarp();
      if (exists && before == 0) next[warp][mine] = rank[r] + __popc(same);
      __syncwarp();
    }
    __syncthreads();
#pragma unroll
    for (int w = 0; w < kSortWarps; w++) {
      const uint32_t c = next[w][value];
      next[w][value] = first;
      first += c;
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kMoved; r++)
      if (begin + 32 * r < to) sorted[next[warp][value_of(digit, own[r])] + rank[r]] = own[r];
    __syncthreads();
  }
}

// begin makes the additions and counts the values of their first digit. Addition k goes to the entry whose number is
// its index times `stride` plus a linear function of the coordinates of k, or to `none` if the index is outside its
// axis. Operand 0 of the axes is the indices, operand 1 that function.
DEV void begin(uint32_t* counts, uint64_t* additions, uint64_t n, uint64_t each, Digit digit, const Indices& indices,
               uint64_t stride, uint64_t none, const Shape64<2>& axes) {
  count(counts, n, each, digit, [&](uint64_t k) {
    uint64_t at[2];
    locate(axes, k, at);
    const int64_t i = checked(indices, k, at[0]);
    return additions[k] = (i < 0 ? none : at[1] + (uint64_t)i * stride) << 32 | k;
  });
}

// ---- index_add ---------------------------------------------------------------------------------------

template <class N> DEV N plus(N x, N y) { return math::add(x, y); }
DEV int32_t plus(int32_t x, int32_t y) { return (int32_t)((uint32_t)x + (uint32_t)y); }
DEV uint8_t plus(uint8_t x, uint8_t y) { return (uint8_t)(x + y); }

// Total is the type of sums: elements of half precision are added up in FP32 and rounded once.
template <class T> struct TotalOf { using Type = T; };
template <> struct TotalOf<f16> { using Type = float; };
template <> struct TotalOf<bf16> { using Type = float; };
template <class T> using Total = typename TotalOf<T>::Type;

// index_add adds entries of x to those of y, as sorted additions say. Of equal additions the threads of the first do
// all, in order; kAhead of them are read before they are added.
template <class T, int V>
DEV void index_add(T* y, const T* x, const uint64_t* sorted, uint64_t n, uint64_t none, const Columns& columns,
                   const Axes& entries) {
  constexpr int kAhead = V > 1 ? 4 : 8;
  const uint32_t group = blockIdx.x / columns.tiles, tile = blockIdx.x - group * columns.tiles;
  const uint64_t k = ((uint64_t)group * kThreads + threadIdx.x) >> columns.lanes;
  const uint64_t c = ((uint64_t)tile << columns.lanes) + (threadIdx.x & ((1u << columns.lanes) - 1));
  if (k >= n || c >= columns.count) return;
  const uint64_t entry = sorted[k] >> 32;
  if (entry == none || (k > 0 && sorted[k - 1] >> 32 == entry)) return;

  const uint64_t slab = c < columns.width ? 0 : c / columns.width;
  T* const to = y + V * ((slab * columns.size + entry) * columns.width + (c - slab * columns.width));
  x += offset_of(columns.axes, c);
  Pack<T, V> own;
  own.word = load<decltype(own.word)>(to);
  uint64_t next[kAhead];
  // Vectors are taken only where entries have one axis.
  auto offset = [&](uint32_t place) { return V > 1 ? place * entries.stride[0][0] : offset_of(entries, place); };
  auto look = [&](uint64_t from) {
#pragma unroll
    for (int e = 0; e < kAhead; e++) next[e] = from + e < n ? sorted[from + e] : ~0ull;
  };
  look(k);
  Total<T> sum[V];
#pragma unroll
  for (int j = 0; j < V; j++) sum[j] = to_compute<Total<T>>(own.element[j]);
  for (uint64_t from = k;; from += kAhead) {
    bool same[kAhead];
    Pack<T, V> added[kAhead];
#pragma unroll
    for (int e = 0; e < kAhead; e++) {
      same[e] = next[e] >> 32 == entry;
      if (same[e]) added[e].word = load<decltype(own.word)>(x + offset((uint32_t)next[e]));
    }
    if (same[kAhead - 1]) look(from + kAhead);
#pragma unroll
    for (int e = 0; e < kAhead; e++)
      if (same[e])
#pragma unroll
        for (int j = 0; j < V; j++) sum[j] = plus(sum[j], to_compute<Total<T>>(added[e].element[j]));
    if (!same[kAhead - 1]) break;
  }
#pragma unroll
  for (int j = 0; j < V; j++) own.element[j] = to_element<T>(sum[j]);
  store(to, own.word);
}

// add_lines adds the elements of x to those of y that the indices choose, a line a thread. The first of equal indices
// adds up all of them, in order: for short lines that is less work than a sort.
template <class T>
DEV void add_lines(T* y, const T* x, const Indices& indices, const Lines& lines, const Shape64<4>& axes) {
  const uint64_t line = thread_index();
  if (line >= lines.count) return;
  uint64_t at[4];
  locate(axes, line, at);
  auto chosen = [&](uint64_t k) { return index_value(indices.data, indices.bytes, at[2] + k * lines.step[2]); };
  for (uint64_t k = 0; k < lines.length; k++) {
    const int64_t i = checked(indices, at[3] + k * lines.step[3], at[2] + k * lines.step[2]);
    bool first = i >= 0;
    for (uint64_t j = 0; first && j < k; j++) first = chosen(j) != i;
    if (!first) continue;
    T* const to = y + at[0] + (uint64_t)i * lines.step[0];
    Total<T> sum = to_compute<Total<T>>(*to);
    for (uint64_t j = k; j < lines.length; j++)
      if (j == k || chosen(j) == i) sum = plus(sum, to_compute<Total<T>>(x[at[1] + j * lines.step[1]]));
    *to = to_element<T>(sum);
  }
}

// add_tiles copies lines to shared memory, adds the elements of x there, and writes them. Every thread that adds looks
// at all elements of a line, in order, and adds those for a part of its entries.
constexpr uint32_t kStaged = 1024;  // elements of x at a time

template <class T>
DEV void add_tiles(T* y, const T* from, const T* x, const Indices& indices, const LineTiles& p,
                   const Shape64<5>& axes) {
  using N = Total<T>;
  SHARED_DYNAMIC(memory);
  SHARED(uint64_t, at, [5][32]);
  int32_t* const chosen = reinterpret_cast<int32_t*>(memory);
  N* const staged = reinterpret_cast<N*>(chosen + kStaged);
  N* const sums = staged + kStaged;
  const uint32_t lines = 1u << p.tile, own = threadIdx.x & (lines - 1);
  const uint64_t first = (uint64_t)blockIdx.x << p.tile;
  const uint32_t count = p.count - first < lines ? (uint32_t)(p.count - first) : lines;
  if (threadIdx.x < count) {
    uint64_t offset[5];
    locate(axes, first + threadIdx.x, offset);
#pragma unroll
    for (int k = 0; k < 5; k++) at[k][threadIdx.x] = offset[k];
  }
  __syncthreads();
  auto each = [&](uint32_t n, auto f) {  // f(line, element) for n elements of each line
    if (p.along) {
      for (uint32_t line = 0; line < count; line++)
        for (uint32_t i = threadIdx.x; i < n; i += kThreads) f(line, i);
    } else if (own < count) {
#pragma unroll 4
      for (uint32_t i = threadIdx.x >> p.tile; i < n; i += kThreads >> p.tile) f(own, i);
    }
  };
  each((uint32_t)p.size, [&](uint32_t line, uint32_t i) {
    sums[(i << p.tile) + line] = to_compute<N>(from[at[1][line] + i * p.step[1]]);
  });
  const uint32_t most = kStaged >> p.tile, parts = 1u << p.owners, part = threadIdx.x >> p.tile;
  for (uint64_t k = 0; k < p.length; k += most) {
    const uint32_t n = p.length - k < most ? (uint32_t)(p.length - k) : most;
    each(n, [&](uint32_t line, uint32_t i) {
      const uint64_t j = k + i;
      chosen[(i << p.tile) + line] =
          (int32_t)checked(indices, at[4][line] + j * p.step[4], at[3][line] + j * p.step[3]);
      staged[(i << p.tile) + line] = to_compute<N>(x[at[2][line] + j * p.step[2]]);
    });
    __syncthreads();
    if (part < parts && own < count) {
#pragma unroll 4
      for (uint32_t i = 0; i < n; i++) {
        const int32_t entry = chosen[(i << p.tile) + own];
        if (entry < 0 || ((uint32_t)entry & (parts - 1)) != part) continue;
        N& sum = sums[((uint32_t)entry << p.tile) + own];
        sum = plus(sum, staged[(i << p.tile) + own]);
      }
    }
    __syncthreads();
  }
  each((uint32_t)p.size, [&](uint32_t line, uint32_t i) {
    y[at[0][line] + i * p.step[0]] = to_element<T>(sums[(i << p.tile) + line]);
  });
}

// ---- scatter -----------------------------------------------------------------------------------------

template <class N> DEV N times(N x, N y) { return math::mul(x, y); }
DEV int32_t times(int32_t x, int32_t y) { return (int32_t)((uint32_t)x * (uint32_t)y); }
DEV uint8_t times(uint8_t x, uint8_t y) { return (uint8_t)(x * y); }

// scatter combines elements of y with those of x that sorted additions have for them, in order. Of equal additions the
// thread of the first does all.
template <class T, class Combine>
DEV void scatter(T* y, const T* x, const uint64_t* sorted, uint64_t n, uint64_t none, const Axes& entries,
                 Combine combine) {
  using N = Total<T>;
  const uint64_t k = thread_index();
  if (k >= n) return;
  const uint64_t entry = sorted[k] >> 32;
  if (entry == none || (k > 0 && sorted[k - 1] >> 32 == entry)) return;
  N v = to_compute<N>(y[entry]);
  for (uint64_t i = k; i < n && sorted[i] >> 32 == entry; i++)
    v = combine(v, to_compute<N>(x[offset_of(entries, (uint32_t)sorted[i])]));
  y[entry] = to_element<T>(v);
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

KERNEL(additions_begin, kSortThreads, 2)(uint32_t* counts, uint64_t* additions, uint64_t n, uint64_t each, Digit digit,
                                         Indices indices, uint64_t stride, uint64_t none, Shape64<2> axes) {
  begin(counts, additions, n, each, digit, indices, stride, none, axes);
}
EXPORT(additions_begin);

KERNEL(additions_count, kSortThreads, 2)(uint32_t* counts, const uint64_t* additions, uint64_t n, uint64_t each,
                                         Digit digit) {
  count(counts, n, each, digit, [=](uint64_t k) { return additions[k]; });
}
EXPORT(additions_count);

KERNEL(additions_place, kSortThreads, 2)(uint64_t* sorted, const uint64_t* additions, const uint32_t* counts,
                                         uint64_t n, uint64_t each, Digit digit) {
  place(sorted, additions, counts, n, each, digit);
}
EXPORT(additions_place);

#define ADD(name, T, V)                                                                                           \
  ENTRY(index_add_##name, kThreads, 4,                                                                            \
        (T* y, const T* x, const uint64_t* sorted, uint64_t n, uint64_t none, Columns columns, Axes entries),     \
        index_add<T, V>(y, x, sorted, n, none, columns, entries))
#define ADD_LINES(name, T)                       \
  ENTRY(scatter_add_lines_##name, kThreads, 4,   \
        (T* y, const T* x, Indices indices, Lines lines, Shape64<4> axes), add_lines(y, x, indices, lines, axes))
#define ADD_TILES(name, T)                                                                                      \
  ENTRY(scatter_add_tiles_##name, kThreads, 2,                                                                  \
        (T* y, const T* from, const T* x, Indices indices, LineTiles tiles, Shape64<5> axes),                   \
        add_tiles(y, from, x, indices, tiles, axes))
#define ADD_ALL(name, T) ADD(name, T, 1) ADD(name##_vector, T, 16 / sizeof(T)) ADD_LINES(name, T) ADD_TILES(name, T)

ADD_ALL(f32, float)
ADD_ALL(f64, double)
ADD_ALL(f16, f16)
ADD_ALL(bf16, bf16)
ADD_ALL(i64, int64_t)
ADD_ALL(i32, int32_t)
ADD_ALL(u8, uint8_t)

// Of equal numbers the first stays; a NaN replaces any number.
#define SCATTER(name, T, result)                                                                                       \
  ENTRY(scatter_##name, kThreads, 4,                                                                                   \
        (T* y, const T* x, const uint64_t* sorted, uint64_t n, uint64_t none, Axes entries),                           \
        scatter(y, x, sorted, n, none, entries, [](Total<T> a, Total<T> b) -> Total<T> { return result; }))
#define SCATTER_ALL(name, T)                            \
  SCATTER(prod_##name, T, times(a, b))                  \
  SCATTER(max_##name, T, b > a || b != b ? b : a)       \
  SCATTER(min_##name, T, b < a || b != b ? b : a)

SCATTER(b1, uint8_t, b)
SCATTER(b2, uint16_t, b)
SCATTER(b4, uint32_t, b)
SCATTER(b8, uint64_t, b)
SCATTER_ALL(f32, float)
SCATTER_ALL(f64, double)
SCATTER_ALL(f16, f16)
SCATTER_ALL(bf16, bf16)
SCATTER_ALL(i64, int64_t)
SCATTER_ALL(i32, int32_t)
SCATTER_ALL(u8, uint8_t)

// one_hot: y[k, c] is 1 where c is index k.
KERNEL(one_hot, kThreads, 8)(int64_t* y, uint64_t total, Indices indices, Axes axes) {
  const uint64_t i = thread_index();
  if (i >= total) return;
  const uint64_t k = i / indices.size;
  y[i] = checked(indices, k, offset_of(axes, k)) == (int64_t)(i - k * indices.size);
}
EXPORT(one_hot);
