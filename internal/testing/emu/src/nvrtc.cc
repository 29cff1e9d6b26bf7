// The interface of NVRTC. A library has one of two compilers: nvrtc_compile.cc, or that of bare.cc.
#include "nvrtc.h"
#include <cstring>

using namespace nvrtc;

static int give(const std::string& s, char* to) {
  memcpy(to, s.c_str(), s.size() + 1);
  return kSuccess;
}

#define API extern "C" __attribute__((visibility("default")))

API int nvrtcVersion(int* major, int* minor) {
  return *major = version() / 1000, *minor = version() % 1000 / 10, kSuccess;
}

API const char* nvrtcGetErrorString(int code) {
  switch (code) {
    case kSuccess: return "NVRTC_SUCCESS";
    case kInvalidInput: return "NVRTC_ERROR_INVALID_INPUT";
    case kInvalidProgram: return "NVRTC_ERROR_INVALID_PROGRAM";
    case kInvalidOption: return "NVRTC_ERROR_INVALID_OPTION";
    case kCompilation: return "NVRTC_ERROR_COMPILATION";
  }
  return "NVRTC_ERROR unknown";
}

API int nvrtcCreateProgram(Program** program, const char* text, const char* name, int headers,
                           const char* const* contents, const char* const* names) {
  if (!text) return kInvalidInput;
  auto* p = new Program{text, name ? name : "default_program", "", "", {}};
  for (int i = 0; i < headers; i++) p->headers.push_back({names[i], contents[i]});
  *program = p;
  return kSuccess;
}

API int nvrtcDestroyProgram(Program** program) {
  delete *program;
  *program = nullptr;
  return kSuccess;
}

API int nvrtcCompileProgram(Program* p, int n, const char* const* options) {
  return p ? compile(*p, n, options) : kInvalidProgram;
}
API int nvrtcGetProgramLogSize(Program* p, size_t* size) { return *size = p->log.size() + 1, kSuccess; }
API int nvrtcGetProgramLog(Program* p, char* log) { return give(p->log, log); }
API int nvrtcGetCUBINSize(Program* p, size_t* size) { return *size = p->object.size() + 1, kSuccess; }
API int nvrtcGetCUBIN(Program* p, char* object) { return give(p->object, object); }
