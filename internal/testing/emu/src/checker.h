// checker.h: the books that the checked build keeps. In the plain build all of it compiles to nothing.
#pragma once
#include "runtime.h"

namespace emu {

#ifdef EMU_CHECK
constexpr bool checked = true;
#else
constexpr bool checked = false;
#endif

// Agents are what the vector clocks order: the threads of a block, and for each kind of asynchronous work a
// pseudo-thread of its own. Loads by TMA onto different mbarriers are different agents.
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

// Place of an access: that of a call, or that of an instruction of the kernel.
Place place_of(Site at);
Place place_of(const void* instruction);
std::string name_of(Place place);

// Access is one access of memory by an agent.
struct Access {
  const void* p;
  size_t bytes;
  bool write;
  int agent;
  const Clock& clock;
  Place place;
  bool proxy = false;   // by the asynchronous proxy (TMA, wgmma), which does not see ordinary stores without a fence
  bool atomic = false;
};

// check reports what is wrong with an access and enters it into the books.
void check(const Access& access);
void check_thread(const Fiber& fiber, const void* p, size_t bytes, bool write, Site at);

// mark changes the state of bytes: allocated and written, or not. A byte that is not allocated is not written.
void mark_allocated(const void* p, size_t bytes, bool allocated);
void mark_written(const void* p, size_t bytes);

void open_books();
void start_launch();
void start_block();
void start_thread(Fiber& fiber);

}  // namespace emu
