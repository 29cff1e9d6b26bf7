// runtime.h: the state of a running block, and what the files of the emulator offer each other.
#pragma once
#include "emu.h"
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace emu {

using u32 = uint32_t;
using u64 = uint64_t;

// ---- settings (settings.cc) --------------------------------------------------------------------------

enum class Order { fifo, lifo, random, skewed };
enum class When { early, late, random };

// Failure is the call of a function of the driver, counted from the setting on, that fails with a code. Of "launch" it
// is the run of a kernel.
struct Failure {
  std::string call;
  int number = 0, code = 0, calls = 0;
};

// Settings change between launches only. README.md describes them.
struct Settings {
  Order order = Order::fifo;    // of threads
  When copies = When::early;    // completion of asynchronous copies and matrix products
  When streams = When::late;    // execution of what is queued in streams
  u64 seed = 1;                 // of everything random
  int threads = 1;              // of the host that run blocks
  int devices = 1;
  int capability = 90;          // 10 * major + minor
  int multiprocessors = 132;    // that a device says it has
  size_t memory = 1 << 30;      // of a device
  bool count = false;           // collect statistics of accesses
  Failure fail;
  std::string hang;             // a function that never returns
  int init = 0;                 // what cuInit returns
  int driver = 13000, compiler = 12040;  // versions, 1000 * major + 10 * minor
  bool apart = false, pcie = false, lies = false;  // links between devices
  bool blocking = false;        // waits that spin are errors
  bool leaks = false;           // the end of a context that still has something ends the process
  bool forget = false;          // launches cost nothing, so that callers can be timed
  int modules = 1 << 30;        // that fit on a device
  unsigned registers = 40, local = 0;  // of a kernel of a list of names
};
extern Settings settings;

// set changes one setting; it returns false if name or value is unknown.
bool set(const std::string& name, const std::string& value);

// follow_environment makes the settings what the variable WEFT_EMU says, if that has changed.
void follow_environment();

// ---- faults (launch.cc) ------------------------------------------------------------------------------

// The kinds of faults are those that a driver tells apart.
enum class Fault { none, address, misaligned, timeout, failure };

struct Report {
  Fault kind = Fault::none;
  std::string text;
};

// fault ends the launch that is running.
[[noreturn]] void fault(Fault kind, const char* format, ...) __attribute__((format(printf, 2, 3)));

// ---- launches (launch.cc, grid.cc) ----------------------------------------------------------------------------

struct Shape {
  dim3 grid, block;
  size_t dynamic;  // bytes of shared memory
};

// run executes a grid. The parameters are passed as cuLaunchKernel takes them.
Report run(const Kernel& kernel, const Shape& shape, void** parameters);

// ---- memory (memory.cc) ------------------------------------------------------------------------------

// One reservation of addresses, the arena, holds the windows of shared memory of the host's threads and then
// the memory of the devices. The shadow memory of the checker is indexed by its offsets.
constexpr size_t kWindow = 512 << 10;  // addresses of one window
constexpr int kWindows = 8;
constexpr size_t kSharedStart = 1 << 10;  // offset of the dynamic part of shared memory, as on sm_90
constexpr size_t kSharedEnd = 256 << 10;
constexpr size_t kSharedMax = 227 << 10;  // of a block
constexpr size_t kRedZone = 256;          // between allocations

extern char* arena;
extern size_t arena_bytes;

void open_arena();
inline size_t offset_of(const void* p) { return (size_t)((const char*)p - arena); }
inline bool in_arena(const void* p) { return offset_of(p) < arena_bytes; }
inline bool is_shared(size_t offset) { return offset < kWindow * kWindows; }

constexpr int kDevices = 8;               // at most
constexpr size_t kGranularity = 2 << 20;  // of virtual memory

void* allocate(int device, size_t bytes);  // null if the device is full
bool release(void* p);                     // false if p is not the start of an allocation
void release_all(int device);
size_t used(int device);
int holdings(int device);                  // allocations, mappings and ranges

// Ranges of addresses, to which memory is mapped. What is mapped can be used when it has access.
void* reserve(int device, size_t bytes);   // null if there are no addresses left
bool unreserve(void* p, size_t bytes);     // false if p is no range of this size, or memory is mapped there
bool map(int device, void* p, size_t bytes);  // false if that is not in a range, or mapped
bool give_access(void* p, size_t bytes);   // false if p was not mapped at once
bool unmap(void* p, size_t bytes);         // false if that is a part of what was mapped at once

struct Allocation {
  size_t start = 0, bytes = 0;  // 0 bytes: there is none; mappings in a row are one
  int device = 0;
};
Allocation allocation_at(const void* p);  // the allocation that holds p
std::string describe(size_t offset);      // an address in words

// ---- fibers (fiber.cc) -------------------------------------------------------------------------------

using Clock = std::vector<u32>;  // a vector clock of the checker: one time for each agent
using Location = u32;            // where an access is in the source, see checker.h

enum class State { ready, blocked, finished };

struct Copy {  // a cp.async
  u32 to;
  const void* from;
  int bytes, source_bytes;
  u64 group;
  bool done;
  Site at;
  Clock clock;
};

struct BoxCopy {  // a copy of a tensor map's box
  u32 shared, barrier;
  char map[128];
  int x, y;
  u64 group;
  bool done;
  Site at;
  Clock clock;
};

struct Product {  // one lane's operands of an mma
  float* d;
  u32 a[4], b[2];
  float start[4];  // the accumulator, if this is the first product on it since it was delivered
  bool first, bfloat;
  Site at;
};

struct Touch {  // an access, for the statistics
  Location location;
  u64 offset;  // in the arena
  uint8_t bytes;
  bool write;
};

struct Fiber : Thread {
  void* stack_pointer;
  char* stack;
  State state;
  const char* waits_in;  // why it is blocked, and where
  Site waits_at;
  bool timed = false;    // it continues when all others are blocked
  const u32* word;       // it continues when another block has stored `value` there
  u32 value;

  std::vector<Copy> copies;
  u64 copy_group;
  std::vector<BoxCopy> stores;
  u64 store_group;
  std::vector<Product> products;
  int registers;  // as setmaxnreg set them; 0 if it did not
  u32 fences;     // proxy fences so far

  Clock clock;
  std::vector<Touch> touches;
};

// Rendezvous is a collective of a warp that some lanes have reached.
struct Rendezvous {
  u32 mask = 0, arrived = 0;  // a mask of 0: not in use
  const char* name;
  Site at;
  void* argument[32];
};

struct Accumulator {  // of wgmma: 16 rows of a warp, whose registers must not be used before the wait
  float* registers[32];
  int n, pending;
  std::vector<float> values;
};

struct GroupProduct {  // a wgmma
  Accumulator* accumulator;
  GroupOperand a, b;
  float left[16][16];  // A, if it was in registers
  bool accumulate, bfloat, done;
  u64 group;
  Site at;
  Clock clock;
};

struct Warp {
  u32 alive;
  Rendezvous rendezvous[8];
  std::vector<GroupProduct> products;
  std::vector<Accumulator*> accumulators;
  u64 group;
  bool fenced;  // no registers were given to ordinary instructions since the last wgmma.fence
};

struct Barrier {
  int count = 0, arrived = 0;
  Site at;
  std::vector<int> waiting, joined;
};

struct MBarrier {
  u32 address;
  unsigned phase, count, pending;
  long bytes;  // still to come in this phase
  std::vector<int> waiting;
  Clock gathering, released;
  unsigned maker;  // the thread that initialised it,
  bool known;      // and whether a fence of that thread has told the asynchronous proxy
};

// Knowledge is what happened before in other blocks: their clocks, by their numbers. Learnt is what a thread knew at a
// time of its clock; later entries of a thread include earlier ones.
using Knowledge = std::map<u32, Clock>;
struct Learnt {
  int thread;
  u32 time;
  std::shared_ptr<const Knowledge> all;
};

struct Block : Launch {
  const Kernel* kernel;
  void** parameters;
  std::vector<Fiber> fibers;  // at least `threads`; the stacks of the others are for later launches
  std::vector<Warp> warps;
  int threads, living;

  // the scheduler's
  std::vector<int> ready;  // a ring
  size_t head, waiting;
  std::vector<int> polling;  // threads that wait for other blocks
  std::vector<u32> priority;  // of warps, for the skewed order
  Fiber* current;
  void* launcher;  // the stack pointer of the function that started the block
  u64 random;
  Report report;

  // shared memory
  char* window;
  size_t dynamic, shared_top;
  std::vector<std::pair<const void*, size_t>> arrays;

  Barrier barriers[16];
  std::vector<MBarrier> mbarriers;
  u64 nanoseconds;  // the clock, which stands still while any thread can run
  std::vector<BoxCopy> loads;  // in flight

  std::vector<Learnt> learnt;
  u32 sequence;            // number of the block, over all launches
  std::vector<u32> times;  // of the asynchronous agents
};

extern __thread Block* block;  // null outside kernels

// prepared is one of the kWindows blocks that can be under way, begin starts it as block `number` of the grid.
Block& prepared(int window, const Kernel& kernel, const Shape& shape, void** parameters);
void begin(Block& b, u64 number);

u64 random_number(u64& state);
inline u64 random_number() { return random_number(block->random); }
void switch_to(Fiber* to);             // null: back to the function that started the block
void prepare(Fiber& fiber);            // to enter the kernel
void make_stack(Fiber& fiber);
inline Warp& warp() { return block->warps[block->current->warp]; }
inline Fiber& lane(int l) { return block->fibers[block->current->warp * 32 + l]; }

// ---- scheduler (scheduler.cc) ------------------------------------------------------------------------

void make_ready(int thread);
void wait(const char* what, Site at);  // until make_ready
void yield_to_next();
[[noreturn]] void finish();            // of the thread that is running

// ---- asynchronous work (cp_async.cc, tma.cc, mma.cc, wgmma.cc, mbarrier.cc, barrier.cc) -----------------

bool completes_now();  // decides for one asynchronous operation
void finish_copies(Fiber& fiber);
void check_stores(const Fiber& fiber);
void check_group_products();
void deliver_products(int warp);
void run_load(size_t i);
void release_barriers();
void arrive_bytes(u32 barrier, long bytes, const Clock& clock, Site at);
void require_mbarrier(u32 barrier, const char* what, Site at);

// ---- shared memory (shared.cc) -----------------------------------------------------------------------

void reset_shared();
// at_shared is the host's address of a shared one that holds bytes, aligned.
char* at_shared(u32 address, size_t bytes, size_t align, const char* what, Site at);

// eight converts eight contiguous half-precision elements.
void eight(const void* from, float* to, bool bfloat);

// ---- tensor maps (tensor_map.cc) ---------------------------------------------------------------------

struct TensorMap {  // what tma.cc keeps in the 128 bytes of a CUtensorMap
  u64 magic;
  char* base;
  u64 width, height, pitch;  // elements, rows, bytes
  u32 box_width, box_height, element, swizzle;
};
TensorMap read_map(const void* map, const char* what, Site at);
// encode_map returns null, or why the map is refused.
const char* encode_map(void* map, int element, int rank, void* base, const u64* sizes, const u64* strides,
                       const u32* box, const u32* steps, int interleave, int swizzle);
u32 swizzled(u32 address, u32 mode);

// ---- collectives -------------------------------------------------------------------------------------

// collective joins the lanes of a mask. The last one to arrive calls f(arguments, lanes) for all of them.
template <class F> void collective(u32 mask, const char* name, void* argument, Site at, F f) {
  Fiber* me = block->current;
  Warp& w = warp();
  const u32 bit = 1u << me->lane;
  if (!(mask & bit)) 
    fault(Fault::failure, "%s at %s:%d: lane %u is not in its mask %08x", name, at.file, at.line, me->lane, mask);
  Rendezvous* r = nullptr;
  for (auto& x : w.rendezvous)
    if (x.mask == mask) r = &x;
  if (!r) {
    for (auto& x : w.rendezvous)
      if (!x.mask) r = &x;
    if (!r) fault(Fault::failure, "%s at %s:%d: too many collectives of the warp are waiting", name, at.file, at.line);
    r->mask = mask;
    r->arrived = 0;
    r->name = name;
    r->at = at;
  }
  if (r->name != name)
    fault(Fault::failure, "warp divergence: lane %u is in %s at %s:%d, other lanes wait in %s at %s:%d", me->lane, name,
          at.file, at.line, r->name, r->at.file, r->at.line);
  r->arrived |= bit;
  r->argument[me->lane] = argument;
  if (r->arrived != (mask & w.alive)) {
    wait(name, at);
    return;
  }
  const u32 lanes = r->arrived;
  void* arguments[32];
  memcpy(arguments, r->argument, sizeof arguments);
  r->mask = 0;
  if (lanes == ~0u) deliver_products(me->warp);
  f(arguments, lanes);
  for (int l = 0; l < 32; l++)
    if ((lanes >> l & 1) && l != (int)me->lane) make_ready(me->warp * 32 + l);
}

// whole_warp is a collective that needs all 32 lanes.
template <class F> void whole_warp(const char* name, void* argument, Site at, F f) {
  collective(~0u, name, argument, at, [&](void** arguments, u32 lanes) {
    if (lanes != ~0u)
      fault(Fault::failure, "%s at %s:%d needs all 32 lanes, found %08x", name, at.file, at.line, lanes);
    f(arguments);
  });
}

}  // namespace emu
