// The checker: bounds, uninitialised reads, races and missing proxy fences, for every access of a kernel.
//
// g++ -fsanitize=thread makes instrumented kernels call __tsan_read4 and the like before each access. These
// are the functions at the end of this file, not those of libtsan. The shadow memory has for every 4 bytes of the
// arena four cells, which record recent accesses, and a word of state. Two accesses race if they overlap, one
// writes, and neither happened before the other by the vector clocks (as in FastTrack, Flanagan and Freund
// 2009). Accesses of different blocks are ordered by words that one block releases and the other acquires, and by
// nothing else.
#ifdef EMU_CHECK
#include "checker.h"
#include "statistics.h"
#include <algorithm>
#include <cstdio>
#include <dlfcn.h>
#include <mutex>
#include <sys/mman.h>

namespace emu {

namespace {

struct Cell {
  u32 time, block;
  Location location;
  uint16_t agent;
  uint8_t bytes;  // a bit for each; 0: the cell is empty
  bool write : 1, atomic : 1;
};

struct Word {
  uint8_t allocated, written;  // a bit for each byte
  uint16_t writer;             // thread of the last ordinary store
  u32 fences, block;           // fences of that thread by then, and its block; block 0: no ordinary store
};

constexpr int kCells = 4;

Cell (*cells)[kCells];
Word* words;
u32 blocks, first_of_launch;
std::map<const u32*, std::shared_ptr<const Knowledge>> released;  // in this launch
unsigned victim;  // the next cell to evict

template <class T> T* reserve(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) abort();
  return static_cast<T*>(p);
}

int threads() { return block->threads; }
int warps() { return (int)block->warps.size(); }

std::string name_of_agent(int agent) {
  auto of = [](const char* what, int n) { return what + std::to_string(n); };
  if (agent < threads()) return of("thread ", agent);
  if ((agent -= threads()) < threads()) return of("cp.async of thread ", agent);
  if ((agent -= threads()) < warps()) return of("wgmma of warp ", agent);
  if ((agent -= warps()) < warps()) return of("TMA store of warp ", agent);
  return "a TMA load";
}

// ---- locations

// A location is an entry of a hash table: the address of an instruction, or the address of a file's name with
// the line above its 48 bits.
constexpr size_t kLocations = 1 << 16;
u64 location_keys[kLocations];

Location enter(u64 key) {
  for (size_t i = key * 0x9e3779b97f4a7c15 >> 48;; i = (i + 1) % kLocations) {
    if (location_keys[i] == key) return (Location)i;
    if (!location_keys[i]) {
      location_keys[i] = key;
      return (Location)i;
    }
  }
}

const char* base_name(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

std::map<u64, std::string> lines;  // of instructions, by address
std::mutex lines_lock;

// look_up finds the lines of an instruction and of all others of its object so far, by one call of addr2line; and the
// line of another file that the innermost was inlined into.
void look_up(u64 instruction) {
  Dl_info info, other;
  lines[instruction] = "unknown code";
  if (!dladdr((const void*)instruction, &info)) return;
  std::vector<u64> keys{instruction};
  for (u64 key : location_keys)
    if (key && !(key >> 48) && !lines.count(key) && keys.size() < 4096 && dladdr((const void*)key, &other) &&
        other.dli_fbase == info.dli_fbase)
      keys.push_back(key);
  std::string command = "addr2line -a -i -e '" + std::string(info.dli_fname) + "'";
  for (u64 key : keys) {
    char hex[32];
    snprintf(hex, sizeof hex, " 0x%lx", (unsigned long)(key - (u64)info.dli_fbase) - 1);
    command += hex;
  }
  FILE* p = popen(command.c_str(), "r");
  if (!p) return;
  // The address, then lines from the innermost function outwards; after a line number may come a discriminator.
  std::string inner, outer;
  size_t n = 0;
  auto end = [&] {
    if (!inner.empty())
      lines[keys[n++]] = outer.empty() || outer.compare(0, 5, "emu.h") == 0 ? inner : inner + " from " + outer;
    inner = outer = "";
  };
  char line[512];
  while (fgets(line, sizeof line, p)) {
    line[strcspn(line, " \n")] = 0;
    const std::string location = base_name(line);
    if (!strncmp(line, "0x", 2))
      end();
    else if (inner.empty())
      inner = location;
    else if (outer.empty() && location.substr(0, location.find(':')) != inner.substr(0, inner.find(':')))
      outer = location;
  }
  end();
  pclose(p);
}

}  // namespace

Location location_of(Site at) { return enter((u64)at.file | (u64)at.line << 48); }
Location location_of(const void* instruction) { return enter((u64)instruction); }

std::string name_of(Location location) {
  const u64 key = location_keys[location];
  if (!(key >> 48)) {
    std::lock_guard<std::mutex> hold(lines_lock);
    if (!lines.count(key)) look_up(key);
    return lines[key];
  }
  return std::string(base_name((const char*)(key & 0xffffffffffff))) + ":" + std::to_string(key >> 48);
}

// ---- agents and clocks

int copies_of(int thread) { return threads() + thread; }
int products_of(int warp) { return 2 * threads() + warp; }
int stores_of(int warp) { return 2 * threads() + warps() + warp; }
int loads_of(u32 barrier) { return 2 * threads() + 2 * warps() + (int)(barrier / 8 % 16); }
int agents() { return 2 * threads() + 2 * warps() + 16; }

u32 advance(int agent) { return ++block->times[agent]; }
void tick(int thread) { block->fibers[thread].clock[thread]++; }

void join(Clock& into, const Clock& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); i++) into[i] = std::max(into[i], from[i]);
}

void join_threads(const std::vector<int>& from, const std::vector<int>& into) {
  Clock all;
  for (int t : from) join(all, block->fibers[t].clock);
  for (int t : into) join(block->fibers[t].clock, all);
  for (int t : from) tick(t);
}

void start_launch() {
  first_of_launch = blocks + 1;
  released.clear();
}

void start_block() {
  block->sequence = ++blocks;
  block->learnt.clear();
  block->times.assign(agents(), 0);
}

namespace {

// each_known calls f for what an agent with a clock knows of other blocks, until it returns true.
template <class F> bool each_known(const Clock& clock, F f) {
  const auto& l = block->learnt;
  return std::any_of(l.rbegin(), l.rend(), [&](const Learnt& x) { return clock[x.thread] >= x.time && f(*x.all); });
}

void join_all(Knowledge& into, const Knowledge& from) {
  for (auto& [number, clock] : from) join(into[number], clock);
}

}  // namespace

void release(Fiber& fiber, const uint32_t* word) {
  auto all = std::make_shared<Knowledge>();
  each_known(fiber.clock, [&](const Knowledge& k) { return join_all(*all, k), false; });
  (*all)[block->sequence] = fiber.clock;
  released[word] = all;
  tick(fiber.number);
}

void acquire(Fiber& fiber, const uint32_t* word) {
  const auto& from = released[word];
  if (!from) return;  // stored before the launch
  tick(fiber.number);
  auto all = std::make_shared<Knowledge>(*from);
  each_known(fiber.clock, [&](const Knowledge& k) { return join_all(*all, k), false; });
  block->learnt.push_back({(int)fiber.number, fiber.clock[fiber.number], all});
}

void start_thread(Fiber& fiber) {
  fiber.clock.assign(agents(), 0);
  fiber.clock[fiber.number] = 1;
}

// ---- memory

void open_shadow() {
  cells = reserve<Cell[kCells]>(arena_bytes / 4 * sizeof(Cell[kCells]));
  words = reserve<Word>(arena_bytes / 4 * sizeof(Word));
}

namespace {

// each_word calls f(word, bits of its bytes) for the bytes of a range.
template <class F> void each_word(const void* p, size_t bytes, F f) {
  for (size_t at = offset_of(p), end = at + bytes; at < end;) {
    const size_t w = at / 4, stop = std::min(end, 4 * w + 4);
    const unsigned bits = (1u << (stop - 4 * w)) - (1u << at % 4);
    at = stop;
    f(w, (uint8_t)bits);
  }
}

const char* verb(bool write) { return write ? "write" : "read"; }

// race compares an access with one in a cell. It returns whether the cell's is ordered before it.
bool race(const Access& a, const Cell& c, uint8_t bits, size_t offset) {
  const bool conflict = (c.bytes & bits) && (a.write || c.write) && !(a.atomic && c.atomic);
  if (c.block != block->sequence) {
    const bool before = each_known(a.clock, [&](const Knowledge& all) {
      const auto other = all.find(c.block);
      return other != all.end() && other->second[c.agent] >= c.time;
    });
    if (conflict && !before)
      fault(Fault::failure, "race between blocks: %s, %s at %s, and %s by block number %u of the launch at %s",
            describe(offset).c_str(), verb(a.write), name_of(a.location).c_str(), verb(c.write),
            c.block - first_of_launch, name_of(c.location).c_str());
    return before;
  }
  const bool before = c.agent == a.agent || a.clock[c.agent] >= c.time;
  if (conflict && !before)
    fault(Fault::failure, "race: %s: %s by %s at %s is not ordered with the %s by %s at %s", describe(offset).c_str(),
          verb(a.write), name_of_agent(a.agent).c_str(), name_of(a.location).c_str(), verb(c.write),
          name_of_agent(c.agent).c_str(), name_of(c.location).c_str());
  return before;
}

// remember compares an access with the cells of a word, and records it in one.
void remember(const Access& a, size_t w, uint8_t bits, size_t offset) {
  Cell* free = nullptr;
  for (Cell& c : cells[w]) {
    const bool stale = c.block < first_of_launch || (is_shared(offset) && c.block != block->sequence);
    if (c.bytes && !stale) {
      // An access that this one follows and covers can be dropped: accesses ordered after this one are ordered
      // after it, too.
      const bool covered = race(a, c, bits, offset) && !(c.bytes & ~bits) && (a.write || !c.write);
      if (!covered) continue;
    }
    c.bytes = 0;
    if (!free) free = &c;
  }
  if (!free) free = &cells[w][victim++ % kCells];
  *free = Cell{a.clock[a.agent], block->sequence, a.location, (uint16_t)a.agent, bits, a.write, a.atomic};
}

void check_state(const Access& a, Word& m, uint8_t bits, size_t offset) {
  if ((m.allocated & bits) != bits)
    fault(Fault::address, "%s out of bounds: %zu bytes at %s, by %s at %s", verb(a.write), a.bytes,
          describe(offset).c_str(), name_of_agent(a.agent).c_str(), name_of(a.location).c_str());
  if (a.write) {
    m.written |= bits;
    m.writer = (uint16_t)(a.agent < threads() ? a.agent : a.agent - threads());  // a thread, or its cp.async
    m.fences = a.proxy ? 0 : block->fibers[m.writer].fences;
    m.block = a.proxy ? 0 : block->sequence;
    return;
  }
  if ((m.written & bits) != bits)
    fault(Fault::failure, "uninitialised read: %s, by %s at %s", describe(offset).c_str(),
          name_of_agent(a.agent).c_str(), name_of(a.location).c_str());
  if (a.proxy && m.block == block->sequence && block->fibers[m.writer].fences == m.fences)
    fault(Fault::failure,
          "missing fence.proxy.async: %s was written by thread %d with an ordinary store and is read by %s at %s",
          describe(offset).c_str(), m.writer, name_of_agent(a.agent).c_str(), name_of(a.location).c_str());
}

}  // namespace

void mark_allocated(const void* p, size_t bytes, bool allocated) {
  each_word(p, bytes, [&](size_t w, uint8_t bits) {
    words[w].allocated = allocated ? words[w].allocated | bits : words[w].allocated & ~bits;
    words[w].written &= ~bits;
  });
}

void mark_written(const void* p, size_t bytes) {
  each_word(p, bytes, [&](size_t w, uint8_t bits) { words[w].written |= bits; });
}

void check(const Access& a) {
  if (!in_arena(a.p)) return;
  each_word(a.p, a.bytes, [&](size_t w, uint8_t bits) {
    const size_t offset = std::max(offset_of(a.p), 4 * w);
    check_state(a, words[w], bits, offset);
    remember(a, w, bits, offset);
  });
}

namespace {

void check_at(const Fiber& fiber, const void* p, size_t bytes, bool write, Location location) {
  if (!in_arena(p)) return;
  const size_t offset = offset_of(p);
  if (bytes <= 16 && !(bytes & (bytes - 1)) && offset % bytes)
    fault(Fault::misaligned, "misaligned %s: %zu bytes at %s, at %s", verb(write), bytes, describe(offset).c_str(),
          name_of(location).c_str());
  check({p, bytes, write, (int)fiber.number, fiber.clock, location});
  if (settings.count) const_cast<Fiber&>(fiber).touches.push_back({location, offset, (uint8_t)bytes, write});
}

void instrumented(const void* p, size_t bytes, bool write, const void* instruction) {
  if (block && block->current) check_at(*block->current, p, bytes, write, location_of(instruction));
}

}  // namespace

void check_thread(const Fiber& fiber, const void* p, size_t bytes, bool write, Site at) {
  check_at(fiber, p, bytes, write, location_of(at));
}

namespace {

// SourceLocation is how g++ -fsanitize=undefined passes a location: the first field of the data of a handler.
struct SourceLocation {
  const char* file;
  u32 line, column;
};

void undefined(const char* what, const void* data) {
  const auto* at = static_cast<const SourceLocation*>(data);
  if (block && block->current) fault(Fault::failure, "%s at %s:%u", what, base_name(at->file), at->line);
}

}  // namespace
}  // namespace emu

// The functions that instrumented kernels call.
#pragma GCC visibility push(default)
extern "C" {
void __ubsan_handle_out_of_bounds(void* data, void*) { emu::undefined("index outside of an array", data); }
void __ubsan_handle_shift_out_of_bounds(void* data, void*, void*) {
  emu::undefined("shift by more than the width", data);
}
void __ubsan_handle_float_cast_overflow(void* data, void*) {
  emu::undefined("conversion to an integer out of range", data);
}
void __ubsan_handle_divrem_overflow(void* data, void*, void*) { emu::undefined("division by zero", data); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
#define ACCESS(name, bytes, write) \
  void __tsan_##name(void* p) { emu::instrumented(p, bytes, write, __builtin_return_address(0)); }
#define ACCESSES(n)                       \
  ACCESS(read##n, n, false)               \
  ACCESS(write##n, n, true)               \
  ACCESS(unaligned_read##n, n, false)     \
  ACCESS(unaligned_write##n, n, true)     \
  ACCESS(volatile_read##n, n, false)      \
  ACCESS(volatile_write##n, n, true)
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
void __tsan_read_range(void* p, size_t n) { emu::instrumented(p, n, false, __builtin_return_address(0)); }
void __tsan_write_range(void* p, size_t n) { emu::instrumented(p, n, true, __builtin_return_address(0)); }
}
#pragma GCC visibility pop

#else
#include "checker.h"

// The plain build has no shadow memory. Functions that are called outside `if (checked)` do nothing.
namespace emu {
void mark_allocated(const void*, size_t, bool) {}
void mark_written(const void*, size_t) {}
void open_shadow() {}
}  // namespace emu
#endif
