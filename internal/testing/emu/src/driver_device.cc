// Devices and their primary contexts.
#include "driver.h"
#include <algorithm>
#include <cstdio>
#include <dlfcn.h>

namespace emu {

std::mutex api;
bool initialized;
std::vector<Context> contexts;
thread_local Context* current;
std::map<std::string, u64> calls;

namespace {

bool is_device(int device) { return device >= 0 && device < settings.devices; }

Context* context_of(void* handle) {
  for (auto& c : contexts)
    if (&c == handle) return &c;
  return nullptr;
}

// The contexts a thread has pushed; the top is the current one.
thread_local std::vector<Context*> stack;

void reset(Context& c) {
  for (Stream* s : c.streams) s->queue.clear(), s->done = s->issued, s->destroyed = true;
  c.streams.clear();
  c.null_stream = nullptr;
  c.error = kSuccess;
  c.peers.assign(settings.devices, false);
  release_all(c.device);
}

// The values are those of an H200, with the capability of the setting.
int attribute(int which) {
  switch (which) {
    case 1: return 1024;            // MAX_THREADS_PER_BLOCK
    case 2: case 3: return 1024;    // MAX_BLOCK_DIM_X, Y
    case 4: return 64;              // MAX_BLOCK_DIM_Z
    case 5: return 0x7fffffff;      // MAX_GRID_DIM_X
    case 6: case 7: return 65535;   // MAX_GRID_DIM_Y, Z
    case 8: return 48 << 10;        // MAX_SHARED_MEMORY_PER_BLOCK
    case 9: return 64 << 10;        // TOTAL_CONSTANT_MEMORY
    case 10: return 32;             // WARP_SIZE
    case 12: return 65536;          // MAX_REGISTERS_PER_BLOCK
    case 13: return 1980000;        // CLOCK_RATE, kHz
    case 16: return settings.multiprocessors;  // MULTIPROCESSOR_COUNT
    case 19: return 1;              // CAN_MAP_HOST_MEMORY
    case 31: return 1;              // CONCURRENT_KERNELS
    case 36: return 3201000;        // MEMORY_CLOCK_RATE, kHz
    case 37: return 6144;           // GLOBAL_MEMORY_BUS_WIDTH
    case 38: return 50 << 20;       // L2_CACHE_SIZE
    case 39: return 2048;           // MAX_THREADS_PER_MULTIPROCESSOR
    case 40: return 3;              // ASYNC_ENGINE_COUNT
    case 41: return 1;              // UNIFIED_ADDRESSING
    case 75: return settings.capability / 10;
    case 76: return settings.capability % 10;
    case 78: return 1;              // STREAM_PRIORITIES_SUPPORTED
    case 81: return most_shared(settings.capability) + 1024;  // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
    case 82: return 65536;          // MAX_REGISTERS_PER_MULTIPROCESSOR
    case 97: return most_shared(settings.capability);  // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    case 106: return 32;            // MAX_BLOCKS_PER_MULTIPROCESSOR
    case 111: return 1 << 10;       // RESERVED_SHARED_MEMORY_PER_BLOCK
    case 115: return 1;             // MEMORY_POOLS_SUPPORTED
  }
  return 0;
}

}  // namespace
}  // namespace emu

using namespace emu;

API cuInit(unsigned flags) {
  std::lock_guard<std::mutex> hold(api);
  if (flags) return kInvalidValue;
  if (!settings.devices) return kNoDevice;
  if (!initialized) {
    open_arena();
    contexts.resize(settings.devices);
    for (int i = 0; i < settings.devices; i++)
      contexts[i].device = i, contexts[i].peers.assign(settings.devices, false);
  }
  initialized = true;
  return kSuccess;
}

API cuDriverGetVersion(int* version) {
  *version = 12040;
  return kSuccess;
}

API cuDeviceGetCount(int* count) {
  return at_driver([&] { return *count = settings.devices, kSuccess; });
}

API cuDeviceGet(int* device, int ordinal) {
  return at_driver([&] { return is_device(ordinal) ? (*device = ordinal, kSuccess) : kInvalidDevice; });
}

API cuDeviceGetName(char* name, int size, int device) {
  return at_driver([&] {
    if (!is_device(device) || size < 1) return kInvalidDevice;
    snprintf(name, size, "Weft emulator %d.%d", settings.capability / 10, settings.capability % 10);
    return kSuccess;
  });
}

API cuDeviceGetUuid_v2(void* uuid, int device) {
  return at_driver([&] {
    if (!is_device(device)) return kInvalidDevice;
    memset(uuid, 0xe0 + device, 16);
    return kSuccess;
  });
}
API cuDeviceGetUuid(void* uuid, int device) { return cuDeviceGetUuid_v2(uuid, device); }

API cuDeviceGetPCIBusId(char* id, int size, int device) {
  return at_driver([&] {
    if (!is_device(device)) return kInvalidDevice;
    snprintf(id, size, "0000:%02x:00.0", device + 1);
    return kSuccess;
  });
}

API cuDeviceTotalMem_v2(size_t* bytes, int device) {
  return at_driver([&] { return is_device(device) ? (*bytes = settings.memory, kSuccess) : kInvalidDevice; });
}

API cuDeviceGetAttribute(int* value, int which, int device) {
  return at_driver([&] { return is_device(device) ? (*value = attribute(which), kSuccess) : kInvalidDevice; });
}

API cuDeviceCanAccessPeer(int* can, int device, int peer) {
  return at_driver(
      [&] { return is_device(device) && is_device(peer) ? (*can = device != peer, kSuccess) : kInvalidDevice; });
}

API cuDeviceGetP2PAttribute(int* value, int which, int device, int peer) {
  return at_driver([&] {
    return is_device(device) && is_device(peer) ? (*value = which == 2 && device != peer, kSuccess) : kInvalidDevice;
  });
}

API cuDevicePrimaryCtxRetain(void** context, int device) {
  return at_driver([&] {
    if (!is_device(device)) return kInvalidDevice;
    contexts[device].references++;
    *context = &contexts[device];
    return kSuccess;
  });
}

API cuDevicePrimaryCtxRelease_v2(int device) {
  return at_driver([&] {
    if (!is_device(device)) return kInvalidDevice;
    Context& c = contexts[device];
    if (!c.references) return kInvalidContext;
    if (--c.references == 0) reset(c);
    return kSuccess;
  });
}

API cuDevicePrimaryCtxReset_v2(int device) {
  return at_driver([&] { return is_device(device) ? (reset(contexts[device]), kSuccess) : kInvalidDevice; });
}

API cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  return at_driver([&] {
    return is_device(device) ? (*flags = 0, *active = contexts[device].references > 0, kSuccess) : kInvalidDevice;
  });
}

API cuDevicePrimaryCtxSetFlags_v2(int device, unsigned) {
  return at_driver([&] { return is_device(device) ? kSuccess : kInvalidDevice; });
}

API cuCtxSetCurrent(void* context) {
  return at_driver([&] {
    if (context && !context_of(context)) return kInvalidContext;
    current = context_of(context);
    if (stack.empty()) stack.push_back(nullptr);
    stack.back() = current;
    return kSuccess;
  });
}

API cuCtxGetCurrent(void** context) {
  return at_driver([&] { return *context = current, kSuccess; });
}

API cuCtxPushCurrent_v2(void* context) {
  return at_driver([&] {
    if (!context_of(context)) return kInvalidContext;
    stack.push_back(current = context_of(context));
    return kSuccess;
  });
}

API cuCtxPopCurrent_v2(void** context) {
  return at_driver([&] {
    if (stack.empty()) return kInvalidContext;
    if (context) *context = stack.back();
    stack.pop_back();
    current = stack.empty() ? nullptr : stack.back();
    return kSuccess;
  });
}

API cuCtxGetDevice(int* device) {
  return at_driver([&] { return current ? (*device = current->device, kSuccess) : kInvalidContext; });
}

API cuCtxGetFlags(unsigned* flags) {
  return at_driver([&] { return current ? (*flags = 0, kSuccess) : kInvalidContext; });
}

API cuCtxSynchronize() {
  return in_context([](Context& c) { return drain(c), kSuccess; });
}

API cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return in_context([&](Context&) { return *least = 0, *greatest = -5, kSuccess; });
}

API cuCtxGetLimit(size_t* value, int which) {
  return in_context([&](Context&) { return *value = which == 0 ? 1024 : 0, kSuccess; });
}

API cuCtxSetLimit(int, size_t) {
  return in_context([](Context&) { return kSuccess; });
}

API cuCtxEnablePeerAccess(void* peer, unsigned) {
  return in_context([&](Context& c) {
    Context* other = context_of(peer);
    if (!other) return kInvalidContext;
    if (other == &c) return kInvalidDevice;
    if (c.peers[other->device]) return kPeerAccessAlreadyEnabled;
    c.peers[other->device] = true;
    return kSuccess;
  });
}

API cuCtxDisablePeerAccess(void* peer) {
  return in_context([&](Context& c) {
    Context* other = context_of(peer);
    if (!other) return kInvalidContext;
    if (!c.peers[other->device]) return kPeerAccessNotEnabled;
    c.peers[other->device] = false;
    return kSuccess;
  });
}

// find_symbol returns the newest version of a function in this library.
static void* find_symbol(const std::string& name) {
  Dl_info info;
  dladdr(reinterpret_cast<void*>(&cuInit), &info);
  void* self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  for (const char* suffix : {"_v3", "_v2", ""})
    if (void* p = dlsym(self, (name + suffix).c_str())) return p;
  return nullptr;
}

API cuGetProcAddress_v2(const char* name, void** p, int, unsigned long long, int* status) {
  *p = find_symbol(name);
  if (status) *status = *p ? 0 : 1;  // 1: not found
  return *p ? kSuccess : kNotFound;
}
API cuGetProcAddress(const char* name, void** p, int version, unsigned long long flags) {
  return cuGetProcAddress_v2(name, p, version, flags, nullptr);
}
