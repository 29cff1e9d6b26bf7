// Shared memory: a window of addresses for each thread of the host. The dynamic part comes first, then the
// arrays of the kernel in the order in which a thread first reaches them, with gaps between.
#include "checker.h"

namespace emu {

namespace {

constexpr size_t kGap = 128;

size_t align(size_t n, size_t to) { return (n + to - 1) / to * to; }

}  // namespace

void reset_shared() {
  Block& b = *block;
  memset(b.window, 0xff, b.shared_top);  // used by the last block
  mark_allocated(b.window, b.shared_top, false);
  b.arrays.clear();
  mark_allocated(b.window + kSharedStart, b.dynamic, true);
  b.shared_top = align(kSharedStart + b.dynamic + kGap, kGap);
}

void* shared_array(const void* key, size_t bytes) {
  Block& b = *block;
  for (auto& a : b.arrays)
    if (a.first == key) return b.window + a.second;
  const size_t at = b.shared_top;
  if (at + bytes > kSharedEnd)
    fault(Fault::failure, "the arrays in shared memory take more than %zu bytes", kSharedMax);
  b.arrays.push_back({key, at});
  b.shared_top = align(at + bytes + kGap, kGap);
  mark_allocated(b.window + at, bytes, true);
  return b.window + at;
}

void* shared_dynamic() {
  if (!block->dynamic) fault(Fault::failure, "the kernel has dynamic shared memory and was launched with none");
  return block->window + kSharedStart;
}

uint32_t shared_address(const void* p) {
  const size_t offset = (size_t)(static_cast<const char*>(p) - block->window);
  if (offset >= kSharedEnd) fault(Fault::address, "a 32-bit shared address is taken of memory that is not shared");
  return (u32)offset;
}

void* shared_pointer(uint32_t address) {
  if (address >= kSharedEnd) fault(Fault::address, "shared address %u is out of range", address);
  return block->window + address;
}

char* at_shared(u32 address, size_t bytes, size_t align, const char* what, Site at) {
  if (address % align)
    fault(Fault::misaligned, "%s at %s:%d: shared address %u is not a multiple of %zu", what, at.file, at.line, address,
          align);
  if (address + bytes > kSharedEnd)
    fault(Fault::address, "%s at %s:%d: shared address %u is out of range", what, at.file, at.line, address);
  return block->window + address;
}

}  // namespace emu
