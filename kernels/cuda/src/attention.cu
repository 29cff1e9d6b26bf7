// Attention with the bits of kernels/cpu/attention.go, which describes it: for each head of each batch entry, with q [T
// D], k [S D] and v [S E],
//
//	s = scale * q kᵀ + mask,  m = max(s),  r = 1 / sum(exp(s - m)),  p = exp(s - m) * r,  y = (p * kept) v
//
// and, g being the gradient of y,
//
//	dv = (p * kept)ᵀ g,  dp = g vᵀ * kept,  ds = scale * (p * (dp - sum(dp*p))),  dq = ds k,  dk = dsᵀ q
//
// Row i attends to the keys from i+first to i+last; p and ds are 0 for the others. Later keys that are hidden from all
// of 32 rows, and chunks of 256 keys that lie before all of these rows' keys, take no part in y and dq of these rows;
// rows of dk and dv are sums over the chunks of 256 queries for which their key, or chunk of keys, does.
//
// Blocks loop over tiles of 128 rows or 128 keys of all heads, or of 32 but in float32, with p and ds of one tile in
// global memory of their own. Operands have any strides. Half precision is widened, and results are rounded once. In
// double the CPU has another order of additions, and exp is CUDA's own. attention_flash.cu is the fast one for half
// precision, without masks.
#include "attention.cuh"
#include "row.cuh"
#include "z_exp_below.cuh"

namespace {

// ---- products ------------------------------------------------------------------------------------------

// A block of 4 warps computes 128 x 64 elements at a time. A warp has a group of 32 rows, and its lanes are 4 x 8: a
// thread has 8 rows, 4 apart, of two times four columns, 32 apart. Operands pass through shared memory in steps of 16
// k. There, lines of k are 4 elements longer, so that 16 bytes of 8 neighbouring lines lie in all 32 banks. Of B, they
// are mixed: of each 32, line 4i+j is at 8j+i, so that threads read neighbours.
constexpr int kGroup = 32, kRows = 128, kColumns = 64, kThreads = 128;
constexpr int kStep = 16, kStages = 3, kPitch = kStep + 4;

// Shared is the memory of a block: stages of A, 128 lines of k, and of B, 64 lines of k or 16 lines of columns. Other
// types than float32 have the tiles of matmul.cuh.
using Stages = float[kStages][(kRows + kColumns) * kPitch];
template <class T> struct SharedOf { using Type = SharedTiles<ComputeType<T>>; };
template <> struct SharedOf<float> { using Type = Stages; };
template <class T> using Shared = typename SharedOf<T>::Type;

template <class T> static constexpr __device__ bool is_float() { return Same<T, float>::value(); }
template <class T> static constexpr __device__ uint32_t threads() { return is_float<T>() ? kThreads : kSmallThreads; }
template <class T> static constexpr __device__ uint32_t tile_rows() { return is_float<T>() ? kRows : kSmallTile; }

// Terms are the k for which a row takes part in a product, in whole chunks from `begin` on. Its sum begins with the
// first chain, or, if it is `later`, with +0.
struct Terms {
  uint32_t begin, end;
  bool later;
};

// Operands are those of a tile of C, which has n columns or 64.
template <class A, class B> struct Operands {
  Matrix<A> a;
  Matrix<B> b;
  uint32_t n;
};

// column is that of element j of a thread, from its first one on.
DEV uint32_t column(int j) { return j / 4 * 32 + j % 4; }

// Part is what a thread has of a tile.
template <class N, int ROWS, int COLUMNS> struct Part {
  static constexpr int kRows = ROWS, kColumns = COLUMNS;
  N x[ROWS][COLUMNS];
  uint32_t first_row, first_column;
  DEV_METHOD uint32_t row(int i) const { return first_row + 4 * i; }
  DEV_METHOD uint32_t column(int j) const { return first_column + ::column(j); }
  // each sets all elements to f(i, j, element).
  template <class F> DEV_METHOD void each(F f) {
    unrolled<ROWS, COLUMNS>([&](int i, int j) { x[i][j] = f(i, j, x[i][j]); });
  }
};

// LineCopy is what a thread copies of an operand: COUNT units of 4 elements of lines, ACROSS of them in a line.
template <int ACROSS, int PITCH, int COUNT, bool MIXED> struct LineCopy {
  static constexpr int kApart = kThreads / ACROSS;  // lines
  const float* p;
  int64_t line, element;  // strides
  uint32_t y, x;          // the line and element of the thread's first unit
  bool wide;              // 16 bytes at once

  DEV_METHOD LineCopy(const float* data, int64_t line, int64_t element)
      : line(line), element(element), y(threadIdx.x / ACROSS), x(threadIdx.x % ACROSS * 4) {
    p = data + (y * line + x * element);
    wide = element == 1 && line % 4 == 0 && (uint64_t)data % 16 == 0;
  }

  // copy brings so many lines and elements of the next step. What is missing is zero, or the last line again: nobody
  // uses it.
  DEV_METHOD void copy(float* to, uint32_t lines, uint32_t elements) const {
    const uint32_t at = shared_address(to + (MIXED ? y % 4 * 8 + y / 4 : y) * PITCH + x);
    if (wide && elements >= 4 * ACROSS) {
      const auto units = [&](auto offset) {
#pragma unroll
        for (int u = 0; u < COUNT; u++)
          cp_async<16>(at + u * kApart * PITCH * sizeof(float), p + offset(u * kApart) * line, 16);
      };
      const int last = (int)(lines - 1 - y);
      if (lines >= COUNT * kApart) units([](int apart) { return apart; });
      else units([=](int apart) { return apart < last ? apart : last; });
    } else {
#pragma unroll 1
      for (int u = 0; u < COUNT; u++)
#pragma unroll 1
        for (uint32_t e = 0; e < 4; e++)
          cp_async<4>(at + (u * kApart * PITCH + e) * sizeof(float), p + (u * kApart * line + e * element),
                      y + u * kApart < lines && x + e < elements ? 4 : 0);
    }
  }
};

enum Lines { kOfTerms, kOfColumns };  // of B in shared memory

DEV uint32_t first_column() { return threadIdx.x % 8 * 4; }

// add_products adds those of a stage to the thread's chains, from its first elements of A and B on: `left` steps of k,
// or kStep if they are fewer.
template <Lines LINES>
DEV void add_products(float (&chain)[8][8], const float* u_line, const float* v_line, uint32_t left) {
  if (left >= kStep) {
#pragma unroll
    for (int k = 0; k < kStep; k += 4) {
      Four<float> u[8];
#pragma unroll
      for (int i = 0; i < 8; i++) u[i] = load_four<float>(u_line + 4 * i * kPitch + k);
      if (LINES == kOfTerms) {
#pragma unroll
        for (int j = 0; j < 8; j++) {
          const Four<float> v = load_four<float>(v_line + 8 * j * kPitch + k);
          unrolled<4, 8>([&](int s, int i) { chain[i][j] = fused(u[i][s], v[s], chain[i][j]); });
        }
      } else {
#pragma unroll
        for (int s = 0; s < 4; s++)
#pragma unroll
          for (int h = 0; h < 8; h += 4) {
            const Four<float> v = load_four<float>(v_line + (k + s) * kColumns + column(h));
            unrolled<4, 8>([&](int j, int i) { chain[i][h + j] = fused(u[i][s], v[j], chain[i][h + j]); });
          }
      }
    }
  } else {
#pragma unroll 1
    for (uint32_t k = 0; k < left; k++) {
      float u[8];
#pragma unroll
      for (int i = 0; i < 8; i++) u[i] = u_line[4 * i * kPitch + k];
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const float v = v_line[LINES == kOfTerms ? 8 * j * kPitch + k : k * kColumns + column(j)];
#pragma unroll
        for (int i = 0; i < 8; i++) chain[i][j] = fused(u[i], v, chain[i][j]);
      }
    }
  }
}

// product computes tiles of m rows, tile t of A B for operands(t). terms(t, i) are those of row i; they begin and end
// later in later rows, and end alike in a group. hidden(t, i) leaves out the group whose first row is i. Threads that
// have rows call finish(t, part, active) for each tile; where a group is left out, it is not active, and 0. `sums` has
// the thread's sums between chunks. Copies of the next tile begin before a tile is complete.
template <Lines LINES, class OperandsOf, class TermsOf, class Hidden, class Finish>
DEV void product(Stages& shared, uint32_t tiles, uint32_t m, OperandsOf operands, TermsOf terms, Hidden hidden,
                 float* sums, Finish finish) {
  if (tiles == 0) return;
  constexpr bool kTerms = LINES == kOfTerms;
  constexpr int kAcross = (kTerms ? kStep : kColumns) / 4, kPitchB = kTerms ? kPitch : kColumns;
  const uint32_t lane = threadIdx.x % 32, group = threadIdx.x / 32 * kGroup, row = group + lane / 8;
  const uint32_t first_v = kRows * kPitch + (kTerms ? threadIdx.x % 8 * kPitch : first_column());
  const auto copy_of = [&](uint32_t t) {
    struct Copy {
      LineCopy<kStep / 4, kPitch, kRows * kStep / 4 / kThreads, false> a;
      LineCopy<kAcross, kPitchB, kColumns * kStep / 4 / kThreads, kTerms> b;
      uint32_t k;
    };
    const auto o = operands(t);
    const uint32_t k = terms(t, 0).begin;
    return Copy{{&o.a.at(0, k), o.a.row, o.a.column},
                {&o.b.at(k, 0), kTerms ? o.b.column : o.b.row, kTerms ? o.b.row : o.b.column},
                k};
  };
  auto copy = copy_of(0);
  uint32_t copied = 0;
  int stage = 0;
#pragma unroll 1
  for (uint32_t t = 0; t < tiles; t++) {
    const uint32_t begin = terms(t, 0).begin, end = terms(t, m - 1).end;
    const uint32_t steps = end > begin ? (end - begin + kStep - 1) / kStep : 1;
    const Terms own = terms(t, minimum(group, m - 1));
    const bool active = group < m && !hidden(t, group);
    Part<float, 8, 8> part{{}, row, first_column()};
    float(&chain)[8][8] = part.x;
#pragma unroll 1
    for (uint32_t k0 = t ? begin : begin - (kStages - 1) * kStep; k0 != begin + steps * kStep; k0 += kStep) {
      cp_async_wait<kStages - 2>();
      __syncthreads();
      if (copied < tiles) {
        const uint32_t copy_end = terms(copied, m - 1).end, n = operands(copied).n;
        if (copy.k < copy_end) {
          copy.a.copy(shared[stage], m, copy_end - copy.k);
          float* const to_b = shared[stage] + kRows * kPitch;
          if (kTerms) copy.b.copy(to_b, n, copy_end - copy.k);
          else copy.b.copy(to_b, copy_end - copy.k, n);
        }
        copy.a.p += kStep * copy.a.element;
        copy.b.p += kStep * (kTerms ? copy.b.element : copy.b.line);
        copy.k += kStep;
        if (copy.k >= copy_end && ++copied < tiles) copy = copy_of(copied);
      }
      cp_async_commit();
      stage = stage == kStages - 1 ? 0 : stage + 1;  // the oldest one, too
      if (!active || k0 < own.begin || k0 >= own.end) continue;
      const uint32_t left = own.end - k0;
      add_products<LINES>(chain, shared[stage] + row * kPitch, shared[stage] + first_v, left);
      const bool last = left <= kStep;
      if ((!last && (k0 + kStep) % kChunk) || (kTerms && own.end <= kChunk)) continue;
      const uint32_t chunk = k0 / kChunk * kChunk;
      const auto sum = [&](int i, int j) -> float& { return sums[(8 * i + j) * kThreads]; };
      if (chunk > own.begin) unrolled<8, 8>([&](int i, int j) { chain[i][j] = add(sum(i, j), chain[i][j]); });
      else if (own.later) unrolled<8, 8>([&](int i, int j) { chain[i][j] = add(0.f, chain[i][j]); });
      if (chunk < terms(t, minimum(group + kGroup, m) - 1).begin)
#pragma unroll
        for (int i = 0; i < 8; i++)
          if (chunk < terms(t, minimum(row + 4 * i, m - 1)).begin)
#pragma unroll
            for (int j = 0; j < 8; j++) chain[i][j] = 0.f;
      if (!last) unrolled<8, 8>([&](int i, int j) { sum(i, j) = chain[i][j], chain[i][j] = 0.f; });
    }
    if (group < m) finish(t, part, active);
  }
}
template <Lines LINES, class N, class OperandsOf, class TermsOf, class Hidden, class Finish>
DEV void product(SharedTiles<N>& shared, uint32_t tiles, uint32_t m, OperandsOf operands, TermsOf terms, Hidden, N*,
                 Finish finish) {
  for (uint32_t t = 0; t < tiles; t++) {
    const auto o = operands(t);
    for (uint32_t c = 0; c < minimum(o.n, kColumns); c += kSmallTile)
      tile_product(shared, o.a, o.b.from(0, c), m, o.n - c, terms(t, 0).end,
                   [&](uint32_t i) { return terms(t, i).begin; },
                   [&](uint32_t i, uint32_t j, N v) { finish(t, Part<N, 1, 1>{{{v}}, i, c + j}, true); });
  }
}

DEV uint32_t column_tiles(uint32_t n) { return (n + kColumns - 1) / kColumns; }

// put writes a part of a result with m rows and n columns.
template <class P, class T> DEV void put(const P& part, const Matrix<T>& to, uint32_t m, uint32_t n) {
  T* const first = &to.at(part.first_row, part.first_column);
  const auto set = [&](int i, int j) {
    first[4 * i * to.row + column(j) * to.column] = to_element<T>(part.x[i][j]);
  };
  if (part.row(P::kRows - 1) < m && part.column(P::kColumns - 1) < n)
    unrolled<P::kRows, P::kColumns>(set);
  else
    unrolled<P::kRows, P::kColumns>([&](int i, int j) {
      if (part.row(i) < m && part.column(j) < n) set(i, j);
    });
}

// each_four_of calls f(i, j) for the first element of every four that a part has in scratch, of n columns; of a small
// part, for its element. Scratch has whole groups of rows, and whole fours.
template <class P, class F> DEV void each_four_of(const P& part, uint32_t n, F f) {
#pragma unroll
  for (int j = 0; j < P::kColumns; j += 4)
    if (part.column(j) < n)
#pragma unroll
      for (int i = 0; i < P::kRows; i++) f(i, j);
}
template <class P, class N> DEV void put_scratch(const P& part, const Matrix<N>& to, uint32_t n) {
  N* const first = &to.at(part.first_row, part.first_column);
  each_four_of(part, n, [&](int i, int j) {
    if constexpr (P::kColumns == 1) *first = part.x[i][j];
    else
      store_four(first + (4 * i * to.row + column(j)),
                 Four<N>{part.x[i][j], part.x[i][j + 1], part.x[i][j + 2], part.x[i][j + 3]});
  });
}
template <class P, class N> DEV P from_scratch(const P& part, const Matrix<N>& from, uint32_t n) {
  P x{{}, part.first_row, part.first_column};
  const N* const first = &from.at(part.first_row, part.first_column);
  each_four_of(part, n, [&](int i, int j) {
    if constexpr (P::kColumns == 1) {
      x.x[i][j] = *first;
    } else {
      const Four<N> four = load_four<N>(first + (4 * i * from.row + column(j)));
#pragma unroll
      for (int k = 0; k < 4; k++) x.x[i][j + k] = four[k];
    }
  });
  return x;
}

// ---- rows ----------------------------------------------------------------------------------------------

// RowTile is the work of a block: `size` rows or keys from `from` on, of matrix i.
struct RowTile {
  uint32_t i, from, size;
};

// each_row_tile calls work(tile) for the tiles of this block, of n rows or keys, the longest work first: the last rows
// and the first keys of causal attention. Every other time the blocks take tiles in the opposite order, so that those
// with the longest tiles have shorter ones next.
template <class T, class N, class Work>
DEV void each_row_tile(const Attention<N>& z, uint32_t n, bool last_first, Work work) {
  constexpr uint32_t kTile = tile_rows<T>();
  const uint32_t row_tiles = (n + kTile - 1) / kTile, count = (uint32_t)z.count;
  uint32_t tile = blockIdx.x / count, i = blockIdx.x % count;
#pragma unroll 1
  while (tile < row_tiles) {
    const uint32_t number = last_first ? row_tiles - 1 - tile : tile;
    work(RowTile{i, number * kTile, minimum(kTile, n - number * kTile)});
    const uint32_t turn = (tile * count + i) / gridDim.x + 1;
    const uint32_t at = turn * gridDim.x + (turn % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
    tile = at / count;
    i = at % count;
  }
}

DEV uint32_t pitch(uint32_t n) { return (n + 3) / 4 * 4; }  // of rows that are accessed by four elements

// scratch is memory of the block: tiles of n elements in a row, and behind them the sums of threads.
template <class T, class N> DEV N* scratch(const Attention<N>& z, uint32_t tiles, uint32_t n) {
  return z.scratch + (uint64_t)blockIdx.x * tile_rows<T>() * (tiles * pitch(n) + kColumns);
}
template <class T, class N>
DEV Matrix<N> scratch_tile(const Attention<N>& z, uint32_t tiles, uint32_t tile, uint32_t n) {
  return {scratch<T>(z, tiles, n) + (uint64_t)tile * tile_rows<T>() * pitch(n), pitch(n), 1};
}
template <class T, class N> DEV N* scratch_sums(const Attention<N>& z, uint32_t tiles, uint32_t n) {
  return &scratch_tile<T>(z, tiles, tiles, n).at(0, threadIdx.x);
}

// share_rows shares the rows of a tile out to warps.
template <class T, class Work> DEV void share_rows(const RowTile& w, Work work) {
#pragma unroll 1
  for (uint32_t row = threadIdx.x / 32; row < w.size; row += threads<T>() / 32) work(row);
}

// RowsAhead brings elements from `begin` to `end` of rows of scratch to shared memory, of COUNT tiles: those of the
// next row of a warp while it works on one, if two rows have room, or all of one row at once. Longer ones stay where
// they are. A thread copies what it alone reads, whose offsets are those of each_key.
template <class T, class N, int COUNT> struct RowsAhead {
  const Matrix<N> (&tiles)[COUNT];
  uint32_t begin, end, size, each, slots, slot, next;
  N* memory;

  DEV_METHOD RowsAhead(const Attention<N>& z, Shared<T>& shared, const Matrix<N> (&tiles)[COUNT], uint32_t begin,
                       uint32_t end, uint32_t size)
      : tiles(tiles), begin(begin), end(end), size(size), each(pitch(end - begin)), slot(0), next(threadIdx.x / 32) {
    slots = each ? minimum(z.cached / (COUNT * each), 2) : 0;
    memory = reinterpret_cast<N*>(&shared) + threadIdx.x / 32 * z.cached;
    if (slots == 2) request();
  }
  DEV_METHOD void request() {
    if (next < size)
#pragma unroll
      for (int c = 0; c < COUNT; c++) {
        const N* const from = &tiles[c].at(next, begin);
        const uint32_t to = shared_address(memory + (slot * COUNT + c) * each);
#pragma unroll 1
        for (uint32_t i = own_index(); i < end - begin; i += kFoldPartials)
#pragma unroll
          for (uint32_t b = 0; b < 4 * sizeof(N); b += 16)
            cp_async<16>(to + i * sizeof(N) + b, reinterpret_cast<const char*>(from + i) + b, 16);
      }
    cp_async_commit();
    next += threads<T>() / 32;
    if (slots == 2) slot = 1 - slot;
  }
  // each_row calls work(row, at) for the rows of a warp, with at[c] where an element 0 of the row would be.
  template <class Work> DEV_METHOD void each_row(const RowTile& w, Work work) {
    N* at[COUNT];
    if (slots)
      share_rows<T>(w, [&](uint32_t row) {
        request();
        if (slots == 2) cp_async_wait<1>();
        else cp_async_wait<0>();
#pragma unroll
        for (int c = 0; c < COUNT; c++) at[c] = memory + (slot * COUNT + c) * each - begin;
        work(row, at);
      });
    else
      share_rows<T>(w, [&](uint32_t row) {
#pragma unroll
        for (int c = 0; c < COUNT; c++) at[c] = &tiles[c].at(row, 0);
        work(row, at);
      });
  }
};

// exp_below is exp for scores minus the maximum of their row, which another kernel may have found with other roundings.
DEV float exp_below(float x) { return f32_exp_below(x); }
DEV double exp_below(double x) { return math::exp(x); }

// Pair is an element of two rows.
template <class N> struct Pair { N x, y; };
template <class N> DEV Four<Pair<N>> load_pairs(const N* x, const N* y) {
  const Four<N> a = load_four<N>(x), b = load_four<N>(y);
  return {{{a[0], b[0]}, {a[1], b[1]}, {a[2], b[2]}, {a[3], b[3]}}};
}

// each_key calls use(i, load(i), count) for the fours from `begin` to `end` that a thread has, i being the first
// element's place, and `count` how many of the four are before the end. Some are loaded before the first is used.
template <class Load, class Use> DEV void each_key(uint32_t begin, uint32_t end, Load load, Use use) {
  using X = decltype(load(uint64_t()));
  constexpr uint32_t kAhead = sizeof(X) > 32 ? 1 : sizeof(X) > 16 ? 2 : 4;
  uint64_t i = begin + own_index();
#pragma unroll 1
  for (; begin + kAhead * kFoldPartials <= end; begin += kAhead * kFoldPartials, i += kAhead * kFoldPartials) {
    X x[kAhead];
#pragma unroll
    for (uint32_t k = 0; k < kAhead; k++) x[k] = load(i + k * kFoldPartials);
#pragma unroll
    for (uint32_t k = 0; k < kAhead; k++) use(i + k * kFoldPartials, x[k], 4);
  }
#pragma unroll 1
  for (; (uint32_t)i < end; i += kFoldPartials) use(i, load(i), lesser(end - (uint32_t)i, 4));
}

// keys_sum is the sum of four(i, load(i)) over the elements of a row from `begin`, a multiple of a chunk, to n, in
// canonical order; those before are 0. Longer rows than a block of it are added up once more, by again(i, load(i)).
template <class N, class Load, class Use, class Again>
DEV N keys_sum(uint32_t begin, uint32_t n, Load load, Use four, Again again) {
  Partials<Sum, N> partials;
  each_key(begin, n, load, [&](uint64_t i, const auto& x, uint32_t count) { partials.take(four(i, x), count); });
  if (n <= kFoldBlock) return partials.all();
  const auto source = [&](At at) { return at.i < begin ? Four<N>{} : again(at.i, load(at.i)); };
  return fold_blocks<Sum, Warp<0>>(n, Source<N, true, decltype(source)>{source});
}

// fill_rest sets what follows the end of the rows of a tile to 0, which accesses of four elements read. Tiles of
// float32 have whole fours.
template <class T, class N> DEV void fill_rest(const Matrix<N>& tile, uint32_t rows, uint32_t end) {
  if (!is_float<T>())
    for (uint32_t i = threadIdx.x; i < rows * 4; i += threads<T>())
      if (end + i % 4 < pitch(end)) tile.at(i / 4, end + i % 4) = N(0);
}

// first_chunk is where the chunk of the first key begins that row i attends to, or n if that is less.
template <class N> DEV uint32_t first_chunk(const Attention<N>& z, uint32_t i, uint32_t n) {
  const int32_t key = (int32_t)i + z.first;
  return key < 0 ? 0 : minimum((uint32_t)key / kChunk * kChunk, n);
}

// shared_matrix is the matrix of k or v that matrix i of q uses.
template <class T, class N> DEV Matrix<T> shared_matrix(const Attention<N>& z, const Heads& h, uint32_t i,
                                                        uint32_t row) {
  const uint32_t b = i / z.heads, head = (i - b * z.heads) / z.group;
  return {static_cast<T*>(h.data) + (b * h.batch + head * h.head + row * h.row), h.row, h.column};
}

// Score is the position of a score.
struct Score {
  uint32_t row, key;
};

template <class N> DEV bool in_window(const Attention<N>& z, Score s) {
  const int32_t apart = (int32_t)(s.key - s.row);
  return apart >= z.first && apart <= (int32_t)z.last;
}
template <class N> DEV bool attends(const Attention<N>& z, Score s) {
  return s.row < z.t && s.key < z.s && in_window(z, s);
}

// hide sets what rows do not attend to; the scores of a part are at at(i, j).
template <class N, class P, class At> DEV void hide(const Attention<N>& z, P& part, At at, N value) {
  const Score first = at(0, 0), last = at(P::kRows - 1, P::kColumns - 1);
  if (in_window(z, {first.row, last.key}) && in_window(z, {last.row, first.key})) return;
  part.each([&](int i, int j, N x) { return in_window(z, at(i, j)) ? x : value; });
}

// each_by_rows sets the elements of a part to f(element, load(score)), with the loads of a row at once.
template <class N, class P, class At, class Load, class F>
DEV void each_by_rows(P& part, At at, Load load, F f) {
#pragma unroll
  for (int i = 0; i < P::kRows; i++) {
    N loaded[P::kColumns];
#pragma unroll
    for (int j = 0; j < P::kColumns; j++) loaded[j] = load(at(i, j));
#pragma unroll
    for (int j = 0; j < P::kColumns; j++) part.x[i][j] = f(part.x[i][j], loaded[j]);
  }
}

// add_mask and drop change the scores, or probabilities or their gradients, of matrix i, but for those that are hidden.
template <class T, class N, class P, class At> DEV void add_mask(const Attention<N>& z, uint32_t i, P& part, At at) {
  if (!z.mask.data) return;
  const Matrix<const T> mask = matrix<const T>(z, z.mask, i, 0);
  each_by_rows<N>(
      part, at, [&](Score s) { return attends(z, s) ? to_compute<N>(mask.at(s.row, s.key)) : N(0); },
      [](N x, N mask) { return math::add(x, mask); });
}
// factor is that of the probability of a score.
template <class N> DEV N factor(const Attention<N>& z, const Matrix<const uint8_t>& kept, Score s) {
  return !attends(z, s) ? N(1) : kept.at(s.row, s.key) ? N(z.factor) : N(0);
}
template <class N, class P, class At> DEV void drop(const Attention<N>& z, uint32_t i, P& part, At at) {
  if (!z.kept.data) return;
  const Matrix<const uint8_t> kept = matrix<const uint8_t>(z, z.kept, i, 0);
  each_by_rows<N>(
      part, at, [&](Score s) { return factor(z, kept, s); }, [](N x, N factor) { return math::mul(x, factor); });
}

// hidden tells whether no row from r0 to r1 attends to a key from k0 to k1.
template <class N> DEV bool hidden(const Attention<N>& z, uint32_t r0, uint32_t r1, uint32_t k0, uint32_t k1) {
  return k0 > r1 + z.last || (int32_t)k1 < (int32_t)r0 + z.first;
}

// Keys are those that take part in y and dq of a group of rows.
template <class N> DEV Terms keys_of(const Attention<N>& z, const RowTile& w, uint32_t row) {
  const uint32_t group = row / kGroup * kGroup, n = visible_keys(z, w.from + minimum(group + kGroup, w.size) - 1);
  return {first_chunk(z, w.from + group, n), n, false};
}

// choose is the operand of a pass.
template <class T> DEV Matrix<T> choose(int pass, const Matrix<T>& first, const Matrix<T>& second) {
  return {pass ? second.data : first.data, pass ? second.row : first.row, pass ? second.column : first.column};
}

DEV Heads choose(int pass, const Heads& a, const Heads& b) {
  return {pass ? b.data : a.data, pass ? b.batch : a.batch, pass ? b.head : a.head, pass ? b.row : a.row,
          pass ? b.column : a.column};
}

DEV bool nothing_hidden(uint32_t, uint32_t) { return false; }

// probability is p of a score.
template <class N> DEV N probability(N s, N m, N r) { return math::mul(exp_below(math::sub(s, m)), r); }

// y, m and r. A block's scratch is p [128 S].
template <class T, class N> DEV void forward(const Attention<N>& z) {
  SHARED_DYNAMIC(memory);
  auto& shared = *reinterpret_cast<Shared<T>*>(memory);
  const Matrix<N> p = scratch_tile<T>(z, 1, 0, z.s);
  N* const sums = scratch_sums<T>(z, 1, z.s);
  const bool limited = z.mask.data || z.first > -(int32_t)z.t;
  each_row_tile<T>(z, z.t, true, [&](const RowTile& w) {
    const auto keys = [&](uint32_t, uint32_t row) { return keys_of(z, w, row); };
    const uint32_t begin = keys(0, 0).begin, visible = keys(0, w.size - 1).end;
    const auto key = [=](uint32_t t) { return begin + t * kColumns; };
    const Matrix<const T> q = matrix<const T>(z, z.q, w.i, w.from), k = shared_matrix<const T>(z, z.k, w.i, 0);
    product<kOfTerms>(
        shared, column_tiles(visible - begin), w.size,
        [&](uint32_t t) { return Operands<const T, const T>{q, k.from(key(t), 0).transposed(), visible - key(t)}; },
        [&](uint32_t, uint32_t) { return Terms{0, z.d, false}; },
        [&](uint32_t t, uint32_t i) {
          return hidden(z, w.from + i, w.from + i + kGroup - 1, key(t), key(t) + kColumns - 1);
        },
        sums, [&](uint32_t t, auto part, bool) {
          const auto at = [&](int i, int j) { return Score{w.from + part.row(i), key(t) + part.column(j)}; };
          part.each([&](int, int, N x) { return math::mul(x, z.scale); });
          add_mask<T>(z, w.i, part, at);
          hide(z, part, at, -infinity(N()));
          put_scratch(part, p.from(0, key(t)), visible - key(t));
        });
    fill_rest<T>(p, w.size, visible);
    __syncthreads();
    const Matrix<N> tiles[1] = {p};
    RowsAhead<T, N, 1> ahead(z, shared, tiles, begin, visible, w.size);
    const Matrix<const uint8_t> kept = matrix<const uint8_t>(z, z.kept, w.i, 0);
    ahead.each_row(w, [&](uint32_t row, N* const (&own)[1]) {
      N *const x = &p.at(row, 0), *const e = own[0];
      const auto load = [=](uint64_t i) { return load_four<N>(e + i); };
      Partials<Max, N> most;
      each_key(begin, visible, load, [&](uint64_t, const Four<N>& four, uint32_t count) { most.take(four, count); });
      N m = most.all();
      const bool none = visible == 0 || (limited && m == -infinity(N()));
      if (none) m = N(0);
      const N sum = keys_sum<N>(begin, visible, load, [=](uint64_t i, Four<N> four) {
        four = each_of([=](N x) { return exp_below(math::sub(x, m)); }, four);
        store_four(e + i, four);
        return four;
      }, [](uint64_t, const Four<N>& four) { return four; });
      // 0, or NaN where m is not finite.
      const N r = none ? N(0) : math::div(N(1), math::add(sum, math::sub(m, m)));
      each_key(begin, visible, load, [=](uint64_t i, Four<N> four, uint32_t) {
        four = each_of([=](N e) { return math::mul(e, r); }, four);
        if (z.kept.data)
#pragma unroll
          for (uint32_t k = 0; k < 4; k++)
            four[k] = math::mul(four[k], factor(z, kept, {w.from + row, (uint32_t)i + k}));
        store_four(x + i, four);
      });
      if (threadIdx.x % 32) return;
      const uint64_t at = (uint64_t)w.i * z.t + w.from + row;
      z.m[at] = m;
      z.r[at] = r;
    });
    __syncthreads();
    const Matrix<const T> v = shared_matrix<const T>(z, z.v, w.i, 0);
    product<kOfColumns>(
        shared, column_tiles(z.e), w.size,
        [&](uint32_t t) { return Operands<N, const T>{p, v.from(0, t * kColumns), z.e - t * kColumns}; }, keys,
        nothing_hidden, sums, [&](uint32_t t, const auto& part, bool) {
          put(part, matrix<T>(z, z.y, w.i, w.from).from(0, t * kColumns), w.size, z.e - t * kColumns);
        });
  });
}

// dq, and dot = sum(dp*p) of each row. A block's scratch is p and ds, both [128 S].
template <class T, class N> DEV void grad_rows(const Attention<N>& z) {
  SHARED_DYNAMIC(memory);
  auto& shared = *reinterpret_cast<Shared<T>*>(memory);
  const Matrix<N> tiles[2] = {scratch_tile<T>(z, 2, 0, z.s), scratch_tile<T>(z, 2, 1, z.s)};
  const Matrix<N>&p = tiles[0], &ds = tiles[1];
  N* const sums = scratch_sums<T>(z, 2, z.s);
  each_row_tile<T>(z, z.t, true, [&](const RowTile& w) {
    const auto keys = [&](uint32_t, uint32_t row) { return keys_of(z, w, row); };
    const uint32_t begin = keys(0, 0).begin, visible = keys(0, w.size - 1).end;
    const uint64_t first = (uint64_t)w.i * z.t + w.from;
    const auto key = [=](uint32_t t) { return begin + t / 2 * kColumns; };
    const Matrix<const T> q = matrix<const T>(z, z.q, w.i, w.from), g = matrix<const T>(z, z.g, w.i, w.from),
                          k = shared_matrix<const T>(z, z.k, w.i, 0), v = shared_matrix<const T>(z, z.v, w.i, 0);
    product<kOfTerms>(  // a tile of p, then the same of dp
        shared, 2 * column_tiles(visible - begin), w.size,
        [&](uint32_t t) {
          return Operands<const T, const T>{choose(t % 2, q, g), choose(t % 2, k, v).from(key(t), 0).transposed(),
                                            visible - key(t)};
        },
        [&](uint32_t t, uint32_t) { return Terms{0, t % 2 ? z.e : z.d, false}; },
        [&](uint32_t t, uint32_t i) {
          return hidden(z, w.from + i, w.from + i + kGroup - 1, key(t), key(t) + kColumns - 1);
        },
        sums, [&](uint32_t t, auto part, bool active) {
          const auto at = [&](int i, int j) { return Score{w.from + part.row(i), key(t) + part.column(j)}; };
          if (active) {
            if (t % 2) {
              drop(z, w.i, part, at);
            } else {
              N m[part.kRows], r[part.kRows];
#pragma unroll
              for (int i = 0; i < part.kRows; i++) {
                const uint64_t at = first + minimum(part.row(i), w.size - 1);
                m[i] = z.m[at], r[i] = z.r[at];
              }
              part.each([&](int, int, N x) { return math::mul(x, z.scale); });
              add_mask<T>(z, w.i, part, at);
              part.each([&](int i, int, N x) { return probability(x, m[i], r[i]); });
            }
            hide(z, part, at, N(0));
          }
          put_scratch(part, choose(t % 2, p, ds).from(0, key(t)), visible - key(t));
        });
    fill_rest<T>(p, w.size, visible);
    fill_rest<T>(ds, w.size, visible);
    __syncthreads();
    RowsAhead<T, N, 2> ahead(z, shared, tiles, begin, visible, w.size);
    ahead.each_row(w, [&](uint32_t row, N* const (&own)[2]) {
      N* const to = &ds.at(row, 0);
      const N *const x = own[0], *const dx = own[1];
      const auto both = [=](uint64_t i) { return load_pairs(x + i, dx + i); };
      const auto product = [](uint64_t, const Four<Pair<N>>& both) {
        return each_of([](Pair<N> e) { return math::mul(e.y, e.x); }, both);
      };
      const N dot = keys_sum<N>(begin, visible, both, product, product);
      each_key(begin, visible, both, [&](uint64_t i, const Four<Pair<N>>& both, uint32_t) {
        Four<N> four = each_of(
            [&](Pair<N> e) { return math::mul(math::mul(e.x, math::sub(e.y, dot)), z.scale); }, both);
#pragma unroll
        for (uint32_t k = 0; k < 4; k++)
          if (!in_window(z, {w.from + row, (uint32_t)i + k})) four[k] = N(0);
        store_four(to + i, four);
      });
      if (threadIdx.x % 32 == 0) z.dot[first + row] = dot;
    });
    __syncthreads();
    product<kOfColumns>(
        shared, column_tiles(z.d), w.size,
        [&](uint32_t t) { return Operands<N, const T>{ds, k.from(0, t * kColumns), z.d - t * kColumns}; }, keys,
        nothing_hidden, sums, [&](uint32_t t, const auto& part, bool) {
          put(part, matrix<T>(z, z.dq, w.i, w.from).from(0, t * kColumns), w.size, z.d - t * kColumns);
        });
  });
}

// end_rows is the number of rows up to the last chunk of 256 for which the chunk of a key takes part.
template <class N> DEV uint32_t end_rows(const Attention<N>& z, uint32_t key) {
  const int32_t last = (int32_t)(key / kChunk * kChunk + kChunk - 1) - z.first;  // row that begins with that chunk
  return last < 0 ? 0 : minimum((uint32_t)last / kChunk * kChunk + kChunk, z.t);
}

// drop_columns changes p of the keys of a tile, for rows from `begin` to `end`.
template <class T, class N>
DEV void drop_columns(const Attention<N>& z, const Matrix<N>& p, const RowTile& w, uint32_t begin, uint32_t end) {
  if (!z.kept.data) return;
  const Matrix<const uint8_t> kept = matrix<const uint8_t>(z, z.kept, w.i, 0);
  share_rows<T>(w, [&](uint32_t j) {
#pragma unroll 1
    for (uint32_t i = begin + threadIdx.x % 32; i < end; i += 32)
      p.at(j, i) = math::mul(p.at(j, i), factor(z, kept, {i, w.from + j}));
  });
  __syncthreads();
}

// dk and dv. A block's scratch is (p * kept)ᵀ and dsᵀ, both [128 T].
template <class T, class N> DEV void grad_keys(const Attention<N>& z) {
  SHARED_DYNAMIC(memory);
  auto& shared = *reinterpret_cast<Shared<T>*>(memory);
  const Matrix<N> p = scratch_tile<T>(z, 2, 0, z.t), ds = p.from(tile_rows<T>(), 0);
  N* const sums = scratch_sums<T>(z, 2, z.t);
  each_row_tile<T>(z, z.s, false, [&](const RowTile& w) {
    const uint32_t end = end_rows(z, w.from);
    // From the first chunk on with a row that attends to key j of the tile, none if there is no such row.
    const auto rows = [&](uint32_t, uint32_t j) {
      const uint32_t hidden = hidden_rows(z, w.from + j), begin = hidden < z.t ? hidden - hidden % kChunk : end;
      return Terms{begin, end, begin > 0};
    };
    const uint32_t from = minimum(rows(0, 0).begin, end);
    const uint64_t first = (uint64_t)w.i * z.t;
    const auto row = [=](uint32_t t) { return from + t / 2 * kColumns; };
    const Matrix<const T> k = shared_matrix<const T>(z, z.k, w.i, w.from),
                          v = shared_matrix<const T>(z, z.v, w.i, w.from);
    // Of q or g, computed for each tile, which takes fewer registers.
    const auto of_queries = [&](int pass, uint32_t row) {
      return matrix<const T>(z, choose(pass, z.q, z.g), w.i, row);
    };
    product<kOfTerms>(  // a tile of p, then the same of ds
        shared, 2 * column_tiles(end - from), w.size,
        [&](uint32_t t) {
          return Operands<const T, const T>{choose(t % 2, k, v), of_queries(t % 2, row(t)).transposed(), end - row(t)};
        },
        [&](uint32_t t, uint32_t) { return Terms{0, t % 2 ? z.e : z.d, false}; },
        [&](uint32_t t, uint32_t j) {
          return hidden(z, row(t), row(t) + kColumns - 1, w.from + j, w.from + j + kGroup - 1);
        },
        sums, [&](uint32_t t, auto part, bool active) {
          constexpr int kOwn = decltype(part)::kColumns;
          const auto at = [&](int i, int j) { return Score{row(t) + part.column(j), w.from + part.row(i)}; };
          const auto of_rows = [&](const N* x, N (&own)[kOwn]) {
#pragma unroll
            for (int j = 0; j < kOwn; j++) own[j] = x[first + minimum(at(0, j).row, z.t - 1)];
          };
          if (active) {
            if (t % 2) {
              drop(z, w.i, part, at);
              if (is_float<T>()) __syncwarp();  // lest p be loaded before, which takes registers
              N dot[kOwn];
              of_rows(z.dot, dot);
#pragma unroll
              for (int i = 0; i < part.kRows; i++) {
                const auto own = from_scratch(Part<N, 1, kOwn>{{}, part.row(i), part.first_column}, p.from(0, row(t)),
                                              end - row(t));
#pragma unroll
                for (int j = 0; j < kOwn; j++)
                  part.x[i][j] = math::mul(math::mul(own.x[0][j], math::sub(part.x[i][j], dot[j])), z.scale);
              }
            } else {
              N m[kOwn], r[kOwn];
              of_rows(z.m, m), of_rows(z.r, r);
              part.each([&](int, int, N x) { return math::mul(x, z.scale); });
              add_mask<T>(z, w.i, part, at);
              part.each([&](int, int j, N x) { return probability(x, m[j], r[j]); });
            }
            hide(z, part, at, N(0));
          }
          put_scratch(part, p.from(t % 2 * tile_rows<T>(), row(t)), end - row(t));
        });
    __syncthreads();
    drop_columns<T>(z, p, w, from, end);
    const uint32_t of_v = column_tiles(z.e);
    const auto column = [=](uint32_t t) { return (t < of_v ? t : t - of_v) * kColumns; };
    product<kOfColumns>(  // dv, then dk
        shared, of_v + column_tiles(z.d), w.size,
        [&](uint32_t t) {
          const int pass = t >= of_v;
          return Operands<N, const T>{choose(pass, p, ds), of_queries(!pass, 0).from(0, column(t)),
                                      (pass ? z.d : z.e) - column(t)};
        },
        rows, nothing_hidden, sums, [&](uint32_t t, const auto& part, bool) {
          const int pass = t >= of_v;
          const Matrix<T> to = choose(pass, matrix<T>(z, z.dv, w.i, w.from), matrix<T>(z, z.dk, w.i, w.from));
          put(part, to.from(0, column(t)), w.size, (pass ? z.d : z.e) - column(t));
        });
  });
}

}  // namespace

#define ATTENTION_KERNEL(name, T, function) \
  ENTRY(name, threads<T>(), sizeof(T) == 4 ? 2 : 1, (Attention<ComputeType<T>> z), function<T>(z))
#define ATTENTION(suffix, T)                                            \
  ATTENTION_KERNEL(attention##suffix, T, forward)                       \
  ATTENTION_KERNEL(attention_grad_rows##suffix, T, grad_rows)           \
  ATTENTION_KERNEL(attention_grad_keys##suffix, T, grad_keys)

FLOATS(ATTENTION)
