// nvrtc.h: a program for the compiler behind the interface of NVRTC.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace nvrtc {

enum { kSuccess = 0, kInvalidInput = 3, kInvalidProgram = 4, kInvalidOption = 5, kCompilation = 6 };

struct Program {
  std::string text, name, log, object;
  std::vector<std::pair<std::string, std::string>> headers;
};

int version();  // 1000 * major + 10 * minor
int compile(Program& p, int n, const char* const* options);

}  // namespace nvrtc
