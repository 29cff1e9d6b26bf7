// rows.cuh: operations along rows of any layout, a warp or a block to each row.
#pragma once
#include "reduce.cuh"

// Axes are nested loops with their steps through memory.
using Axes = Shape64<1>;

DEV uint64_t place(const Axes& axes, uint64_t i) {
  if (axes.rank <= 1) return i * axes.stride[0][0];
  uint64_t at[1];
  locate(axes, i, at);
  return at[0];
}

// place_in_row is place for less than 2^32 elements: shorter divisions, in a loop, for they are many in a kernel.
DEV uint64_t place_in_row(const Axes& axes, uint32_t i) {
  uint64_t at = 0;
#pragma unroll 1
  for (int d = (int)axes.rank - 1; d > 0; d--) {
    const uint32_t size = (uint32_t)axes.size[d], q = i / size;
    at += (i - q * size) * axes.stride[0][d];
    i = q;
  }
  return at + i * axes.stride[0][0];
}

// Rows is an operand: rows places its rows, elements the elements of one. The type counts where a kernel takes several.
struct Rows {
  void* data;
  Axes rows, elements;
  uint64_t type;
};

constexpr int kRowWarps = 4;
constexpr int kRowThreads = 32 * kRowWarps;
constexpr int kBlockThreads = 512;

// A team of threads computes a row: a warp, or for rows too long for that a block. Rows of one axis that are short enough
// are kept: read once, and held by the threads in registers, SLOTS elements each. Operations are templates of the team, and
// their loops over rows that are kept are unrolled; with SLOTS = 0 they take rows of any length and layout. most() is how
// many numbers of 4 bytes a thread can keep.
template <uint32_t SLOTS> struct Warp {
  static constexpr __device__ bool is_block() { return false; }
  static constexpr __device__ uint32_t slots() { return SLOTS; }
  static constexpr __device__ uint32_t most() { return 32; }
  DEV_METHOD static uint32_t threads() { return 32; }
  DEV_METHOD static uint32_t thread() { return threadIdx.x % 32; }
  DEV_METHOD static uint64_t row() { return (uint64_t)blockIdx.x * kRowWarps + threadIdx.x / 32; }
  DEV_METHOD static uint64_t rows() { return (uint64_t)gridDim.x * kRowWarps; }  // of all teams at once
};
template <uint32_t SLOTS> struct Block {
  static constexpr __device__ bool is_block() { return true; }
  static constexpr __device__ uint32_t slots() { return SLOTS; }
  static constexpr __device__ uint32_t most() { return 16; }
  DEV_METHOD static uint32_t threads() { return blockDim.x; }
  DEV_METHOD static uint32_t thread() { return threadIdx.x; }
  DEV_METHOD static uint64_t row() { return blockIdx.x; }
  DEV_METHOD static uint64_t rows() { return gridDim.x; }
};

// slots is how many elements of type T a thread keeps.
template <template <uint32_t> class Team, class T> static constexpr __device__ uint32_t slots() {
  return Same<T, integer>::value() ? 0 : Team<0>::most() * 4 / sizeof(typename NumberOf<T>::Type);
}
template <template <uint32_t> class Team, class T, class... Operand> DEV bool can_keep(uint32_t n, const Operand&... a) {
  return n <= Team<0>::threads() * slots<Team, T>() && (... && (a.elements.rank <= 1));
}

// Place is element i of a row; of one that is kept, the thread's element number `slot`.
struct Place {
  uint32_t i, slot;
  DEV_METHOD operator uint32_t() const { return i; }
};

// Row is one row of an operand with elements of type T, as numbers.
template <class T, class Team = Warp<0>> struct Row {
  using Number = typename NumberOf<T>::Type;
  void* data;
  uint64_t first;
  const Axes& elements;
  uint32_t type;
  DEV_METHOD Row(const Rows& a, uint64_t r) : data(a.data), first(place(a.rows, r)), elements(a.elements), type((uint32_t)a.type) {}
  DEV_METHOD uint64_t at(uint32_t i) const { return first + (Team::slots() ? i * elements.stride[0][0] : place_in_row(elements, i)); }
  DEV_METHOD Number operator()(uint32_t i) const { return read<T>(data, type, at(i)); }
  DEV_METHOD void set(uint32_t i, Number x) const { static_cast<T*>(data)[at(i)] = element<T>(x); }
};

// row_each calls f(Place) for the elements of a row, shared out to the threads of a team. Of one that is kept a warp has 32 SLOTS
// elements side by side.
template <class Team = Warp<0>, class F> DEV void row_each(uint32_t n, F f) {
  if constexpr (Team::slots() > 0) {
    const uint32_t first = Team::thread() / 32 * 32 * Team::slots(), i = first + threadIdx.x % 32;
#pragma unroll
    for (uint32_t s = 0; s < Team::slots(); s++) {
      if (s % (Team::is_block() ? 4 : 8) == 0 && first + 32 * s >= n) break;
      if (i + 32 * s < n) f(Place{i + 32 * s, s});
    }
  } else {
    for (uint32_t i = Team::thread(); i < n; i += Team::threads()) f(Place{i, 0});
  }
}

// kept is f, a function of the places of a row of n elements. Of a row that is kept it is computed once, here.
template <class N, uint32_t SLOTS> struct Kept {
  N value[SLOTS];
  DEV_METHOD N operator()(Place i) const { return value[i.slot]; }
};
template <class Team, class F> DEV auto kept(uint32_t n, const F& f) {
  if constexpr (Team::slots() > 0) {
    Kept<decltype(f(Place())), Team::slots()> k{};
    row_each<Team>(n, [&](Place i) { k.value[i.slot] = f(i); });
    return k;
  } else {
    return f;
  }
}

// Lanes are the 64 of a block of the canonical order, or those of its second level, where the result of block b goes to
// lane b mod 64. A thread of a warp has the lane of its number and the one 32 above it.
template <class Fold, class N> struct Lanes {
  N low = Fold::template start<N>(), high = low;
  DEV_METHOD void take(uint32_t b, N x) {
    const uint32_t lane = threadIdx.x % 32;
    if (b % kFoldLanes == lane) low = Fold::combine(low, x);
    if (b % kFoldLanes == lane + 32) high = Fold::combine(high, x);
  }
  DEV_METHOD N all() const { return warp_tree<Fold>(low, high); }
};

// room is the dynamic shared memory of a block. Of those that are teams, the first kTile bytes, or as many as a row has
// numbers, are for reductions.
template <class N> DEV N* room() {
  SHARED_DYNAMIC(memory);
  return reinterpret_cast<N*>(memory);
}
constexpr uint32_t kTile = 32768;  // so that a block of the canonical order is a multiple

// block_fold is row_fold of a block. Its threads leave the elements in shared memory, a tile at a time, where the first warp
// reduces them.
template <class Fold, class N, class Team, class Read> DEV N block_fold(uint32_t n, Read read) {
  SHARED(N, result, [1]);
  N* const tile = room<N>();
  Lanes<Fold, N> lanes, blocks;
  uint32_t from = 0;
  do {
    const uint32_t count = n - from < kTile / sizeof(N) ? n - from : kTile / sizeof(N);
    row_each<Team>(count, [&](Place i) { tile[i] = read(Place{from + i.i, i.slot}); });
    __syncthreads();
    from += count;
    if (threadIdx.x < 32) {
      uint32_t i = threadIdx.x;
#pragma unroll(Team::slots() > 8 ? 4 : 8)
      for (; i + 32 < count; i += kFoldLanes) {
        lanes.low = Fold::combine(lanes.low, tile[i]);
        lanes.high = Fold::combine(lanes.high, tile[i + 32]);
      }
      if (i < count) lanes.low = Fold::combine(lanes.low, tile[i]);
      if (from == n || from % kFoldBlock == 0) {
        N all = lanes.all();
        if (Team::slots() == 0 && n > kFoldBlock) {
          blocks.take((from - 1) / kFoldBlock, all);
          lanes = {};
          if (from == n) all = blocks.all();
        }
        if (threadIdx.x == 0) result[0] = all;
      }
    }
    __syncthreads();
  } while (Team::slots() == 0 && from < n);
  return result[0];
}

// team_all combines the numbers of all threads of a team, in any order, and gives them the result.
template <class Fold, class N, class Team> DEV N team_all(N x) {
  if constexpr (Team::is_block()) return block_fold<Fold, N, Block<1>>(blockDim.x, [&](Place) { return x; });
  else return warp_all<Fold>(x);
}

// row_fold reduces a row of less than 2^28 elements in canonical order; read(Place) is an element, of type N. All threads
// of the team get the result.
template <class Fold, class N = float, class Team = Warp<0>, class Read> DEV N row_fold(uint32_t n, Read read) {
  if constexpr (Team::is_block() && (Same<Fold, Max>::value() || Same<Fold, Min>::value())) {  // in any order
    N extreme = Fold::template start<N>();
    row_each<Team>(n, [&](Place i) { extreme = Fold::combine(extreme, read(i)); });
    return team_all<Fold, N, Team>(extreme);
  } else if constexpr (Team::is_block()) {
    return block_fold<Fold, N, Team>(n, read);
  } else if constexpr (Team::slots() > 0) {
    Lanes<Fold, N> lanes;
    row_each<Team>(n, [&](Place i) {
      N& lane = i.slot % 2 ? lanes.high : lanes.low;
      lane = Fold::combine(lane, read(i));
    });
    return lanes.all();
  } else {
    Lanes<Fold, N> blocks;
    for (uint32_t from = 0; from < n; from += kFoldBlock) {
      const N block = warp_fold<Fold, N>(n - from < kFoldBlock ? n - from : kFoldBlock, [&](uint32_t i) { return read(Place{from + i, 0}); });
      if (n <= kFoldBlock) return block;
      blocks.take(from / kFoldBlock, block);
    }
    return blocks.all();
  }
}

// BY_LENGTH calls f for rows that a team keeps or for any. The operands whose rows must be of one axis are in parentheses,
// behind the length.
#define BY_LENGTH(Team, T, operands, f, ...)                                \
  do {                                                                      \
    if (can_keep<Team, T> operands)                                         \
      f<T, Team<slots<Team, T>()>>(__VA_ARGS__);                            \
    else                                                                    \
      f<T, Team<0>>(__VA_ARGS__);                                           \
  } while (0)

// ROW_KERNELS makes two kernels: in one a warp has a row, in the one for long rows a block.
#define ROW_KERNELS(name, suffix, T, parameters, operands, ...)                                                  \
  KERNEL(name##suffix, kRowThreads, 4) parameters { BY_LENGTH(Warp, T, operands, name, __VA_ARGS__); }           \
  EXPORT(name##suffix);                                                                                          \
  KERNEL(name##_long##suffix, kBlockThreads, 2) parameters { BY_LENGTH(Block, T, operands, name, __VA_ARGS__); } \
  EXPORT(name##_long##suffix);

// FLOATS makes a kernel of each floating type by a macro of its suffix and type.
#define FLOATS(make) make(_f32, float) make(_f64, double) make(_f16, f16) make(_bf16, bf16)
