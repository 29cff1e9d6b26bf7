// pointwise.cuh: the frame of pointwise kernels. The body of each is generated from its expression, by package
// kernels/cuda/src, as a struct like
//
//	struct scale {
//	  using Compute = float;             // the compute type: float, double or int64_t
//	  using In = Types<bf16>;
//	  using Out = Types<float>;
//	  static constexpr int scalars = 1;  // of the launch
//	  using Streams = RandomStreams<>;   // numbers of the random streams it draws from
//	  DEV_METHOD static void apply(const Compute* in, const Compute* scalar, const Compute* random, Compute* out) {
//	    out[0] = f32_mul(in[0], scalar[0]);
//	  }
//	};
//
// and three kernels, by POINTWISE: scale_vector, vectorised, for contiguous operands, all aligned to 16 bytes, which
// may be single elements; scale_strided for any operands up to 2^31 elements; scale_strided64 beyond. Results are
// contiguous, and may be in place of an operand of the same type and layout.
#pragma once
#include "f64.cuh"
#include "i64.cuh"
#include "layout.cuh"
#include "philox.cuh"
#include "z_lane.cuh"

template <class... T> struct Types {
  static constexpr int count = sizeof...(T);
};

// each_type calls f(T{}, k) for type number k of a list.
template <class... T, class F> DEV void each_type(Types<T...>, F f) {
  int k = 0;
  (..., f(T{}, k++));
}

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
  typename Op::Compute scalar[at_least_one(Op::scalars)];
};

// ---- loads and stores of all operands ----------------------------------------------------------------

// Operands of the vector kernel: element i and the V-1 after it, of which `valid` exist.
template <class Op, int V>
DEV void load_vectors(const Operands<Op>& a, uint64_t i, int valid,
                      typename Op::Compute (&x)[V][at_least_one(Op::In::count)]) {
  each_type(typename Op::In(), [&](auto element, int k) {
    using T = decltype(element);
    using N = typename Op::Compute;
    const T* p = static_cast<const T*>(a.in[k]);
    if (a.uniform >> k & 1) {
      const N value = to_compute<N>(*p);
#pragma unroll
      for (int j = 0; j < V; j++) x[j][k] = value;
    } else if (valid == V) {
      Pack<T, V> pack;
      pack.word = load<decltype(pack.word)>(p + i);
#pragma unroll
      for (int j = 0; j < V; j++) x[j][k] = to_compute<N>(pack.element[j]);
    } else {
#pragma unroll
      for (int j = 0; j < V; j++) x[j][k] = j < valid ? to_compute<N>(p[i + j]) : N(0);
    }
  });
}

template <class Op, int V>
DEV void store_vectors(const Operands<Op>& a, uint64_t i, int valid,
                       const typename Op::Compute (&y)[V][Op::Out::count]) {
  each_type(typename Op::Out(), [&](auto element, int k) {
    using T = decltype(element);
    T* p = static_cast<T*>(a.out[k]);
    Pack<T, V> pack;
#pragma unroll
    for (int j = 0; j < V; j++) pack.element[j] = to_element<T>(y[j][k]);
    if (valid == V) {
      store(p + i, pack.word);
    } else {
#pragma unroll
      for (int j = 0; j < V; j++)
        if (j < valid) p[i + j] = pack.element[j];
    }
  });
}

// ---- kernels -----------------------------------------------------------------------------------------

// Value i of a random stream is word i mod 4 of its block i/4. i is a multiple of V, or V of 4.
template <class Op, int V>
DEV void draw(const Operands<Op>& a, uint64_t i, typename Op::Compute (&r)[V][at_least_one(Op::Streams::count)]) {
  constexpr int kWords = V < 4 ? V : 4;  // of a block
#pragma unroll
  for (int k = 0; k < Op::Streams::count; k++)
#pragma unroll
    for (int j = 0; j < V; j += kWords) {
      const Words w = philox_block(a.key, a.counter + (i + j) / 4, Op::Streams::number(k));
#pragma unroll
      for (int l = 0; l < kWords; l++) r[j + l][k] = philox_uniform(V < 4 ? word_of(w, (uint32_t)(i + l) % 4) : w.x[l]);
    }
}

// V consecutive elements a thread.
template <class Op, int V> DEV void pointwise(const Operands<Op>& a, uint64_t n) {
  const uint64_t i = thread_index() * V;
  if (i >= n) return;
  const int valid = n - i < V ? (int)(n - i) : V;
  typename Op::Compute x[V][at_least_one(Op::In::count)], r[V][at_least_one(Op::Streams::count)], y[V][Op::Out::count];
  load_vectors(a, i, valid, x);
  draw(a, i, r);
#pragma unroll
  for (int j = 0; j < V; j++) Op::apply(x[j], a.scalar, r[j], y[j]);
  store_vectors(a, i, valid, y);
}

template <class Op, class Shape> DEV void pointwise_strided(const Operands<Op>& a, uint64_t n, const Shape& shape) {
  const uint64_t i = thread_index();
  if (i >= n) return;
  typename Shape::Index at[at_least_one(Op::In::count)];
  locate(shape, (typename Shape::Index)i, at);
  typename Op::Compute x[at_least_one(Op::In::count)], r[1][at_least_one(Op::Streams::count)], y[Op::Out::count];
  each_type(typename Op::In(), [&](auto element, int k) {
    x[k] = to_compute<typename Op::Compute>(static_cast<const decltype(element)*>(a.in[k])[at[k]]);
  });
  draw(a, i, r);
  Op::apply(x, a.scalar, r[0], y);
  each_type(typename Op::Out(), [&](auto element, int k) {
    static_cast<decltype(element)*>(a.out[k])[i] = to_element<decltype(element)>(y[k]);
  });
}

#define POINTWISE(Op, V)                                                                                  \
  ENTRY(Op##_vector, 256, 4, (Operands<Op> a, uint64_t n), pointwise<Op, V>(a, n))                        \
  ENTRY(Op##_strided, 256, 4, (Operands<Op> a, uint64_t n, Shape32<at_least_one(Op::In::count)> shape),   \
        pointwise_strided(a, n, shape))                                                                   \
  ENTRY(Op##_strided64, 256, 4, (Operands<Op> a, uint64_t n, Shape64<at_least_one(Op::In::count)> shape), \
        pointwise_strided(a, n, shape))
