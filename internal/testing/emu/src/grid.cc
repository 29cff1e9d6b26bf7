// Grids: the blocks of a launch on the threads of the host. Each of these has several blocks under way, as a
// multiprocessor has: one runs until it ends or waits for another block. Blocks begin in any order, and where the order
// is random any of them may go on after one has stored what others may wait for.
#include "checker.h"
#include "statistics.h"
#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>

namespace emu {

namespace {

struct Grid {
  const Kernel& kernel;
  const Shape& shape;
  void** const parameters;
  const u64 total;
  u64 random = (settings.seed + 1) * 0x9e3779b97f4a7c15;
  u64 step = 1, from = 0;  // the blocks are from, from + step, ... modulo the total
  int slots;               // blocks of a thread of the host that are under way at most

  std::mutex lock;
  std::condition_variable changed;
  Report report;
  u64 next = 0, stores = 0;      // blocks that have begun, words that were stored for others
  int workers, idle = 0;         // idle since the last store
  bool ended = false;            // by a fault

  Grid(const Kernel& kernel, const Shape& shape, void** parameters)
      : kernel(kernel), shape(shape), parameters(parameters),
        total((u64)shape.grid.x * shape.grid.y * shape.grid.z) {
    // The shadow memory of the checker is for one thread.
    workers = checked ? 1 : (int)std::min<u64>(settings.threads, total);
    slots = kWindows / workers;
    if (settings.order == Order::lifo) step = from = total - 1;
    if (settings.order != Order::random && settings.order != Order::skewed) return;
    slots = 1 + (int)(random_number(random) % slots);
    from = random_number(random) % total;
    do step = 1 + random_number(random) % total;
    while (std::gcd(step, total) > 1);
  }

  void end(const Report& why) {
    std::lock_guard<std::mutex> hold(lock);
    if (!ended) report = why;
    ended = true;
    changed.notify_all();
  }

  // start begins the next block, if there is one.
  Block* start(int window) {
    std::unique_lock<std::mutex> hold(lock);
    if (next == total || ended) return nullptr;
    const u64 number = (from + next++ * step) % total;
    hold.unlock();
    Block& b = prepared(window, kernel, shape, parameters);
    begin(b, number);
    return &b;
  }

  // wait returns false if the stores that the blocks of all threads wait for do not come.
  bool wait(u64 seen) {
    std::unique_lock<std::mutex> hold(lock);
    if (stores == seen) idle++;
    while (stores == seen && !ended && idle < workers) changed.wait(hold);
    return stores != seen;
  }

  void work(int worker);
};

Grid* grid;

// can_run tells whether a thread of a block can, and wakes those that waited for words that other blocks have stored.
bool can_run(Block* b) {
  block = b;
  auto& polling = b->polling;
  for (size_t i = polling.size(); i-- > 0;) {
    const Fiber& f = b->fibers[polling[i]];
    if (__atomic_load_n(f.word, __ATOMIC_ACQUIRE) != f.value) continue;
    make_ready(polling[i]);
    polling.erase(polling.begin() + i);
  }
  return b->waiting || !b->loads.empty();
}

Report deadlock(const Block& b) {
  const Fiber& f = b.fibers[b.polling[0]];
  char text[200];
  snprintf(text, sizeof text, "deadlock between blocks: block (%u,%u,%u) of %s waits at %s:%d for %u, found %u",
           b.index.x, b.index.y, b.index.z, b.kernel->name, f.waits_at.file, f.waits_at.line, f.value, *f.word);
  return {Fault::timeout, text};
}

void Grid::work(int worker) {
  std::vector<Block*> going(slots);  // null: a free place
  std::vector<int> able;
  for (;;) {
    u64 seen;
    {
      std::lock_guard<std::mutex> hold(lock);
      if (ended) break;
      seen = stores;
      able.clear();
      const auto place = std::find(going.begin(), going.end(), nullptr) - going.begin();
      if (place < slots && next < total) able.push_back((int)place);
    }
    for (int s = 0; s < slots; s++)
      if (going[s] && can_run(going[s])) able.push_back(s);
    if (able.empty()) {
      const auto stuck = std::find_if(going.begin(), going.end(), [](Block* b) { return b; });
      if (stuck == going.end()) break;
      if (!wait(seen)) end(deadlock(**stuck));
      continue;
    }
    const int s = settings.order == Order::random ? able[random_number(random) % able.size()] : able.back();
    Block*& b = going[s];
    if (!b && !(b = start(worker * slots + s))) continue;
    block = b;
    yield_to_next();
    if (b->report.kind != Fault::none) end(b->report);
    if (b->living) continue;
    if (checked && settings.count) collect(kernel);
    b = nullptr;
  }
  block = nullptr;
  std::lock_guard<std::mutex> hold(lock);
  workers--;
  changed.notify_all();
}

}  // namespace

Report run(const Kernel& kernel, const Shape& shape, void** parameters) {
  static std::mutex one_at_a_time;
  std::lock_guard<std::mutex> hold(one_at_a_time);
  if (checked) start_launch();
  Grid g(kernel, shape, parameters);
  grid = &g;
  std::vector<std::thread> helpers;
  for (int w = g.workers; w-- > 1;) helpers.emplace_back([&g, w] { g.work(w); });
  g.work(0);
  for (auto& h : helpers) h.join();
  return g.report;
}

void store_release(uint32_t* p, uint32_t value, Site at) {
  Fiber& me = *block->current;
  check_word(p, true, at);
  if (checked) release(me, p);
  __atomic_store_n(p, value, __ATOMIC_RELEASE);
  {
    std::lock_guard<std::mutex> hold(grid->lock);
    grid->stores++;
    grid->idle = 0;
    grid->changed.notify_all();
  }
  if (settings.order == Order::fifo || random_number() % 2) return;
  make_ready(me.number);
  switch_to(nullptr);
}

void wait_acquire(const uint32_t* p, uint32_t value, Site at) {
  Fiber& me = *block->current;
  check_word(p, false, at);
  if (__atomic_load_n(p, __ATOMIC_ACQUIRE) != value) {
    me.word = p;
    me.value = value;
    block->polling.push_back(me.number);
    wait("a wait for another block", at);
  }
  if (checked) acquire(me, p);
}

}  // namespace emu
