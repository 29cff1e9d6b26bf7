// Settings, from the environment at the start and from set() later.
#include "runtime.h"
#include <cstdlib>
#include <map>

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

// when is called before the variables of this file have their values.
bool when(const std::string& value, When* setting) {
  return choose<When>({{"early", When::early}, {"late", When::late}, {"random", When::random}}, value, setting);
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
  if (name == "devices") return number(value, &s.devices) && s.devices >= 0 && s.devices <= 8;
  if (name == "capability") return number(value, &s.capability);
  if (name == "multiprocessors") return number(value, &s.multiprocessors) && s.multiprocessors >= 1;
  if (name == "memory") return number(value, &s.memory);
  if (name == "pageable") return choose<bool>({{"copy", false}, {"refuse", true}}, value, &s.refuse_pageable);
  if (name == "fail_launch") return number(value, &s.fail_launch);
  if (name == "fail_code") return number(value, &s.fail_code);
  if (name == "count") return choose<bool>({{"0", false}, {"1", true}}, value, &s.count);
  return false;
}

namespace {

// An invalid variable stops the program: tests that depend on it would be meaningless.
__attribute__((constructor)) void read_environment() {
  for (const char* name : {"order", "copies", "streams", "seed", "threads", "devices", "capability", "multiprocessors",
                           "memory", "pageable", "fail_launch", "fail_code", "count"}) {
    std::string variable = "WEFT_EMU_";
    for (const char* c = name; *c; c++) variable += (char)toupper(*c);
    const char* value = getenv(variable.c_str());
    if (value && !set(name, value)) {
      fprintf(stderr, "emulator: %s=%s is not valid; see internal/testing/emu/README.md\n", variable.c_str(), value);
      abort();
    }
  }
}

}  // namespace
}  // namespace emu
