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

namespace {

// ---- products ------------------------------------------------------------------------------------------

// A block of 4 warps computes 128 x 64 elements at a time. A warp has a group of 32 rows, and its lanes are 4 x 8: a
// thread has 8 rows, 4 apart, of 8 columns. Operands pass through shared memory in steps of 16 k. There, lines of k are
// 4 elements longer, so that 16 bytes of 8 neighbouring lines lie in all 32 banks.
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
template <int ACROSS, int PITCH, int COUNT> struct LineCopy {
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
    const uint32_t at = shared_address(to + y * PITCH + x);
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

// A thread's column j.
template <Lines LINES> DEV uint32_t column(int j) {
  const uint32_t lane = threadIdx.x % 32;
  return LINES == kOfTerms ? lane % 8 + 8 * j : lane % 8 * 4 + j / 4 * 32 + j % 4;
}

// add_products adds those of a stage to the thread's chains: `left` steps of k, or kStep if they are fewer.
template <Lines LINES>
DEV void add_products(float (&chain)[8][8], const float* u_line, const float* v_lines, uint32_t left) {
  if (left >= kStep) {
#pragma unroll 2  // all would take too many registers
    for (int k = 0; k < kStep; k += 4) {
      Four<float> u[8];
#pragma unroll
      for (int i = 0; i < 8; i++) u[i] = load_four<float>(u_line + 4 * i * kPitch + k);
      if (LINES == kOfTerms) {
#pragma unroll
        for (int j = 0; j < 8; j++) {
          const Four<float> v = load_four<float>(v_lines + column<LINES>(j) * kPitch + k);
          unrolled<4, 8>([&](int s, int i) { chain[i][j] = fused(u[i][s], v[s], chain[i][j]); });
        }
      } else {
#pragma unroll
        for (int s = 0; s < 4; s++)
#pragma unroll
          for (int h = 0; h < 8; h += 4) {
            const Four<float> v = load_four<float>(v_lines + (k + s) * kColumns + column<LINES>(h));
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
        const uint32_t c = column<LINES>(j);
        const float v = v_lines[LINES == kOfTerms ? c * kPitch + k : k * kColumns + c];
#pragma unroll
        for (int i = 0; i < 8; i++) chain[i][j] = fused(u[i], v, chain[i][j]);
      }
    }
  }
}

// product computes C = factor A B [m n]. terms(i) are those of row i; they begin and end later in later rows, and end
// alike in a group. hidden(i, j) leaves out columns j to j+63 of the group whose first row is i: they are 0. `sums` has
// the thread's sums between chunks.
template <Lines LINES, class A, class B, class TermsOf, class Hidden>
DEV void product(Stages& shared, const Matrix<float>& to, const Matrix<A>& a, const Matrix<B>& b, uint32_t m,
                 uint32_t n, float factor, TermsOf terms, Hidden hidden, float* sums) {
  const uint32_t lane = threadIdx.x % 32, group = threadIdx.x / 32 * kGroup, row = group + lane / 8;
  const Terms own = terms(minimum(group, m - 1));
  const uint32_t begin = terms(0).begin, end = terms(m - 1).end;
  constexpr int kB = kRows * kPitch;
#pragma unroll 1
  for (uint32_t c = 0; c < n; c += kColumns) {
    LineCopy<kStep / 4, kPitch, kRows * kStep / 4 / kThreads> from_a(&a.at(0, begin), a.row, a.column);
    constexpr int kAcross = (LINES == kOfTerms ? kStep : kColumns) / 4;
    LineCopy<kAcross, LINES == kOfTerms ? kPitch : kColumns, kColumns * kStep / 4 / kThreads> from_b(
        &b.at(begin, c), LINES == kOfTerms ? b.column : b.row, LINES == kOfTerms ? b.row : b.column);
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
        if (LINES == kOfTerms) from_b.copy(shared[stage] + kB, n - c, end - ahead);
        else from_b.copy(shared[stage] + kB, end - ahead, n - c);
        from_b.p += kStep * b.row;
      }
      cp_async_commit();
      stage = stage == kStages - 1 ? 0 : stage + 1;  // the oldest one, too
      if (ahead < begin + (kStages - 1) * kStep) continue;
      const float *const u_line = shared[stage] + row * kPitch, *const v_lines = shared[stage] + kB;
      if (!active || k0 < own.begin || k0 >= own.end) continue;
      const uint32_t left = own.end - k0;
      add_products<LINES>(chain, u_line, v_lines, left);
      const bool last = left <= kStep;
      if ((!last && (k0 + kStep) % kChunk) || (LINES == kOfTerms && own.end <= kChunk)) continue;
      const uint32_t chunk = k0 / kChunk * kChunk;
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const Terms t = terms(minimum(row + 4 * i, m - 1));
#pragma unroll
        for (int j = 0; j < 8; j++) {
          float &sum = sums[(8 * i + j) * kThreads], &x = chain[i][j];
          x = chunk < t.begin ? 0.f : add(chunk > t.begin ? sum : t.later ? 0.f : -0.f, x);  // -0 changes no chain
          if (!last) sum = x, x = 0.f;
        }
      }
    }
    __syncthreads();
    float* const first = &to.at(row, c + column<LINES>(0));
    const auto put = [&](int i, int j) {
      first[4 * i * to.row + (column<LINES>(j) - column<LINES>(0)) * to.column] = math::mul(chain[i][j], factor);
    };
    if (group + kGroup <= m && c + kColumns <= n)
      unrolled<8, 8>(put);
    else
      unrolled<8, 8>([&](int i, int j) {
        if (row + 4 * i < m && c + column<LINES>(j) < n) put(i, j);
      });
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

// row_source is a source of a function of At.
template <class N, class F> DEV auto row_source(F f) { return Source<N, true, F>{f}; }

// Pair is an element of two rows.
template <class N> struct Pair { N x, y; };
template <class N> DEV auto pairs(const N* x, const N* y) {
  return row_source<Pair<N>>([=](At at) {
    const Four<N> a = load_four<N>(x + at.i), b = load_four<N>(y + at.i);
    return Four<Pair<N>>{{{a[0], b[0]}, {a[1], b[1]}, {a[2], b[2]}, {a[3], b[3]}}};
  });
}

// each_key calls use(i, x) for all fours of a source from `begin` to `end`, i being the first one's place.
template <class S, class Use> DEV void each_key(uint32_t begin, uint32_t end, const S& source, Use use) {
  each_batch(begin, end, source, [&](auto& x, At at) {
#pragma unroll
    for (uint32_t k = 0; k < sizeof x / sizeof x[0]; k++) use(at.i + k * kFoldPartials, x[k]);
  });
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
      N m = row_fold<Max, Warp<0>>(n, row_source<N>([&](At at) {
        const Four<N> four = load_four<N>(x + at.i);
        store_four(e + at.i, four);
        return four;
      }));
      const bool none = first == n || (limited && m == -infinity(N()));
      if (none) m = N(0);
      // Not row_fold, whose other way for short rows, to the same sum, takes registers.
      const N sum = fold_blocks<Sum, Warp<0>>(n, row_source<N>([&](At at) {
        const Four<N> four = each_of([&](N x) { return math::exp(math::sub(x, m)); }, load_four<N>(e + at.i));
        store_four(e + at.i, four);
        return four;
      }));
      const N r = none ? N(0) : math::div(N(1), sum);
      each_key(begin, n, row_source<N>([&](At at) { return load_four<N>(e + at.i); }),
               [&](uint32_t i, const Four<N>& e) {
                 const Four<N> y = each_of([=](N e) { return math::mul(e, r); }, e);
                 store_four(x + i, y);
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
      const N dot = fold_blocks<Sum, Warp<0>>(n, row_source<N>([&](At at) {
        const Four<N> dp = load_four<N>(dx + at.i);
        Four<N> four = load_four<N>(x + at.i);
        four = each_of([=](N s) { return math::mul(math::exp(math::sub(s, m)), r); }, four);
        store_four(x + at.i, four);
        four = each_of([](N dp, N p) { return math::mul(dp, p); }, dp, four);
#pragma unroll
        for (uint32_t k = 0; k < 4; k++)
          if (at.i + k < first) four[k] = N(0);
        return four;
      }));
      each_key(begin, n, pairs(x, dx), [&](uint32_t i, const Four<Pair<N>>& four) {
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
      each_key(from, end, pairs(x, dx), [&](uint32_t i, const Four<Pair<N>>& four) {
        Four<N> p = each_of([](Pair<N> e) { return e.x; }, four), dp = each_of([](Pair<N> e) { return e.y; }, four);
        const Four<N> ms = some_four(m, i, z.t), rs = some_four(r, i, z.t), dots = some_four(dot, i, z.t);
        p = each_of([](N s, N m, N r) { return math::mul(math::exp(math::sub(s, m)), r); }, p, ms, rs);
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
