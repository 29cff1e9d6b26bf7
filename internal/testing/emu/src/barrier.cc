// Barriers of a block: bar.sync and bar.arrive, of which __syncthreads is number 0 for all threads.
#include "checker.h"

namespace emu {

namespace {

void try_release(Barrier& b) {
  const int need = b.count ? b.count : block->living;
  if (!b.arrived || b.arrived < need) return;
  if (checked) join_threads(b.joined, b.waiting);
  std::vector<int> released;
  released.swap(b.waiting);
  b.joined.clear();
  b.arrived = 0;
  for (int t : released) make_ready(t);
}

Barrier& arrive(int id, int count, Site at) {
  if (id < 0 || id > 15) fault(Fault::failure, "barrier %d at %s:%d: there are 0 to 15", id, at.file, at.line);
  Barrier& b = block->barriers[id];
  if (b.arrived && b.count != count)
    fault(Fault::failure, "barrier %d is for %d threads at %s:%d and for %d at %s:%d", id, b.count, b.at.file,
          b.at.line, count, at.file, at.line);
  if (b.arrived && !count && b.at.line != at.line)
    fault(Fault::failure, "__syncthreads at %s:%d while other threads wait in the one at %s:%d", at.file, at.line,
          b.at.file, b.at.line);
  b.count = count;
  b.at = at;
  b.arrived++;
  b.joined.push_back(block->current->number);
  return b;
}

}  // namespace

void release_barriers() {
  for (auto& b : block->barriers) try_release(b);
}

void bar_sync(int id, int count, Site at) {
  Barrier& b = arrive(id, count, at);
  Fiber* me = block->current;
  b.waiting.push_back(me->number);
  me->state = State::blocked;
  me->waits_in = "__syncthreads or bar.sync";
  me->waits_at = at;
  try_release(b);
  yield_to_next();
}

void bar_arrive(int id, int count, Site at) { try_release(arrive(id, count, at)); }

}  // namespace emu
