// Accesses whose source location the kernel passes: vector loads and stores, atomics, traps.
#include "checker.h"

namespace emu {

void trap(Site at) { fault(Fault::failure, "trap at %s:%d", at.file, at.line); }

#ifdef EMU_CHECK
void load(void* value, const void* p, size_t bytes, Site at) {
  check_thread(*block->current, p, bytes, false, at);
  memcpy(value, p, bytes);
}

void store(void* p, const void* value, size_t bytes, Site at) {
  check_thread(*block->current, p, bytes, true, at);
  memcpy(p, value, bytes);
}
#endif

namespace {

void check_atomic(const void* p, size_t bytes, Site at, bool write = true) {
  if (!checked) return;
  const Fiber& me = *block->current;
  Access access{p, bytes, write, (int)me.number, me.clock, location_of(at)};
  access.atomic = true;
  check(access);
}

}  // namespace

void check_word(const uint32_t* p, bool write, Site at) { check_atomic(p, sizeof *p, at, write); }

uint32_t atomic_add(uint32_t* p, uint32_t value, Site at) {
  check_atomic(p, sizeof *p, at);
  return __atomic_fetch_add(p, value, __ATOMIC_SEQ_CST);
}

float atomic_add(float* p, float value, Site at) {
  check_atomic(p, sizeof *p, at);
  u32* word = reinterpret_cast<u32*>(p);
  u32 old = __atomic_load_n(word, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(word, &old, __float_as_uint(__uint_as_float(old) + value), false,
                                      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
  return __uint_as_float(old);
}

void atomic_min(uint64_t* p, uint64_t value, Site at) {
  check_atomic(p, sizeof *p, at);
  u64 old = __atomic_load_n(p, __ATOMIC_SEQ_CST);
  while (value < old && !__atomic_compare_exchange_n(p, &old, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
}

void atomic_store(uint32_t* p, uint32_t value, Site at) {
  check_atomic(p, sizeof *p, at);
  __atomic_store_n(p, value, __ATOMIC_SEQ_CST);
}

}  // namespace emu
