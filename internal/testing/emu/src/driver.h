// driver.h: what the files of the driver API share. The API has one lock; its state is global, as a
// driver's is.
#pragma once
#include "runtime.h"
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace emu {

using Address = unsigned long long;  // CUdeviceptr

// Result is a CUresult. Names and values are those of the CUDA driver API; driver_error.cc has the texts.
enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kPeerAccessUnsupported = 217,
  kInvalidPtx = 218,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kLaunchTimeout = 702,
  kPeerAccessAlreadyEnabled = 704,
  kPeerAccessNotEnabled = 705,
  kPrimaryContextActive = 708,
  kMisalignedAddress = 716,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureWrongThread = 908,
};

// ---- devices and contexts (driver_device.cc) ---------------------------------------------------------

struct Stream;

// Context is the primary context of a device.
struct Context {
  int device;
  int references = 0;
  unsigned flags = 0;
  int events = 0, pinned = 0, modules = 0, graphs = 0;  // that it has
  Result error = kSuccess;  // a fault: every call from then on returns it
  std::vector<bool> peers;  // whose memory it may use
  Stream* null_stream = nullptr;
  std::vector<Stream*> streams;  // with the null stream, and those destroyed while they had work
};

extern std::mutex api;
extern bool initialized;
extern std::vector<Context> contexts;
extern thread_local Context* current;
Context* context_of(void* handle);  // null for what is no context

// explain stores a sentence that cuGetErrorString adds to the text of the last error; it returns the error.
Result explain(Result error, const std::string& why);
extern std::string explanation;
extern Result explained;

// latch stores the first fault of a context.
void latch(Context& c, Result error, const std::string& why);

// advance_streams runs queued work as the setting `streams` says; every call does so.
void advance_streams();

// calls counts the calls of each function that needs a context.
extern std::map<std::string, u64> calls;

// told counts a call and returns the code that it fails with if the setting `fail` means it. enter, with which every
// call begins, follows the environment and hangs where the setting `hang` says so, too.
Result told(const char* call);
Result enter(const char* call);

// refuse_in_capture refuses a call that a thread may not make while it captures a stream (driver_graph.cc).
Result refuse_in_capture(const char* call);

// in_context runs the body of a call that needs a current context without a fault.
template <class F> Result in_context(F body, const char* call = __builtin_FUNCTION()) {
  std::lock_guard<std::mutex> hold(api);
  calls[call]++;
  if (Result r = enter(call)) return r;
  if (!initialized) return kNotInitialized;
  if (!current || !current->references) return kInvalidContext;
  advance_streams();
  if (current->error) return current->error;
  if (Result r = refuse_in_capture(call)) return r;
  const Result r = body(*current);
  return r == kSuccess && current->error ? current->error : r;
}

// at_driver runs the body of a call that needs no context.
template <class F> Result at_driver(F body, const char* call = __builtin_FUNCTION()) {
  std::lock_guard<std::mutex> hold(api);
  if (Result r = enter(call)) return r;
  return initialized ? body() : kNotInitialized;
}

// ---- streams and events (driver_stream.cc) -----------------------------------------------------------

// Ticket is work in a stream: number `number`, counting from 1. Number 0 is always done.
struct Ticket {
  Stream* stream = nullptr;
  u64 number = 0;
};

struct Work {
  std::function<void(Context&)> run;
  std::vector<Ticket> after;
};

// Graph is launches of a stream that were captured, in order.
struct Graph {
  Context* context;
  bool invalid = false;  // a call was refused meanwhile
  std::vector<std::function<void(Context&)>> work;
};

struct Stream {
  Context* context;
  bool blocking;  // ordered with the null stream
  bool destroyed = false;
  std::deque<Work> queue;
  u64 issued = 0, done = 0;
  Graph* capture = nullptr;  // takes what is queued

  Stream(Context& c, bool blocking) : context(&c), blocking(blocking) {}
};

struct Event {
  Context* context;
  Ticket ticket;
  bool timed, blocking;
  double milliseconds = 0;
};

// stream_of returns the stream of a handle: null for one that is no stream.
Stream* stream_of(void* handle);

template <class F> Result on_stream(void* handle, F body, const char* call = __builtin_FUNCTION()) {
  return in_context([&](Context&) {
    Stream* s = stream_of(handle);
    if (s && s->capture) return explain(kCaptureUnsupported, std::string(call) + " on a stream that is captured");
    return s ? body(*s) : kInvalidHandle;
  }, call);
}

// submit queues work that follows what is in the stream, and `first`.
Ticket submit(Stream& stream, std::function<void(Context&)> run, const Ticket& first = {});
void run_until(const Ticket& ticket);
void drain(Stream& stream);
void drain(Context& context);
bool is_done(const Ticket& ticket);

// ---- memory (driver_memory.cc) -----------------------------------------------------------------------

bool is_pinned(const void* p, size_t bytes);
int unmapped(const Context& c);  // memory without addresses (driver_virtual.cc)

// ---- modules (driver_module.cc, image.cc) ------------------------------------------------------------

// Limits of a kernel, from its cubin or its PTX.
struct Limits {
  unsigned registers = 0, threads = 1024, shared = 0, local = 0;
};

// Image is what is read from an image. The text "emu" means all kernels of the library; "emu NAME..." means those of
// the names, and a kernel that is not there does nothing.
struct Image {
  enum { cubin, ptx, host, stand_in, unknown } kind = unknown;
  unsigned capability = 0;  // cubin and PTX: 10 * major + minor
  std::map<std::string, Limits> kernels;
};
Image read_image(const char* bytes, size_t most);
size_t object_size(const char* elf);

struct Module {
  Context* context;
  std::map<std::string, const Kernel*> kernels;
  Image image;
  bool unloaded = false;
  std::map<std::string, std::unique_ptr<struct Function>> functions;
};

struct Function {
  std::shared_ptr<Module> module;
  const Kernel* kernel;
  Limits limits;
  size_t dynamic = 48 << 10;  // the most that a launch may ask for
};

Function* function_of(void* handle);

// most_shared is the shared memory that a block can have on a GPU of a compute capability, in bytes (CUDA C++
// Programming Guide, technical specifications).
inline unsigned most_shared(unsigned capability) {
  switch (capability) {
    case 80: case 87: return 163 << 10;
    case 86: case 89: case 120: case 121: return 99 << 10;
  }
  return 227 << 10;
}

}  // namespace emu

#define API extern "C" __attribute__((visibility("default"))) int
