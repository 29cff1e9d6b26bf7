// row.cuh: operations along rows of any layout, a warp or a block to each row.
#pragma once
#include "reduce.cuh"

// Axes are nested loops over an operand, with the stride of each.
using Axes = Shape64<1>;

DEV uint64_t offset_of(const Axes& axes, uint64_t i) {
  if (axes.rank <= 1) return i * axes.stride[0][0];
  uint64_t at[1];
  locate(axes, i, at);
  return at[0];
}

// offset_in_row is offset_of for fewer than 2^32 elements: 32-bit divisions, in a loop that is not unrolled, since
// kernels call it in many places.
DEV uint64_t offset_in_row(const Axes& axes, uint32_t i) {
  uint64_t at = 0;
#pragma unroll 1
  for (int d = (int)axes.rank - 1; d > 0; d--) {
    const uint32_t size = (uint32_t)axes.size[d], q = i / size;
    at += (i - q * size) * axes.stride[0][d];
    i = q;
  }
  return at + i * axes.stride[0][0];
}

// Rows is an operand: the axes of its rows, and those of the elements of one. The type is for kernels of several types.
struct Rows {
  void* data;
  Axes rows, elements;
  uint64_t type;
};

constexpr int kRowWarps = 4;
constexpr int kRowThreads = 32 * kRowWarps;
constexpr int kBlockThreads = 512;

// A group of threads computes a row: a warp, or for long rows a block. Rows of one axis that are short enough are
// cached: read once, and held by the threads in registers, SLOTS elements each. Operations are templates of the thread
// group, and their loops over cached rows are unrolled; with SLOTS = 0 they take rows of any length and layout.
// cached_words() is the number of 32-bit registers of a thread for that.
template <uint32_t SLOTS> struct Warp {
  static constexpr __device__ bool is_block() { return false; }
  static constexpr __device__ uint32_t slots() { return SLOTS; }
  static constexpr __device__ uint32_t cached_words() { return 32; }
  DEV_METHOD static uint32_t threads() { return 32; }
  DEV_METHOD static uint32_t thread() { return threadIdx.x % 32; }
  DEV_METHOD static uint64_t row() { return (uint64_t)blockIdx.x * kRowWarps + threadIdx.x / 32; }
  DEV_METHOD static uint64_t rows() { return (uint64_t)gridDim.x * kRowWarps; }  // that all groups compute at once
};
template <uint32_t SLOTS> struct Block {
  static constexpr __device__ bool is_block() { return true; }
  static constexpr __device__ uint32_t slots() { return SLOTS; }
  static constexpr __device__ uint32_t cached_words() { return 16; }
  DEV_METHOD static uint32_t threads() { return blockDim.x; }
  DEV_METHOD static uint32_t thread() { return threadIdx.x; }
  DEV_METHOD static uint64_t row() { return blockIdx.x; }
  DEV_METHOD static uint64_t rows() { return gridDim.x; }
};

// slots is the number of elements of type T that a thread can cache.
template <template <uint32_t> class Group, class T> static constexpr __device__ uint32_t slots() {
  return Same<T, integer>::value() ? 0 : Group<0>::cached_words() * 4 / sizeof(ComputeType<T>);
}
template <template <uint32_t> class Group, class T, class... Operand>
DEV bool can_cache(uint32_t n, const Operand&... a) {
  return n <= Group<0>::threads() * slots<Group, T>() && (... && (a.elements.rank <= 1));
}

// ElementIndex is that of element i of a row; in a cached row, of the register `slot` of its thread, too.
struct ElementIndex {
  uint32_t i, slot;
  DEV_METHOD operator uint32_t() const { return i; }
};

// Row is one row of an operand with elements of type T, read as values of the compute type.
template <class T, class Group = Warp<0>> struct Row {
  using Compute = ComputeType<T>;
  void* data;
  uint64_t first;
  const Axes& elements;
  uint32_t type;
  DEV_METHOD Row(const Rows& a, uint64_t r)
      : data(a.data), first(offset_of(a.rows, r)), elements(a.elements), type((uint32_t)a.type) {}
  DEV_METHOD uint64_t at(uint32_t i) const {
    return first + (Group::slots() ? i * elements.stride[0][0] : offset_in_row(elements, i));
  }
  DEV_METHOD Compute operator()(uint32_t i) const { return read<T>(data, type, at(i)); }
  DEV_METHOD void set(uint32_t i, Compute x) const { static_cast<T*>(data)[at(i)] = to_element<T>(x); }
};

// row_each calls f(ElementIndex) for the elements of a row, shared out to the threads of the group. Of a cached row
// each warp has 32 SLOTS consecutive elements.
template <class Group = Warp<0>, class F> DEV void row_each(uint32_t n, F f) {
  if constexpr (Group::slots() > 0) {
    const uint32_t first = Group::thread() / 32 * 32 * Group::slots(), i = first + threadIdx.x % 32;
#pragma unroll
    for (uint32_t s = 0; s < Group::slots(); s++) {
      if (s % (Group::is_block() ? 4 : 8) == 0 && first + 32 * s >= n) break;
      if (i + 32 * s < n) f(ElementIndex{i + 32 * s, s});
    }
  } else {
    for (uint32_t i = Group::thread(); i < n; i += Group::threads()) f(ElementIndex{i, 0});
  }
}

// cached is f, a function of the element index of a row of n elements. For a cached row it is computed once, here.
template <class N, uint32_t SLOTS> struct Cached {
  N value[SLOTS];
  DEV_METHOD N operator()(ElementIndex i) const { return value[i.slot]; }
};
template <class Group, class F> DEV auto cached(uint32_t n, const F& f) {
  if constexpr (Group::slots() > 0) {
    Cached<decltype(f(ElementIndex())), Group::slots()> k{};
    row_each<Group>(n, [&](ElementIndex i) { k.value[i.slot] = f(i); });
    return k;
  } else {
    return f;
  }
}

// shared_tile is the dynamic shared memory of a block. Where the block is the thread group, its first kTile bytes, or
// those of one row of the compute type, are for reductions.
template <class N> DEV N* shared_tile() {
  SHARED_DYNAMIC(memory);
  return reinterpret_cast<N*>(memory);
}
constexpr uint32_t kTile = 32768;  // a block of the canonical order is a multiple of it

// block_fold is row_fold of a block: its threads store the elements in shared memory, a tile at a time, and the first
// warp reduces them.
template <class Fold, class N, class Group, class Read> DEV N block_fold(uint32_t n, Read read) {
  SHARED(N, result, [1]);
  N* const tile = shared_tile<N>();
  Partials<Fold, N> partials, blocks;
  uint32_t from = 0;
  do {
    const uint32_t count = n - from < kTile / sizeof(N) ? n - from : kTile / sizeof(N);
    row_each<Group>(count, [&](ElementIndex i) { tile[i] = read(ElementIndex{from + i.i, i.slot}); });
    __syncthreads();
    from += count;
    if (threadIdx.x < 32) {
      uint32_t i = threadIdx.x;
#pragma unroll(Group::slots() > 8 ? 4 : 8)
      for (; i + 32 < count; i += kFoldPartials) {
        partials.low = Fold::combine(partials.low, tile[i]);
        partials.high = Fold::combine(partials.high, tile[i + 32]);
      }
      if (i < count) partials.low = Fold::combine(partials.low, tile[i]);
      if (from == n || from % kFoldBlock == 0) {
        N all = partials.all();
        if (Group::slots() == 0 && n > kFoldBlock) {
          blocks.take((from - 1) / kFoldBlock, all);
          partials = {};
          if (from == n) all = blocks.all();
        }
        if (threadIdx.x == 0) result[0] = all;
      }
    }
    __syncthreads();
  } while (Group::slots() == 0 && from < n);
  return result[0];
}

// group_all combines the values of all threads of a group, in any order, and gives them the result.
template <class Fold, class N, class Group> DEV N group_all(N x) {
  if constexpr (Group::is_block()) return block_fold<Fold, N, Block<1>>(blockDim.x, [&](ElementIndex) { return x; });
  else return warp_all<Fold>(x);
}

// row_fold reduces a row of fewer than 2^28 elements in canonical order; read(ElementIndex) is an element, of type N.
// All threads of the group get the result.
template <class Fold, class N = float, class Group = Warp<0>, class Read> DEV N row_fold(uint32_t n, Read read) {
  if constexpr (Group::is_block() && (Same<Fold, Max>::value() || Same<Fold, Min>::value())) {  // in any order
    N extreme = Fold::template start<N>();
    row_each<Group>(n, [&](ElementIndex i) { extreme = Fold::combine(extreme, read(i)); });
    return group_all<Fold, N, Group>(extreme);
  } else if constexpr (Group::is_block()) {
    return block_fold<Fold, N, Group>(n, read);
  } else if constexpr (Group::slots() > 0) {
    Partials<Fold, N> partials;
    row_each<Group>(n, [&](ElementIndex i) {
      N& partial = i.slot % 2 ? partials.high : partials.low;
      partial = Fold::combine(partial, read(i));
    });
    return partials.all();
  } else {
    Partials<Fold, N> blocks;
    for (uint32_t from = 0; from < n; from += kFoldBlock) {
      const N block = warp_fold<Fold, N>(n - from < kFoldBlock ? n - from : kFoldBlock,
                                         [&](uint32_t i) { return read(ElementIndex{from + i, 0}); });
      if (n <= kFoldBlock) return block;
      blocks.take(from / kFoldBlock, block);
    }
    return blocks.all();
  }
}

// BY_LENGTH calls f for cached rows, or for any. In parentheses are the length and the operands whose rows must be of
// one axis to be cached.
#define BY_LENGTH(Group, T, operands, f, ...)      \
  do {                                             \
    if (can_cache<Group, T> operands)              \
      f<T, Group<slots<Group, T>()>>(__VA_ARGS__); \
    else                                           \
      f<T, Group<0>>(__VA_ARGS__);                 \
  } while (0)

// ROW_KERNELS makes two kernels: in the first a warp computes a row, in the other, for long rows, a block.
#define ROW_KERNELS(name, suffix, T, parameters, operands, ...)                                    \
  ENTRY(name##suffix, kRowThreads, 4, parameters, BY_LENGTH(Warp, T, operands, name, __VA_ARGS__)) \
  ENTRY(name##_long##suffix, kBlockThreads, 2, parameters, BY_LENGTH(Block, T, operands, name, __VA_ARGS__))

// FLOATS makes a kernel of each floating type by a macro of its suffix and type.
#define FLOATS(make) make(_f32, float) make(_f64, double) make(_f16, f16) make(_bf16, bf16)
