// Modules and functions. The kernels of the library's own sources are linked into this one; an image that is
// a shared object for the host has its own. A cubin or a PTX text is read for its limits, so that what a
// driver would refuse is refused here.
#include "driver.h"
#include <algorithm>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace emu {

namespace {

using Kernels = std::map<std::string, const Kernel*>;

Kernels& built_in() {
  static Kernels k;
  return k;
}

Kernels* loading;  // of the shared object that is being opened

std::map<Module*, std::shared_ptr<Module>> modules;

// open_object loads a shared object from memory. It is never closed: reports name lines of it by addr2line,
// which inherits the file and finds it under the same number.
Result open_object(const char* bytes, Kernels& kernels) {
  const int file = memfd_create("weft-emu", 0);
  const size_t size = object_size(bytes);
  if (file < 0 || write(file, bytes, size) != (ssize_t)size) return explain(kOutOfMemory, "no memory for a module");
  loading = &kernels;
  void* object = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  loading = nullptr;
  if (object) return kSuccess;
  close(file);
  return explain(kInvalidImage, dlerror());
}

// fits tells whether code for a capability runs on the device: a cubin within its major number, PTX on later ones too.
Result fits(const Image& image) {
  const unsigned device = (unsigned)settings.capability, code = image.capability;
  if (image.kind == Image::cubin && (code / 10 != device / 10 || code > device))
    return explain(kNoBinaryForGpu, "the cubin is for compute capability " + std::to_string(code / 10) + "." +
                                        std::to_string(code % 10));
  if (image.kind == Image::ptx && code > device)
    return explain(kInvalidPtx, "the PTX is for sm_" + std::to_string(code));
  return kSuccess;
}

Result load(Context& c, void** handle, const void* bytes) {
  if (!bytes) return kInvalidValue;
  if (c.modules == settings.modules) return explain(kOutOfMemory, "no more modules fit");
  auto m = std::make_shared<Module>();
  m->image = read_image(static_cast<const char*>(bytes), 64 << 20);
  if (m->image.kind == Image::unknown)
    return explain(kInvalidImage, "not an image: neither a cubin nor PTX nor an object for the emulator");
  if (Result r = fits(m->image)) return r;
  if (m->image.kind == Image::host) {
    if (Result r = open_object(static_cast<const char*>(bytes), m->kernels)) return r;
  } else {
    m->kernels = built_in();
    const auto is_here = [&](auto& k) { return m->kernels.count(k.first) > 0; };
    if (m->image.kind != Image::stand_in &&
        std::none_of(m->image.kernels.begin(), m->image.kernels.end(), is_here))
      return explain(kInvalidImage, "not an image of kernels that this library has");
  }
  m->context = &c;
  c.modules++;
  modules[m.get()] = m;
  *handle = m.get();
  return kSuccess;
}

// limits_of are those of the image, or what the source says.
Limits limits_of(const Module& m, const Kernel& kernel) {
  auto it = m.image.kernels.find(kernel.name);
  Limits limits = it == m.image.kernels.end() ? Limits{} : it->second;
  limits.threads = std::min(limits.threads, (unsigned)kernel.threads);
  return limits;
}

Result find_function(void** handle, Module* m, const char* name) {
  if (!modules.count(m)) return explain(kInvalidHandle, "no such module");
  auto it = m->kernels.find(name);
  const bool listed = m->image.kernels.empty() || m->image.kernels.count(name);
  if (it == m->kernels.end() && listed && m->image.kind == Image::stand_in && !m->image.kernels.empty())
    it = m->kernels.emplace(name, new Kernel{strdup(name), nullptr, nullptr, 0, 1024}).first;
  if (it == m->kernels.end() || !listed)
    return explain(kNotFound, std::string("no kernel ") + name + (listed ? " in the sources" : " in the image"));
  auto& f = m->functions[name];
  if (!f) {
    f.reset(new Function{modules[m], it->second, limits_of(*m, *it->second)});
    f->dynamic -= std::min<size_t>(f->dynamic, f->limits.shared);
  }
  *handle = f.get();
  return kSuccess;
}

template <class F> Result with_function(void* handle, F body, const char* call = __builtin_FUNCTION()) {
  return in_context([&](Context&) {
    Function* f = function_of(handle);
    return f ? body(*f) : explain(kInvalidHandle, "no such function");
  }, call);
}

}  // namespace

Registration::Registration(const Kernel& kernel) {
  (loading ? *loading : built_in())[kernel.name] = new Kernel(kernel);
}

Function* function_of(void* handle) {
  for (auto& m : modules)
    for (auto& f : m.first->functions)
      if (f.second.get() == handle) return f.second.get();
  return nullptr;
}

}  // namespace emu

using namespace emu;

API cuModuleLoadData(void** module, const void* image) {
  return in_context([&](Context& c) { return load(c, module, image); });
}
API cuModuleLoadDataEx(void** module, const void* image, unsigned n, int* options, void** values) {
  return in_context([&](Context& c) {
    const Result r = load(c, module, image);
    for (unsigned i = 0; r && i + 1 < n; i++)  // CU_JIT_ERROR_LOG_BUFFER, and its size
      if (options[i] == 5) snprintf((char*)values[i], (size_t)values[i + 1], "emulator: %s\n", explanation.c_str());
    return r;
  });
}

API cuModuleUnload(void* module) {
  return in_context([&](Context& c) {
    auto it = modules.find(static_cast<Module*>(module));
    if (it == modules.end() || it->second->context != &c) return explain(kInvalidHandle, "no such module");
    c.modules--;
    it->second->unloaded = true;  // queued launches fail
    modules.erase(it);
    return kSuccess;
  });
}

API cuModuleGetFunction(void** function, void* module, const char* name) {
  return in_context([&](Context&) { return find_function(function, static_cast<Module*>(module), name); });
}

API cuFuncGetAttribute(int* value, int which, void* function) {
  return with_function(function, [&](Function& f) {
    switch (which) {
      case 0: *value = (int)f.limits.threads; return kSuccess;    // MAX_THREADS_PER_BLOCK
      case 1: *value = (int)f.limits.shared; return kSuccess;     // SHARED_SIZE_BYTES
      case 2: *value = 0; return kSuccess;                        // CONST_SIZE_BYTES
      case 3: *value = (int)f.limits.local; return kSuccess;      // LOCAL_SIZE_BYTES
      case 4: *value = (int)f.limits.registers; return kSuccess;  // NUM_REGS
      case 5: case 6: *value = (int)f.module->image.capability; return kSuccess;  // PTX_VERSION, BINARY_VERSION
      case 8: *value = (int)f.dynamic; return kSuccess;           // MAX_DYNAMIC_SHARED_SIZE_BYTES
    }
    return kInvalidValue;
  });
}

API cuFuncSetAttribute(void* function, int which, int value) {
  return with_function(function, [&](Function& f) {
    if (which != 8) return kSuccess;  // preferences
    if (value < 0 || value + f.limits.shared > most_shared(settings.capability))
      return explain(kInvalidValue, std::to_string(value) + " bytes of dynamic shared memory beside " +
                                        std::to_string(f.limits.shared) + " static ones are over " +
                                        std::to_string(most_shared(settings.capability)));
    f.dynamic = (size_t)value;
    return kSuccess;
  });
}
