// The memory of the devices: one address space with red zones between allocations, which are at its lower end, and
// reserved ranges at its upper one. Fresh and freed memory holds NaN, and addresses are reused as late as possible.
#include "checker.h"
#include <algorithm>
#include <map>
#include <mutex>
#include <sys/mman.h>

namespace emu {

char* arena;
size_t arena_bytes;

namespace {

constexpr size_t kAlign = 256;
constexpr size_t kBottom = kWindow * kWindows;

struct Region {
  size_t bytes, requested;  // requested is 0 where what is mapped has no access
  int device;
  bool mapped = false;
};

struct Range {
  size_t bytes;
  int device;
};

std::mutex lock;
std::map<size_t, Region> regions;     // live, by offset; bytes include the red zone behind
std::map<size_t, size_t> holes;       // freed memory that is not reused yet
size_t top = kBottom;                 // nothing from here on was ever allocated,
size_t lowest;                        // nor below this one reserved
size_t in_use[kDevices];              // without red zones
std::map<size_t, Range> ranges;       // by offset
std::multimap<size_t, size_t> spare;  // offsets of ranges that are free, by size

size_t find_hole(size_t bytes) {
  for (auto& h : holes)
    if (h.second >= bytes) return h.first;
  return 0;
}

size_t find_space(size_t bytes) {
  // Twice the memory, so that freed addresses are not reused soon.
  const size_t most = kBottom + 2 * settings.devices * settings.memory + (64 << 20);
  if (top + bytes <= std::min(most, lowest)) {
    top += bytes;
    return top - bytes;
  }
  const size_t at = find_hole(bytes);
  if (!at) return 0;
  const size_t rest = holes[at] - bytes;
  holes.erase(at);
  if (rest) holes[at + bytes] = rest;
  return at;
}

void add_hole(size_t at, size_t bytes) {
  auto next = holes.lower_bound(at);
  if (next != holes.end() && at + bytes == next->first) {
    bytes += next->second;
    next = holes.erase(next);
  }
  if (next != holes.begin() && std::prev(next)->first + std::prev(next)->second == at)
    std::prev(next)->second += bytes;
  else
    holes[at] = bytes;
}

}  // namespace

void open_arena() {
  if (arena) return;
  arena_bytes = lowest = 256ull << 30;
  void* p = mmap(nullptr, arena_bytes + kGranularity, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) abort();
  arena = reinterpret_cast<char*>(((uintptr_t)p + kGranularity - 1) / kGranularity * kGranularity);
  open_shadow();
}

void* allocate(int device, size_t bytes) {
  std::lock_guard<std::mutex> hold(lock);
  if (in_use[device] + bytes > settings.memory) return nullptr;
  const size_t padded = (bytes + kAlign - 1) / kAlign * kAlign + kRedZone;
  const size_t at = find_space(padded);
  if (!at) return nullptr;
  regions[at] = {padded, bytes, device};
  in_use[device] += bytes;
  memset(arena + at, 0xff, bytes);
  mark_allocated(arena + at, bytes, true);
  return arena + at;
}

namespace {

// give_back frees a region and returns the next one.
auto give_back(std::map<size_t, Region>::iterator it) {
  const Region region = it->second;
  mark_allocated(arena + it->first, region.requested, false);
  if (region.mapped) {
    madvise(arena + it->first, region.bytes, MADV_DONTNEED);
    in_use[region.device] -= region.bytes;
  } else {
    memset(arena + it->first, 0xff, region.requested);
    in_use[region.device] -= region.requested;
    add_hole(it->first, region.bytes);
  }
  return regions.erase(it);
}

}  // namespace

bool release(void* p) {
  std::lock_guard<std::mutex> hold(lock);
  auto it = regions.find(offset_of(p));
  if (it == regions.end() || it->second.mapped) return false;
  give_back(it);
  return true;
}

void release_all(int device) {
  std::lock_guard<std::mutex> hold(lock);
  for (auto it = regions.begin(); it != regions.end();)
    it = it->second.device == device ? give_back(it) : std::next(it);
  for (auto it = ranges.begin(); it != ranges.end();) {
    if (it->second.device == device) spare.emplace(it->second.bytes, it->first);
    it = it->second.device == device ? ranges.erase(it) : std::next(it);
  }
}

size_t used(int device) {
  std::lock_guard<std::mutex> hold(lock);
  return in_use[device];
}

int holdings(int device) {
  std::lock_guard<std::mutex> hold(lock);
  int n = 0;
  for (auto& r : regions) n += r.second.device == device;
  for (auto& r : ranges) n += r.second.device == device;
  return n;
}

void* reserve(int device, size_t bytes) {
  std::lock_guard<std::mutex> hold(lock);
  auto it = spare.find(bytes);
  if (it == spare.end()) {
    if (bytes > lowest - top) return nullptr;
    it = spare.emplace(bytes, lowest -= bytes);
  }
  const size_t at = it->second;
  spare.erase(it);
  ranges[at] = {bytes, device};
  return arena + at;
}

bool unreserve(void* p, size_t bytes) {
  std::lock_guard<std::mutex> hold(lock);
  auto it = ranges.find(offset_of(p));
  auto mapping = regions.lower_bound(offset_of(p));
  if (it == ranges.end() || it->second.bytes != bytes) return false;
  if (mapping != regions.end() && mapping->first < it->first + bytes) return false;
  spare.emplace(bytes, it->first);
  ranges.erase(it);
  return true;
}

bool map(int device, void* p, size_t bytes) {
  std::lock_guard<std::mutex> hold(lock);
  const size_t at = offset_of(p);
  auto range = ranges.upper_bound(at);
  auto next = regions.lower_bound(at);
  if (range == ranges.begin() || (--range, at + bytes > range->first + range->second.bytes)) return false;
  if (next != regions.end() && next->first < at + bytes) return false;
  if (next != regions.begin() && (--next, next->first + next->second.bytes > at)) return false;
  regions[at] = {bytes, 0, device, true};
  in_use[device] += bytes;
  return true;
}

bool give_access(void* p, size_t bytes) {
  std::lock_guard<std::mutex> hold(lock);
  auto it = regions.find(offset_of(p));
  if (it == regions.end() || !it->second.mapped || it->second.bytes != bytes) return false;
  it->second.requested = bytes;
  memset(p, 0xff, bytes);
  mark_allocated(p, bytes, true);
  return true;
}

bool unmap(void* p, size_t bytes) {
  std::lock_guard<std::mutex> hold(lock);
  const size_t at = offset_of(p);
  auto first = regions.lower_bound(at), last = regions.lower_bound(at + bytes);
  if (first == last || first->first != at || std::prev(last)->first + std::prev(last)->second.bytes != at + bytes)
    return false;
  while (first != last) first = give_back(first);
  return true;
}

Allocation allocation_at(const void* p) {
  std::lock_guard<std::mutex> hold(lock);
  auto it = regions.upper_bound(offset_of(p));
  if (!in_arena(p) || it == regions.begin()) return {};
  --it;
  if (offset_of(p) >= it->first + it->second.requested) return {};
  Allocation a{it->first, it->second.requested, it->second.device};
  for (auto next = std::next(it); it->second.mapped && next != regions.end(); ++next) {
    if (next->first != a.start + a.bytes || next->second.device != a.device) break;
    a.bytes += next->second.requested;
  }
  return a;
}

std::string describe(size_t offset) {
  if (is_shared(offset)) return "shared memory at " + std::to_string(offset % kWindow - kSharedStart);
  std::lock_guard<std::mutex> hold(lock);
  auto it = regions.upper_bound(offset);
  if (it == regions.begin() || (--it, offset >= it->first + it->second.bytes)) return "freed memory, or none";
  return "byte " + std::to_string(offset - it->first) + " of an allocation of " + std::to_string(it->second.requested);
}

}  // namespace emu
