// The library without the kernels of the sources, for tests of what is around them. It has some of its own, and is
// NVRTC, too, with a compiler that makes an image of the names of the kernels that the macro POINTWISE defines.
#include "driver.h"
#include "nvrtc.h"

namespace emu {

namespace {

bool is_first() { return !self->number && !self->launch->index.x; }

void add_f32(float* y, const float* a, const float* b, int64_t n) {
  for (const float* p : {(const float*)y, a, b}) {
    const Allocation m = allocation_at(p);
    if (offset_of(p) + n * 4 > m.start + m.bytes) fault(Fault::address, "outside memory");
  }
  for (int64_t i = 0; i < n && is_first(); i++) y[i] = a[i] + b[i];
}

// Reported is the launch and the arguments.
struct Reported {
  dim3 grid, block;
  int shared, a;
  int64_t b;
  float c;
  double d;
};

void report_f32(Reported* y, int a, int64_t b, float c, double d) {
  if (is_first()) *y = {self->launch->grid, self->launch->block, (int)emu::block->dynamic, a, b, c, d};
}

void fault_f32(void**) { fault(Fault::address, "told to"); }

template <auto F> Kernel kernel(const char* name) {
  return {name, Entry<F>::run, Entry<F>::parameters, Entry<F>::count, 1024};
}

const Registration registrations[] = {Registration(kernel<&add_f32>("add_f32")),
                                      Registration(kernel<&report_f32>("report_f32")),
                                      Registration({"fault_f32", fault_f32, nullptr, 0, 1024})};

}  // namespace
}  // namespace emu

namespace nvrtc {

int version() {
  std::lock_guard<std::mutex> hold(emu::api);
  emu::follow_environment();
  return emu::settings.compiler;
}

int compile(Program& p, int, const char* const*) {
  std::lock_guard<std::mutex> hold(emu::api);
  if (int code = emu::enter("nvrtcCompileProgram")) return code;
  const size_t at = p.text.find("POINTWISE(");
  const std::string name = at == std::string::npos ? "" : p.text.substr(at + 10, p.text.find(',', at) - at - 10);
  p.object = "emu " + name + "_vector " + name + "_strided " + name + "_strided64";
  return kSuccess;
}

}  // namespace nvrtc
