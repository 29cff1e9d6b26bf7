// exp_sum.cuh: the maximum of a row and the sum of exp(x - maximum), which softmax and cross-entropy are made of.
#pragma once
#include "half.cuh"
#include "row.cuh"

// exp_of is exp for results with elements of type T.
template <class T, class N> DEV N exp_of(N x) {
  if constexpr (is_half<T>()) return half_exp(x);
  else return math::exp(x);
}

template <class N> struct ExpSum { N most, sum; };

// one_pass tells whether a row is read once for both.
template <class T, class Group> static constexpr __device__ bool one_pass() {
  return is_half<T>() && Group::slots() == 0;
}

// A thread takes its elements in ascending order, some at a time, and where these have a new maximum it corrects the
// sum so far. -infinity gives 0, also before there is another number. The sums of threads are joined as a tree.
template <class Group, class S> DEV ExpSum<float> exp_sum_once(uint32_t n, const S& x) {
  const auto finite = [](float m) { return m == -infinity(m) ? 0.f : m; };
  float most = -infinity(0.f), sum = 0;
  for (uint32_t b = Group::warp(); b * kFoldBlock < n; b += Group::warps())
    each_batch(b * kFoldBlock, lesser(n, (b + 1) * kFoldBlock), x, [&](auto& x, At at) {
      constexpr uint32_t kFours = sizeof x / sizeof x[0];
      float next = most;
#pragma unroll
      for (uint32_t k = 0; k < 4 * kFours; k++)
        if (k % 4 < at.count) next = math::max(next, x[k / 4][k % 4]);
      const float m = finite(next);
      sum = math::mul(sum, half_exp(math::sub(most, m)));
#pragma unroll
      for (uint32_t k = 0; k < 4 * kFours; k++)
        if (k % 4 < at.count) sum = math::add(sum, half_exp(math::sub(x[k / 4][k % 4], m)));
      most = next;
    });
  const float m = group_all<Max, Group>(most);
  return {m, group_all<Sum, Group>(math::mul(sum, half_exp(math::sub(most, finite(m)))))};
}

// An infinite maximum leaves NaN or 0 as the sum.
template <class T, class Group, class S> DEV auto exp_sum(uint32_t n, const S& x) {
  using N = typename S::Value;
  if constexpr (one_pass<T, Group>()) {
    return exp_sum_once<Group>(n, x);
  } else {
    const N m = row_fold<Max, Group>(n, x);
    return ExpSum<N>{m, row_fold<Sum, Group>(n, map([=](N x) { return exp_of<T>(math::sub(x, m)); }, x))};
  }
}
