// pointwise.cuh: the frame of pointwise kernels. The body of each is generated from its expression, by package
// kernels/cuda/src, as a struct like
//
//	struct scale {
//	  using In = Types<bf16>;
//	  using Out = Types<float>;
//	  static constexpr int scalars = 1;  // of the launch
//	  using Streams = RandomStreams<>;   // numbers of the random streams it draws from
//	  DEV_METHOD static void apply(const float* in, const float* scalar, const float* random, float* out) {
//	    out[0] = f32_mul(in[0], scalar[0]);
//	  }
//	};
//
// and three kernels, by POINTWISE: scale_vector for operands without gaps, all aligned to 16 bytes, which may be
// single elements; scale_strided for any operands up to 2^31 elements; scale_strided64 beyond. Results have no
// gaps, and may take the place of an operand of the same type and layout. Values are computed in FP32.
#pragma once
#include "index.cuh"
#include "philox.cuh"
#include "z_lane.cuh"

template <class... T> struct Types {
  static constexpr int count = sizeof...(T);
};

template <int K, class L> struct ElementOf;
template <int K, class T, class... Rest> struct ElementOf<K, Types<T, Rest...>> {
  using Type = typename ElementOf<K - 1, Types<Rest...>>::Type;
};
template <class T, class... Rest> struct ElementOf<0, Types<T, Rest...>> {
  using Type = T;
};

template <uint32_t... S> struct RandomStreams {
  static constexpr int count = sizeof...(S);
  DEV_METHOD static uint32_t number(int k) {
    const uint32_t all[] = {S..., 0};
    return all[k];
  }
};

static constexpr __device__ int at_least_one(int n) { return n > 0 ? n : 1; }

// Operands are the parameters that all kernels of an operation share.
template <class Op> struct Operands {
  const void* in[at_least_one(Op::In::count)];
  void* out[Op::Out::count];
  uint64_t key, counter;  // of the random streams
  uint32_t uniform;       // bit k: operand k is one element
  float scalar[at_least_one(Op::scalars)];
};

// ---- elements ----------------------------------------------------------------------------------------

struct boolean { uint8_t bits; };

DEV float to_number(float x) { return x; }
DEV float to_number(f16 x) { return to_float(x); }
DEV float to_number(bf16 x) { return to_float(x); }
DEV float to_number(boolean x) { return x.bits ? 1.f : 0.f; }
DEV void from_number(float x, float& to) { to = x; }
DEV void from_number(float x, f16& to) { to = to_f16(x); }
DEV void from_number(float x, bf16& to) { to = to_bf16(x); }
DEV void from_number(float x, boolean& to) { to.bits = x != 0; }  // NaN is true

// Wide is an access of the given size.
template <int BYTES> struct Wide;
template <> struct Wide<4> { using Type = uint32_t; };
template <> struct Wide<8> { using Type = uint2; };
template <> struct Wide<16> { using Type = uint4; };

// Pack is V elements side by side.
template <class T, int V> union Pack {
  typename Wide<sizeof(T) * V>::Type word;
  T element[V];
};

// ---- loads and stores of all operands ----------------------------------------------------------------

// Operands of the vector kernel: element i and the V-1 after it, of which `valid` exist.
template <class Op, int V, int K = 0> DEV void load_vectors(const Operands<Op>& a, uint64_t i, int valid, float (&x)[V][at_least_one(Op::In::count)]) {
  if constexpr (K < Op::In::count) {
    using T = typename ElementOf<K, typename Op::In>::Type;
    const T* p = static_cast<const T*>(a.in[K]);
    if (a.uniform >> K & 1) {
      const float value = to_number(*p);
#pragma unroll
      for (int j = 0; j < V; j++) x[j][K] = value;
    } else if (valid == V) {
      Pack<T, V> pack;
      pack.word = load<decltype(pack.word)>(p + i);
#pragma unroll
      for (int j = 0; j < V; j++) x[j][K] = to_number(pack.element[j]);
    } else {
#pragma unroll
      for (int j = 0; j < V; j++) x[j][K] = j < valid ? to_number(p[i + j]) : 0.f;
    }
    load_vectors<Op, V, K + 1>(a, i, valid, x);
  }
}

template <class Op, int V, int K = 0> DEV void store_vectors(const Operands<Op>& a, uint64_t i, int valid, const float (&y)[V][Op::Out::count]) {
  if constexpr (K < Op::Out::count) {
    using T = typename ElementOf<K, typename Op::Out>::Type;
    T* p = static_cast<T*>(a.out[K]);
    Pack<T, V> pack;
#pragma unroll
    for (int j = 0; j < V; j++) from_number(y[j][K], pack.element[j]);
    if (valid == V) {
      store(p + i, pack.word);
    } else {
#pragma unroll
      for (int j = 0; j < V; j++)
        if (j < valid) p[i + j] = pack.element[j];
    }
    store_vectors<Op, V, K + 1>(a, i, valid, y);
  }
}

template <class Op, class Index, int K = 0> DEV void load_at(const Operands<Op>& a, const Index* at, float* x) {
  if constexpr (K < Op::In::count) {
    x[K] = to_number(static_cast<const typename ElementOf<K, typename Op::In>::Type*>(a.in[K])[at[K]]);
    load_at<Op, Index, K + 1>(a, at, x);
  }
}

template <class Op, int K = 0> DEV void store_at(const Operands<Op>& a, uint64_t i, const float* y) {
  if constexpr (K < Op::Out::count) {
    from_number(y[K], static_cast<typename ElementOf<K, typename Op::Out>::Type*>(a.out[K])[i]);
    store_at<Op, K + 1>(a, i, y);
  }
}

// ---- kernels -----------------------------------------------------------------------------------------

// Number i of a random stream is word i mod 4 of its block i/4.
template <class Op, int V> DEV void draw(const Operands<Op>& a, uint64_t i, float (&r)[V][at_least_one(Op::Streams::count)]) {
#pragma unroll
  for (int k = 0; k < Op::Streams::count; k++) {
    const uint32_t stream = Op::Streams::number(k);
    if constexpr (V == 1) {
      r[0][k] = philox_uniform(word_of(philox_block(a.key, a.counter + i / 4, stream), (uint32_t)i % 4));
    } else {
#pragma unroll
      for (int j = 0; j < V; j += 4) {
        const Words w = philox_block(a.key, a.counter + (i + j) / 4, stream);
#pragma unroll
        for (int l = 0; l < 4; l++) r[j + l][k] = philox_uniform(w.x[l]);
      }
    }
  }
}

// V consecutive elements a thread.
template <class Op, int V> DEV void pointwise(const Operands<Op>& a, uint64_t n) {
  const uint64_t i = thread_number() * V;
  if (i >= n) return;
  const int valid = n - i < V ? (int)(n - i) : V;
  float x[V][at_least_one(Op::In::count)], r[V][at_least_one(Op::Streams::count)], y[V][Op::Out::count];
  load_vectors(a, i, valid, x);
  draw(a, i, r);
#pragma unroll
  for (int j = 0; j < V; j++) Op::apply(x[j], a.scalar, r[j], y[j]);
  store_vectors(a, i, valid, y);
}

template <class Op, class Shape> DEV void pointwise_strided(const Operands<Op>& a, uint64_t n, const Shape& shape) {
  const uint64_t i = thread_number();
  if (i >= n) return;
  typename Shape::Index at[at_least_one(Op::In::count)];
  locate(shape, (typename Shape::Index)i, at);
  float x[at_least_one(Op::In::count)], r[1][at_least_one(Op::Streams::count)], y[Op::Out::count];
  load_at<Op>(a, at, x);
  draw(a, i, r);
  Op::apply(x, a.scalar, r[0], y);
  store_at(a, i, y);
}

#define POINTWISE(Op, V)                                                                                         \
  KERNEL(Op##_vector, 256, 4)(Operands<Op> a, uint64_t n) { pointwise<Op, V>(a, n); }                            \
  EXPORT(Op##_vector);                                                                                           \
  KERNEL(Op##_strided, 256, 4)(Operands<Op> a, uint64_t n, Shape32<at_least_one(Op::In::count)> shape) { pointwise_strided(a, n, shape); } \
  EXPORT(Op##_strided);                                                                                          \
  KERNEL(Op##_strided64, 256, 4)(Operands<Op> a, uint64_t n, Shape64<at_least_one(Op::In::count)> shape) { pointwise_strided(a, n, shape); } \
  EXPORT(Op##_strided64);
