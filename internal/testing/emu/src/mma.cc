// mma.sync.m16n8k16 with FP32 accumulation, in ascending k. A lane leaves its operands and runs on; products
// are computed at the warp's next rendezvous, which saves 32 switches for each. Until then their
// accumulators hold NaN: kernels call mma_done() before they read them.
#include <immintrin.h>  // before emu.h
#include "runtime.h"

namespace emu {

namespace {

constexpr u32 kPending = 0x7fc0dead;  // the NaN in an accumulator that awaits its products

using Row = float[16];

// row8 converts the 8 elements that lanes 4g to 4g+3 hold, two each, of a row of A or a column of B.
void row8(const Product* const* x, int g, u32 (*pick)(const Product&, int), int which, bool bfloat, float* to) {
  u32 words[4];
  for (int i = 0; i < 4; i++) words[i] = pick(*x[4 * g + i], which);
  eight(words, to, bfloat);
}

u32 of_a(const Product& p, int i) { return p.a[i]; }
u32 of_b(const Product& p, int i) { return p.b[i]; }

void execute(const Product* const* x) {
  for (int l = 1; l < 32; l++)
    if (x[l]->at.line != x[0]->at.line)
      fault(Fault::failure, "warp divergence in mma: lanes at %s:%d and at %s:%d", x[0]->at.file, x[0]->at.line,
            x[l]->at.file, x[l]->at.line);
  const bool bfloat = x[0]->bfloat;
  alignas(32) float a[16][16], columns[8][16], b[16][8], c[16][8];
  for (int g = 0; g < 8; g++) {
    for (int i = 0; i < 4; i++) row8(x, g, of_a, i, bfloat, &a[g + i % 2 * 8][i / 2 * 8]);
    for (int i = 0; i < 2; i++) row8(x, g, of_b, i, bfloat, &columns[g][8 * i]);
  }
  for (int k = 0; k < 16; k++)
    for (int j = 0; j < 8; j++) b[k][j] = columns[j][k];
  for (int l = 0; l < 32; l++) {
    memcpy(&c[l / 4][l % 4 * 2], x[l]->d, 8);
    memcpy(&c[l / 4 + 8][l % 4 * 2], x[l]->d + 2, 8);
  }
  for (int r = 0; r < 16; r++)
    for (int k = 0; k < 16; k++)
      for (int j = 0; j < 8; j++) c[r][j] = __builtin_fmaf(a[r][k], b[k][j], c[r][j]);
  for (int l = 0; l < 32; l++) {
    memcpy(x[l]->d, &c[l / 4][l % 4 * 2], 8);
    memcpy(x[l]->d + 2, &c[l / 4 + 8][l % 4 * 2], 8);
  }
}

}  // namespace

void eight(const void* from, float* to, bool bfloat) {
  const __m128i x = _mm_loadu_si128(static_cast<const __m128i*>(from));
  _mm256_storeu_ps(to,
                   bfloat ? _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16)) : _mm256_cvtph_ps(x));
}

void deliver_products(int number) {
  Fiber* lanes = &block->fibers[number * 32];
  const size_t n = lanes[0].products.size();
  if (!n) return;
  for (int l = 1; l < 32; l++)
    if (lanes[l].products.size() != n)
      fault(Fault::failure, "mma at %s:%d is not reached by all lanes of the warp", lanes[0].products[0].at.file,
            lanes[0].products[0].at.line);
  for (int l = 0; l < 32; l++)
    for (auto& p : lanes[l].products)
      if (p.first) memcpy(p.d, p.start, sizeof p.start);
  for (size_t i = 0; i < n; i++) {
    const Product* x[32];
    for (int l = 0; l < 32; l++) x[l] = &lanes[l].products[i];
    execute(x);
  }
  for (int l = 0; l < 32; l++) lanes[l].products.clear();
}

void mma_m16n8k16(float* d, const uint32_t* a, uint32_t b0, uint32_t b1, bool bfloat, Site at) {
  Product p{d, {a[0], a[1], a[2], a[3]}, {b0, b1}, {}, __float_as_uint(d[0]) != kPending, bfloat, at};
  if (p.first) {
    memcpy(p.start, d, sizeof p.start);
    for (int i = 0; i < 4; i++) memcpy(d + i, &kPending, 4);
  }
  block->current->products.push_back(p);
}

void mma_done(Site at) {
  collective(~0u, "mma", nullptr, at, [](void**, u32) {});
}

}  // namespace emu
