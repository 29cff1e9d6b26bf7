// The memory of the devices: one address space with red zones between allocations. Fresh and freed memory holds
// NaN, and addresses are reused as late as possible.
#include "checker.h"
#include <map>
#include <mutex>
#include <sys/mman.h>

namespace emu {

char* arena;
size_t arena_bytes;

namespace {

constexpr size_t kAlign = 256;

struct Region {
  size_t bytes, requested;
  int device;
};

std::mutex lock;
std::map<size_t, Region> regions;   // live, by offset; bytes include the red zone behind
std::map<size_t, size_t> holes;   // freed ranges that are not reused yet
size_t top = kWindow * kWindows;  // nothing above was ever used
std::vector<size_t> in_use;       // by device, without red zones

size_t find_hole(size_t bytes) {
  for (auto& h : holes)
    if (h.second >= bytes) return h.first;
  return 0;
}

size_t find_space(size_t bytes) {
  if (arena_bytes - top >= bytes) {
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
  // Twice the memory, so that freed addresses are not reused soon.
  arena_bytes = kWindow * kWindows + 2 * settings.devices * settings.memory + (64 << 20);
  arena = static_cast<char*>(
      mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (arena == MAP_FAILED) abort();
  in_use.resize(settings.devices);
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
  memset(arena + it->first, 0xff, region.requested);
  mark_allocated(arena + it->first, region.requested, false);
  in_use[region.device] -= region.requested;
  add_hole(it->first, region.bytes);
  return regions.erase(it);
}

}  // namespace

bool release(void* p) {
  std::lock_guard<std::mutex> hold(lock);
  auto it = regions.find(offset_of(p));
  if (it == regions.end()) return false;
  give_back(it);
  return true;
}

void release_all(int device) {
  std::lock_guard<std::mutex> hold(lock);
  for (auto it = regions.begin(); it != regions.end();)
    it = it->second.device == device ? give_back(it) : std::next(it);
}

size_t used(int device) {
  std::lock_guard<std::mutex> hold(lock);
  return in_use[device];
}

Allocation allocation_at(const void* p) {
  std::lock_guard<std::mutex> hold(lock);
  auto it = regions.upper_bound(offset_of(p));
  if (!in_arena(p) || it == regions.begin()) return {};
  --it;
  if (offset_of(p) >= it->first + it->second.requested) return {};
  return {it->first, it->second.requested, it->second.device};
}

std::string describe(size_t offset) {
  if (is_shared(offset)) return "shared memory at " + std::to_string(offset % kWindow - kSharedStart);
  std::lock_guard<std::mutex> hold(lock);
  auto it = regions.upper_bound(offset);
  if (it == regions.begin() || (--it, offset >= it->first + it->second.bytes)) return "freed memory, or none";
  return "byte " + std::to_string(offset - it->first) + " of an allocation of " + std::to_string(it->second.requested);
}

}  // namespace emu
