// TMA: copies of a tensor map's box between global and shared memory. Loads complete on an mbarrier, stores in
// the bulk groups of their thread.
#include "checker.h"
#include <algorithm>

namespace emu {

namespace {

// move copies a box, 16 bytes at a time. What lies outside the tensor is read as 0 and not written.
void move(const BoxCopy& o, const TensorMap& t, bool store, int agent) {
  const long row_bytes = (long)(t.width * t.element), box_bytes = (long)(t.box_width * t.element);
  const Location location = checked ? location_of(o.at) : 0;
  auto inspect = [&](const void* p, long bytes, bool write) {
    if (!checked) return;
    Access access{p, (size_t)bytes, write, agent, o.clock, location};
    access.proxy = true;
    check(access);
  };
  for (long r = 0; r < (long)t.box_height; r++)
    for (long c = 0; c < box_bytes; c += 16) {
      char* s = block->window + swizzled(o.shared + (u32)(r * box_bytes + c), t.swizzle);
      inspect(s, 16, !store);
      if (!store) memset(s, 0, 16);
      const long y = o.y + r, x = (long)o.x * t.element + c;
      const long from = std::max(0l, -x), to = std::min(16l, row_bytes - x);
      if (y < 0 || y >= (long)t.height || from >= to) continue;
      char* g = t.base + y * (long)t.pitch + x + from;
      inspect(g, to - from, store);
      memcpy(store ? g : s + from, store ? s + from : g, to - from);
    }
}

BoxCopy describe_copy(const void* map, u32 shared, int x, int y, u32 barrier, const char* what, Site at) {
  const TensorMap t = read_map(map, what, at);
  at_shared(shared, (size_t)t.box_width * t.box_height * t.element, 128, what, at);
  if (t.swizzle && shared % (t.swizzle * 8))
    fault(Fault::misaligned, "%s at %s:%d: shared address %u is not at the start of a %u-byte swizzle pattern", what,
          at.file, at.line, shared, t.swizzle * 8);
  BoxCopy o{};
  o.shared = shared;
  o.barrier = barrier;
  memcpy(o.map, map, sizeof o.map);
  o.x = x;
  o.y = y;
  o.at = at;
  if (checked) {
    o.clock = block->current->clock;
    tick(block->current->number);
  }
  return o;
}

void execute_store(const Fiber& fiber, BoxCopy& o) {
  if (o.done) return;
  o.done = true;
  const int agent = checked ? stores_of(fiber.warp) : 0;
  if (checked) o.clock[agent] = advance(agent);
  move(o, read_map(o.map, "TMA store", o.at), true, agent);
}

}  // namespace

void tma_load(uint32_t to, const void* map, int x, int y, uint32_t barrier, Site at) {
  require_mbarrier(barrier, "TMA load", at);
  block->loads.push_back(describe_copy(map, to, x, y, barrier, "TMA load", at));
  if (settings.copies == When::early) run_load(block->loads.size() - 1);
}

void run_load(size_t i) {
  BoxCopy o = std::move(block->loads[i]);
  block->loads.erase(block->loads.begin() + i);
  const TensorMap t = read_map(o.map, "TMA load", o.at);
  const int agent = checked ? loads_of(o.barrier) : 0;
  if (checked) o.clock[agent] = advance(agent);
  move(o, t, false, agent);
  arrive_bytes(o.barrier, (long)t.box_width * t.box_height * t.element, o.clock, o.at);
}

void tma_store(const void* map, uint32_t from, int x, int y, Site at) {
  Fiber& me = *block->current;
  me.stores.push_back(describe_copy(map, from, x, y, 0, "TMA store", at));
  me.stores.back().group = me.store_group;
  if (completes_now()) execute_store(me, me.stores.back());
}

void tma_commit() { block->current->store_group++; }

void tma_wait(int pending, Site) {
  Fiber& me = *block->current;
  size_t kept = 0;
  for (auto& o : me.stores) {
    if (o.group + pending < me.store_group) {
      execute_store(me, o);
      if (checked) join(me.clock, o.clock);
    } else {
      if (&me.stores[kept] != &o) me.stores[kept] = std::move(o);
      kept++;
    }
  }
  me.stores.resize(kept);
}

void check_stores(const Fiber& fiber) {
  for (auto& o : fiber.stores)
    if (!o.done)
      fault(Fault::failure, "a thread returns with the TMA store of %s:%d in flight: wait for its bulk group",
            o.at.file, o.at.line);
}

}  // namespace emu
