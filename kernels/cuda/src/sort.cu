// Sorting along rows of any layout, and searching in sorted rows. The order is that of kernels/cpu: by unsigned keys,
// where all NaN have the largest, and of equal keys by indices.
#include "row.cuh"

// Keyed is an element to sort: a key that is compared, and where the element was.
template <class K> struct Keyed { K key, index; };

namespace {

constexpr int kThreads = 256;
constexpr uint32_t kChunk = 1024;  // elements that a block sorts in shared memory

template <class K> DEV bool less(const Keyed<K>& a, const Keyed<K>& b) {
  return a.key < b.key || (a.key == b.key && a.index < b.index);
}

// float_key is floatKey of kernels/cpu/sort.go, for numbers with the sign bit `sign` and the bits `inf` of infinity.
template <class K> DEV K float_key(K bits, K sign, K inf) {
  const K magnitude = bits & (sign - 1);
  if (magnitude > inf) return sign + (sign - 1);
  return bits & sign ? sign - magnitude : sign + magnitude;
}
DEV uint32_t key_of(float x) { return float_key<uint32_t>(__float_as_uint(x), 1u << 31, 0xffu << 23); }
DEV uint64_t key_of(double x) {
  return float_key<uint64_t>((uint64_t)__double_as_longlong(x), 1ull << 63, 0x7ffull << 52);
}
DEV uint32_t key_of(f16 x) { return float_key<uint32_t>(x.bits, 1u << 15, 0x1fu << 10); }
DEV uint32_t key_of(bf16 x) { return float_key<uint32_t>(x.bits, 1u << 15, 0xffu << 7); }
DEV uint64_t key_of(int64_t x) { return (uint64_t)x ^ 1ull << 63; }
DEV uint32_t key_of(int32_t x) { return (uint32_t)x ^ 1u << 31; }
DEV uint32_t key_of(uint8_t x) { return x; }
template <class T> using Key = decltype(key_of(T()));

// merged_place is where element i of a row of n goes when its sorted runs of `width` elements are merged, two by two:
// behind those of its own run that are less, and those of the other one.
template <class K> DEV uint32_t merged_place(const Keyed<K>* row, uint32_t i, uint32_t width, uint32_t n) {
  const uint32_t run = i / width, other = (run ^ 1) * width;
  const Keyed<K> own = row[i];
  uint32_t low = other < n ? other : n, high = other + width < n ? other + width : n;
  const uint32_t first = low;
  while (low < high) {
    const uint32_t m = (low + high) / 2;
    if (less(row[m], own)) low = m + 1;
    else high = m;
  }
  return (run & ~1u) * width + (i - run * width) + (low - first);
}

// sort_begin makes the pairs of a chunk of a row, and sorts them: runs of 1 element are merged to those of 2, and so
// on.
template <class T>
DEV void sort_begin(Keyed<Key<T>>* sorted, const Rows& x_, uint32_t n, uint32_t chunks, uint32_t descending) {
  using K = Key<T>;
  SHARED(Keyed<K>, runs, [2][kChunk]);
  const uint32_t row = blockIdx.x / chunks, first = (blockIdx.x - row * chunks) * kChunk;
  const uint32_t count = n - first < kChunk ? n - first : kChunk;
  const Row<T> x(x_, row);
  for (uint32_t i = threadIdx.x; i < count; i += kThreads) {
    const K key = key_of(static_cast<const T*>(x.data)[x.at(first + i)]);
    runs[0][i] = {descending ? (K)~key : key, (K)(first + i)};
  }
  int now = 0;
  for (uint32_t width = 1; width < count; width *= 2, now ^= 1) {
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count; i += kThreads)
      runs[now ^ 1][merged_place(runs[now], i, width, count)] = runs[now][i];
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < count; i += kThreads) sorted[(uint64_t)row * n + first + i] = runs[now][i];
}

// sort_merge merges sorted runs of all rows, two by two.
template <class K> DEV void sort_merge(Keyed<K>* to, const Keyed<K>* from, uint64_t total, uint32_t n, uint32_t width) {
  const uint64_t i = thread_index();
  if (i >= total) return;
  const uint64_t row = i / n * n;
  to[row + merged_place(from + row, (uint32_t)(i - row), width, n)] = from[i];
}

// sort_end takes the first k elements of each sorted row, and their indices.
template <class T>
DEV void sort_end(const Rows& y_, const Rows& at_, const Rows& x_, const Keyed<Key<T>>* sorted, uint64_t total,
                  uint32_t k, uint32_t n) {
  const uint64_t i = thread_index();
  if (i >= total) return;
  const uint64_t row = i / k;
  const uint32_t place = (uint32_t)(i - row * k), index = (uint32_t)sorted[row * n + place].index;
  const Row<T> y(y_, row), x(x_, row);
  static_cast<T*>(y.data)[y.at(place)] = static_cast<const T*>(x.data)[x.at(index)];
  Row<int64_t>(at_, row).set(place, (int64_t)index);
}

// before tells whether a is less than b, or not greater if `equal` is set, where NaN is larger than any number.
template <class N> DEV bool before(N a, N b, bool equal) {
  return equal ? !(b < a) && (a == a || b != b) : a < b || (a == a && b != b);
}

// searchsorted counts the elements of a row before each value; `each` values have one row.
template <class T>
DEV void searchsorted(int64_t* y, const Rows& x_, const Rows& values, uint64_t total, uint64_t each, uint32_t n,
                      uint32_t right) {
  const uint64_t i = thread_index();
  if (i >= total) return;
  const Row<T> x(x_, i / each);
  const ComputeType<T> value = Row<T>(values, i)(0);
  uint32_t low = 0, high = n;
  while (low < high) {
    const uint32_t m = (low + high) / 2;
    if (before(x(m), value, right)) low = m + 1;
    else high = m;
  }
  y[i] = low;
}

}  // namespace

#define SORT(suffix, T)                                                                                         \
  ENTRY(sort_begin##suffix, kThreads, 2,                                                                        \
        (Keyed<Key<T>> * sorted, Rows x, uint32_t n, uint32_t chunks, uint32_t descending),                      \
        sort_begin<T>(sorted, x, n, chunks, descending))                                                        \
  ENTRY(sort_end##suffix, kThreads, 4,                                                                          \
        (Rows y, Rows at, Rows x, const Keyed<Key<T>>* sorted, uint64_t total, uint32_t k, uint32_t n),          \
        sort_end<T>(y, at, x, sorted, total, k, n))

FLOATS(SORT)
SORT(_i64, int64_t)
SORT(_i32, int32_t)
SORT(_u8, uint8_t)

#define MERGE(suffix, K)                                                                                        \
  ENTRY(sort_merge##suffix, kThreads, 4,                                                                        \
        (Keyed<K> * to, const Keyed<K>* from, uint64_t total, uint32_t n, uint32_t width),                        \
        sort_merge(to, from, total, n, width))

MERGE(_b4, uint32_t)
MERGE(_b8, uint64_t)

#define SEARCHSORTED(suffix, T)                                                                                 \
  ENTRY(searchsorted##suffix, kThreads, 4,                                                                      \
        (int64_t * y, Rows x, Rows values, uint64_t total, uint64_t each, uint32_t n, uint32_t right),          \
        searchsorted<T>(y, x, values, total, each, n, right))

FLOATS(SEARCHSORTED)
SEARCHSORTED(_integer, integer)
