// mbarrier: a phase ends when all threads and all expected bytes have arrived.
#include "checker.h"
#include <algorithm>

namespace emu {

namespace {

MBarrier& find(u32 address, const char* what, Site at) {
  at_shared(address, 8, 8, what, at);
  for (auto& b : block->mbarriers)
    if (b.address == address) return b;
  fault(Fault::failure, "%s at %s:%d: no mbarrier was initialised at shared address %u", what, at.file, at.line,
        address);
}

void try_complete(MBarrier& b) {
  if (b.pending || b.bytes) return;
  b.phase++;
  b.pending = b.count;
  b.released = b.gathering;
  std::vector<int> released;
  released.swap(b.waiting);
  for (int t : released) make_ready(t);
}

void arrive(u32 address, long bytes, const char* what, Site at) {
  MBarrier& b = find(address, what, at);
  if (!b.pending)
    fault(Fault::failure, "%s at %s:%d: more arrivals in a phase than the count, %u", what, at.file, at.line, b.count);
  b.bytes += bytes;
  b.pending--;
  if (checked) {
    join(b.gathering, block->current->clock);
    tick(block->current->number);
  }
  try_complete(b);
}

}  // namespace

void mbarrier_init(uint32_t barrier, unsigned count, Site at) {
  char* const memory = at_shared(barrier, 8, 8, "mbarrier.init", at);
  for (auto& b : block->mbarriers)
    if (b.address == barrier)
      fault(Fault::failure, "mbarrier.init at %s:%d: the one at shared address %u was initialised before", at.file,
            at.line, barrier);
  const Fiber& me = *block->current;
  if (checked) check_thread(me, memory, 8, true, at);
  mark_allocated(memory, 8, false);  // other instructions may not use it from now on
  block->mbarriers.push_back({barrier, 0, count, count, 0, {}, me.clock, {}, me.number, false});
}

void mbarrier_arrive(uint32_t barrier, Site at) { arrive(barrier, 0, "mbarrier.arrive", at); }

void mbarrier_expect(uint32_t barrier, unsigned bytes, Site at) {
  arrive(barrier, bytes, "mbarrier.arrive.expect_tx", at);
}

void mbarrier_wait(uint32_t barrier, unsigned parity, Site at) {
  for (;;) {
    MBarrier& b = find(barrier, "mbarrier.try_wait", at);
    if ((b.phase & 1) != parity) {
      if (checked) join(block->current->clock, b.released);
      return;
    }
    b.waiting.push_back(block->current->number);
    wait("mbarrier.try_wait", at);
  }
}

bool mbarrier_try(uint32_t barrier, unsigned parity, Site at) {
  auto ended = [&] { return (find(barrier, "mbarrier.try_wait", at).phase & 1) != parity; };
  if (!ended()) {
    Fiber* me = block->current;
    find(barrier, "mbarrier.try_wait", at).waiting.push_back(me->number);
    me->timed = true;
    wait("mbarrier.try_wait", at);
    me->timed = false;
    auto& waiting = find(barrier, "mbarrier.try_wait", at).waiting;
    waiting.erase(std::remove(waiting.begin(), waiting.end(), me->number), waiting.end());
    if (!ended()) return false;
  }
  if (checked) join(block->current->clock, find(barrier, "mbarrier.try_wait", at).released);
  return true;
}

void mbarrier_overdue(uint32_t barrier, unsigned parity, Site at) {
  fault(Fault::timeout,
        "mbarrier.try_wait at %s:%d: the mbarrier at shared address %u does not end its phase with parity %u in time",
        at.file, at.line, barrier, parity);
}

uint64_t nanoseconds() { return block->nanoseconds; }

void require_mbarrier(u32 barrier, const char* what, Site at) {
  const MBarrier& b = find(barrier, what, at);
  if (!b.known)
    fault(Fault::failure,
          "missing fence: %s at %s:%d uses the mbarrier at shared address %u, which thread %u has initialised without "
          "fence.mbarrier_init or fence.proxy.async behind it",
          what, at.file, at.line, barrier, b.maker);
}

void arrive_bytes(u32 barrier, long bytes, const Clock& clock, Site at) {
  MBarrier& b = find(barrier, "complete_tx", at);
  b.bytes -= bytes;
  if (checked) join(b.gathering, clock);
  try_complete(b);
}

void mbarrier_fence() {
  for (auto& b : block->mbarriers) b.known |= b.maker == block->current->number;
}

void fence_proxy_async() {
  block->current->fences++;
  mbarrier_fence();
}

}  // namespace emu
