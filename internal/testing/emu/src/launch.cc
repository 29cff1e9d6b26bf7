// Launches: how a block begins, and how a fault ends it.
#include "checker.h"
#include <cstdarg>
#include <cstdio>

namespace emu {

void fault(Fault kind, const char* format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  const Thread& me = *block->current;
  const uint3 b = block->index, t = me.index;
  char where[160];
  snprintf(where, sizeof where, " [%s, block (%u,%u,%u), thread (%u,%u,%u)]", block->kernel->name, b.x, b.y, b.z, t.x,
           t.y, t.z);
  block->report = {kind, std::string(text) + where};
  switch_to(nullptr);
  __builtin_unreachable();
}

namespace {

void start_warps(Block& b) {
  for (size_t i = 0; i < b.warps.size(); i++) {
    Warp& w = b.warps[i];
    const int lanes = std::min(32, b.threads - (int)i * 32);
    w.alive = lanes == 32 ? ~0u : (1u << lanes) - 1;
    for (auto& r : w.rendezvous) r.mask = 0;
    for (auto* a : w.accumulators) delete a;
    w.products.clear();
    w.accumulators.clear();
    w.group = 0;
    w.fenced = false;
    b.priority[i] = (u32)random_number();
  }
}

void start_fibers(Block& b) {
  for (int t = 0; t < b.threads; t++) {
    Fiber& f = b.fibers[t];
    const unsigned n = (unsigned)t;
    f.launch = &b;
    f.number = n;
    f.lane = n % 32;
    f.warp = n / 32;
    f.index = {n % b.block.x, n / b.block.x % b.block.y, n / b.block.x / b.block.y};
    f.copies.clear();
    f.stores.clear();
    f.products.clear();
    f.touches.clear();
    f.copy_group = f.store_group = 0;
    f.registers = 0;
    f.fences = 1;
    if (checked) start_thread(f);
    prepare(f);
    make_ready(t);
  }
}

}  // namespace

void begin(Block& b, u64 number) {
  block = &b;
  b.index = {(unsigned)(number % b.grid.x), (unsigned)(number / b.grid.x % b.grid.y),
             (unsigned)(number / b.grid.x / b.grid.y)};
  b.living = b.threads;
  b.polling.clear();
  b.head = b.waiting = 0;
  b.current = nullptr;
  b.random = (settings.seed + 1) * 0x9e3779b97f4a7c15 ^ (number + 1) * 0xd1b54a32d192ed03;
  b.report = {};
  for (auto& x : b.barriers) x = Barrier();
  b.mbarriers.clear();
  b.nanoseconds = 0;
  b.loads.clear();
  reset_shared();
  if (checked) start_block();
  start_warps(b);
  start_fibers(b);
}

// The stacks of a block are reused by later launches.
Block& prepared(int window, const Kernel& kernel, const Shape& shape, void** parameters) {
  static Block* cache[kWindows];
  if (!cache[window]) {
    cache[window] = new Block();
    cache[window]->shared_top = kSharedEnd;
  }
  Block& b = *cache[window];
  b.threads = (int)(shape.block.x * shape.block.y * shape.block.z);
  while ((int)b.fibers.size() < b.threads) {
    b.fibers.emplace_back();
    make_stack(b.fibers.back());
  }
  b.grid = shape.grid;
  b.block = shape.block;
  b.kernel = &kernel;
  b.parameters = parameters;
  b.warps.resize((b.threads + 31) / 32);
  b.priority.resize(b.warps.size());
  b.ready.resize(b.threads);
  b.window = arena + window * kWindow;
  b.dynamic = shape.dynamic;
  return b;
}

}  // namespace emu
