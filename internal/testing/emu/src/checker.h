// checker.h: the shadow memory and the vector clocks of the checked build. In the plain build all of it compiles to
// nothing.
#pragma once
#include "runtime.h"

namespace emu {

#ifdef EMU_CHECK
constexpr bool checked = true;
#else
constexpr bool checked = false;
#endif

// The vector clocks order agents: the threads of a block, and a pseudo-thread for each kind of asynchronous work. Loads
// by TMA onto different mbarriers are different agents.
int copies_of(int thread);
int products_of(int warp);
int stores_of(int warp);
int loads_of(u32 barrier);
int agents();  // of the block

// advance starts a new time of an agent and returns its clock's entry.
u32 advance(int agent);
void tick(int thread);
void join(Clock& into, const Clock& from);
void join_threads(const std::vector<int>& from, const std::vector<int>& into);

// Location of an access: that of a call, or that of an instruction of the kernel.
Location location_of(Site at);
Location location_of(const void* instruction);
std::string name_of(Location location);

// Access is one access of memory by an agent.
struct Access {
  const void* p;
  size_t bytes;
  bool write;
  int agent;
  const Clock& clock;
  Location location;
  bool proxy = false;   // by the asynchronous proxy (TMA, wgmma), which does not see ordinary stores without a fence
  bool atomic = false;
};

// check reports errors of an access and records it in the shadow memory.
void check(const Access& access);
void check_thread(const Fiber& fiber, const void* p, size_t bytes, bool write, Site at);

void check_word(const uint32_t* p, bool write, Site at);  // atomically

// A thread that acquires a word knows what happened before the word was released, and the threads of its block know it
// when they know of this.
void release(Fiber& fiber, const uint32_t* word);
void acquire(Fiber& fiber, const uint32_t* word);

// mark changes the state of bytes: allocated and written, or not. A byte that is not allocated is not written.
void mark_allocated(const void* p, size_t bytes, bool allocated);
void mark_written(const void* p, size_t bytes);

void open_shadow();
void start_launch();
void start_block();
void start_thread(Fiber& fiber);

}  // namespace emu
