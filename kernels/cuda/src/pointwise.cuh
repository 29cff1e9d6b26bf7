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
// and two kernels, by POINTWISE: scale_vector for contiguous operands, all aligned to 16 bytes, which may be single
// elements; scale_strided for any layouts. Results are contiguous, and may be in place of an operand of the same type
// and layout. A thread has V neighbours of a result, which are 16 bytes of the widest type, or in scale_strided one
// where rows are not a multiple of V.
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
  uint32_t uniform;       // bit k: the elements of a thread are one element of operand k
  typename Op::Compute scalar[at_least_one(Op::scalars)];
};

// Strides are the layouts of the operands of the strided kernel, and at last that of the results, N in all. A thread has
// `each` elements, which are `step` apart; those of operand k are one aligned vector if bit k of `vectors` is set. The
// axes are those of threads, and `first` is the number of the first result. Strides and steps may be negative.
template <int N> struct Strides {
  uint64_t first;
  uint32_t threads, each, vectors, step[N];
  Shape32<N> shape;
};

// ---- loads and stores of all operands ----------------------------------------------------------------

// A place tells where the elements of a thread are in operand k: the first one, or the only one, and how far the next is.
struct Contiguous {
  uint64_t i;
  DEV_METHOD uint64_t only(int) const { return 0; }
  DEV_METHOD uint64_t at(int) const { return i; }
  DEV_METHOD int32_t step(int) const { return 1; }
  DEV_METHOD bool vector(int) const { return true; }
};
template <int N> struct Strided {
  const Strides<N>& strides;
  uint32_t offset[N];
  DEV_METHOD int32_t only(int k) const { return at(k); }
  DEV_METHOD int32_t at(int k) const { return (int32_t)offset[k]; }
  DEV_METHOD int32_t step(int k) const { return (int32_t)strides.step[k]; }
  DEV_METHOD bool vector(int k) const { return strides.vectors >> k & 1; }
};

// load_vectors reads the V elements of a thread, of which `valid` exist, of all operands.
template <class Op, int V, class Place>
DEV void load_vectors(const Operands<Op>& a, const Place& place, int valid,
                      typename Op::Compute (&x)[V][at_least_one(Op::In::count)]) {
  each_type(typename Op::In(), [&](auto element, int k) {
    using T = decltype(element);
    using N = typename Op::Compute;
    const T* p = static_cast<const T*>(a.in[k]);
    if (V == 1 || a.uniform >> k & 1) {
      const N value = to_compute<N>(p[place.only(k)]);
#pragma unroll
      for (int j = 0; j < V; j++) x[j][k] = value;
    } else if (valid == V && place.vector(k)) {
      Pack<T, V> pack;
      pack.word = load<decltype(pack.word)>(p + place.at(k));
#pragma unroll
      for (int j = 0; j < V; j++) x[j][k] = to_compute<N>(pack.element[j]);
    } else {
#pragma unroll
      for (int j = 0; j < V; j++) x[j][k] = j < valid ? to_compute<N>(p[place.at(k) + j * place.step(k)]) : N(0);
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

// compute does the V elements of a thread, of which `valid` exist, from number i of the results on.
template <class Op, int V, class Place>
DEV void compute(const Operands<Op>& a, const Place& place, uint64_t i, int valid) {
  typename Op::Compute x[V][at_least_one(Op::In::count)], r[V][at_least_one(Op::Streams::count)], y[V][Op::Out::count];
  load_vectors(a, place, valid, x);
  draw(a, i, r);
#pragma unroll
  for (int j = 0; j < V; j++) Op::apply(x[j], a.scalar, r[j], y[j]);
  store_vectors(a, i, valid, y);
}

template <class Op, int V> DEV void pointwise(const Operands<Op>& a, uint64_t n) {
  const uint64_t i = thread_index() * V;
  if (i < n) compute<Op, V>(a, Contiguous{i}, i, n - i < V ? (int)(n - i) : V);
}

template <class Op, int V, int N> DEV void pointwise_strided(const Operands<Op>& a, const Strides<N>& strides) {
  const uint32_t thread = (uint32_t)thread_index();
  if (thread >= strides.threads) return;
  Strided<N> place{strides};
  locate(strides.shape, thread, place.offset);
  const uint64_t i = strides.first + place.offset[N - 1];
  if (strides.each == V) compute<Op, V>(a, place, i, V);
  else compute<Op, 1>(a, place, i, 1);
}

#define POINTWISE(Op, V)                                                               \
  ENTRY(Op##_vector, 256, 4, (Operands<Op> a, uint64_t n), pointwise<Op, V>(a, n))     \
  ENTRY(Op##_strided, 256, 4, (Operands<Op> a, Strides<Op::In::count + 1> strides),    \
        pointwise_strided<Op, V>(a, strides))
