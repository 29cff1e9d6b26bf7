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

// A thread's column j, from its first one on.
DEV uint32_t first_column() { return threadIdx.x % 8 * 4; }
DEV uint32_t column(int j) { return j / 4 * 32 + j % 4; }

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

// product computes C = factor A B [m n]. terms(i) are those of row i; they begin and end later in later rows, and end
// alike in a group. hidden(i, j) leaves out columns j to j+63 of the group whose first row is i: they are 0. `sums` has
// the thread's sums between chunks. If B's lines are of terms, C is scratch: whole groups are written, and whole fours.
template <Lines LINES, class A, class B, class TermsOf, class Hidden>
DEV void product(Stages& shared, const Matrix<float>& to, const Matrix<A>& a, const Matrix<B>& b, uint32_t m,
                 uint32_t n, float factor, TermsOf terms, Hidden hidden, float* sums) {
  const uint32_t lane = threadIdx.x % 32, group = threadIdx.x / 32 * kGroup, row = group + lane / 8;
  const Terms own = terms(minimum(group, m - 1));
  const uint32_t begin = terms(0).begin, end = terms(m - 1).end;
  const uint32_t first_v = kRows * kPitch + (LINES == kOfTerms ? threadIdx.x % 8 * kPitch : first_column());
#pragma unroll 1
  for (uint32_t c = 0; c < n; c += kColumns) {
    LineCopy<kStep / 4, kPitch, kRows * kStep / 4 / kThreads, false> from_a(&a.at(0, begin), a.row, a.column);
    constexpr bool kTerms = LINES == kOfTerms;
    constexpr int kAcross = (kTerms ? kStep : kColumns) / 4, kPitchB = kTerms ? kPitch : kColumns;
    LineCopy<kAcross, kPitchB, kColumns * kStep / 4 / kThreads, kTerms> from_b(
        &b.at(begin, c), kTerms ? b.column : b.row, kTerms ? b.row : b.column);
    float chain[8][8];
    unrolled<8, 8>([&](int i, int j) { chain[i][j] = 0.f; });
    const bool active = group < m && !hidden(group, c);
    int stage = 0;
#pragma unroll 1
    for (uint32_t ahead = begin; ahead < end + (kStages - 1) * kStep; ahead += kStep) {
      const uint32_t k0 = ahead - (kStages - 1) * kStep;
      if (ahead >= begin + (kStages - 1) * kStep) {
        cp_async_wait<kStages - 2>();
        __syncthreads();
      }
      if (ahead < end) {
        from_a.copy(shared[stage], m, end - ahead);
        from_a.p += kStep * a.column;
        float* const to_b = shared[stage] + kRows * kPitch;
        if (kTerms) from_b.copy(to_b, n - c, end - ahead);
        else from_b.copy(to_b, end - ahead, n - c);
        from_b.p += kStep * b.row;
      }
      cp_async_commit();
      stage = stage == kStages - 1 ? 0 : stage + 1;  // the oldest one, too
      if (ahead < begin + (kStages - 1) * kStep) continue;
      if (!active || k0 < own.begin || k0 >= own.end) continue;
      const uint32_t left = own.end - k0;
      add_products<LINES>(chain, shared[stage] + row * kPitch, shared[stage] + first_v, left);
      const bool last = left <= kStep;
      if ((!last && (k0 + kStep) % kChunk) || (kTerms && own.end <= kChunk)) continue;
      const uint32_t chunk = k0 / kChunk * kChunk;
      const auto sum = [&](int i, int j) -> float& { return sums[(8 * i + j) * kThreads]; };
      if (chunk > own.begin) unrolled<8, 8>([&](int i, int j) { chain[i][j] = add(sum(i, j), chain[i][j]); });
      else if (own.later) unrolled<8, 8>([&](int i, int j) { chain[i][j] = add(0.f, chain[i][j]); });
      if (chunk < terms(minimum(group + kGroup, m) - 1).begin)
#pragma unroll
        for (int i = 0; i < 8; i++)
          if (chunk < terms(minimum(row + 4 * i, m - 1)).begin)
#pragma unroll
            for (int j = 0; j < 8; j++) chain[i][j] = 0.f;
      if (!last) unrolled<8, 8>([&](int i, int j) { sum(i, j) = chain[i][j], chain[i][j] = 0.f; });
    }
    __syncthreads();
    const uint32_t x = c + first_column();
    float* const first = &to.at(row, x);
    if (kTerms) {
#pragma unroll
      for (int h = 0; h < 8; h += 4)
        if (group < m && x + column(h) < n)
#pragma unroll
          for (int i = 0; i < 8; i++) {
            const float(&four)[8] = chain[i];
            store_four(first + (4 * i * to.row + column(h)),
                       each_of([=](float x) { return math::mul(x, factor); },
                               Four<float>{four[h], four[h + 1], four[h + 2], four[h + 3]}));
          }
    } else {
      const auto put = [&](int i, int j) {
        first[4 * i * to.row + column(j) * to.column] = math::mul(chain[i][j], factor);
      };
      if (group + kGroup <= m && c + kColumns <= n)
        unrolled<8, 8>(put);
      else
        unrolled<8, 8>([&](int i, int j) {
          if (row + 4 * i < m && x + column(j) < n) put(i, j);
        });
    }
  }
}
template <Lines LINES, class N, class A, class B, class C, class TermsOf, class Hidden>
DEV void product(SharedTiles<N>& tiles, const Matrix<C>& to, const Matrix<A>& a, const Matrix<B>& b, uint32_t m,
                 uint32_t n, N factor, TermsOf terms, Hidden, N*) {
  for (uint32_t c = 0; c < n; c += kSmallTile)
    tile_product(tiles, a, b.from(0, c), m, n - c, terms(0).end, [&](uint32_t i) { return terms(i).begin; },
                 [&](uint32_t i, uint32_t j, N v) { to.at(i, c + j) = to_element<C>(math::mul(v, factor)); });
}

// ---- rows ----------------------------------------------------------------------------------------------

// RowTile is the work of a block: `size` rows or keys from `from` on, of matrix i.
struct RowTile {
  uint32_t i, from, size;
};

// each_row_tile calls work(tile) for the tiles of this block, of n rows or keys, the longest work first: the last rows
// and the first keys of causal attention.
template <class T, class N, class Work>
DEV void each_row_tile(const Attention<N>& z, uint32_t n, bool last_first, Work work) {
  constexpr uint32_t kTile = tile_rows<T>();
  const uint32_t row_tiles = (n + kTile - 1) / kTile;
  const uint32_t count = (uint32_t)z.count;
  uint32_t tile = blockIdx.x / count, i = blockIdx.x % count;
#pragma unroll 1
  while (tile < row_tiles) {
    const uint32_t number = last_first ? row_tiles - 1 - tile : tile;
    work(RowTile{i, number * kTile, minimum(kTile, n - number * kTile)});
    tile += gridDim.x / count;
    i += gridDim.x % count;
    if (i >= count) {
      i -= count;
      tile++;
    }
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

// each_row shares the rows of a tile out to warps.
template <class T, class Work> DEV void each_row(const RowTile& w, Work work) {
#pragma unroll 1
  for (uint32_t row = threadIdx.x / 32; row < w.size; row += threads<T>() / 32) work(row);
}

// own_row has numbers of the row x that a warp works on: in shared memory, if they are few enough, or in place of x.
template <class T, class N> DEV N* own_row(Shared<T>& shared, N* x, uint32_t n) {
  constexpr uint32_t kSize = sizeof(Shared<T>) / sizeof(N) / (threads<T>() / 32) / 4 * 4;
  return n <= kSize ? reinterpret_cast<N*>(&shared) + threadIdx.x / 32 * kSize : x;
}

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

// keys_sum is the sum of four(i, load(i)) over a row of n elements, in canonical order. Longer rows than a block of it
// are added up once more, by again(i, load(i)).
template <class N, class Load, class Use, class Again> DEV N keys_sum(uint32_t n, Load load, Use four, Again again) {
  Partials<Sum, N> partials;
  each_key(0, n, load, [&](uint64_t i, const auto& x, uint32_t count) { partials.take(four(i, x), count); });
  if (n <= kFoldBlock) return partials.all();
  const auto source = [&](At at) { return again(at.i, load(at.i)); };
  return fold_blocks<Sum, Warp<0>>(n, Source<N, true, decltype(source)>{source});
}

// Range are the keys of a row, or rows of a key, that attend to each other.
struct Range {
  uint32_t first, end;
  DEV_METHOD bool has(uint32_t i) const { return i >= first && i < end; }
};

// fill sets those elements of a row that are in a range.
template <class N> DEV void fill(N* x, Range range, N value) {
#pragma unroll 1
  for (uint32_t i = range.first / kFoldPartials * kFoldPartials + own_index(); i < range.end; i += kFoldPartials)
#pragma unroll
    for (uint32_t k = 0; k < 4; k++)
      if (range.has(i + k)) x[i + k] = value;
}

// fill_rest sets what follows the end of a row to 0, which accesses of four elements read.
template <class N> DEV void fill_rest(N* x, uint32_t end) { fill(x, Range{end, pitch(end)}, N(0)); }

// some_four is load_four without alignment, of the elements before `end`.
template <class N> DEV Four<N> some_four(const N* x, uint32_t i, uint32_t end) {
  Four<N> y{};
  if (i + 4 <= end) {
    y = {x[i], x[i + 1], x[i + 2], x[i + 3]};
  } else {
#pragma unroll
    for (uint32_t k = 0; k < 4; k++)
      if (i + k < end) y[k] = x[i + k];
  }
  return y;
}

// first_key is the first key that row i attends to, or n if that is less; first_chunk is where its chunk begins.
template <class N> DEV uint32_t first_key(const Attention<N>& z, uint32_t i, uint32_t n) {
  const int32_t key = (int32_t)i + z.first;
  return key < 0 ? 0 : minimum((uint32_t)key, n);
}
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

// Extras are mask and dropout of matrix i from row `row` on. They change those elements of a row of scores, or of
// probabilities or their gradients, that are in a range: of row `line`, or, transposed, of key `line`.
template <class T, class N, bool TRANSPOSED> struct Extras {
  const Attention<N>& z;
  uint32_t i, row;

  template <class E, class F> DEV_METHOD void each(const Heads& h, N* x, uint32_t line, Range range, F f) const {
    if (!h.data) return;
    const Matrix<const E> all = matrix<const E>(z, h, i, row), by = TRANSPOSED ? all.transposed() : all;
#pragma unroll 1
    for (uint32_t at = range.first / kFoldPartials * kFoldPartials + own_index(); at < range.end; at += kFoldPartials) {
      if (at + 3 < range.first || range.first >= range.end) continue;
      Four<N> four = load_four<N>(x + at);
#pragma unroll
      for (uint32_t k = 0; k < 4; k++)
        if (range.has(at + k)) four[k] = f(four[k], by.at(line, at + k));
      store_four(x + at, four);
    }
  }
  DEV_METHOD void masked(N* x, uint32_t line, Range range) const {
    each<T>(z.mask, x, line, range, [](N score, T mask) { return math::add(score, to_compute<N>(mask)); });
  }
  DEV_METHOD void dropped(N* x, uint32_t line, Range range) const {
    each<uint8_t>(z.kept, x, line, range,
                  [this](N p, uint8_t kept) { return math::mul(p, kept ? N(z.factor) : N(0)); });
  }
};

// hidden tells whether no row from r0 to r1 attends to a key from k0 to k1.
template <class N> DEV bool hidden(const Attention<N>& z, uint32_t r0, uint32_t r1, uint32_t k0, uint32_t k1) {
  return k0 > r1 + z.last || (int32_t)k1 < (int32_t)r0 + z.first;
}

// Keys are those that take part in y and dq of a group of rows.
template <class N> DEV Terms keys_of(const Attention<N>& z, const RowTile& w, uint32_t row) {
  const uint32_t group = row / kGroup * kGroup, n = visible_keys(z, w.from + minimum(group + kGroup, w.size) - 1);
  return {first_chunk(z, w.from + group, n), n, false};
}

// scores computes factor times the products of rows of a tile with keys or values b, from `begin` to `end`.
template <class T, class N>
DEV void scores(const Attention<N>& z, Shared<T>& shared, const Matrix<N>& to, const RowTile& w,
                const Matrix<const T>& a, const Matrix<const T>& b, uint32_t width, uint32_t begin, uint32_t end,
                N factor, N* sums) {
  product<kOfTerms>(
      shared, to.from(0, begin), a, b.from(begin, 0).transposed(), w.size, end - begin, factor,
      [&](uint32_t) { return Terms{0, width, false}; },
      [&](uint32_t i, uint32_t c) {
        const uint32_t row = w.from + i, key = begin + c;
        return hidden(z, row, row + kGroup - 1, key, key + kColumns - 1);
      },
      sums);
}

// choose is the operand of a pass.
template <class T> DEV Matrix<T> choose(int pass, const Matrix<T>& first, const Matrix<T>& second) {
  return {pass ? second.data : first.data, pass ? second.row : first.row, pass ? second.column : first.column};
}

DEV bool nothing_hidden(uint32_t, uint32_t) { return false; }

// y, m and r. A block's scratch is p [128 S].
template <class T, class N> DEV void forward(const Attention<N>& z) {
  SHARED(Shared<T>, shared, );
  const Matrix<N> p = scratch_tile<T>(z, 1, 0, z.s);
  N* const sums = scratch_sums<T>(z, 1, z.s);
  const bool limited = z.mask.data || z.first > -(int32_t)z.t;
  each_row_tile<T>(z, z.t, true, [&](const RowTile& w) {
    const auto keys = [&](uint32_t row) { return keys_of(z, w, row); };
    const uint32_t begin = keys(0).begin, visible = keys(w.size - 1).end;
    scores<T>(z, shared, p, w, matrix<const T>(z, z.q, w.i, w.from), shared_matrix<const T>(z, z.k, w.i, 0), z.d, begin,
              visible, z.scale, sums);
    __syncthreads();
    const Extras<T, N, false> extras{z, w.i, w.from};
    each_row<T>(w, [&](uint32_t row) {
      const uint32_t n = visible_keys(z, w.from + row), first = first_key(z, w.from + row, n);
      const Range range{first, n};
      N *const x = &p.at(row, 0), *const e = own_row<T>(shared, x, n);
      fill_rest(x, visible);
      extras.masked(x, row, range);
      fill(x, Range{0, first}, -infinity(N()));
      const auto score = [=](uint64_t i) { return load_four<N>(x + i); };
      const auto own = [=](uint64_t i) { return load_four<N>(e + i); };
      Partials<Max, N> most;
      each_key(0, n, score, [&](uint64_t i, const Four<N>& four, uint32_t count) {
        store_four(e + i, four);
        most.take(four, count);
      });
      N m = most.all();
      const bool none = first == n || (limited && m == -infinity(N()));
      if (none) m = N(0);
      const N sum = keys_sum<N>(n, own, [=](uint64_t i, Four<N> four) {
        four = each_of([=](N x) { return exp_below(math::sub(x, m)); }, four);
        store_four(e + i, four);
        return four;
      }, [](uint64_t, const Four<N>& four) { return four; });
      // 0, or NaN where m is not finite.
      const N r = none ? N(0) : math::div(N(1), math::add(sum, math::sub(m, m)));
      each_key(begin, n, own, [=](uint64_t i, const Four<N>& four, uint32_t) {
        store_four(x + i, each_of([=](N e) { return math::mul(e, r); }, four));
      });
      fill(x, Range{begin, first}, N(0));
      fill(x, Range{n, visible}, N(0));
      extras.dropped(x, row, range);
      if (threadIdx.x % 32) return;
      const uint64_t at = (uint64_t)w.i * z.t + w.from + row;
      z.m[at] = m;
      z.r[at] = r;
    });
    __syncthreads();
    product<kOfColumns>(shared, matrix<T>(z, z.y, w.i, w.from), p, shared_matrix<const T>(z, z.v, w.i, 0), w.size, z.e,
                        N(1), keys, nothing_hidden, sums);
  });
}

// dq, and dot = sum(dp*p) of each row. A block's scratch is p and ds, both [128 S].
template <class T, class N> DEV void grad_rows(const Attention<N>& z) {
  SHARED(Shared<T>, shared, );
  const Matrix<N> p = scratch_tile<T>(z, 2, 0, z.s), ds = scratch_tile<T>(z, 2, 1, z.s);
  N* const sums = scratch_sums<T>(z, 2, z.s);
  each_row_tile<T>(z, z.t, true, [&](const RowTile& w) {
    const auto keys = [&](uint32_t row) { return keys_of(z, w, row); };
    const uint32_t begin = keys(0).begin, visible = keys(w.size - 1).end;
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {  // s, then dp
      const auto q = matrix<const T>(z, z.q, w.i, w.from), g = matrix<const T>(z, z.g, w.i, w.from);
      const auto k = shared_matrix<const T>(z, z.k, w.i, 0), v = shared_matrix<const T>(z, z.v, w.i, 0);
      scores<T>(z, shared, choose(pass, p, ds), w, choose(pass, q, g), choose(pass, k, v), pass ? z.e : z.d, begin,
                visible, pass ? N(1) : z.scale, sums);
    }
    __syncthreads();
    const Extras<T, N, false> extras{z, w.i, w.from};
    each_row<T>(w, [&](uint32_t row) {
      const uint64_t at = (uint64_t)w.i * z.t + w.from + row;
      const uint32_t n = visible_keys(z, w.from + row), first = first_key(z, w.from + row, n);
      const Range range{first, n};
      N *const x = &p.at(row, 0), *const dx = &ds.at(row, 0);
      const N m = z.m[at], r = z.r[at];
      fill(x, Range{0, begin}, N(0));
      fill(dx, Range{0, begin}, N(0));
      fill_rest(x, visible);
      fill_rest(dx, visible);
      extras.masked(x, row, range);
      extras.dropped(dx, row, range);
      const auto both = [=](uint64_t i) { return load_pairs(x + i, dx + i); };
      const auto product = [=](uint64_t i, const Four<Pair<N>>& both) {
        Four<N> four = each_of([](Pair<N> e) { return math::mul(e.y, e.x); }, both);
#pragma unroll
        for (uint32_t k = 0; k < 4; k++)
          if (i + k < first) four[k] = N(0);
        return four;
      };
      const N dot = keys_sum<N>(n, both, [=](uint64_t i, Four<Pair<N>> four) {
#pragma unroll
        for (int k = 0; k < 4; k++) four[k].x = math::mul(exp_below(math::sub(four[k].x, m)), r);
        store_four(x + i, each_of([](Pair<N> e) { return e.x; }, four));
        return product(i, four);
      }, product);
      each_key(begin, n, both, [&](uint64_t i, const Four<Pair<N>>& four, uint32_t) {
        store_four(dx + i, each_of(
            [&](Pair<N> e) { return math::mul(math::mul(e.x, math::sub(e.y, dot)), z.scale); }, four));
      });
      fill(dx, Range{begin, first}, N(0));
      fill(dx, Range{n, visible}, N(0));
      if (threadIdx.x % 32 == 0) z.dot[at] = dot;
    });
    __syncthreads();
    product<kOfColumns>(shared, matrix<T>(z, z.dq, w.i, w.from), ds, shared_matrix<const T>(z, z.k, w.i, 0), w.size,
                        z.d, N(1), keys, nothing_hidden, sums);
  });
}

// end_rows is the number of rows up to the last chunk of 256 for which the chunk of a key takes part.
template <class N> DEV uint32_t end_rows(const Attention<N>& z, uint32_t key) {
  const int32_t last = (int32_t)(key / kChunk * kChunk + kChunk - 1) - z.first;  // row that begins with that chunk
  return last < 0 ? 0 : minimum((uint32_t)last / kChunk * kChunk + kChunk, z.t);
}

// dk and dv. A block's scratch is (p * kept)ᵀ and dsᵀ, both [128 T].
template <class T, class N> DEV void grad_keys(const Attention<N>& z) {
  SHARED(Shared<T>, shared, );
  const Matrix<N> p = scratch_tile<T>(z, 2, 0, z.t), ds = scratch_tile<T>(z, 2, 1, z.t);
  N* const sums = scratch_sums<T>(z, 2, z.t);
  each_row_tile<T>(z, z.s, false, [&](const RowTile& w) {
    const uint32_t end = end_rows(z, w.from);
    // From the first chunk on with a row that attends to key j of the tile.
    const auto rows = [&](uint32_t j) {
      const uint32_t hidden = hidden_rows(z, w.from + j), begin = hidden - hidden % kChunk;
      return Terms{begin, end, begin > 0};
    };
    const uint32_t from = minimum(rows(0).begin, end);
    const Matrix<const T> q = matrix<const T>(z, z.q, w.i, 0), g = matrix<const T>(z, z.g, w.i, 0);
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {  // s, then dp
      const uint32_t width = pass ? z.e : z.d;
      const auto k = shared_matrix<const T>(z, z.k, w.i, w.from), v = shared_matrix<const T>(z, z.v, w.i, w.from);
      product<kOfTerms>(
          shared, choose(pass, p, ds).from(0, from), choose(pass, k, v),
          choose(pass, q, g).from(from, 0).transposed(), w.size, end - from, pass ? N(1) : z.scale,
          [&](uint32_t) { return Terms{0, width, false}; },
          [&](uint32_t j, uint32_t c) {
            const uint32_t row = from + c, key = w.from + j;
            return hidden(z, row, row + kColumns - 1, key, key + kGroup - 1);
          },
          sums);
    }
    __syncthreads();
    const Extras<T, N, true> extras{z, w.i, 0};
    const N *const m = z.m + (uint64_t)w.i * z.t, *const r = z.r + (uint64_t)w.i * z.t,
            *const dot = z.dot + (uint64_t)w.i * z.t;
    each_row<T>(w, [&](uint32_t j) {
      const uint32_t key = w.from + j, first = minimum(hidden_rows(z, key), z.t);
      const int32_t last = (int32_t)key - z.first;  // row that attends to it
      const Range range{first, last < (int32_t)first ? first : minimum((uint32_t)last + 1, z.t)};
      N *const x = &p.at(j, 0), *const dx = &ds.at(j, 0);
      fill_rest(x, end);
      fill_rest(dx, end);
      extras.masked(x, key, range);
      extras.dropped(dx, key, range);
      const auto both = [=](uint64_t i) { return load_pairs(x + i, dx + i); };
      each_key(from, end, both, [&](uint64_t i, const Four<Pair<N>>& four, uint32_t) {
        Four<N> p = each_of([](Pair<N> e) { return e.x; }, four), dp = each_of([](Pair<N> e) { return e.y; }, four);
        const Four<N> ms = some_four(m, i, z.t), rs = some_four(r, i, z.t), dots = some_four(dot, i, z.t);
        p = each_of([](N s, N m, N r) { return math::mul(exp_below(math::sub(s, m)), r); }, p, ms, rs);
        dp = each_of([&](N p, N dp, N dot) { return math::mul(math::mul(p, math::sub(dp, dot)), z.scale); }, p, dp,
                     dots);
        store_four(x + i, p);
        store_four(dx + i, dp);
      });
      extras.dropped(x, key, range);
      fill(x, Range{from, range.first}, N(0));
      fill(x, Range{range.end, end}, N(0));
      fill(dx, Range{from, range.first}, N(0));
      fill(dx, Range{range.end, end}, N(0));
    });
    __syncthreads();
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
      const Matrix<T> to = choose(pass, matrix<T>(z, z.dv, w.i, w.from), matrix<T>(z, z.dk, w.i, w.from));
      product<kOfColumns>(shared, to, choose(pass, p, ds), choose(pass, g, q), w.size, pass ? z.d : z.e, N(1), rows,
                          nothing_hidden, sums);
    }
  });
}

}  // namespace

#define ATTENTION(suffix, T)                                                                          \
  ENTRY(attention##suffix, threads<T>(), sizeof(T) == 4 ? 2 : 1, (Attention<ComputeType<T>> z), forward<T>(z)) \
  ENTRY(attention_grad_rows##suffix, threads<T>(), sizeof(T) == 4 ? 2 : 1, (Attention<ComputeType<T>> z),     \
        grad_rows<T>(z))                                                                              \
  ENTRY(attention_grad_keys##suffix, threads<T>(), sizeof(T) == 4 ? 2 : 1, (Attention<ComputeType<T>> z),     \
        grad_keys<T>(z))

FLOATS(ATTENTION)
