// Memory of devices and pinned memory of the host; copies and fills.
//
// What a copy between host and device may do late, it does late: pinned memory is read and written when the
// stream reaches the copy, memory that is not pinned when the call is made, as the driver documents it.
#include "driver.h"
#include "checker.h"
#include <cstdlib>
#include <sys/mman.h>

namespace emu {

namespace {

struct Pinned {
  size_t bytes;
  Context* context;
};
std::map<const char*, Pinned> pinned;  // by start

constexpr size_t kPage = 4096;
size_t pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

void* pointer(Address a) { return reinterpret_cast<void*>(a); }

// inside tells whether a range lies in one allocation.
bool inside(const void* p, size_t bytes) {
  const Allocation a = allocation_at(p);
  return offset_of(p) + bytes <= a.start + a.bytes;
}

// copy moves bytes when a stream reaches the copy. The memory may have been taken from under it by then; late is pinned
// memory that it uses.
void copy(Context& c, void* to, const void* from, size_t bytes, const char* what, const void* late = nullptr) {
  for (const void* p : {(const void*)to, from})
    if (in_arena(p) && !inside(p, bytes))
      return latch(c, kIllegalAddress,
                   std::string(what) + " of " + std::to_string(bytes) +
                       " bytes goes beyond its memory: " + describe(offset_of(p)));
  if (late && !is_pinned(late, bytes))
    return latch(c, kIllegalAddress, std::string(what) + " uses freed pinned memory");
  memmove(to, from, bytes);
  if (in_arena(to)) mark_written(to, bytes);
}

Result check_device(Address p, size_t bytes, const char* what) {
  if (in_arena(pointer(p)) && inside(pointer(p), bytes)) return kSuccess;
  return explain(kInvalidValue,
                 std::string(what) + ": " + std::to_string(bytes) + " bytes are not inside one allocation of a device");
}

// A driver takes other memory, but then the copy is not asynchronous.
Result check_pinned(const void* host, size_t bytes, const char* what) {
  if (is_pinned(host, bytes)) return kSuccess;
  return explain(kInvalidValue, std::string(what) + " of host memory that is not pinned");
}

Result queue_copy(void* stream, Address to, Address from, size_t bytes, const char* call = __builtin_FUNCTION()) {
  return on_stream(stream, [&](Stream& s) {
    for (Address p : {to, from})
      if (Result r = check_device(p, bytes, "copy")) return r;
    submit(s, [=](Context& c) { copy(c, pointer(to), pointer(from), bytes, "a copy"); });
    return kSuccess;
  }, call);
}

}  // namespace

bool is_pinned(const void* p, size_t bytes) {
  auto it = pinned.upper_bound(static_cast<const char*>(p));
  if (it == pinned.begin()) return false;
  --it;
  return static_cast<const char*>(p) + bytes <= it->first + it->second.bytes;
}

}  // namespace emu

using namespace emu;

API cuMemAlloc_v2(Address* p, size_t bytes) {
  return in_context([&](Context& c) {
    if (!bytes) return explain(kInvalidValue, "an allocation of 0 bytes");
    *p = (Address)allocate(c.device, bytes);
    if (*p) return kSuccess;
    return explain(kOutOfMemory, std::to_string(bytes) + " bytes more than " + std::to_string(used(c.device)) + " of " +
                                     std::to_string(settings.memory));
  });
}

// Freeing waits for nothing: what still uses the memory will find it gone.
API cuMemFree_v2(Address p) {
  return in_context([&](Context&) {
    return !p || release(pointer(p)) ? kSuccess : explain(kInvalidValue, "free: not the start of an allocation");
  });
}

API cuMemGetInfo_v2(size_t* free, size_t* total) {
  return in_context([&](Context& c) {
    *total = settings.memory;
    *free = settings.memory - used(c.device);
    return kSuccess;
  });
}

API cuMemHostAlloc(void** p, size_t bytes, unsigned) {
  return in_context([&](Context& c) {
    if (!bytes) return kInvalidValue;
    if (posix_memalign(p, kPage, pages(bytes))) return kOutOfMemory;
    memset(*p, 0xff, bytes);
    pinned[static_cast<char*>(*p)] = {bytes, &c};
    c.pinned++;
    return kSuccess;
  });
}

// The addresses of freed pinned memory are kept, so that its late use shows instead of crashing.
API cuMemFreeHost(void* p) {
  return in_context([&](Context&) {
    auto it = pinned.find(static_cast<char*>(p));
    if (it == pinned.end()) return explain(kInvalidValue, "free: not pinned memory");
    madvise(p, pages(it->second.bytes), MADV_DONTNEED);
    it->second.context->pinned--;
    pinned.erase(it);
    return kSuccess;
  });
}

API cuMemHostGetDevicePointer_v2(Address* device, void* p, unsigned) {
  return in_context([&](Context&) { return is_pinned(p, 1) ? (*device = (Address)p, kSuccess) : kInvalidValue; });
}

// A copy to the device waits for its stream, takes the bytes and returns before they have arrived.
API cuMemcpyHtoD_v2(Address to, const void* from, size_t bytes) {
  return on_stream(nullptr, [&](Stream& s) {
    if (Result r = check_device(to, bytes, "copy to the device")) return r;
    drain(s);
    const char* start = static_cast<const char*>(from);
    auto data = std::make_shared<std::vector<char>>(start, start + bytes);
    submit(s, [=](Context& c) { copy(c, pointer(to), data->data(), bytes, "a copy to the device"); });
    return kSuccess;
  });
}

API cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* stream) {
  return on_stream(stream, [&](Stream& s) {
    if (Result r = check_device(to, bytes, "copy to the device")) return r;
    if (Result r = check_pinned(from, bytes, "asynchronous copy to the device")) return r;
    submit(s, [=](Context& c) { copy(c, pointer(to), from, bytes, "a copy to the device", from); });
    return kSuccess;
  });
}

API cuMemcpyDtoH_v2(void* to, Address from, size_t bytes) {
  return on_stream(nullptr, [&](Stream& s) {
    if (Result r = check_device(from, bytes, "copy to the host")) return r;
    run_until(submit(s, [=](Context& c) { copy(c, to, pointer(from), bytes, "a copy to the host"); }));
    return kSuccess;
  });
}

// Until it has happened the host must not read what the copy writes: it finds NaN there.
API cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void* stream) {
  return on_stream(stream, [&](Stream& s) {
    if (Result r = check_device(from, bytes, "copy to the host")) return r;
    if (Result r = check_pinned(to, bytes, "asynchronous copy to the host")) return r;
    memset(to, 0xff, bytes);
    submit(s, [=](Context& c) { copy(c, to, pointer(from), bytes, "a copy to the host", to); });
    return kSuccess;
  });
}

API cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
  return queue_copy(stream, to, from, bytes);
}
// A driver copies between devices that were not connected through the host; here that is an error.
API cuMemcpyPeerAsync(Address to, void* target, Address from, void* source, size_t bytes, void* stream) {
  return on_stream(stream, [&](Stream& s) {
    for (auto [p, context] : {std::pair{to, target}, std::pair{from, source}}) {
      if (Result r = check_device(p, bytes, "copy")) return r;
      if (&contexts[allocation_at(pointer(p)).device] != context) return explain(kInvalidValue, "copy: another device");
    }
    if (!s.context->peers[context_of(source)->device]) return kPeerAccessNotEnabled;
    submit(s, [=](Context& c) {
      copy(c, pointer(to), pointer(from), bytes, "a copy");
      if (settings.lies && bytes) static_cast<char*>(pointer(to))[bytes / 2] ^= 1;
    });
    return kSuccess;
  });
}

API cuMemsetD8Async(Address to, unsigned char value, size_t bytes, void* stream) {
  return on_stream(stream, [&](Stream& s) {
    if (Result r = check_device(to, bytes, "fill")) return r;
    submit(s, [=](Context& c) {
      const std::vector<char> data(bytes, (char)value);
      copy(c, pointer(to), data.data(), bytes, "a fill");
    });
    return kSuccess;
  });
}
