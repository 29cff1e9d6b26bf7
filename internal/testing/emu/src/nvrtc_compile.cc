// The stand-in of NVRTC compiles text for the emulator by the script `compile`. The "cubin" is a shared object. That of
// a text with its headers is kept in the folder `compiled` beside this library, for later processes.
#include "nvrtc.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <sstream>
#include <sys/stat.h>

namespace nvrtc {

namespace {

#ifdef EMU_CHECK
constexpr const char* build = "check";
#else
constexpr const char* build = "plain";
#endif

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

// Directory is a temporary one in a folder.
struct Directory {
  std::string path;
  explicit Directory(const std::string& base) {
    mkdir(base.c_str(), 0777);
    std::string pattern = base + "/new-XXXXXX";
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

// key names what a compilation makes, by all that decides it.
std::string key(const Program& p, const std::string& options, const std::string& script) {
  std::string all = std::string(build) + options + contents(script) +
                    contents(folder() + "/../../internal/testing/emu/src/emu.h") + p.name + p.text;
  for (auto& h : p.headers) all += h.first + h.second;
  return std::to_string(std::hash<std::string>()(all));
}

}  // namespace

int version() { return 12040; }

int compile(Program& p, int n, const char* const* options) {
  const std::string script = folder() + "/../../internal/testing/emu/compile";
  // Most programs run for a few elements, and g++ takes longer to optimise them than they run. The accesses of the
  // checked build are counted: they stay as -O2 leaves them.
  const std::string defined = definitions(n, options) + (strcmp(build, "plain") ? "" : " -Og");
  const std::string kept = folder() + "/compiled/" + key(p, defined, script);
  if (!p.headers.empty()) p.object = contents(kept);
  if (!p.object.empty()) return kSuccess;
  Directory d(folder() + "/compiled");
  if (d.path.empty()) return kInvalidInput;
  const std::string source = d.path + "/" + p.name, object = d.path + "/out.so", log = d.path + "/log";
  std::ofstream(source) << p.text;
  for (auto& h : p.headers) std::ofstream(d.path + "/" + h.first) << h.second;
  const std::string command = "WEFT_EMU_LIB='" + folder() + "' '" + script + "' " + build + " '" + source + "' '" +
                              object + "'" + defined + " > '" + log + "' 2>&1";
  const int status = system(command.c_str());
  p.log = contents(log);
  if (status) return kCompilation;
  p.object = contents(object);
  if (!p.headers.empty()) rename(object.c_str(), kept.c_str());
  return kSuccess;
}

}  // namespace nvrtc
