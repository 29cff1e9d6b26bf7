// prim_tma.cuh: primitives of compute capability 9.0a that no kernel uses: TMA.
// Rules for kernels that would, after those of prim_hopper.cuh:
//
// 11. Shared memory that ordinary stores wrote is read by TMA after fence_proxy_async() of the writers and a barrier.
#pragma once
#include "prim_hopper.cuh"

// TensorMap is a CUtensorMap, a parameter declared `const __grid_constant__ TensorMap`.
struct TensorMap {
  alignas(64) unsigned char bytes[128];
};

#ifdef ON_DEVICE

DEV void trap() { asm volatile("trap;"); }

// mbarrier_fence makes initialised barriers known to TMA; a __syncthreads() follows.
DEV void mbarrier_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// mbarrier_expect arrives and announces bytes that TMA will bring.
DEV void mbarrier_expect(uint32_t barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

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

#else

DEV void trap(EMU_AT) { emu::trap(at); }
DEV void mbarrier_fence() { emu::mbarrier_fence(); }
DEV void mbarrier_expect(uint32_t barrier, unsigned bytes, EMU_AT) { emu::mbarrier_expect(barrier, bytes, at); }
DEV void tma_prefetch(const TensorMap*) {}
DEV void tma_load(uint32_t to, const TensorMap* map, int x, int y, uint32_t barrier, EMU_AT) {
  emu::tma_load(to, map, x, y, barrier, at);
}
DEV void tma_store(const TensorMap* map, uint32_t from, int x, int y, EMU_AT) { emu::tma_store(map, from, x, y, at); }
DEV void tma_commit() { emu::tma_commit(); }
template <int PENDING> DEV void tma_wait_read(EMU_AT) { emu::tma_wait(PENDING, at); }
template <int PENDING> DEV void tma_wait(EMU_AT) { emu::tma_wait(PENDING, at); }

#endif
