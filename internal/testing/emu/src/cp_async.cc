// cp.async: each thread's copies into shared memory, in groups. They happen at once, at the wait, or at
// either, as the settings say.
#include "checker.h"

namespace emu {

bool completes_now() {
  return settings.copies == When::early || (settings.copies == When::random && random_number() % 2);
}

namespace {

void execute(const Fiber& fiber, Copy& c) {
  if (c.done) return;
  c.done = true;
  char* to = at_shared(c.to, c.bytes, c.bytes, "cp.async", c.at);
  if (checked) {
    const int agent = copies_of(fiber.number);
    c.clock[agent] = advance(agent);
    const Location location = location_of(c.at);
    if (c.source_bytes) check({c.from, (size_t)c.source_bytes, false, agent, c.clock, location});
    check({to, (size_t)c.bytes, true, agent, c.clock, location});
  }
  if (c.source_bytes) memcpy(to, c.from, c.source_bytes);
  memset(to + c.source_bytes, 0, c.bytes - c.source_bytes);
}

}  // namespace

void cp_async(uint32_t to, const void* from, int bytes, int source_bytes, Site at) {
  Fiber& me = *block->current;
  if (source_bytes < 0 || source_bytes > bytes)
    fault(Fault::failure, "cp.async at %s:%d: %d source bytes of %d", at.file, at.line, source_bytes, bytes);
  if ((uintptr_t)from % bytes)
    fault(Fault::misaligned, "cp.async at %s:%d: the global address is not a multiple of %d", at.file, at.line, bytes);
  me.copies.push_back({to, from, bytes, source_bytes, me.copy_group, false, at, {}});
  if (checked) {
    me.copies.back().clock = me.clock;
    tick(me.number);
    if (settings.count) {
      const Location location = location_of(at);
      me.touches.push_back({location, offset_of(block->window) + to, (uint8_t)bytes, true});
      if (source_bytes) me.touches.push_back({location, offset_of(from), (uint8_t)source_bytes, false});
    }
  }
  if (completes_now()) execute(me, me.copies.back());
}

void cp_async_commit() { block->current->copy_group++; }

void cp_async_wait(int pending, Site) {
  Fiber& me = *block->current;
  size_t kept = 0;
  for (auto& c : me.copies) {
    if (c.group + pending < me.copy_group) {
      execute(me, c);
      if (checked) join(me.clock, c.clock);
    } else {
      if (&me.copies[kept] != &c) me.copies[kept] = std::move(c);
      kept++;
    }
  }
  me.copies.resize(kept);
}

void finish_copies(Fiber& fiber) {
  for (auto& c : fiber.copies) execute(fiber, c);
}

}  // namespace emu
