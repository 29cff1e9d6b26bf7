// Statistics. The lanes of a warp run one after another, so the k-th execution of an access by each of them
// is taken as one instruction of the warp, which is exact for convergent code.
#include "statistics.h"
#include "checker.h"
#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

namespace emu {

namespace {

struct Place {  // of accesses in a kernel
  Location location;
  bool shared, write;
  bool operator<(const Place& p) const {
    return std::tie(location, shared, write) < std::tie(p.location, p.shared, p.write);
  }
};

struct Count {
  unsigned bytes = 0;  // of an access
  u64 requests = 0, used = 0, moved = 0, least = 0;
};

struct Request {  // of a warp
  unsigned bytes = 0;
  std::vector<u64> offsets;
};

std::mutex lock;
std::map<std::pair<std::string, Place>, Count> counts;

// each_unit calls f(unit) for each unit of the given size that accesses at offsets from first to last touch, which are
// sorted.
template <class F> void each_unit(const u64* first, const u64* last, unsigned bytes, unsigned size, F f) {
  for (u64 next = 0; first != last; first++)
    for (u64 u = std::max(*first / size, next); u <= (*first + bytes - 1) / size; next = ++u) f(u);
}

// distinct counts these units.
u64 distinct(const std::vector<u64>& offsets, unsigned bytes, unsigned size) {
  u64 n = 0;
  each_unit(offsets.data(), offsets.data() + offsets.size(), bytes, size, [&](u64) { n++; });
  return n;
}

// Global memory moves whole sectors of 32 bytes.
void add_global(Request& r, Count& c) {
  std::sort(r.offsets.begin(), r.offsets.end());
  c.moved += distinct(r.offsets, r.bytes, 32);
  c.least += (distinct(r.offsets, r.bytes, 1) + 31) / 32;
}

// Shared memory reads 32 banks of 4 bytes at once: 32 lanes of up to 4 bytes, 16 of 8, 8 of 16. Such a group
// takes as many wavefronts as it needs different words of one bank.
void add_shared(Request& r, Count& c) {
  const size_t n = r.offsets.size(), group = r.bytes <= 4 ? 32 : 128 / r.bytes;
  for (size_t i = 0; i < n; i += group) {
    u64 *first = &r.offsets[i], *last = first + std::min(group, n - i), bank[32] = {}, most = 0;
    std::sort(first, last);
    each_unit(first, last, r.bytes, 4, [&](u64 w) { most = std::max(most, ++bank[w % 32]); });
    c.moved += most;
    c.least++;
  }
}

void collect_warp(const Kernel& kernel, int warp_number) {
  std::map<Place, std::vector<Request>> requests;
  for (int l = 0; l < 32 && warp_number * 32 + l < block->threads; l++) {
    Fiber& fiber = block->fibers[warp_number * 32 + l];
    std::map<Place, size_t> execution;
    for (auto& t : fiber.touches) {
      const Place place{t.location, is_shared(t.offset), t.write};
      auto& list = requests[place];
      const size_t k = execution[place]++;
      if (list.size() <= k) list.resize(k + 1);
      list[k].bytes = t.bytes;
      list[k].offsets.push_back(t.offset);
    }
    fiber.touches.clear();
  }
  std::lock_guard<std::mutex> hold(lock);
  for (auto& [place, list] : requests) {
    Count& c = counts[{kernel.name, place}];
    for (auto& r : list) {
      c.bytes = r.bytes;
      c.requests++;
      c.used += r.bytes * r.offsets.size();
      place.shared ? add_shared(r, c) : add_global(r, c);
    }
  }
}

}  // namespace

void collect(const Kernel& kernel) {
  for (size_t w = 0; w < block->warps.size(); w++) collect_warp(kernel, (int)w);
}

std::string report_statistics() {
  std::lock_guard<std::mutex> hold(lock);
  std::string text;
  for (auto& [key, c] : counts) {
    if constexpr (!checked) break;
    const auto& [kernel, place] = key;
    text += kernel + "\t" + name_of(place.location) + "\t" + (place.shared ? "shared" : "global") + "\t" +
            (place.write ? "write" : "read");
    for (u64 n : {(u64)c.bytes, c.requests, c.used, c.moved, c.least}) text += "\t" + std::to_string(n);
    text += "\n";
  }
  counts.clear();
  return text;
}

}  // namespace emu
