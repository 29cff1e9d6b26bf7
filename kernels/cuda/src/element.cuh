// element.cuh: element types, and conversion from and to the compute types (float, double or int64_t). The rules are
// those of kernels/cpu/convert.go: to nearest, ties to even, in one rounding; from floating to integer truncation,
// saturated, and NaN to 0; between integers the low bits stay; any value but 0, and so NaN, is true.
#pragma once
#include "prim.cuh"

struct boolean { uint8_t bits; };

template <class A, class B> struct Same { static constexpr __device__ bool value() { return false; } };
template <class A> struct Same<A, A> { static constexpr __device__ bool value() { return true; } };

template <class T> static constexpr __device__ bool is_half() {
  return Same<T, f16>::value() || Same<T, bf16>::value();
}
template <class T> static constexpr __device__ bool is_floating() {
  return Same<T, float>::value() || Same<T, double>::value() || is_half<T>();
}

DEV f16 to_half(float x, f16) { return to_f16(x); }
DEV bf16 to_half(float x, bf16) { return to_bf16(x); }

// round_to_odd rounds what is not exact to the neighbour with an odd last bit. Rounding that to a type with at least
// two bits fewer gives what rounding x itself would (Boldo and Melquiond 2005).
DEV float round_to_odd(double x) {
  const float f = (float)x;
  const double back = f;
  if (back == x || x != x) return f;
  uint32_t u = __float_as_uint(f);
  if (fabs(back) > fabs(x)) u--;  // towards zero
  return __uint_as_float(u | 1);
}
DEV double round_to_odd(int64_t x) {
  const double f = (double)x;
  const bool beyond = f >= 0x1p63;
  if (!beyond && (int64_t)f == x) return f;
  uint64_t u = (uint64_t)__double_as_longlong(f);
  if ((x > 0) == (beyond || (int64_t)f > x)) u--;
  return __longlong_as_double((int64_t)(u | 1));
}

// saturate truncates to an integer type. Its ends are exact as floating numbers, or the power of two just above.
template <class T, class N> DEV T saturate(N x) {
  constexpr bool is_signed = T(-1) < T(0);
  constexpr T high = (T)(~0ull >> (64 - 8 * sizeof(T) + is_signed)), low = is_signed ? -high - 1 : 0;
  if (x != x) return 0;
  if (x <= (N)low) return low;
  if (x >= (N)high) return high;
  return (T)x;
}

// to_compute converts an element to the compute type N, exactly or to nearest.
template <class N, class T> DEV N to_compute(T x) {
  if constexpr (is_half<T>()) return (N)to_float(x);
  else if constexpr (Same<T, boolean>::value()) return x.bits ? N(1) : N(0);
  else return (N)x;
}

// to_element converts a value of a compute type to an element.
template <class T, class N> DEV T to_element(N x) {
  if constexpr (is_half<T>()) {
    if constexpr (Same<N, float>::value()) return to_half(x, T{});
    else if constexpr (Same<N, double>::value()) return to_half(round_to_odd(x), T{});
    else return to_half(round_to_odd(round_to_odd(x)), T{});
  } else if constexpr (Same<T, boolean>::value()) {
    return {(uint8_t)(x != 0)};
  } else if constexpr (is_floating<N>() && !is_floating<T>()) {
    return saturate<T>(x);
  } else {
    return (T)x;
  }
}

// Wide is an access of the given size.
template <int BYTES> struct Wide;
template <> struct Wide<1> { using Type = uint8_t; };
template <> struct Wide<2> { using Type = uint16_t; };
template <> struct Wide<4> { using Type = uint32_t; };
template <> struct Wide<8> { using Type = uint2; };
template <> struct Wide<16> { using Type = uint4; };

// Pack is V consecutive elements.
template <class T, int V> union Pack {
  typename Wide<sizeof(T) * V>::Type word;
  T element[V];
};

// Four is four neighbours in the compute type. In memory they are aligned to their size, or to 16 bytes if that is
// less.
template <class N> struct Four {
  N x[4];
  DEV_METHOD N& operator[](int k) { return x[k]; }
  DEV_METHOD N operator[](int k) const { return x[k]; }
};
template <class T> static constexpr __device__ int pack_size() { return sizeof(T) > 4 ? 16 / sizeof(T) : 4; }
template <class N, class T> DEV Four<N> load_four(const T* p) {
  constexpr int V = pack_size<T>();
  Four<N> four;
#pragma unroll
  for (int k = 0; k < 4; k += V) {
    Pack<T, V> pack;
    pack.word = load<decltype(pack.word)>(p + k);
    if constexpr (Same<T, bf16>::value() && Same<N, float>::value()) {  // one instruction for each
      four = {__uint_as_float(pack.word.x << 16), __uint_as_float(pack.word.x & 0xffff0000),
              __uint_as_float(pack.word.y << 16), __uint_as_float(pack.word.y & 0xffff0000)};
    } else {
#pragma unroll
      for (int j = 0; j < V; j++) four[k + j] = to_compute<N>(pack.element[j]);
    }
  }
  return four;
}
template <class T, class N> DEV void store_four(T* p, const Four<N>& four) {
  constexpr int V = pack_size<T>();
#pragma unroll
  for (int k = 0; k < 4; k += V) {
    if constexpr (is_half<T>() && Same<N, float>::value()) {
      store(p, uint2{pack(T{}, four[0], four[1]), pack(T{}, four[2], four[3])});
    } else {
      Pack<T, V> pack;
#pragma unroll
      for (int j = 0; j < V; j++) pack.element[j] = to_element<T>(four[k + j]);
      store(p + k, pack.word);
    }
  }
}

// ---- operands and results with a type at run time ----------------------------------------------------

// Type is kernels.DType.
enum Type : uint32_t { kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kUint8, kBool };

// integer stands for all integer types and boolean, nonzero for any element x as x != 0. Kernels of these switch on the
// type, which is slow and saves a kernel for each.
struct integer;
struct nonzero;

// ComputeType is the type that kernels compute with.
template <class T> struct ComputeTypeOf { using Type = float; };
template <> struct ComputeTypeOf<double> { using Type = double; };
template <> struct ComputeTypeOf<int64_t> { using Type = int64_t; };
template <> struct ComputeTypeOf<integer> { using Type = int64_t; };
template <> struct ComputeTypeOf<nonzero> { using Type = int64_t; };
template <class T> using ComputeType = typename ComputeTypeOf<T>::Type;

// read is element i of an operand in the compute type.
template <class T> DEV ComputeType<T> read(const void* p, uint32_t type, uint64_t i) {
  if constexpr (Same<T, nonzero>::value()) {
    switch (type) {
      case kFloat32: return static_cast<const float*>(p)[i] != 0;
      case kFloat64: return static_cast<const double*>(p)[i] != 0;
      case kFloat16:
      case kBFloat16: return (static_cast<const uint16_t*>(p)[i] & 0x7fff) != 0;
      default: return read<integer>(p, type, i) != 0;
    }
  } else if constexpr (Same<T, integer>::value()) {
    switch (type) {
      case kInt64: return static_cast<const int64_t*>(p)[i];
      case kInt32: return static_cast<const int32_t*>(p)[i];
      default: return static_cast<const uint8_t*>(p)[i];
    }
  } else {
    return to_compute<ComputeType<T>>(static_cast<const T*>(p)[i]);
  }
}

// Result is an output, whose values put rounds to its type. If divisor is not 0, it divides by that first.
struct Result {
  void* to;
  uint64_t divisor;
  uint32_t type;
};

DEV void put(const Result& y, uint64_t i, float x) {
  if (y.divisor) x = __fdiv_rn(x, (float)y.divisor);
  switch (y.type) {
    case kFloat16: static_cast<f16*>(y.to)[i] = to_element<f16>(x); break;
    case kBFloat16: static_cast<bf16*>(y.to)[i] = to_element<bf16>(x); break;
    default: static_cast<float*>(y.to)[i] = x;
  }
}
DEV void put(const Result& y, uint64_t i, double x) {
  if (y.divisor) x = __ddiv_rn(x, (double)y.divisor);
  if (y.type == kFloat32) static_cast<float*>(y.to)[i] = to_element<float>(x);
  else static_cast<double*>(y.to)[i] = x;
}
// The mean of integers is a float.
DEV void put(const Result& y, uint64_t i, int64_t x) {
  switch (y.type) {
    case kFloat32: put(y, i, (double)x); break;
    case kInt64: static_cast<int64_t*>(y.to)[i] = x; break;
    case kInt32: static_cast<int32_t*>(y.to)[i] = to_element<int32_t>(x); break;
    case kUint8: static_cast<uint8_t*>(y.to)[i] = to_element<uint8_t>(x); break;
    default: static_cast<boolean*>(y.to)[i] = to_element<boolean>(x);
  }
}
