// Launches: the blocks of a grid, one after another on each thread of the host.
#include "checker.h"
#include "statistics.h"
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <thread>

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

void run_block(Block& b, u64 number) {
  b.index = {(unsigned)(number % b.grid.x), (unsigned)(number / b.grid.x % b.grid.y),
             (unsigned)(number / b.grid.x / b.grid.y)};
  b.living = b.threads;
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
  yield_to_next();
  b.current = nullptr;
  if (checked && settings.count) collect(*b.kernel);
}

// prepared is the block of a host thread. Its stacks are reused by later launches.
Block& prepared(int worker, const Kernel& kernel, const Shape& shape, void** parameters) {
  static Block* cache[kWindows];
  if (!cache[worker]) {
    cache[worker] = new Block();
    cache[worker]->shared_top = kSharedEnd;
  }
  Block& b = *cache[worker];
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
  b.window = arena + worker * kWindow;
  b.dynamic = shape.dynamic;
  return b;
}

}  // namespace

Report run(const Kernel& kernel, const Shape& shape, void** parameters) {
  static std::mutex one_at_a_time;
  std::lock_guard<std::mutex> hold(one_at_a_time);
  if (checked) start_launch();
  const u64 total = (u64)shape.grid.x * shape.grid.y * shape.grid.z;
  std::atomic<u64> next{0};
  std::mutex report_lock;
  Report report;
  auto work = [&](int worker) {
    Block& b = prepared(worker, kernel, shape, parameters);
    block = &b;
    for (u64 i; (i = next++) < total;) {
      run_block(b, i);
      if (b.report.kind == Fault::none) continue;
      std::lock_guard<std::mutex> hold(report_lock);
      if (report.kind == Fault::none) report = b.report;
      next = total;
    }
    block = nullptr;
  };
  // The shadow memory of the checker is for one thread.
  const int workers = checked ? 1 : (int)std::min<u64>(settings.threads, total);
  std::vector<std::thread> helpers;
  for (int w = 1; w < workers; w++) helpers.emplace_back(work, w);
  work(0);
  for (auto& h : helpers) h.join();
  return report;
}

}  // namespace emu
