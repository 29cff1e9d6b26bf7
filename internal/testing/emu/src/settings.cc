// Settings, from the environment and from set().
#include "runtime.h"
#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace emu {

Settings settings;

namespace {

template <class E> bool choose(const std::map<std::string, E>& names, const std::string& value, E* setting) {
  auto it = names.find(value);
  if (it == names.end()) return false;
  *setting = it->second;
  return true;
}

template <class T> bool number(const std::string& value, T* setting) {
  char* end;
  const unsigned long long n = strtoull(value.c_str(), &end, 10);
  if (value.empty() || *end) return false;
  *setting = (T)n;
  return true;
}

bool when(const std::string& value, When* setting) {
  return choose<When>({{"early", When::early}, {"late", When::late}, {"random", When::random}}, value, setting);
}

// failure reads FUNCTION:NUMBER:CODE. What follows makes the text another, so that calls are counted anew.
bool failure(const std::string& value, Failure* fail) {
  char call[64];
  *fail = {};
  if (value.empty()) return true;
  if (sscanf(value.c_str(), "%63[^:]:%d:%d", call, &fail->number, &fail->code) != 3) return false;
  fail->call = call;
  return true;
}

}  // namespace

bool set(const std::string& name, const std::string& value) {
  Settings& s = settings;
  if (name == "order")
    return choose<Order>(
        {{"fifo", Order::fifo}, {"lifo", Order::lifo}, {"random", Order::random}, {"skewed", Order::skewed}}, value,
        &s.order);
  if (name == "copies") return when(value, &s.copies);
  if (name == "streams") return when(value, &s.streams);
  if (name == "seed") return number(value, &s.seed);
  if (name == "threads") return number(value, &s.threads) && s.threads >= 1 && s.threads <= kWindows;
  if (name == "devices") return number(value, &s.devices) && s.devices >= 0 && s.devices <= kDevices;
  if (name == "capability") return number(value, &s.capability);
  if (name == "multiprocessors") return number(value, &s.multiprocessors) && s.multiprocessors >= 1;
  if (name == "memory") return number(value, &s.memory);
  if (name == "count") return number(value, &s.count);
  if (name == "fail") return failure(value, &s.fail);
  if (name == "hang") return s.hang = value, true;
  if (name == "init") return number(value, &s.init);
  if (name == "driver") return number(value, &s.driver);
  if (name == "compiler") return number(value, &s.compiler);
  if (name == "apart") return number(value, &s.apart);
  if (name == "pcie") return number(value, &s.pcie);
  if (name == "lies") return number(value, &s.lies);
  if (name == "blocking") return number(value, &s.blocking);
  if (name == "leaks") return number(value, &s.leaks);
  if (name == "forget") return number(value, &s.forget);
  if (name == "modules") return number(value, &s.modules);
  if (name == "registers") return number(value, &s.registers);
  if (name == "local") return number(value, &s.local);
  return false;
}

// An invalid setting stops the program: tests that depend on it would be meaningless.
void follow_environment() {
  static std::string followed;
  const char* text = getenv("WEFT_EMU");
  if (followed == (text ? text : "")) return;
  followed = text ? text : "";
  settings = {};
  std::istringstream all(followed);
  for (std::string one; getline(all, one, ',');) {
    const size_t equals = std::min(one.find('='), one.size() - 1);
    if (one.empty() || set(one.substr(0, equals), one.substr(equals + 1))) continue;
    fprintf(stderr, "emulator: WEFT_EMU has %s, which is not valid; see internal/testing/emu/README.md\n", one.c_str());
    abort();
  }
}

}  // namespace emu
