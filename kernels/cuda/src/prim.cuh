// prim.cuh: the primitives of kernels. Inline assembly stands in this file and prim_fast.cuh only.
//
// A kernel is compiled twice: by NVRTC for the GPU, and by g++ for the emulator of internal/testing/emu, which runs it
// in the tests. Each primitive that is no plain CUDA has therefore two sides. Rules for kernels:
//
//  1. Entry points are KERNEL(name, threads, blocks)(parameters) { ... } and EXPORT(name) behind it, or ENTRY(name,
//     threads, blocks, (parameters), a call), for kernels that templates make.
//  2. Shared memory is SHARED or SHARED_DYNAMIC, both aligned alike on both sides.
//  3. Arithmetic whose bits matter is written with the __fadd_rn family, as is every FP32 sum and product.
//  4. Wide accesses go through load<T> and store<T>: plain accesses on the GPU, checked and counted ones in the
//     emulator. T is as wide as the access.
//  5. Collectives are reached by whole warps in convergent code. A shared store of another lane is read after
//     __syncwarp() at the earliest. Nobody waits but by primitives, and blocks do not wait for blocks.
//  6. mma_done() comes before ordinary code reads the accumulators of mma.
#pragma once

#if defined(__CUDACC_RTC__)
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned;
using int64_t = long long;
using uint64_t = unsigned long long;
#define ON_DEVICE 1
#else
#include "emu.h"
#endif

#ifdef ON_DEVICE
#define KERNEL(name, threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks) name
#define EXPORT(name)
#define SHARED(T, name, dims) __shared__ __align__(16) T name dims
#define DEV_CALL static __device__ __noinline__
#define SHARED_DYNAMIC(name) extern __shared__ __align__(1024) unsigned char name[]
#else
#define KERNEL(name, threads, blocks)               \
  static constexpr int threads_of_##name = threads; \
  extern "C" void name
#define EXPORT(name)                                                                                     \
  static const ::emu::Registration registration_of_##name(::emu::Kernel{#name, ::emu::Entry<&name>::run, \
      ::emu::Entry<&name>::parameters, ::emu::Entry<&name>::count, threads_of_##name})
#define SHARED(T, name, dims)          \
  static const char key_of_##name = 0; \
  auto& name = ::emu::shared<T dims>(&key_of_##name)
#define SHARED_DYNAMIC(name) unsigned char* name = static_cast<unsigned char*>(::emu::shared_dynamic())
#define DEV_CALL static __attribute__((noinline))
#define __syncthreads() ::emu::bar_sync(0, 0)
#define __syncwarp() ::emu::sync_warp(0xffffffffu)
#endif

#define ENTRY(name, threads, blocks, parameters, ...)       \
  KERNEL(name, threads, blocks) parameters { __VA_ARGS__; } \
  EXPORT(name);

#define DEV static __device__ __forceinline__
#define DEV_METHOD __device__ __forceinline__

struct f16 { uint16_t bits; };
struct bf16 { uint16_t bits; };

#ifdef ON_DEVICE

// ---- half precision ----------------------------------------------------------------------------------

DEV float to_float(f16 h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h.bits));
  return f;
}
DEV float to_float(bf16 h) { return __uint_as_float((uint32_t)h.bits << 16); }
// pack rounds two numbers into one register, the first into the low half. mma adds the product of A [16 16] and B [16
// 8] to d. It is a function of its registers alone, so the compiler may move it between loads.
#define HALF(T)                                                                      \
  DEV T to_##T(float f) {                                                            \
    T h;                                                                             \
    asm("cvt.rn." #T ".f32 %0, %1;" : "=h"(h.bits) : "f"(f));                        \
    return h;                                                                        \
  }                                                                                  \
  DEV uint32_t pack(T, float low, float high) {                                      \
    uint32_t r;                                                                      \
    asm("cvt.rn." #T "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));          \
    return r;                                                                        \
  }                                                                                  \
  DEV void mma(T, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) { \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." #T "." #T ".f32 "                   \
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                      \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                             \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));             \
  }
HALF(f16)
HALF(bf16)
#undef HALF

// ---- arithmetic --------------------------------------------------------------------------------------

// exp2_fast is 2^x within 2 units in the last place, and 0 below 2^-126.
DEV float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// max_nan and min_nan are NaN if x or y is. -0 is less than +0.
DEV float max_nan(float x, float y) {
  float z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
DEV float min_nan(float x, float y) {
  float z;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}

// ---- memory ------------------------------------------------------------------------------------------

template <class T> DEV T load(const void* p) { return *static_cast<const T*>(p); }
template <class T> DEV void store(void* p, T value) { *static_cast<T*>(p) = value; }
DEV uint32_t shared_address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

// ---- warps -------------------------------------------------------------------------------------------

DEV uint32_t shuffle_xor(uint32_t x, int mask) {
  uint32_t r;
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(r) : "r"(x), "r"(mask));
  return r;
}
DEV float shuffle_xor(float x, int mask) { return __uint_as_float(shuffle_xor(__float_as_uint(x), mask)); }
DEV uint32_t shuffle(uint32_t x, int lane) {
  uint32_t r;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=r"(r) : "r"(x), "r"(lane));
  return r;
}
DEV float shuffle(float x, int lane) { return __uint_as_float(shuffle(__float_as_uint(x), lane)); }
DEV uint32_t ballot(bool predicate) {
  uint32_t r;
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff; }"
               : "=r"(r)
               : "r"((int)predicate));
  return r;
}

// ---- cp.async ----------------------------------------------------------------------------------------

// cp_async copies BYTES (4, 8 or 16) into shared memory, of which the first source_bytes are read and the
// others are zero.
template <int BYTES> DEV void cp_async(uint32_t to, const void* from, int source_bytes) {
  if (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(source_bytes) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES), "r"(source_bytes)
                 : "memory");
}
DEV void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> DEV void cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }

// ---- tensor cores ------------------------------------------------------------------------------------

// ldmatrix loads four 8x8 matrices of 16-bit elements; lane 8i+j gives the address of row j of matrix i.
DEV void ldmatrix(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
DEV void ldmatrix_transposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
}
DEV void mma_done() {}

#else

constexpr uint32_t kWholeWarp = 0xffffffff;

DEV float to_float(f16 h) { return _cvtsh_ss(h.bits); }
DEV float to_float(bf16 h) { return __uint_as_float((uint32_t)h.bits << 16); }
DEV f16 to_f16(float f) { return {f == f ? (uint16_t)_cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT) : (uint16_t)0x7fff}; }
DEV bf16 to_bf16(float f) {
  const uint32_t u = __float_as_uint(f);
  return {f == f ? (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16) : (uint16_t)0x7fff};
}
DEV uint32_t pack(f16, float low, float high) { return to_f16(low).bits | (uint32_t)to_f16(high).bits << 16; }
DEV uint32_t pack(bf16, float low, float high) { return to_bf16(low).bits | (uint32_t)to_bf16(high).bits << 16; }

DEV float exp2_fast(float x) {
  const float y = exp2f(x);
  return y < 0x1p-126f ? 0.f : y;
}

DEV float max_nan(float x, float y) {
  if (x != x || y != y) return __uint_as_float(0x7fffffff);
  return x > y || (x == y && !__builtin_signbit(x)) ? x : y;
}
DEV float min_nan(float x, float y) { return -max_nan(-x, -y); }

template <class T> DEV T load(const void* p, EMU_AT) {
  T value;
  emu::load(&value, p, sizeof value, at);
  return value;
}
template <class T> DEV void store(void* p, T value, EMU_AT) { emu::store(p, &value, sizeof value, at); }
DEV uint32_t shared_address(const void* p) { return emu::shared_address(p); }

DEV uint32_t shuffle_xor(uint32_t x, int mask, EMU_AT) {
  return emu::shuffle(kWholeWarp, x, emu::Shuffle::exclusive_or, mask, at);
}
DEV float shuffle_xor(float x, int mask, EMU_AT) { return __uint_as_float(shuffle_xor(__float_as_uint(x), mask, at)); }
DEV uint32_t shuffle(uint32_t x, int lane, EMU_AT) {
  return emu::shuffle(kWholeWarp, x, emu::Shuffle::index, lane, at);
}
DEV float shuffle(float x, int lane, EMU_AT) { return __uint_as_float(shuffle(__float_as_uint(x), lane, at)); }
DEV uint32_t ballot(bool predicate, EMU_AT) { return emu::ballot(kWholeWarp, predicate, at); }

template <int BYTES>
DEV void cp_async(uint32_t to, const void* from, int source_bytes, EMU_AT) {
  emu::cp_async(to, from, BYTES, source_bytes, at);
}
DEV void cp_async_commit() { emu::cp_async_commit(); }
template <int PENDING> DEV void cp_async_wait(EMU_AT) { emu::cp_async_wait(PENDING, at); }

DEV void ldmatrix(uint32_t (&r)[4], uint32_t address, EMU_AT) { emu::ldmatrix(r, 1, 0, false, address, at); }
DEV void ldmatrix_transposed(uint32_t (&r)[4], uint32_t address, EMU_AT) { emu::ldmatrix(r, 1, 0, true, address, at); }
DEV void mma(f16, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, EMU_AT) {
  emu::mma_m16n8k16(d, a, b0, b1, false, at);
}
DEV void mma(bf16, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, EMU_AT) {
  emu::mma_m16n8k16(d, a, b0, b1, true, at);
}
DEV void mma_done(EMU_AT) { emu::mma_done(at); }

#endif
