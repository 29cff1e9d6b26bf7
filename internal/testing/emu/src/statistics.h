// statistics.h: counts of memory accesses as the hardware would make them.
#pragma once
#include "runtime.h"

namespace emu {

// collect adds the accesses of the threads of a block that has ended.
void collect(const Kernel& kernel);

// report_statistics returns one line for each source location that accessed memory, with tabs between the columns
//
//	kernel, location, "shared" or "global", "read" or "write", bytes of an access, accesses of a warp,
//	bytes used, wavefronts (shared) or 32-byte sectors (global) moved, and the least number possible
//
// and resets the counts.
std::string report_statistics();

}  // namespace emu
