// What tests ask of the emulator beside the driver API.
#include "driver.h"
#include "statistics.h"

using namespace emu;

// emu_set changes a setting, by the name it has in README.md.
API emu_set(const char* name, const char* value) {
  std::lock_guard<std::mutex> hold(api);
  follow_environment();
  return set(name, value) ? kSuccess : kInvalidValue;
}

// emu_report is the text of the last fault or refusal.
extern "C" __attribute__((visibility("default"))) const char* emu_report() {
  std::lock_guard<std::mutex> hold(api);
  static std::string text;
  text = explanation;
  return text.c_str();
}

// emu_calls returns how often each function was called since the last call of this one: a line with its name, a tab and
// the number. Functions that need no context are not counted.
extern "C" __attribute__((visibility("default"))) const char* emu_calls() {
  std::lock_guard<std::mutex> hold(api);
  static std::string text;
  text.clear();
  for (auto& [name, n] : calls) text += name + "\t" + std::to_string(n) + "\n";
  calls.clear();
  return text.c_str();
}

// emu_statistics returns the counts since the last call; statistics.h describes them.
extern "C" __attribute__((visibility("default"))) const char* emu_statistics() {
  std::lock_guard<std::mutex> hold(api);
  static std::string text;
  text = report_statistics();
  return text.c_str();
}
