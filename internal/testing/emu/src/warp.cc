// What the lanes of a warp do together, apart from matrix products.
#include "checker.h"

namespace emu {

void sync_warp(uint32_t mask, Site at) {
  collective(mask, "__syncwarp", nullptr, at, [](void**, u32 lanes) {
    if (!checked) return;
    std::vector<int> threads;
    for (int l = 0; l < 32; l++)
      if (lanes >> l & 1) threads.push_back(block->current->warp * 32 + l);
    join_threads(threads, threads);
  });
}

namespace {

struct Exchange {
  u32 in, out;
  int argument;
};

// source returns the lane that lane l reads, or l itself where the shuffle leaves the value alone.
int source(Shuffle kind, int l, int argument) {
  int from = l;
  switch (kind) {
    case Shuffle::index: return argument & 31;
    case Shuffle::up: from = l - argument; break;
    case Shuffle::down: from = l + argument; break;
    case Shuffle::exclusive_or: return l ^ (argument & 31);
  }
  return from < 0 || from > 31 ? l : from;
}

}  // namespace

uint32_t shuffle(uint32_t mask, uint32_t value, Shuffle kind, int argument, Site at) {
  Exchange mine{value, value, argument};
  collective(mask, "shfl.sync", &mine, at, [&](void** arguments, u32 lanes) {
    for (int l = 0; l < 32; l++) {
      if (!(lanes >> l & 1)) continue;
      auto* x = static_cast<Exchange*>(arguments[l]);
      const int from = source(kind, l, x->argument);
      if (!(lanes >> from & 1))
        fault(Fault::failure, "shfl.sync at %s:%d: lane %d reads lane %d, which takes no part (mask %08x)", at.file,
              at.line, l, from, lanes);
      x->out = static_cast<Exchange*>(arguments[from])->in;
    }
  });
  return mine.out;
}

uint32_t ballot(uint32_t mask, bool predicate, Site at) {
  Exchange mine{predicate, 0, 0};
  collective(mask, "vote.sync.ballot", &mine, at, [](void** arguments, u32 lanes) {
    u32 votes = 0;
    for (int l = 0; l < 32; l++)
      if (lanes >> l & 1) votes |= static_cast<Exchange*>(arguments[l])->in << l;
    for (int l = 0; l < 32; l++)
      if (lanes >> l & 1) static_cast<Exchange*>(arguments[l])->out = votes;
  });
  return mine.out;
}

}  // namespace emu
