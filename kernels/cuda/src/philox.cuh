// philox.cuh: the random streams of package internal/philox, bit for bit.
#pragma once
#include "prim.cuh"

struct Words {
  uint32_t x[4];
};

// philox_block is block `counter` of a stream: Philox 4x32-10 (Salmon, Moraes, Dror and Shaw 2011).
DEV Words philox_block(uint64_t key, uint64_t counter, uint32_t stream) {
  uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = stream, c3 = 0;
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
#pragma unroll
  for (int round = 0; round < 10; round++) {
    const uint32_t high0 = __umulhi(c0, 0xd2511f53), low0 = c0 * 0xd2511f53;
    const uint32_t high1 = __umulhi(c2, 0xcd9e8d57), low1 = c2 * 0xcd9e8d57;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9e3779b9;
    k1 += 0xbb67ae85;
  }
  return {{c0, c1, c2, c3}};
}

// philox_uniform is a word as a number in [0, 1): its upper 24 bits.
DEV float philox_uniform(uint32_t word) { return __fmul_rn(__uint2float_rn(word >> 8), 0x1p-24f); }

// word_of is word j without an index at run time, which would put the words into local memory.
DEV uint32_t word_of(const Words& w, uint32_t j) {
  return j & 2 ? (j & 1 ? w.x[3] : w.x[2]) : (j & 1 ? w.x[1] : w.x[0]);
}
