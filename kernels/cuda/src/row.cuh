// row.cuh: operations along rows of any layout, a warp or a block to each row.
#pragma once
#include "reduce.cuh"

// Axes are nested loops over an operand, with the stride of each.
using Axes = Shape64<1>;

// offset_of is the offset of element i: divisions of type Index, in a loop that is not unrolled, since kernels call it
// in many places.
template <class Index> DEV uint64_t offset_of(const Axes& axes, Index i) {
  uint64_t at = 0;
#pragma unroll 1
  for (int d = (int)axes.rank - 1; d > 0; d--) {
    const Index size = (Index)axes.size[d], q = i / size;
    at += (i - q * size) * axes.stride[0][d];
    i = q;
  }
  return at + i * axes.stride[0][0];
}

// Rows is an operand: the axes of its rows, and those of the elements of one. The type is for kernels of several types.
// It is wide, that is 1, if rows can be read by load_four from their first element on, and for an operand that is
// missing.
struct Rows {
  void* data;
  Axes rows, elements;
  uint32_t type, wide;
};

constexpr int kRowWarps = 4;
constexpr int kRowThreads = 32 * kRowWarps;
constexpr int kBlockWarps = 8;
constexpr int kBlockThreads = 32 * kBlockWarps;

// A group of threads computes a row: a warp, or for long rows a block. Each warp has whole blocks of the canonical
// order, and each thread four neighbours of every 128 elements. Wide rows are accessed by load_four and store_four;
// those that are short enough are cached: read once, and held by the threads in registers, SLOTS elements each.
// Operations are templates of the thread group, and their loops over cached rows are unrolled.
template <uint32_t SLOTS, bool WIDE = true> struct Warp {
  static constexpr __device__ bool is_block() { return false; }
  static constexpr __device__ bool wide() { return WIDE; }
  static constexpr __device__ uint32_t slots() { return SLOTS; }
  DEV_METHOD static uint32_t thread() { return threadIdx.x % 32; }
  DEV_METHOD static uint32_t first() { return 0; }  // cached element of a warp
  DEV_METHOD static uint32_t warp() { return 0; }
  DEV_METHOD static uint32_t warps() { return 1; }
  DEV_METHOD static uint64_t row() { return (uint64_t)blockIdx.x * kRowWarps + threadIdx.x / 32; }
  DEV_METHOD static uint64_t rows() { return (uint64_t)gridDim.x * kRowWarps; }  // that all groups compute at once
};
template <uint32_t SLOTS, bool WIDE = true> struct Block {
  static constexpr __device__ bool is_block() { return true; }
  static constexpr __device__ bool wide() { return WIDE; }
  static constexpr __device__ uint32_t slots() { return SLOTS; }
  DEV_METHOD static uint32_t thread() { return threadIdx.x; }
  DEV_METHOD static uint32_t first() { return threadIdx.x / 32 * kFoldBlock; }
  DEV_METHOD static uint32_t warp() { return threadIdx.x / 32; }
  DEV_METHOD static uint32_t warps() { return blockDim.x / 32; }
  DEV_METHOD static uint64_t row() { return blockIdx.x; }
  DEV_METHOD static uint64_t rows() { return gridDim.x; }
};

// Slots is how many elements of type T a thread caches: of a block, all of its part of a canonical block. read_once is
// for kernels that need a row once, halves_once in half precision; warps_cache has a warp's row in flight at once.
template <class T, class Group> static constexpr __device__ uint32_t slots() {
  if constexpr (!is_floating<T>()) return 0;
  else if (Group::is_block()) return sizeof(T) > 4 ? 0 : kFoldBlock / 32;
  else return 128 / sizeof(ComputeType<T>);
}
template <class T, class Group> static constexpr __device__ uint32_t read_once() { return 0; }
template <class T, class Group> static constexpr __device__ uint32_t warps_cache() {
  return Group::is_block() ? 0 : slots<T, Group>();
}
template <class T, class Group> static constexpr __device__ uint32_t halves_once() {
  return is_half<T>() && Group::is_block() ? 0 : slots<T, Group>();
}

DEV bool is_wide(const Rows& a) { return a.wide; }
template <class T> DEV bool is_wide(const T* p) { return (uint64_t)p % (sizeof(T) > 4 ? 16 : 4 * sizeof(T)) == 0; }
template <class... Operand> DEV bool all_wide(uint32_t n, const Operand&... a) {
  return n % 4 == 0 && (... && is_wide(a));
}

// At is `count` neighbours of a row from element i on: four, in a wide row none behind its end, and fewer at the end of
// any other. In a cached row they are those of the register `slot` and the ones after it.
struct At {
  uint32_t i, slot, count;
};

// A source has the values of a row, four neighbours at a time; those that do not exist may be anything. It may read
// memory. Source is one that a function of At computes.
template <class N, bool MEMORY, class F> struct Source {
  using Value = N;
  static constexpr __device__ bool memory() { return MEMORY; }
  F f;
  DEV_METHOD Four<N> four(At at) const { return f(at); }
};

// each_of makes four values f(a, b, ...) of four a, four b and so on.
template <class F, class... N> DEV auto each_of(const F& f, const Four<N>&... x) {
  Four<decltype(f(x[0]...))> y;
#pragma unroll
  for (int k = 0; k < 4; k++) y[k] = f(x[k]...);
  return y;
}

// map is f(a, b, ...) for the values of sources, which must outlive it. values is f(i) for each index i.
template <class F, class... S> DEV auto map(F f, const S&... s) {
  const auto four = [&, f](At at) { return each_of(f, s.four(at)...); };
  return Source<decltype(f(typename S::Value()...)), (... || S::memory()), decltype(four)>{four};
}
template <class F> DEV auto values(F f) {
  const auto four = [f](At at) {
    Four<decltype(f(0u))> x;
#pragma unroll
    for (uint32_t k = 0; k < 4; k++)
      if (k < at.count) x[k] = f(at.i + k);
    return x;
  };
  return Source<decltype(f(0u)), true, decltype(four)>{four};
}

// existing is load_four where there are elements.
template <class N, class T> DEV Four<N> existing(const T* p, At at) {
  Four<N> x{};
  if (at.count) x = load_four<N>(p + at.i);
  return x;
}

// Line is a contiguous row with elements of type T, read as values of the compute type.
template <class T, class Group> struct Line {
  using Value = ComputeType<T>;
  static constexpr __device__ bool memory() { return true; }
  T* p;
  DEV_METHOD Four<Value> four(At at) const {
    if constexpr (Group::wide()) return existing<Value>(p, at);
    else return values([&](uint32_t i) { return to_compute<Value>(p[i]); }).four(at);
  }
  DEV_METHOD void set(At at, const Four<Value>& x) const {
    if constexpr (Group::wide()) {
      if (at.count) store_four(p + at.i, x);
    } else {
#pragma unroll
      for (uint32_t k = 0; k < 4; k++)
        if (k < at.count) p[at.i + k] = to_element<T>(x[k]);
    }
  }
};

// Row is one row of an operand, by its number or by its first element.
struct Start { uint64_t element; };
template <class T, class Group = Warp<0, false>> struct Row {
  using Value = ComputeType<T>;
  static constexpr __device__ bool memory() { return true; }
  void* data;
  uint64_t first;
  const Axes& elements;
  uint32_t type;
  DEV_METHOD Row(const Rows& a, uint64_t r)
      : Row(a, Start{offset_of(a.rows, r)}) {}
  DEV_METHOD Row(const Rows& a, Start start)
      : data(a.data), first(start.element), elements(a.elements), type(a.type) {}
  DEV_METHOD uint64_t at(uint32_t i) const { return first + offset_of(elements, i); }
  DEV_METHOD Value operator()(uint32_t i) const { return read<T>(data, type, at(i)); }
  DEV_METHOD void set(uint32_t i, Value x) const { static_cast<T*>(data)[at(i)] = to_element<T>(x); }
  DEV_METHOD Four<Value> four(At a) const {
    if constexpr (Group::wide() && is_floating<T>()) return existing<Value>(static_cast<const T*>(data) + first, a);
    else return values([&](uint32_t i) { return (*this)(i); }).four(a);
  }
  DEV_METHOD void set(At a, const Four<Value>& x) const {
    if constexpr (Group::wide()) {
      Line<T, Group>{static_cast<T*>(data) + first}.set(a, x);
    } else {
#pragma unroll
      for (uint32_t k = 0; k < 4; k++)
        if (k < a.count) set(a.i + k, x[k]);
    }
  }
};

// Cached holds a row in registers.
template <class N, uint32_t SLOTS> struct Cached {
  using Value = N;
  static constexpr __device__ bool memory() { return false; }
  N value[SLOTS];
  DEV_METHOD Four<N> four(At at) const {
    return {value[at.slot], value[at.slot + 1], value[at.slot + 2], value[at.slot + 3]};
  }
  DEV_METHOD void set(At at, const Four<N>& x) {
#pragma unroll
    for (int k = 0; k < 4; k++) value[at.slot + k] = x[k];
  }
};

// each_batch calls use(fours, at) for the elements from `from` to n that a warp has, of a source that is not cached, in
// ascending order: fours is an array of fours with a distance of 128 elements, the first one at `at`. Those of an array
// are all read before they are used; the last arrays have one.
template <class S, class Use> DEV void each_batch(uint32_t from, uint32_t n, const S& source, Use use) {
  using N = typename S::Value;
  constexpr uint32_t kAhead = sizeof(N) > 8 ? 1 : sizeof(N) > 4 ? 2 : 4;
  uint32_t i = from + own_index();
#pragma unroll 1
  for (; from + kAhead * kFoldPartials <= n; from += kAhead * kFoldPartials, i += kAhead * kFoldPartials) {
    Four<N> x[kAhead];
#pragma unroll
    for (uint32_t k = 0; k < kAhead; k++) x[k] = source.four(At{i + k * kFoldPartials, 0, 4});
    use(x, At{i, 0, 4});
  }
#pragma unroll 1
  for (; i < n; i += kFoldPartials) {
    const At at{i, 0, lesser(n - i, 4)};
    Four<N> x[1] = {source.four(at)};
    use(x, at);
  }
}

// each_four calls use(at, four) for all elements of a row that a thread has, in ascending order. All that a cached row
// reads is read before anything waits for it; where use writes, 16 elements at a time.
template <class Group, class S, class Use> DEV void each_four(uint32_t n, const S& source, Use use) {
  if constexpr (Group::slots() > 0) {
    const uint32_t first = Group::first(), i = first + own_index();
    constexpr uint32_t kBatch = Group::slots() < 16 ? Group::slots() : 16;
#pragma unroll
    for (uint32_t s = 0; s < Group::slots(); s += kBatch) {
      if (!S::memory() && s > 0 && first + 32 * s >= n) break;
      auto at = [=](uint32_t k) {
        return At{i + 32 * (s + k), s + k, (int32_t)(n - i) > (int32_t)(32 * (s + k)) ? 4u : 0u};
      };
      Four<typename S::Value> x[kBatch / 4];
#pragma unroll
      for (uint32_t k = 0; k < kBatch; k += 4) x[k / 4] = source.four(at(k));
#pragma unroll
      for (uint32_t k = 0; k < kBatch; k += 4) use(at(k), x[k / 4]);
    }
  } else {
    for (uint32_t b = Group::warp(); b * kFoldBlock < n; b += Group::warps())
      each_batch(b * kFoldBlock, lesser(n, (b + 1) * kFoldBlock), source, [&](auto& x, At at) {
#pragma unroll
        for (uint32_t k = 0; k < sizeof x / sizeof x[0]; k++)
          use(At{at.i + k * kFoldPartials, 0, at.count}, x[k]);
      });
  }
}

// cached is a source of the same values. For a cached row they are computed once, here.
template <class Group, class S> DEV auto cached(uint32_t n, const S& source) {
  if constexpr (Group::slots() > 0) {
    Cached<typename S::Value, Group::slots()> row;
    each_four<Group>(n, source, [&](At at, const Four<typename S::Value>& x) { row.set(at, x); });
    return row;
  } else {
    return source;
  }
}

// cached_beside is cached for a second row: a block has no registers for it, and reads it again, some fours at a time.
template <class Group, class S> DEV auto cached_beside(uint32_t n, const S& row) {
  if constexpr (Group::is_block()) {
    const auto four = [=](At at) { return row.four(at); };
    return Source<typename S::Value, false, decltype(four)>{four};
  } else {
    return cached<Group>(n, row);
  }
}

// cached_map is map(f, row) for a row that was cached, or read again.
template <class Group, class F, class S> DEV auto cached_map(uint32_t n, F f, const S& row) {
  if constexpr (Group::slots() > 0) {
    S result = row;
    each_four<Group>(n, row, [&](At at, const Four<typename S::Value>& x) {
#pragma unroll
      for (int k = 0; k < 4; k++) result.value[at.slot + k] = f(x[k]);
    });
    return result;
  } else {
    return map(f, row);
  }
}

// set_row sets a Line or a Row to the values of a source.
template <class Group, class To, class S> DEV void set_row(uint32_t n, const To& to, const S& source) {
  each_four<Group>(n, source, [&](At at, const Four<typename S::Value>& x) { to.set(at, x); });
}

// ---- reductions --------------------------------------------------------------------------------------

// join_warps combines values of the warps of a block, neighbours first, and gives all threads the result.
template <class Fold, class N> DEV N join_warps(N x) {
  SHARED(N, results, [kBlockWarps]);
  __syncthreads();  // results of before have been read
  if (threadIdx.x % 32 == 0) results[threadIdx.x / 32] = x;
  __syncthreads();
  const uint32_t j = threadIdx.x % kBlockWarps;
  x = j < blockDim.x / 32 ? results[j] : Fold::template start<N>();
#pragma unroll
  for (int h = 1; h < kBlockWarps; h *= 2) x = Fold::combine(x, shuffle_xor(x, h));
  return x;
}

// group_all combines the values of all threads of a group, in the order of a tree, and gives them the result.
template <class Fold, class Group, class N> DEV N group_all(N x) {
  x = warp_all<Fold>(x);
  if constexpr (Group::is_block()) x = join_warps<Fold>(x);
  return x;
}

// fold_block reduces block b of a row by a warp.
template <class Fold, class S> DEV auto fold_block(uint32_t b, uint32_t n, const S& source) {
  Partials<Fold, typename S::Value> partials;
  each_batch(b * kFoldBlock, lesser(n, (b + 1) * kFoldBlock), source, [&](auto& x, At at) {
#pragma unroll
    for (uint32_t k = 0; k < sizeof x / sizeof x[0]; k++) partials.take(x[k], at.count);
  });
  return partials.all();
}

// fold_blocks reduces a row of any length. The results of 128 blocks at a time go to the partial sums of a second
// level, and of each 2,048 to those of a third.
template <class Fold, class Group, class S> DEV auto fold_blocks(uint32_t n, const S& source) {
  using N = typename S::Value;
  SHARED(N, results, [Group::is_block() ? kFoldPartials : 1]);
  const uint32_t blocks = (n + kFoldBlock - 1) / kFoldBlock;
  Partials<Fold, N> second, third;
#pragma unroll 1
  for (uint32_t first = 0; first < blocks; first += kFoldPartials) {
    const uint32_t count = lesser(blocks - first, kFoldPartials);
    if constexpr (Group::is_block()) {
      __syncthreads();  // results of before have been read
      for (uint32_t b = Group::warp(); b < count; b += Group::warps()) {
        const N result = fold_block<Fold>(first + b, n, source);
        if (threadIdx.x % 32 == 0) results[b] = result;
      }
      __syncthreads();
#pragma unroll
      for (uint32_t k = 0; k < 4; k++)
        if (own_index() + k < count) second.own[k] = Fold::combine(second.own[k], results[own_index() + k]);
    } else {
      for (uint32_t b = 0; b < count; b++) second.take_result(b, fold_block<Fold>(first + b, n, source));
    }
    const bool last = first + count == blocks;
    if (blocks > kFoldBlock && (last || (first + count) % kFoldBlock == 0)) {
      third.take_result(first / kFoldBlock, second.all());
      second = {};
    }
  }
  return blocks > kFoldBlock ? third.all() : second.all();
}

// row_fold reduces a row of fewer than 2^28 elements in canonical order; maxima and minima have the same bits in any.
// All threads of the group get the result.
template <class Fold, class Group, class S> DEV auto row_fold(uint32_t n, const S& source) {
  using N = typename S::Value;
  if constexpr (Group::slots() > 0 || Same<Fold, Max>::value() || Same<Fold, Min>::value()) {
    Partials<Fold, N> partials;
    each_four<Group>(n, source, [&](At at, const Four<N>& x) { partials.take(x, at.count); });
    N all = partials.all();
    if constexpr (Group::is_block()) all = join_warps<Fold>(all);
    return all;
  } else {
    if constexpr (!Group::is_block())
      if (n <= kFoldBlock) return fold_block<Fold>(0, n, source);
    return fold_blocks<Fold, Group>(n, source);
  }
}

// broadcast gives all threads of a group the value that its first thread has.
template <class Group, class N> DEV N broadcast(N x) {
  if constexpr (Group::is_block()) {
    SHARED(N, first, [1]);
    __syncthreads();  // a value of before has been read
    if (threadIdx.x == 0) first[0] = x;
    __syncthreads();
    return first[0];
  } else {
    return shuffle(x, 0);
  }
}

// deviations are the mean of a row, x0 + sum(x - x0)/n with the first element x0, and the sum of (x - mean)^2.
template <class N> struct Deviations { N mean, squares; };
template <class Group, class S> DEV auto deviations(uint32_t n, const S& x) {
  using N = typename S::Value;
  N x0 = 0;
  if (Group::thread() == 0) x0 = x.four(At{0, 0, lesser(n, 4)})[0];
  x0 = broadcast<Group>(x0);
  const N distances = row_fold<Sum, Group>(n, map([=](N x) { return math::sub(x, x0); }, x));
  const N mean = math::add(x0, math::div(distances, (N)n));
  const auto square = map([=](N x) {
    const N d = math::sub(x, mean);
    return math::mul(d, d);
  }, x);
  return Deviations<N>{mean, row_fold<Sum, Group>(n, square)};
}

template <class Group, class... Operand> DEV bool can_cache(uint32_t n, const Operand&... a) {
  return Group::slots() > 0 && n <= (Group::is_block() ? Group::warps() * kFoldBlock : 32 * Group::slots());
}

// BY_LENGTH calls f for cached rows, for wide ones, or for any. `cache` is one of the functions above; in parentheses
// are the length and the operands.
#define BY_LENGTH(Group, cache, T, operands, f, ...)         \
  do {                                                       \
    using Kept = Group<cache<T, Group<0>>(), true>;          \
    const bool wide = is_floating<T>() && all_wide operands; \
    if (wide && can_cache<Kept> operands)                    \
      f<T, Kept>(__VA_ARGS__);                               \
    else if (wide && (Kept::is_block() || !Kept::slots()))   \
      f<T, Group<0, true>>(__VA_ARGS__);                     \
    else                                                     \
      f<T, Group<0, false>>(__VA_ARGS__);                    \
  } while (0)

// ROW_KERNELS makes two kernels: in the first a warp computes a row, in the other, for long rows, a block.
#define ROW_KERNELS(name, cache, suffix, T, parameters, operands, ...)                        \
  ENTRY(name##suffix, kRowThreads, (sizeof(ComputeType<T>) > 4 ? 3 : 4), parameters,          \
        BY_LENGTH(Warp, cache, T, operands, name, __VA_ARGS__))                               \
  ENTRY(name##_long##suffix, kBlockThreads, (sizeof(ComputeType<T>) > 4 ? 1 : 2), parameters, \
        BY_LENGTH(Block, cache, T, operands, name, __VA_ARGS__))

// FLOATS makes a kernel of each floating type by a macro of its suffix and type.
#define FLOATS(make) make(_f32, float) make(_f64, double) make(_f16, f16) make(_bf16, bf16)
