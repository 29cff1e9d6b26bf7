// A stand-in of NVRTC: compiles text for the emulator by the script `compile`. The "cubin" is a shared object.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

#ifdef EMU_CHECK
constexpr const char* build = "check";
#else
constexpr const char* build = "plain";
#endif

enum { kSuccess = 0, kInvalidInput = 3, kInvalidProgram = 4, kInvalidOption = 5, kCompilation = 6 };

struct Program {
  std::string text, name, log, object;
  std::vector<std::pair<std::string, std::string>> headers;
};

// folder is where this library lies: build/emu of the module.
std::string folder() {
  Dl_info info;
  dladdr(reinterpret_cast<void*>(&folder), &info);
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string contents(const std::string& path) {
  std::ostringstream s;
  s << std::ifstream(path, std::ios::binary).rdbuf();
  return s.str();
}

// Directory is a temporary one.
struct Directory {
  std::string path;
  Directory() {
    const char* base = getenv("TMPDIR");
    std::string pattern = std::string(base ? base : "/tmp") + "/weft-nvrtc-XXXXXX";
    if (mkdtemp(pattern.data())) path = pattern;
  }
  ~Directory() {
    if (!path.empty() && system(("rm -rf '" + path + "'").c_str())) perror("rm");
  }
};

// options keeps definitions; the others choose what the script has decided.
std::string definitions(int n, const char* const* options) {
  std::string s;
  for (int i = 0; i < n; i++) {
    const std::string o = options[i];
    if (o.compare(0, 2, "-D") == 0) s += " '" + o + "'";
    if (o.compare(0, 15, "--define-macro=") == 0) s += " '-D" + o.substr(15) + "'";
  }
  return s;
}

int compile(Program& p, int n, const char* const* options) {
  Directory d;
  if (d.path.empty()) return kInvalidInput;
  const std::string source = d.path + "/" + p.name, object = d.path + "/out.so", log = d.path + "/log";
  std::ofstream(source) << p.text;
  for (auto& h : p.headers) std::ofstream(d.path + "/" + h.first) << h.second;
  const std::string script = folder() + "/../../internal/emu/compile";
  const std::string command = "WEFT_EMU_LIB='" + folder() + "' '" + script + "' " + build + " '" + source + "' '" + object + "'" +
                              definitions(n, options) + " > '" + log + "' 2>&1";
  const int status = system(command.c_str());
  p.log = contents(log);
  if (status) return kCompilation;
  p.object = contents(object);
  return kSuccess;
}

int give(const std::string& s, char* to) {
  memcpy(to, s.c_str(), s.size() + 1);
  return kSuccess;
}

}  // namespace

#define API extern "C" __attribute__((visibility("default")))

API int nvrtcVersion(int* major, int* minor) {
  *major = 12;
  *minor = 4;
  return kSuccess;
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

API int nvrtcCreateProgram(Program** program, const char* text, const char* name, int headers, const char* const* contents, const char* const* names) {
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

API int nvrtcCompileProgram(Program* p, int n, const char* const* options) { return p ? compile(*p, n, options) : kInvalidProgram; }
API int nvrtcGetProgramLogSize(Program* p, size_t* size) { return *size = p->log.size() + 1, kSuccess; }
API int nvrtcGetProgramLog(Program* p, char* log) { return give(p->log, log); }
API int nvrtcGetCUBINSize(Program* p, size_t* size) { return *size = p->object.size() + 1, kSuccess; }
API int nvrtcGetCUBIN(Program* p, char* object) { return give(p->object, object); }
