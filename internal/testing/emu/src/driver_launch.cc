// Launches: those that a driver would refuse fail at once, the others are queued. The parameters are copied at the
// call, as the API promises.
#include "driver.h"

namespace emu {

namespace {

// Arguments are a launch's parameters, copied.
struct Arguments {
  struct alignas(128) Line {
    char bytes[128];
  };
  std::vector<std::vector<Line>> values;
  std::vector<void*> pointers;

  void add(const Parameter& p, const void* from) {
    values.emplace_back((p.bytes + sizeof(Line) - 1) / sizeof(Line));
    memcpy(values.back().data(), from, p.bytes);
    pointers.push_back(values.back().data());
  }
};

Result check_shape(const Function& f, const Shape& s) {
  const dim3 g = s.grid, b = s.block;
  if (!g.x || !g.y || !g.z || g.x > 0x7fffffff || g.y > 65535 || g.z > 65535)
    return explain(kInvalidValue, "the grid is outside the limits");
  if (!b.x || !b.y || !b.z || b.z > 64 || (u64)b.x * b.y * b.z > 1024)
    return explain(kInvalidValue, "the block is outside the limits");
  const unsigned threads = b.x * b.y * b.z;
  if (threads > f.limits.threads)
    return explain(kInvalidValue, std::to_string(threads) + " threads are more than the launch bounds of " +
                                      f.kernel->name + ", " + std::to_string(f.limits.threads));
  if (s.dynamic > f.dynamic)
    return explain(kInvalidValue, "the dynamic shared memory is above the limit of the function");
  const unsigned warps = (threads + 31) / 32, per_warp = (f.limits.registers * 32 + 255) / 256 * 256;
  if (warps * per_warp > 65536) return explain(kLaunchOutOfResources, "too many registers for a block of this size");
  return kSuccess;
}

Result code_of(Fault kind) {
  switch (kind) {
    case Fault::none: return kSuccess;
    case Fault::address: return kIllegalAddress;
    case Fault::misaligned: return kMisalignedAddress;
    case Fault::timeout: return kLaunchTimeout;
    case Fault::failure: break;
  }
  return kLaunchFailed;
}

void execute(Context& c, Module& m, const Kernel& kernel, const Shape& shape, Arguments& arguments) {
  if (Result r = told("launch")) return latch(c, r, "");
  if (m.unloaded) return latch(c, kLaunchFailed, std::string(kernel.name) + " runs after its module was unloaded");
  if (!kernel.run) return;
  const Report report = run(kernel, shape, arguments.pointers.data());
  if (report.kind != Fault::none) latch(c, code_of(report.kind), report.text);
}

}  // namespace
}  // namespace emu

using namespace emu;

API cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned dynamic, void* stream, void** parameters, void**) {
  if (settings.forget) return kSuccess;
  return in_context([&](Context&) {
    Function* f = function_of(function);
    Stream* s = stream_of(stream);
    if (!f || !s) return explain(kInvalidHandle, f ? "no such stream" : "no such function");
    const Shape shape{{gx, gy, gz}, {bx, by, bz}, dynamic};
    if (Result r = check_shape(*f, shape)) return r;
    if (f->module->context != current) return explain(kInvalidHandle, "a kernel of a module of another context");
    if (f->kernel->count && !parameters) return explain(kInvalidValue, "a launch without parameters");
    auto arguments = std::make_shared<Arguments>();
    for (int i = 0; i < f->kernel->count; i++) arguments->add(f->kernel->parameters[i], parameters[i]);
    submit(*s, [=, module = f->module, kernel = f->kernel](Context& c) {
      execute(c, *module, *kernel, shape, *arguments);
    });
    return kSuccess;
  });
}

// Element types and swizzles are numbered as CUtensorMapDataType and CUtensorMapSwizzle are.
API cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* base, const u64* sizes, const u64* strides,
                           const u32* box, const u32* steps, int interleave, int swizzle, int, int) {
  return in_context([&](Context&) {
    static const int bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    static const int swizzles[] = {0, 32, 64, 128};
    if ((uintptr_t)map % 64) return explain(kInvalidValue, "tensor map: it must lie at a multiple of 64 bytes");
    if (type < 0 || type > 12 || swizzle < 0 || swizzle > 3)
      return explain(kInvalidValue, "tensor map: no such element type or swizzle");
    if (const char* why =
            encode_map(map, bytes[type], (int)rank, base, sizes, strides, box, steps, interleave, swizzles[swizzle]))
      return explain(kInvalidValue, std::string("tensor map: ") + why);
    return kSuccess;
  });
}
