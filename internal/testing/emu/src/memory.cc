// The memory of the devices: one address space with gaps between allocations. Fresh and freed memory holds
// NaN, and addresses are used again as late as possible.
#include "checker.h"
#include <map>
#include <mutex>
#include <sys/mman.h>

namespace emu {

char* arena;
size_t arena_bytes;

namespace {

constexpr size_t kAlign = 256;

struct Piece {
  size_t bytes, asked;
  int device;
};

std::mutex lock;
std::map<size_t, Piece> pieces;   // live, by offset; bytes include the red zone behind
std::map<size_t, size_t> holes;   // freed ranges that are not used again yet
size_t top = kWindow * kWindows;  // nothing above was ever used
std::vector<size_t> in_use;       // by device, without red zones

size_t find_hole(size_t bytes) {
  for (auto& h : holes)
    if (h.second >= bytes) return h.first;
  return 0;
}

size_t place(size_t bytes) {
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
  // Twice the memory, so that a freed address rests for a while.
  arena_bytes = kWindow * kWindows + 2 * settings.devices * settings.memory + (64 << 20);
  arena = static_cast<char*>(mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (arena == MAP_FAILED) abort();
  in_use.resize(settings.devices);
  open_books();
}

void* allocate(int device, size_t bytes) {
  std::lock_guard<std::mutex> hold(lock);
  if (in_use[device] + bytes > settings.memory) return nullptr;
  const size_t padded = (bytes + kAlign - 1) / kAlign * kAlign + kRedZone;
  const size_t at = place(padded);
  if (!at) return nullptr;
  pieces[at] = {padded, bytes, device};
  in_use[device] += bytes;
  memset(arena + at, 0xff, bytes);
  mark_allocated(arena + at, bytes, true);
  return arena + at;
}

namespace {

// give_back frees a piece and returns the one behind it.
auto give_back(std::map<size_t, Piece>::iterator it) {
  const Piece piece = it->second;
  memset(arena + it->first, 0xff, piece.asked);
  mark_allocated(arena + it->first, piece.asked, false);
  in_use[piece.device] -= piece.asked;
  add_hole(it->first, piece.bytes);
  return pieces.erase(it);
}

}  // namespace

bool release(void* p) {
  std::lock_guard<std::mutex> hold(lock);
  auto it = pieces.find(offset_of(p));
  if (it == pieces.end()) return false;
  give_back(it);
  return true;
}

void release_all(int device) {
  std::lock_guard<std::mutex> hold(lock);
  for (auto it = pieces.begin(); it != pieces.end();) it = it->second.device == device ? give_back(it) : std::next(it);
}

size_t used(int device) {
  std::lock_guard<std::mutex> hold(lock);
  return in_use[device];
}

Allocation allocation_at(const void* p) {
  std::lock_guard<std::mutex> hold(lock);
  auto it = pieces.upper_bound(offset_of(p));
  if (!in_arena(p) || it == pieces.begin()) return {};
  --it;
  if (offset_of(p) >= it->first + it->second.asked) return {};
  return {it->first, it->second.asked, it->second.device};
}

std::string describe(size_t offset) {
  if (is_shared(offset)) return "shared memory at " + std::to_string(offset % kWindow - kSharedStart);
  std::lock_guard<std::mutex> hold(lock);
  auto it = pieces.upper_bound(offset);
  if (it == pieces.begin() || (--it, offset >= it->first + it->second.bytes)) return "freed memory, or none";
  return "byte " + std::to_string(offset - it->first) + " of an allocation of " + std::to_string(it->second.asked);
}

}  // namespace emu
