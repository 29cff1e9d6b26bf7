// The scheduler: which thread of a block runs next. Threads run until they wait, so a schedule is decided by
// the order in which those that can run are taken.
#include "checker.h"
#include <map>

namespace emu {

u64 random_number(u64& x) {  // xorshift64 (Marsaglia 2003)
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return x;
}

void make_ready(int thread) {
  block->fibers[thread].state = State::ready;
  block->ready[(block->head + block->waiting++) % block->threads] = thread;
}

namespace {

int& slot(size_t i) { return block->ready[(block->head + i) % block->threads]; }

// skewed lets one warp run as far ahead of the others as it can, which finds missing barriers that a uniform
// choice seldom finds. The idea is that of probabilistic concurrency testing (Burckhardt et al. 2010): fixed
// random priorities that change now and then.
size_t skewed() {
  if (random_number() % 256 == 0) block->priority[random_number() % block->warps.size()] = (u32)random_number();
  size_t best = random_number() % block->waiting;
  for (size_t i = 0; i < block->waiting; i++)
    if (block->priority[block->fibers[slot(i)].warp] > block->priority[block->fibers[slot(best)].warp]) best = i;
  return best;
}

Fiber* take() {
  if (settings.order == Order::fifo) {
    int thread = slot(0);
    block->head = (block->head + 1) % block->threads;
    block->waiting--;
    return &block->fibers[thread];
  }
  size_t i = block->waiting - 1;  // lifo
  if (settings.order == Order::random) i = random_number() % block->waiting;
  if (settings.order == Order::skewed) i = skewed();
  int thread = slot(i);
  slot(i) = slot(--block->waiting);
  return &block->fibers[thread];
}

// next returns the thread to run, null if none can. Loads by TMA complete at random, or when no thread can run.
Fiber* next() {
  for (;;) {
    auto& loads = block->loads;
    if (!loads.empty() && settings.copies == When::random && random_number() % 8 == 0)
      run_load(random_number() % loads.size());
    if (block->waiting) return take();
    if (loads.empty()) return nullptr;
    run_load(settings.copies == When::random ? random_number() % loads.size() : 0);
  }
}

// advance_time moves the clock ahead, so that waits with a time limit continue.
void advance_time() {
  block->nanoseconds += 1000000000000;
  for (int t = 0; t < block->threads; t++)
    if (Fiber& f = block->fibers[t]; f.state == State::blocked && f.timed) make_ready(t);
}

[[noreturn]] void deadlock() {
  std::map<std::string, int> where;
  for (int t = 0; t < block->threads; t++) {
    const Fiber& f = block->fibers[t];
    if (f.state == State::blocked)
      where[std::string(f.waits_in) + " at " + f.waits_at.file + ":" + std::to_string(f.waits_at.line)]++;
  }
  std::string text;
  for (auto& w : where) text += " " + std::to_string(w.second) + " threads in " + w.first + ";";
  fault(Fault::timeout, "deadlock:%s %d returned", text.c_str(), block->threads - block->living);
}

}  // namespace

void yield_to_next() {
  Fiber* to = next();
  if (!to && block->polling.empty()) {
    advance_time();
    to = next();
    if (!to) deadlock();
  }
  if (to != block->current) switch_to(to);
}

void wait(const char* what, Site at) {
  Fiber* me = block->current;
  me->state = State::blocked;
  me->waits_in = what;
  me->waits_at = at;
  yield_to_next();
}

void finish() {
  Fiber& me = *block->current;
  finish_copies(me);
  check_stores(me);
  if (!me.products.empty())
    fault(Fault::failure, "mma at %s:%d: its result is never collected, mma_done() is missing", me.products[0].at.file,
          me.products[0].at.line);
  Warp& w = warp();
  w.alive &= ~(1u << me.lane);
  me.state = State::finished;
  block->living--;
  if (!w.alive) check_group_products();
  for (auto& r : w.rendezvous)
    if (r.mask >> me.lane & 1)
      fault(Fault::failure, "a thread returns while lanes %08x of its warp wait for it in %s at %s:%d", r.arrived,
            r.name, r.at.file, r.at.line);
  release_barriers();
  if (block->living == 0) {
    if (!block->loads.empty())
      fault(Fault::failure, "the block ends with a TMA load in flight, issued at %s:%d", block->loads[0].at.file,
            block->loads[0].at.line);
    switch_to(nullptr);
  }
  yield_to_next();
  __builtin_unreachable();
}

}  // namespace emu
