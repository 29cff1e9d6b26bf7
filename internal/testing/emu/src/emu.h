// emu.h: CUDA for g++. A thread of a grid is a fiber; all but arithmetic is a function of namespace emu, which gets
// the source location of the call for reports. Kernels include prim.cuh, never this file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <emmintrin.h>
// The header of C: that of C++ takes g++ longer to read than most kernels take it.
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS
#include <math.h>
#undef _GLIBCXX_INCLUDE_NEXT_C_HEADERS

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(n) __attribute__((aligned(n)))

struct uint3 { unsigned x, y, z; };
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };

#pragma GCC visibility push(default)
namespace emu {

// Site is a line in the source of a kernel.
struct Site {
  const char* file;
  int line;
  static constexpr Site here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
};
#define EMU_AT ::emu::Site at = ::emu::Site::here()

// Launch is what all threads of a block share.
struct Launch {
  dim3 grid, block;
  uint3 index;  // of the block
};

// Thread is one thread of a block.
struct Thread {
  const Launch* launch;
  uint3 index;
  unsigned number, lane, warp;
};
extern __thread Thread* self;

// Barriers. A count of 0 means all threads of the block that have not returned.
void bar_sync(int id, int count, EMU_AT);
void bar_arrive(int id, int count, EMU_AT);

// Warps.
enum class Shuffle { index, up, down, exclusive_or };
void sync_warp(uint32_t mask, EMU_AT);
uint32_t shuffle(uint32_t mask, uint32_t value, Shuffle kind, int argument, EMU_AT);
uint32_t ballot(uint32_t mask, bool predicate, EMU_AT);

// Shared memory. Its 32-bit addresses are offsets in the window of the block.
void* shared_array(const void* key, size_t bytes);
void* shared_dynamic();
uint32_t shared_address(const void* p);
void* shared_pointer(uint32_t address);

// Accesses of a stated width. The checked build inspects and counts them.
#ifdef EMU_CHECK
void load(void* value, const void* p, size_t bytes, EMU_AT);
void store(void* p, const void* value, size_t bytes, EMU_AT);
#else
__forceinline__ void load(void* value, const void* p, size_t bytes, Site) { memcpy(value, p, bytes); }
__forceinline__ void store(void* p, const void* value, size_t bytes, Site) { memcpy(p, value, bytes); }
#endif

uint32_t atomic_add(uint32_t* p, uint32_t value, EMU_AT);
float atomic_add(float* p, float value, EMU_AT);
void atomic_min(uint64_t* p, uint64_t value, EMU_AT);
void atomic_store(uint32_t* p, uint32_t value, EMU_AT);

// Blocks that wait for blocks: store_release tells what its thread knows to those that wait_acquire the value.
void store_release(uint32_t* p, uint32_t value, EMU_AT);
void wait_acquire(const uint32_t* p, uint32_t value, EMU_AT);
[[noreturn]] void trap(EMU_AT);

// Tensor cores. Accumulators hold NaN until they are delivered: at mma_done and wgmma_wait.
void ldmatrix(uint32_t* registers, int count, uint32_t stride, bool transposed, uint32_t address, EMU_AT);
void stmatrix(uint32_t address, const uint32_t* registers, int count, EMU_AT);
void mma_m16n8k16(float* d, const uint32_t* a, uint32_t b0, uint32_t b1, bool bfloat, EMU_AT);
void mma_done(EMU_AT);
struct GroupOperand {  // of wgmma: in shared memory, or A in a lane's registers
  uint64_t descriptor;
  bool k_major;
  const uint32_t* registers = nullptr;
};
void wgmma_m64k16(float* d, int n, GroupOperand a, GroupOperand b, bool accumulate, bool bfloat, EMU_AT);
void wgmma_fence(EMU_AT);
void wgmma_commit(EMU_AT);
void wgmma_wait(int pending, EMU_AT);
void setmaxnreg(int registers, bool increase, EMU_AT);

// Asynchronous copies.
void cp_async(uint32_t to, const void* from, int bytes, int source_bytes, EMU_AT);
void cp_async_commit();
void cp_async_wait(int pending, EMU_AT);
void mbarrier_init(uint32_t barrier, unsigned count, EMU_AT);
void mbarrier_fence();
void mbarrier_arrive(uint32_t barrier, EMU_AT);
void mbarrier_expect(uint32_t barrier, unsigned bytes, EMU_AT);
void mbarrier_wait(uint32_t barrier, unsigned parity, EMU_AT);
// mbarrier_try returns when the phase has ended, or when nothing else can run: then the clock has jumped ahead.
bool mbarrier_try(uint32_t barrier, unsigned parity, EMU_AT);
[[noreturn]] void mbarrier_overdue(uint32_t barrier, unsigned parity, EMU_AT);
uint64_t nanoseconds();
void fence_proxy_async();
void tma_load(uint32_t to, const void* map, int x, int y, uint32_t barrier, EMU_AT);
void tma_store(const void* map, uint32_t from, int x, int y, EMU_AT);
void tma_commit();
void tma_wait(int pending, EMU_AT);

// Parameter is the size and the alignment of a kernel's parameter.
struct Parameter { unsigned bytes, align; };

// Kernel is an entry point.
struct Kernel {
  const char* name;
  void (*run)(void** parameters);
  const Parameter* parameters;
  int count;
  int threads;  // of its launch bounds
};

// Registration makes a kernel known to the module that is being loaded.
struct Registration { explicit Registration(const Kernel& kernel); };

}  // namespace emu
#pragma GCC visibility pop

namespace emu {

template <auto F> struct Entry;
template <class... A, void (*F)(A...)> struct Entry<F> {
  static constexpr Parameter parameters[] = {{sizeof(A), alignof(A)}...};
  static constexpr int count = sizeof...(A);
  template <size_t... I> static void call(void** p, std::index_sequence<I...>) {
    F(*static_cast<std::remove_cv_t<A>*>(p[I])...);
  }
  static void run(void** p) { call(p, std::index_sequence_for<A...>{}); }
};

template <class T> T& shared(const void* key) { return *static_cast<T*>(shared_array(key, sizeof(T))); }

}  // namespace emu

#define threadIdx (::emu::self->index)
#define blockIdx (::emu::self->launch->index)
#define blockDim (::emu::self->launch->block)
#define gridDim (::emu::self->launch->grid)

// Intrinsic functions of CUDA. The compiler does not contract them (-ffp-contract=off).
__forceinline__ float __fadd_rn(float x, float y) { return x + y; }
__forceinline__ float __fsub_rn(float x, float y) { return x - y; }
__forceinline__ float __fmul_rn(float x, float y) { return x * y; }
__forceinline__ float __fdiv_rn(float x, float y) { return x / y; }
__forceinline__ float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
__forceinline__ float __fsqrt_rn(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
__forceinline__ double __dadd_rn(double x, double y) { return x + y; }
__forceinline__ double __dsub_rn(double x, double y) { return x - y; }
__forceinline__ double __dmul_rn(double x, double y) { return x * y; }
__forceinline__ double __ddiv_rn(double x, double y) { return x / y; }
__forceinline__ double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
__forceinline__ double __dsqrt_rn(double x) { return _mm_cvtsd_f64(_mm_sqrt_pd(_mm_set_sd(x))); }
__forceinline__ int __float2int_rz(float x) { return _mm_cvttss_si32(_mm_set_ss(x)); }
__forceinline__ float __int2float_rn(int x) { return (float)x; }
__forceinline__ float __uint2float_rn(unsigned x) { return (float)x; }
__forceinline__ double __ll2double_rn(long long x) { return (double)x; }
__forceinline__ double __ull2double_rn(unsigned long long x) { return (double)x; }
__forceinline__ float __double2float_rn(double x) { return (float)x; }
__forceinline__ unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((uint64_t)x * y >> 32); }
__forceinline__ unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  return (unsigned long long)((unsigned __int128)x * y >> 64);
}
__forceinline__ int __popc(unsigned x) { return __builtin_popcount(x); }
__forceinline__ float __uint_as_float(unsigned x) { float f; memcpy(&f, &x, 4); return f; }
__forceinline__ unsigned __float_as_uint(float x) { unsigned u; memcpy(&u, &x, 4); return u; }
__forceinline__ double __longlong_as_double(long long x) { double f; memcpy(&f, &x, 8); return f; }
__forceinline__ long long __double_as_longlong(double x) { long long u; memcpy(&u, &x, 8); return u; }

// Half precision as in immintrin.h, which takes longer to read than a kernel to compile.
#ifndef _IMMINTRIN_H_INCLUDED
#define _MM_FROUND_TO_NEAREST_INT 0
__forceinline__ float _cvtsh_ss(uint16_t bits) { _Float16 h; memcpy(&h, &bits, 2); return h; }
__forceinline__ uint16_t _cvtss_sh(float x, int) {
  const _Float16 h = (_Float16)x;
  uint16_t bits;
  memcpy(&bits, &h, 2);
  return bits;
}
#endif
