// Copies of many tensors by one launch: of gradients to the memory of those of all parameters, of parameters in half
// precision. A copy converts its elements, of float32 or half precision, and may write zeros behind them.
#include "blocks.cuh"
#include "element.cuh"

constexpr int kMaxCopies = 64;

// Copy is n contiguous elements, which become `filled`, n or more. Its blocks begin at block `first` of the launch. The
// types are equal, or one of them is float32.
struct Copy {
  void* to;
  const void* from;
  uint32_t n, filled, first;
  uint32_t to_type, from_type;
};
struct Copies {
  Copy copy[kMaxCopies];
  uint32_t count;
};

namespace {

constexpr int kThreads = 256, kEach = 4;               // fours of a thread
constexpr uint32_t kPart = 4 * kThreads * kEach;  // elements of a block

// copy_part copies those of block b. Elements are moved by fours where both sides are aligned.
template <class To, class From> DEV void copy_part(const Copy& c, uint32_t b) {
  const From* from = static_cast<const From*>(c.from);
  To* to = static_cast<To*>(c.to);
  const uint32_t start = b * kPart;
  if (start + kPart <= c.n && (uint64_t)from % (4 * sizeof(From)) == 0 && (uint64_t)to % (4 * sizeof(To)) == 0) {
    Four<float> x[kEach];
    const uint32_t i = start + 4 * threadIdx.x;
#pragma unroll
    for (int k = 0; k < kEach; k++) x[k] = load_four<float>(from + i + k * 4 * kThreads);
#pragma unroll
    for (int k = 0; k < kEach; k++) store_four(to + i + k * 4 * kThreads, x[k]);
    return;
  }
#pragma unroll 4
  for (uint32_t i = start + threadIdx.x; i < start + kPart && i < c.filled; i += kThreads)
    to[i] = i < c.n ? to_element<To>(to_compute<float>(from[i])) : to_element<To>(0.0f);
}

DEV void copy_block(const Copies& all) {
  const Copy& c = owner_of(all.copy, all.count, blockIdx.x);
  const uint32_t b = blockIdx.x - c.first;
  if (c.to_type == kFloat16) copy_part<f16, float>(c, b);
  else if (c.to_type == kBFloat16) copy_part<bf16, float>(c, b);
  else if (c.from_type == kFloat16) copy_part<float, f16>(c, b);
  else if (c.from_type == kBFloat16) copy_part<float, bf16>(c, b);
  else copy_part<float, float>(c, b);
}

}  // namespace

ENTRY(copies, kThreads, 4, (Copies all), copy_block(all))
