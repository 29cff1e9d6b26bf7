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

struct Key {
  std::string kernel;
  Location location;
  bool shared, write;
  bool operator<(const Key& k) const {
    return std::tie(kernel, location, shared, write) < std::tie(k.kernel, k.location, k.shared, k.write);
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
std::map<Key, Count> counts;

size_t distinct(std::vector<u64>& v) {
  std::sort(v.begin(), v.end());
  v.erase(std::unique(v.begin(), v.end()), v.end());
  return v.size();
}

// units lists the units of the given size that accesses [first, last) touch.
std::vector<u64> units(const Request& r, size_t first, size_t last, unsigned size) {
  std::vector<u64> v;
  for (size_t i = first; i < last; i++)
    for (u64 u = r.offsets[i] / size; u <= (r.offsets[i] + r.bytes - 1) / size; u++) v.push_back(u);
  return v;
}

// Global memory moves whole sectors of 32 bytes.
void add_global(const Request& r, Count& c) {
  const size_t n = r.offsets.size();
  std::vector<u64> sectors = units(r, 0, n, 32), bytes = units(r, 0, n, 1);
  c.moved += distinct(sectors);
  c.least += (distinct(bytes) + 31) / 32;
}

// Shared memory reads 32 banks of 4 bytes at once: 32 lanes of up to 4 bytes, 16 of 8, 8 of 16. Such a group
// takes as many wavefronts as it needs different words of one bank.
void add_shared(const Request& r, Count& c) {
  const size_t group = r.bytes <= 4 ? 32 : 128 / r.bytes;
  for (size_t i = 0; i < r.offsets.size(); i += group) {
    std::vector<u64> words = units(r, i, std::min(i + group, r.offsets.size()), 4);
    distinct(words);
    u64 bank[32] = {}, most = 0;
    for (u64 w : words) most = std::max(most, ++bank[w % 32]);
    c.moved += most;
    c.least++;
  }
}

void collect_warp(const Kernel& kernel, int warp_number) {
  std::map<Key, std::vector<Request>> requests;
  for (int l = 0; l < 32 && warp_number * 32 + l < block->threads; l++) {
    Fiber& fiber = block->fibers[warp_number * 32 + l];
    std::map<Key, size_t> execution;
    for (auto& t : fiber.touches) {
      const Key key{kernel.name, t.location, is_shared(t.offset), t.write};
      auto& list = requests[key];
      const size_t k = execution[key]++;
      if (list.size() <= k) list.resize(k + 1);
      list[k].bytes = t.bytes;
      list[k].offsets.push_back(t.offset);
    }
    fiber.touches.clear();
  }
  std::lock_guard<std::mutex> hold(lock);
  for (auto& [key, list] : requests)
    for (auto& r : list) {
      Count& c = counts[key];
      c.bytes = r.bytes;
      c.requests++;
      c.used += r.bytes * r.offsets.size();
      key.shared ? add_shared(r, c) : add_global(r, c);
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
    text += key.kernel + "\t" + name_of(key.location) + "\t" + (key.shared ? "shared" : "global") + "\t" +
            (key.write ? "write" : "read");
    for (u64 n : {(u64)c.bytes, c.requests, c.used, c.moved, c.least}) text += "\t" + std::to_string(n);
    text += "\n";
  }
  counts.clear();
  return text;
}

}  // namespace emu
