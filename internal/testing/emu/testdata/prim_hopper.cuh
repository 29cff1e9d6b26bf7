// prim_hopper.cuh: the primitives of compute capability 9.0a: mbarrier, TMA and wgmma, and some
// general ones. No kernel uses them yet: they are for matrix products and attention on Hopper, by wgmma with operands
// that TMA copies. Rules for such kernels, after those of prim.cuh:
//
//  7. wgmma_pin(d) comes before wgmma_fence() where ordinary code wrote the accumulators d, and after
//     wgmma_wait<0>() before it reads them. Accumulators are declared and set to zero once, before the loop over
//     tiles: undefined ones make ptxas before 12.9 serialise every wgmma.
//  8. Shared memory that ordinary stores wrote is read by TMA or wgmma after fence_proxy_async() of the writers and
//     a barrier.
//  9. Descriptors and addresses of barriers go through uniform(), lest each lane computes them.
// 10. setmaxnreg needs __launch_bounds__.
//
// A build that defines WEFT_BARRIER_LIMIT, in nanoseconds, ends a kernel that waits at an mbarrier for longer. It says
// which block, barrier and phase: a kernel that hangs says nothing.
#pragma once
#include "prim.cuh"

// TensorMap is a CUtensorMap, a parameter declared `const __grid_constant__ TensorMap`.
struct TensorMap {
  alignas(64) unsigned char bytes[128];
};

#ifdef ON_DEVICE

DEV void trap() { asm volatile("trap;"); }

DEV uint32_t shuffle_index(uint32_t x, int lane) {
  uint32_t r;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(r) : "r"(x), "r"(lane));
  return r;
}
// uniform tells the compiler that a value is the same in all lanes.
DEV uint32_t uniform(uint32_t x) { return shuffle_index(x, 0); }

DEV void stmatrix(uint32_t address, const uint32_t (&r)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(r[0]), "r"(r[1]),
               "r"(r[2]), "r"(r[3])
               : "memory");
}

// ---- barriers ----------------------------------------------------------------------------------------

// bar_sync waits for `threads` threads at barrier 1 to 15; __syncthreads is barrier 0.
DEV void bar_sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
DEV void bar_arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

DEV void mbarrier_init(uint32_t barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
// mbarrier_fence makes initialised barriers known to TMA; a __syncthreads() follows.
DEV void mbarrier_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEV void mbarrier_arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// mbarrier_expect arrives and announces bytes that TMA will bring.
DEV void mbarrier_expect(uint32_t barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
#ifdef WEFT_BARRIER_LIMIT
DEV uint64_t nanoseconds() {
  uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
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
  asm volatile(
      "{ .reg .pred p;\n"
      "again_%=: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%0], %1;\n"
      "@p bra done_%=;\n"
      "bra again_%=;\n"
      "done_%=: }" ::"r"(barrier), "r"(parity) : "memory");
}
#endif
DEV void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- TMA ---------------------------------------------------------------------------------------------

DEV void tma_prefetch(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }
DEV void tma_load(uint32_t to, const TensorMap* map, int x, int y, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
          "r"(to),
      "l"(map), "r"(x), "r"(y), "r"(barrier)
      : "memory");
}
DEV void tma_store(const TensorMap* map, uint32_t from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from),
               "r"(x), "r"(y)
               : "memory");
}
DEV void tma_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// tma_wait_read waits until shared memory has been read, tma_wait until global memory has been written.
template <int PENDING>
DEV void tma_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}
template <int PENDING> DEV void tma_wait() { asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory"); }

// ---- warpgroups --------------------------------------------------------------------------------------

template <int REGISTERS>
DEV void setmaxnreg_inc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
DEV void setmaxnreg_dec() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
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

#else

DEV void trap(EMU_AT) { emu::trap(at); }
DEV uint32_t shuffle_index(uint32_t x, int lane, EMU_AT) {
  return emu::shuffle(kWholeWarp, x, emu::Shuffle::index, lane, at);
}
DEV uint32_t uniform(uint32_t x, EMU_AT) { return emu::shuffle(kWholeWarp, x, emu::Shuffle::index, 0, at); }
DEV void stmatrix(uint32_t address, const uint32_t (&r)[4], EMU_AT) { emu::stmatrix(address, r, 4, at); }
DEV void bar_sync(int barrier, int threads, EMU_AT) { emu::bar_sync(barrier, threads, at); }
DEV void bar_arrive(int barrier, int threads, EMU_AT) { emu::bar_arrive(barrier, threads, at); }
DEV void mbarrier_init(uint32_t barrier, unsigned count, EMU_AT) { emu::mbarrier_init(barrier, count, at); }
DEV void mbarrier_fence() { emu::mbarrier_fence(); }
DEV void mbarrier_arrive(uint32_t barrier, EMU_AT) { emu::mbarrier_arrive(barrier, at); }
DEV void mbarrier_expect(uint32_t barrier, unsigned bytes, EMU_AT) { emu::mbarrier_expect(barrier, bytes, at); }
#ifdef WEFT_BARRIER_LIMIT
DEV void mbarrier_wait(uint32_t barrier, unsigned parity, EMU_AT) {
  const uint64_t start = emu::nanoseconds();
  while (!emu::mbarrier_try(barrier, parity, at))
    if (emu::nanoseconds() - start > WEFT_BARRIER_LIMIT) emu::mbarrier_overdue(barrier, parity, at);
}
#else
DEV void mbarrier_wait(uint32_t barrier, unsigned parity, EMU_AT) { emu::mbarrier_wait(barrier, parity, at); }
#endif
DEV void fence_proxy_async() { emu::fence_proxy_async(); }
DEV void tma_prefetch(const TensorMap*) {}
DEV void tma_load(uint32_t to, const TensorMap* map, int x, int y, uint32_t barrier, EMU_AT) {
  emu::tma_load(to, map, x, y, barrier, at);
}
DEV void tma_store(const TensorMap* map, uint32_t from, int x, int y, EMU_AT) { emu::tma_store(map, from, x, y, at); }
DEV void tma_commit() { emu::tma_commit(); }
template <int PENDING> DEV void tma_wait_read(EMU_AT) { emu::tma_wait(PENDING, at); }
template <int PENDING> DEV void tma_wait(EMU_AT) { emu::tma_wait(PENDING, at); }
template <int REGISTERS> DEV void setmaxnreg_inc(EMU_AT) { emu::setmaxnreg(REGISTERS, true, at); }
template <int REGISTERS> DEV void setmaxnreg_dec(EMU_AT) { emu::setmaxnreg(REGISTERS, false, at); }
DEV void wgmma_fence(EMU_AT) { emu::wgmma_fence(at); }
DEV void wgmma_commit(EMU_AT) { emu::wgmma_commit(at); }
template <int PENDING> DEV void wgmma_wait(EMU_AT) { emu::wgmma_wait(PENDING, at); }
template <int N> DEV void wgmma_pin(float (&)[N]) {}

#endif

#include "z_wgmma.cuh"

// ---- 128-byte swizzle --------------------------------------------------------------------------------

// swizzle128 is where byte `offset` of a tile with 128-byte rows lies; the tile begins at a multiple of 1024.
DEV uint32_t swizzle128(uint32_t offset) { return offset ^ (offset >> 3 & 0x70); }

// descriptor128 describes a K-major operand of wgmma with 128-byte rows, swizzled, in groups of 8 rows.
DEV uint64_t descriptor128(uint32_t address) {
  return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 62;
}
