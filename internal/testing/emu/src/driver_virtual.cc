// Virtual memory: reserved addresses, memory without addresses, and mappings of the whole of it.
#include "driver.h"

namespace emu {
namespace {

struct Location {
  int type, id;  // of type 1, a device
};
struct Properties {  // the head of a CUmemAllocationProp
  int type, handles;
  Location location;
};
struct Rights {  // a CUmemAccessDesc
  Location location;
  int flags;
};

struct Memory {
  Context* context;
  size_t bytes;
};
std::map<u64, Memory> created;  // by handle
u64 handles;

void* pointer(Address a) { return reinterpret_cast<void*>(a); }

Result check_size(size_t bytes) {
  if (bytes && bytes % kGranularity == 0) return kSuccess;
  return explain(kInvalidValue, std::to_string(bytes) + " bytes are no multiple of the granularity");
}

}  // namespace

int unmapped(const Context& c) {
  int n = 0;
  for (auto& m : created) n += m.second.context == &c;
  return n;
}

}  // namespace emu

using namespace emu;

API cuMemGetAllocationGranularity(size_t* bytes, const Properties* p, int) {
  return in_context([&](Context&) {
    if (p->type != 1 || p->location.type != 1) return kInvalidValue;  // pinned, on a device
    return *bytes = kGranularity, kSuccess;
  });
}

API cuMemAddressReserve(Address* p, size_t bytes, size_t alignment, Address wanted, u64 flags) {
  return in_context([&](Context& c) {
    if (alignment || wanted || flags) return kInvalidValue;
    if (Result r = check_size(bytes)) return r;
    *p = (Address)reserve(c.device, bytes);
    return *p ? kSuccess : kOutOfMemory;
  });
}

API cuMemAddressFree(Address p, size_t bytes) {
  return in_context([&](Context&) {
    return unreserve(pointer(p), bytes) ? kSuccess : explain(kInvalidValue, "no range, or one with memory behind it");
  });
}

API cuMemCreate(u64* handle, size_t bytes, const Properties* p, u64 flags) {
  return in_context([&](Context& c) {
    if (flags || p->location.id != c.device) return kInvalidValue;
    if (Result r = check_size(bytes)) return r;
    if (used(c.device) + bytes > settings.memory) return kOutOfMemory;
    created[*handle = ++handles] = {&c, bytes};
    return kSuccess;
  });
}

API cuMemRelease(u64 handle) {
  return in_context([&](Context&) { return created.erase(handle) ? kSuccess : kInvalidValue; });
}

API cuMemMap(Address p, size_t bytes, size_t offset, u64 handle, u64 flags) {
  return in_context([&](Context&) {
    auto it = created.find(handle);
    if (it == created.end() || it->second.bytes != bytes || offset || flags || p % kGranularity) return kInvalidValue;
    return map(it->second.context->device, pointer(p), bytes) ? kSuccess : kInvalidValue;
  });
}

API cuMemSetAccess(Address p, size_t bytes, const Rights* rights, size_t count) {
  return in_context([&](Context& c) {
    if (!count || rights->location.id != c.device || rights->flags != 3) return kInvalidValue;  // reading and writing
    return give_access(pointer(p), bytes) ? kSuccess : kInvalidValue;
  });
}

API cuMemUnmap(Address p, size_t bytes) {
  return in_context([&](Context&) {
    return unmap(pointer(p), bytes) ? kSuccess : explain(kInvalidValue, "unmap: not the whole of mappings");
  });
}
