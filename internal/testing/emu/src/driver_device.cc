// Devices and their primary contexts.
#include "driver.h"
#include <algorithm>
#include <cstdio>
#include <unistd.h>

namespace emu {

std::mutex api;
bool initialized;
std::vector<Context> contexts = [] {
  std::vector<Context> all(kDevices);
  for (int i = 0; i < kDevices; i++) all[i].device = i, all[i].peers.assign(kDevices, false);
  return all;
}();
thread_local Context* current;
std::map<std::string, u64> calls;

Context* context_of(void* handle) {
  for (auto& c : contexts)
    if (&c == handle) return &c;
  return nullptr;
}

namespace {

bool is_device(int device) { return device >= 0 && device < settings.devices; }

// means tells whether a setting names a function, which may have a version behind its name.
bool means(const std::string& function, const char* call) {
  const size_t n = function.size();
  return n && !strncmp(call, function.c_str(), n) && (!call[n] || !strncmp(call + n, "_v", 2));
}

void reset(Context& c) {
  for (Stream* s : c.streams) s->queue.clear(), s->done = s->issued, s->destroyed = true, s->capture = nullptr;
  c.streams.clear();
  c.events = c.pinned = c.modules = c.graphs = 0;
  c.null_stream = nullptr;
  c.error = kSuccess;
  c.peers.assign(kDevices, false);
  release_all(c.device);
}

// check_leaks ends the process if a context without a fault still has something.
void check_leaks(const Context& c) {
  const auto streams = std::count_if(c.streams.begin(), c.streams.end(),
                                     [&](Stream* s) { return !s->destroyed && s != c.null_stream; });
  const int memory = holdings(c.device) + unmapped(c);
  if (!settings.leaks || c.error || !(memory || c.pinned || streams || c.events || c.modules || c.graphs)) return;
  fprintf(stderr, "emulator: left behind: %d pieces of device memory, %d of pinned memory, %d streams, %d events, %d "
          "modules, %d graphs\n", memory, c.pinned, (int)streams, c.events, c.modules, c.graphs);
  abort();
}

// The values are those of an H200, with the capability of the setting.
int attribute(int which, int device) {
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
    case 33: return 0xf0 + device;  // PCI_BUS_ID
    case 34: return 2;              // PCI_DEVICE_ID
    case 36: return 3201000;        // MEMORY_CLOCK_RATE, kHz
    case 37: return 6144;           // GLOBAL_MEMORY_BUS_WIDTH
    case 38: return 50 << 20;       // L2_CACHE_SIZE
    case 39: return 2048;           // MAX_THREADS_PER_MULTIPROCESSOR
    case 40: return 3;              // ASYNC_ENGINE_COUNT
    case 41: return 1;              // UNIFIED_ADDRESSING
    case 50: return 1;              // PCI_DOMAIN_ID
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

Result told(const char* call) {
  Failure& f = settings.fail;
  return means(f.call, call) && ++f.calls == f.number ? explain((Result)f.code, "") : kSuccess;
}

Result enter(const char* call) {
  follow_environment();
  while (means(settings.hang, call)) pause();
  return told(call);
}

}  // namespace emu

using namespace emu;

API cuInit(unsigned flags) {
  std::lock_guard<std::mutex> hold(api);
  follow_environment();
  if (flags) return kInvalidValue;
  if (settings.init) return settings.init;
  if (!settings.devices) return kNoDevice;
  open_arena();
  initialized = true;
  return kSuccess;
}

API cuDriverGetVersion(int* version) {
  return at_driver([&] { return *version = settings.driver, kSuccess; });
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

API cuDeviceTotalMem_v2(size_t* bytes, int device) {
  return at_driver([&] { return is_device(device) ? (*bytes = settings.memory, kSuccess) : kInvalidDevice; });
}

API cuDeviceGetAttribute(int* value, int which, int device) {
  return at_driver([&] { return is_device(device) ? (*value = attribute(which, device), kSuccess) : kInvalidDevice; });
}

API cuDeviceCanAccessPeer(int* can, int device, int peer) {
  return at_driver([&] {
    if (!is_device(device) || !is_device(peer)) return kInvalidDevice;
    return *can = device != peer && !settings.apart, kSuccess;
  });
}

API cuDeviceGetP2PAttribute(int* value, int which, int device, int peer) {
  return at_driver([&] {
    if (!is_device(device) || !is_device(peer)) return kInvalidDevice;
    switch (which) {
      case 1: return *value = settings.pcie, kSuccess;                     // PERFORMANCE_RANK
      case 2: return *value = device != peer && !settings.apart, kSuccess;  // ACCESS_SUPPORTED
      case 3: return *value = !settings.pcie, kSuccess;                    // NATIVE_ATOMIC_SUPPORTED
    }
    return *value = 0, kSuccess;
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
    if (--c.references > 0) return kSuccess;
    check_leaks(c);
    reset(c);
    return kSuccess;
  });
}

API cuDevicePrimaryCtxReset_v2(int device) {
  return at_driver([&] { return is_device(device) ? (reset(contexts[device]), kSuccess) : kInvalidDevice; });
}

API cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) {
  return at_driver([&] {
    if (!is_device(device)) return kInvalidDevice;
    if (contexts[device].references) return kPrimaryContextActive;
    return contexts[device].flags = flags, kSuccess;
  });
}

API cuCtxSetCurrent(void* context) {
  if (settings.forget && context == current) return kSuccess;
  return at_driver([&] {
    if (context && !context_of(context)) return kInvalidContext;
    current = context_of(context);
    return kSuccess;
  });
}

API cuCtxSynchronize() {
  return in_context([](Context& c) { return drain(c), kSuccess; });
}

API cuCtxEnablePeerAccess(void* peer, unsigned) {
  return in_context([&](Context& c) {
    Context* other = context_of(peer);
    if (!other) return kInvalidContext;
    if (other == &c) return kInvalidDevice;
    if (settings.apart) return kPeerAccessUnsupported;
    if (c.peers[other->device]) return kPeerAccessAlreadyEnabled;
    c.peers[other->device] = true;
    return kSuccess;
  });
}
