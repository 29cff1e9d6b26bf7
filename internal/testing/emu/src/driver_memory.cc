// Memory of devices and pinned memory of the host; copies and fills.
//
// What a copy between host and device may do late, it does late: pinned memory is read and written when the
// stream reaches the copy, memory that is not pinned when the call is made, as the driver documents it.
#include "driver.h"
#include "checker.h"
#include <cstdlib>

namespace emu {

namespace {

std::map<const char*, size_t> pinned;  // by start

void* pointer(Address a) { return reinterpret_cast<void*>(a); }

// inside tells whether a range lies in one allocation.
bool inside(const void* p, size_t bytes) {
  const Allocation a = allocation_at(p);
  return offset_of(p) + bytes <= a.start + a.bytes;
}

// copy moves bytes when a stream reaches the copy. The device may have been taken from under it by then.
void copy(Context& c, void* to, const void* from, size_t bytes, const char* what) {
  for (const void* p : {(const void*)to, from})
    if (in_arena(p) && !inside(p, bytes))
      return latch(c, kIllegalAddress,
                   std::string(what) + " of " + std::to_string(bytes) +
                       " bytes goes beyond its memory: " + describe(offset_of(p)));
  memmove(to, from, bytes);
  if (in_arena(to)) mark_written(to, bytes);
}

Result check_device(Address p, size_t bytes, const char* what) {
  if (in_arena(pointer(p)) && inside(pointer(p), bytes)) return kSuccess;
  return explain(kInvalidValue,
                 std::string(what) + ": " + std::to_string(bytes) + " bytes are not inside one allocation of a device");
}

Result check_pageable(const void* host, size_t bytes, const char* what) {
  if (!settings.refuse_pageable || is_pinned(host, bytes)) return kSuccess;
  return explain(kInvalidValue, std::string(what) + " of host memory that is not pinned");
}

using Bytes = std::shared_ptr<std::vector<char>>;

Bytes snapshot(const void* p, size_t bytes) {
  const char* c = static_cast<const char*>(p);
  return std::make_shared<std::vector<char>>(c, c + bytes);
}

// to_device queues the copy of bytes that are taken now.
void to_device(Stream& s, Address to, const void* from, size_t bytes) {
  submit(s, [=, data = snapshot(from, bytes)](Context& c) {
    copy(c, pointer(to), data->data(), bytes, "a copy to the device");
  });
}

Result queue_copy(void* stream, Address to, Address from, size_t bytes, const char* call = __builtin_FUNCTION()) {
  return on_stream(stream, [&](Stream& s) {
    for (Address p : {to, from})
      if (Result r = check_device(p, bytes, "copy")) return r;
    submit(s, [=](Context& c) { copy(c, pointer(to), pointer(from), bytes, "a copy"); });
    return kSuccess;
  }, call);
}

template <class T>
Result fill(void* stream, Address to, T value, size_t count, const char* call = __builtin_FUNCTION()) {
  return on_stream(stream, [&](Stream& s) {
    if (to % sizeof(T)) return explain(kInvalidValue, "fill: the address is not a multiple of the element");
    if (Result r = check_device(to, count * sizeof(T), "fill")) return r;
    submit(s, [=](Context& c) {
      std::vector<T> data(count, value);
      copy(c, pointer(to), data.data(), count * sizeof(T), "a fill");
    });
    return kSuccess;
  }, call);
}

Result allocate_for(Context& c, Address* p, size_t bytes) {
  if (!bytes) return explain(kInvalidValue, "an allocation of 0 bytes");
  void* memory = allocate(c.device, bytes);
  if (!memory)
    return explain(kOutOfMemory, std::to_string(bytes) + " bytes more than " + std::to_string(used(c.device)) + " of " +
                                     std::to_string(settings.memory));
  *p = (Address)memory;
  return kSuccess;
}

}  // namespace

bool is_pinned(const void* p, size_t bytes) {
  auto it = pinned.upper_bound(static_cast<const char*>(p));
  if (it == pinned.begin()) return false;
  --it;
  return static_cast<const char*>(p) + bytes <= it->first + it->second;
}

}  // namespace emu

using namespace emu;

API cuMemAlloc_v2(Address* p, size_t bytes) {
  return in_context([&](Context& c) { return allocate_for(c, p, bytes); });
}

// Freeing waits for nothing: what still uses the memory will find it gone.
API cuMemFree_v2(Address p) {
  return in_context([&](Context&) {
    return !p || release(pointer(p)) ? kSuccess : explain(kInvalidValue, "free: not the start of an allocation");
  });
}

API cuMemAllocAsync(Address* p, size_t bytes, void* stream) {
  return on_stream(stream, [&](Stream& s) { return allocate_for(*s.context, p, bytes); });
}

API cuMemFreeAsync(Address p, void* stream) {
  return on_stream(stream, [&](Stream& s) {
    if (Result r = check_device(p, 1, "free")) return r;
    submit(s, [=](Context& c) {
      if (!release(pointer(p))) latch(c, kInvalidValue, "free: not the start of an allocation");
    });
    return kSuccess;
  });
}

API cuMemGetInfo_v2(size_t* free, size_t* total) {
  return in_context([&](Context& c) {
    *total = settings.memory;
    *free = settings.memory - used(c.device);
    return kSuccess;
  });
}

API cuMemGetAddressRange_v2(Address* base, size_t* bytes, Address p) {
  return in_context([&](Context&) {
    const Allocation a = allocation_at(pointer(p));
    if (!a.bytes) return kNotFound;
    if (base) *base = (Address)(arena + a.start);
    if (bytes) *bytes = a.bytes;
    return kSuccess;
  });
}

API cuPointerGetAttribute(void* value, int which, Address p) {
  return in_context([&](Context&) {
    const Allocation a = allocation_at(pointer(p));
    const bool host = is_pinned(pointer(p), 1);
    if (!a.bytes && !host) return kInvalidValue;
    switch (which) {
      case 2: *static_cast<unsigned*>(value) = host ? 1 : 2; return kSuccess;  // MEMORY_TYPE
      case 9: *static_cast<int*>(value) = host ? -2 : a.device; return kSuccess;  // DEVICE_ORDINAL
    }
    return kNotSupported;
  });
}

API cuMemHostAlloc(void** p, size_t bytes, unsigned) {
  return in_context([&](Context&) {
    if (!bytes) return kInvalidValue;
    if (posix_memalign(p, 4096, bytes)) return kOutOfMemory;
    memset(*p, 0xff, bytes);
    pinned[static_cast<char*>(*p)] = bytes;
    return kSuccess;
  });
}
API cuMemAllocHost_v2(void** p, size_t bytes) { return cuMemHostAlloc(p, bytes, 0); }

// Freed pinned memory is filled and kept, so that a late copy shows instead of crashing.
API cuMemFreeHost(void* p) {
  return in_context([&](Context&) {
    auto it = pinned.find(static_cast<char*>(p));
    if (it == pinned.end()) return explain(kInvalidValue, "free: not pinned memory");
    memset(p, 0xff, it->second);
    pinned.erase(it);
    return kSuccess;
  });
}

API cuMemHostRegister_v2(void* p, size_t bytes, unsigned) {
  return in_context([&](Context&) {
    if (is_pinned(p, 1)) return kHostMemoryAlreadyRegistered;
    pinned[static_cast<char*>(p)] = bytes;
    return kSuccess;
  });
}

API cuMemHostUnregister(void* p) {
  return in_context(
      [&](Context&) { return pinned.erase(static_cast<char*>(p)) ? kSuccess : kHostMemoryNotRegistered; });
}

API cuMemHostGetDevicePointer_v2(Address* device, void* p, unsigned) {
  return in_context([&](Context&) { return is_pinned(p, 1) ? (*device = (Address)p, kSuccess) : kInvalidValue; });
}

// A copy to the device waits for its stream, takes the bytes and returns before they have arrived.
API cuMemcpyHtoD_v2(Address to, const void* from, size_t bytes) {
  return on_stream(nullptr, [&](Stream& s) {
    if (Result r = check_device(to, bytes, "copy to the device")) return r;
    drain(s);
    to_device(s, to, from, bytes);
    return kSuccess;
  });
}

API cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* stream) {
  return on_stream(stream, [&](Stream& s) {
    if (Result r = check_device(to, bytes, "copy to the device")) return r;
    if (Result r = check_pageable(from, bytes, "asynchronous copy to the device")) return r;
    if (is_pinned(from, bytes))
      submit(s, [=](Context& c) { copy(c, pointer(to), from, bytes, "a copy to the device"); });
    else
      to_device(s, to, from, bytes);
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
    if (Result r = check_pageable(to, bytes, "asynchronous copy to the host")) return r;
    const bool late = is_pinned(to, bytes);
    if (late) memset(to, 0xff, bytes);
    const Ticket t = submit(s, [=](Context& c) { copy(c, to, pointer(from), bytes, "a copy to the host"); });
    if (!late) run_until(t);
    return kSuccess;
  });
}

API cuMemcpyDtoD_v2(Address to, Address from, size_t bytes) { return queue_copy(nullptr, to, from, bytes); }
API cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
  return queue_copy(stream, to, from, bytes);
}
API cuMemcpyPeerAsync(Address to, void*, Address from, void*, size_t bytes, void* stream) {
  return queue_copy(stream, to, from, bytes);
}
API cuMemcpyPeer(Address to, void*, Address from, void*, size_t bytes) { return queue_copy(nullptr, to, from, bytes); }

API cuMemcpyAsync(Address to, Address from, size_t bytes, void* stream) {
  if (!in_arena(pointer(from))) return cuMemcpyHtoDAsync_v2(to, pointer(from), bytes, stream);
  if (!in_arena(pointer(to))) return cuMemcpyDtoHAsync_v2(pointer(to), from, bytes, stream);
  return queue_copy(stream, to, from, bytes);
}

API cuMemcpy(Address to, Address from, size_t bytes) {
  if (!in_arena(pointer(from))) return cuMemcpyHtoD_v2(to, pointer(from), bytes);
  if (!in_arena(pointer(to))) return cuMemcpyDtoH_v2(pointer(to), from, bytes);
  return queue_copy(nullptr, to, from, bytes);
}

API cuMemsetD8_v2(Address to, unsigned char value, size_t count) { return fill(nullptr, to, value, count); }
API cuMemsetD16_v2(Address to, unsigned short value, size_t count) { return fill(nullptr, to, value, count); }
API cuMemsetD32_v2(Address to, unsigned value, size_t count) { return fill(nullptr, to, value, count); }
API cuMemsetD8Async(Address to, unsigned char value, size_t count, void* stream) {
  return fill(stream, to, value, count);
}
API cuMemsetD16Async(Address to, unsigned short value, size_t count, void* stream) {
  return fill(stream, to, value, count);
}
API cuMemsetD32Async(Address to, unsigned value, size_t count, void* stream) { return fill(stream, to, value, count); }
