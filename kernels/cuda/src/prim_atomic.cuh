// prim_atomic.cuh: primitives for words that several threads write at once.
#pragma once
#include "prim.cuh"

#ifdef ON_DEVICE

// atomic_min lowers a word to a value.
DEV void atomic_min(uint64_t* p, uint64_t value) { atomicMin(p, value); }
// atomic_add adds to a word.
DEV void atomic_add(uint32_t* p, uint32_t value) { atomicAdd(p, value); }
// signal writes a word that the host may read while the kernel runs.
DEV void signal(uint32_t* p, uint32_t value) { *static_cast<volatile uint32_t*>(p) = value; }

#else

DEV void atomic_min(uint64_t* p, uint64_t value, EMU_AT) { emu::atomic_min(p, value, at); }
DEV void atomic_add(uint32_t* p, uint32_t value, EMU_AT) { emu::atomic_add(p, value, at); }
DEV void signal(uint32_t* p, uint32_t value, EMU_AT) { emu::atomic_store(p, value, at); }

#endif
