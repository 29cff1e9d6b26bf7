// wgmma m64nNk16 with FP32 accumulation, B in shared memory and A there or in registers. Each warp of the group has
// 16 rows. The accumulators' registers hold NaN from the first product to the wait.
#include "checker.h"
#include <algorithm>
#include <cmath>

namespace emu {

namespace {

// Descriptor of a matrix in shared memory (PTX ISA, matrix descriptor format).
struct Descriptor {
  u32 start, leading, stride, swizzle;
};

Descriptor decode(const GroupOperand& o, Site at) {
  const u64 d = o.descriptor;
  static const u32 swizzles[4] = {0, 128, 64, 32};
  Descriptor x{(u32)(d & 0x3fff) << 4, (u32)(d >> 16 & 0x3fff) << 4, (u32)(d >> 32 & 0x3fff) << 4, swizzles[d >> 62]};
  const char* wrong = nullptr;
  if (d & 0x3ff0c000c000c000) wrong = "reserved bits are set";
  if (d >> 49 & 7) wrong = "a base offset is not modelled";
  if (x.swizzle && (x.start >> 7 & (x.swizzle / 16 - 1)))
    wrong = "the start is not at the start of a swizzle pattern and the base offset is 0";
  if (x.swizzle && x.stride % (x.swizzle * 8)) wrong = "the stride offset is not a multiple of the swizzle pattern";
  if (!x.swizzle && !o.k_major) wrong = "an operand that is neither K-major nor swizzled is not modelled";
  if (wrong)
    fault(Fault::failure, "wgmma at %s:%d: descriptor %016llx: %s", at.file, at.line, (unsigned long long)d, wrong);
  return x;
}

// address of 8 elements of the k16 slice: of row or column r from k on if it is K-major, else of k from r on.
u32 address(const Descriptor& x, bool k_major, int r, int k) {
  if (!k_major) {
    const int wide = (int)x.swizzle / 2;  // elements in a row of the pattern
    return swizzled(x.start + r / wide * x.leading + k / 8 * x.stride + k % 8 * x.swizzle + r % wide * 2, x.swizzle);
  }
  k *= 2;
  if (!x.swizzle) return x.start + r / 8 * x.stride + k / 16 * x.leading + r % 8 * 16;
  return swizzled(x.start + r / 8 * x.stride + r % 8 * x.swizzle + k, x.swizzle);
}

void execute(int warp_number, GroupProduct& o) {
  if (o.done) return;
  o.done = true;
  const Descriptor b = decode(o.b, o.at);
  const int n = o.accumulator->n, first_row = warp_number % 4 * 16;
  const int agent = checked ? products_of(warp_number) : 0;
  if (checked) o.clock[agent] = advance(agent);
  const Location location = checked ? location_of(o.at) : 0;
  auto fetch = [&](const Descriptor& d, bool k_major, int r, int k, float* to) {
    const char* p = at_shared(address(d, k_major, r, k), 16, 16, "wgmma", o.at);
    if (checked) {
      Access access{p, 16, false, agent, o.clock, location};
      access.proxy = true;
      check(access);
    }
    eight(p, to, o.bfloat);
  };
  // slice calls put(r, k, element) for rows or columns from `first` on.
  auto slice = [&](const Descriptor& d, bool k_major, int first, int size, auto put) {
    float e[8];
    for (int r = 0; r < size; r += k_major ? 1 : 8)
      for (int k = 0; k < 16; k += k_major ? 8 : 1) {
        fetch(d, k_major, first + r, k, e);
        for (int i = 0; i < 8; i++) k_major ? put(r, k + i, e[i]) : put(r + i, k, e[i]);
      }
  };
  if (!o.a.registers)
    slice(decode(o.a, o.at), o.a.k_major, first_row, 16, [&](int r, int k, float e) { o.left[r][k] = e; });
  std::vector<float> right(16 * n);  // [k n]
  slice(b, o.b.k_major, 0, n, [&](int j, int k, float e) { right[k * n + j] = e; });
  float* c = o.accumulator->values.data();
  if (!o.accumulate) std::fill(c, c + 16 * n, 0.f);
  for (int r = 0; r < 16; r++)
    for (int k = 0; k < 16; k++)
      for (int j = 0; j < n; j++) c[r * n + j] = __builtin_fmaf(o.left[r][k], right[k * n + j], c[r * n + j]);
}

// element is where element e of the group of 8 columns j lies for lane l, in the rows of its warp.
float& element(Accumulator& a, int l, int j, int e) {
  return a.values[(l / 4 + e / 2 * 8) * a.n + 8 * j + l % 4 * 2 + e % 2];
}

template <class F> void each_register(Accumulator& a, F f) {
  for (int l = 0; l < 32; l++)
    for (int j = 0; j < a.n / 8; j++)
      for (int e = 0; e < 4; e++) f(a.registers[l][4 * j + e], element(a, l, j, e));
}

struct Operand {
  float* d;
  u64 a, b;
  const u32* registers;
  bool accumulate;
};

// collect takes A from the registers of all lanes, which have it as those of mma m16n8k16 do.
void collect(float (&left)[16][16], void** arguments, bool bfloat) {
  for (int g = 0; g < 8; g++)
    for (int i = 0; i < 4; i++) {
      u32 words[4];
      for (int t = 0; t < 4; t++) words[t] = static_cast<Operand*>(arguments[4 * g + t])->registers[i];
      eight(words, &left[g + i % 2 * 8][i / 2 * 8], bfloat);
    }
}

Accumulator* accumulator_of(Warp& w, void** arguments, int n, Site at) {
  float* first = static_cast<Operand*>(arguments[0])->d;
  for (auto* a : w.accumulators)
    if (a->registers[0] == first) return a;
  if (!w.fenced)
    fault(Fault::failure, "missing wgmma.fence: other instructions may have used the registers of the wgmma at %s:%d",
          at.file, at.line);
  auto* a = new Accumulator{{}, n, 0, std::vector<float>(16 * n)};
  for (int l = 0; l < 32; l++) a->registers[l] = static_cast<Operand*>(arguments[l])->d;
  each_register(*a, [](float& r, float& value) {
    value = r;
    r = NAN;
  });
  w.accumulators.push_back(a);
  return a;
}

}  // namespace

void wgmma_m64k16(float* d, int n, GroupOperand a, GroupOperand b, bool accumulate, bool bfloat, Site at) {
  Operand mine{d, a.descriptor, b.descriptor, a.registers, accumulate};
  whole_warp("wgmma.mma_async", &mine, at, [&](void** arguments) {
    Warp& w = warp();
    const int number = block->current->warp;
    for (int l = 0; l < 32; l++) {
      const auto* x = static_cast<Operand*>(arguments[l]);
      if (x->a != mine.a || x->b != mine.b || x->accumulate != accumulate)
        fault(Fault::failure, "wgmma at %s:%d: descriptors differ between lanes", at.file, at.line);
    }
    Accumulator* target = accumulator_of(w, arguments, n, at);
    target->pending++;
    w.products.push_back({target, a, b, {}, accumulate, bfloat, false, w.group, at, {}});
    if (a.registers) collect(w.products.back().left, arguments, bfloat);
    if (checked)
      for (int l = 0; l < 32; l++) {
        join(w.products.back().clock, lane(l).clock);
        tick(number * 32 + l);
      }
    const bool in_turn = w.products.size() < 2 || w.products[w.products.size() - 2].done;
    if (in_turn && completes_now()) execute(number, w.products.back());
  });
}

void wgmma_fence(Site at) {
  whole_warp("wgmma.fence", nullptr, at, [](void**) { warp().fenced = true; });
}

void wgmma_commit(Site at) {
  whole_warp("wgmma.commit_group", nullptr, at, [](void**) { warp().group++; });
}

void wgmma_wait(int pending, Site at) {
  whole_warp("wgmma.wait_group", nullptr, at, [&](void**) {
    Warp& w = warp();
    size_t kept = 0;
    for (auto& o : w.products) {
      if (o.group + pending < w.group) {
        execute(block->current->warp, o);
        o.accumulator->pending--;
        if (checked)
          for (int l = 0; l < 32; l++) join(lane(l).clock, o.clock);
      } else {
        if (&w.products[kept] != &o) w.products[kept] = std::move(o);
        kept++;
      }
    }
    w.products.resize(kept);
    for (size_t i = 0; i < w.accumulators.size();) {
      Accumulator* a = w.accumulators[i];
      if (a->pending) {
        i++;
        continue;
      }
      each_register(*a, [](float& r, float& value) { r = value; });
      w.fenced = false;
      delete a;
      w.accumulators.erase(w.accumulators.begin() + i);
    }
  });
}

void check_group_products() {
  if (!warp().products.empty())
    fault(Fault::failure, "a warp returns with the wgmma of %s:%d in flight: wait for its group",
          warp().products[0].at.file, warp().products[0].at.line);
}

// The registers of a block come from one pool of 65,536.
void setmaxnreg(int registers, bool increase, Site at) {
  if (registers < 24 || registers > 256 || registers % 8)
    fault(Fault::failure, "setmaxnreg at %s:%d: %d is not a multiple of 8 from 24 to 256", at.file, at.line, registers);
  block->current->registers = registers;
  whole_warp(increase ? "setmaxnreg.inc" : "setmaxnreg.dec", nullptr, at, [](void**) {});
  int sum = 0;
  for (size_t w = 0; w < block->warps.size(); w++) {
    const int r = block->fibers[w * 32].registers;
    if (!r) return;
    sum += r * 32;
  }
  if (sum > 65536)
    fault(Fault::failure, "setmaxnreg at %s:%d: the block would hold %d registers of 65536", at.file, at.line, sum);
}

}  // namespace emu
