// prim_turns.cuh: primitives of blocks that wait for blocks, which breaks rule 5 of prim.cuh by a stricter one: a block
// waits only for blocks that have begun. They take their work in the order in which they begin, by take_ticket.
#pragma once
#include "prim.cuh"

#ifdef ON_DEVICE

// take_ticket adds 1 to a word and returns what was there.
DEV uint32_t take_ticket(uint32_t* p) { return atomicAdd(p, 1u); }

// wait_acquire returns when a word has a value. The thread then sees all that the one saw that stored it by
// store_release, and so what that one's block wrote before a __syncthreads().
DEV void wait_acquire(const uint32_t* p, uint32_t value) {
  uint32_t x;
  do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
  while (x != value);
}
DEV void store_release(uint32_t* p, uint32_t value) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(value) : "memory");
}

#else

DEV uint32_t take_ticket(uint32_t* p, EMU_AT) { return emu::atomic_add(p, 1u, at); }
DEV void wait_acquire(const uint32_t* p, uint32_t value, EMU_AT) { emu::wait_acquire(p, value, at); }
DEV void store_release(uint32_t* p, uint32_t value, EMU_AT) { emu::store_release(p, value, at); }

#endif
