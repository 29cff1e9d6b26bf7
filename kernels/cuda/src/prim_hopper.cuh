// prim_hopper.cuh: the primitives of compute capability 9.0a: mbarrier and wgmma. Rules for kernels that use them,
// after those of prim.cuh:
//
//  7. wgmma_pin(d) comes before wgmma_fence() where ordinary code wrote the accumulators d, and after the wait for
//     them before it reads them; wgmma_pin(a) comes before wgmma_fence() for operands in registers, lest the compiler
//     computes them between products. Undefined accumulators make ptxas before 12.9 serialise every wgmma: they are set
//     to zero, once before the loop over tiles, or before each first product whose `accumulate` is the constant 0. The
//     latter costs nothing, and registers are free in between. It also serialises if a product whose result is read
//     is under way from one turn of a loop to the next.
//  8. Shared memory that ordinary stores or cp.async wrote is read by wgmma after fence_proxy_async() of the writers,
//     of copies behind their wait, and a barrier.
//  9. Descriptors and addresses of barriers go through uniform(), lest each lane computes them.
// 10. setmaxnreg is what each branch of one `if` does first, by whole warpgroups, in a kernel with launch bounds.
//
// A build that defines WEFT_BARRIER_LIMIT, in nanoseconds, ends a kernel that waits at an mbarrier for longer. It says
// which block, barrier and phase: a kernel that hangs says nothing.
#pragma once
#include "prim.cuh"

#ifdef ON_DEVICE

// uniform tells the compiler that a value is the same in all lanes.
DEV uint32_t uniform(uint32_t x) { return shuffle(x, 0); }

// in_register has the compiler keep a value, rather than compute it anew wherever it is used.
DEV uint32_t in_register(uint32_t x) {
  asm volatile("" : "+r"(x));
  return x;
}

// ---- barriers ----------------------------------------------------------------------------------------

DEV void mbarrier_init(uint32_t barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
DEV void mbarrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// mbarrier_try waits for a time that the GPU chooses and tells whether the phase has ended.
DEV bool mbarrier_try(uint32_t barrier, unsigned parity) {
  uint32_t ended;
  asm volatile(
      "{ .reg .pred p;\n"
      "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p; }" : "=r"(ended) : "r"(barrier), "r"(parity) : "memory");
  return ended;
}
#ifdef WEFT_BARRIER_LIMIT
DEV uint64_t nanoseconds() {
  uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
// The driver prints what assert() would, with block and thread, and in place of a line the address of the barrier.
extern "C" void __assertfail(const char* message, const char* file, unsigned line, const char* function, size_t bytes);
DEV void mbarrier_wait(uint32_t barrier, unsigned parity) {
  const uint64_t start = nanoseconds();
  while (!mbarrier_try(barrier, parity))
    if (nanoseconds() - start > WEFT_BARRIER_LIMIT)
      __assertfail(parity ? "the phase with parity 1 ends in time" : "the phase with parity 0 ends in time",
                   "mbarrier at shared address", barrier, "mbarrier_wait", 1);
}
#else
// mbarrier_wait waits for the end of the phase with the given parity; the first phase has parity 0.
DEV void mbarrier_wait(uint32_t barrier, unsigned parity) {
  while (!mbarrier_try(barrier, parity)) {
  }
}
#endif
DEV void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// bar_sync waits for `threads` threads at barrier 1 to 15; __syncthreads is barrier 0.
DEV void bar_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
DEV void bar_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// stmatrix stores four 8x8 matrices of 16-bit elements; lane 8i+j gives the address of row j of matrix i.
DEV void stmatrix(uint32_t address, const uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(r[0]), "r"(r[1]),
               "r"(r[2]), "r"(r[3])
               : "memory");
}

// ---- warpgroups --------------------------------------------------------------------------------------

DEV void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
DEV void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// wgmma_pin orders the registers of accumulators, which "memory" does not name, with what stands around it.
template <int N> DEV void wgmma_pin(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}
DEV void wgmma_pin(uint32_t& x) { asm volatile("" : "+r"(x)::"memory"); }
template <int N> DEV void wgmma_pin(uint32_t (&a)[N][4]) {
#pragma unroll
  for (int i = 0; i < N; i++)
    asm volatile("" : "+r"(a[i][0]), "+r"(a[i][1]), "+r"(a[i][2]), "+r"(a[i][3])::"memory");
}

// setmaxnreg_inc waits until the warpgroup has so many registers a thread, setmaxnreg_dec gives others back.
template <int REGISTERS> DEV void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS> DEV void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

#else

DEV uint32_t uniform(uint32_t x, EMU_AT) { return shuffle(x, 0, at); }
DEV uint32_t in_register(uint32_t x) { return x; }
DEV void mbarrier_init(uint32_t barrier, unsigned count, EMU_AT) { emu::mbarrier_init(barrier, count, at); }
DEV void mbarrier_arrive(uint32_t barrier, EMU_AT) { emu::mbarrier_arrive(barrier, at); }
#ifdef WEFT_BARRIER_LIMIT
DEV void mbarrier_wait(uint32_t barrier, unsigned parity, EMU_AT) {
  const uint64_t start = emu::nanoseconds();
  while (!emu::mbarrier_try(barrier, parity, at))
    if (emu::nanoseconds() - start > WEFT_BARRIER_LIMIT) emu::mbarrier_overdue(barrier, parity, at);
}
#else
DEV void mbarrier_wait(uint32_t barrier, unsigned parity, EMU_AT) { emu::mbarrier_wait(barrier, parity, at); }
#endif
DEV void bar_sync(int barrier, int threads, EMU_AT) { emu::bar_sync(barrier, threads, at); }
DEV void bar_arrive(int barrier, int threads, EMU_AT) { emu::bar_arrive(barrier, threads, at); }
DEV void fence_proxy_async() { emu::fence_proxy_async(); }
DEV void stmatrix(uint32_t address, const uint32_t (&r)[4], EMU_AT) { emu::stmatrix(address, r, 4, at); }
template <int REGISTERS> DEV void setmaxnreg_inc(EMU_AT) { emu::setmaxnreg(REGISTERS, true, at); }
template <int REGISTERS> DEV void setmaxnreg_dec(EMU_AT) { emu::setmaxnreg(REGISTERS, false, at); }
DEV void wgmma_fence(EMU_AT) { emu::wgmma_fence(at); }
DEV void wgmma_commit(EMU_AT) { emu::wgmma_commit(at); }
template <int PENDING> DEV void wgmma_wait(EMU_AT) { emu::wgmma_wait(PENDING, at); }
template <int N> DEV void wgmma_pin(float (&)[N]) {}
DEV void wgmma_pin(uint32_t&) {}
template <int N> DEV void wgmma_pin(uint32_t (&)[N][4]) {}

#endif

#include "prim_wgmma.cuh"

// arrive_copied commits what the lanes of a warp have begun to copy by cp.async, and arrives for it when wgmma can read
// all groups but the last PENDING.
template <int PENDING = 0> DEV void arrive_copied(uint32_t barrier) {
  cp_async_commit();
  cp_async_wait<PENDING>();
  fence_proxy_async();
  __syncwarp();
  if (threadIdx.x % 32 == 0) mbarrier_arrive(barrier);
}

// ---- 128-byte swizzle --------------------------------------------------------------------------------

// swizzle128 is where byte `offset` of a tile with 128-byte rows lies; the tile begins at a multiple of 1024.
DEV uint32_t swizzle128(uint32_t offset) { return offset ^ (offset >> 3 & 0x70); }

// descriptor128 describes an operand of wgmma in rows of 128 bytes, swizzled, in groups of 8: of 64 k each if it is
// K-major, else of 64 rows of A or columns of B, of which the next 64 lie `leading` bytes further.
DEV uint64_t descriptor128(uint32_t address, uint32_t leading = 16) {
  return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 |
         (uint64_t)1 << 62;
}

// advanced describes the operand that lies some bytes further, a multiple of 16.
DEV uint64_t advanced(uint64_t descriptor, uint32_t bytes) {
  return descriptor >> 32 << 32 | ((uint32_t)descriptor + (bytes >> 4));
}
