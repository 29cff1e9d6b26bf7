// Images of modules: what a cubin, a PTX text or a library made for the emulator says about its kernels.
// Only limits and names are read; the code that runs was compiled by g++.
#include "driver.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace emu {

namespace {

// Reader takes little-endian numbers and strings from an image, without going past its end.
struct Reader {
  const char* bytes;
  size_t size;
  bool bad = false;

  template <class T> T at(size_t offset) {
    T value{};
    if (offset > size || size - offset < sizeof value) bad = true;
    else memcpy(&value, bytes + offset, sizeof value);
    return value;
  }
  std::string text(size_t offset) {
    if (offset >= size) return bad = true, "";
    return std::string(bytes + offset, strnlen(bytes + offset, size - offset));
  }
};

// An ELF file of 64 bits, section by section.
struct Elf : Reader {
  size_t sections, count, names;

  explicit Elf(Reader r) : Reader(r) {
    sections = at<u64>(0x28);
    count = at<uint16_t>(0x3c);
    names = offset(at<uint16_t>(0x3e));
  }
  size_t section(size_t i) { return sections + 64 * i; }
  std::string name(size_t i) { return text(names + at<u32>(section(i))); }
  u32 link(size_t i) { return at<u32>(section(i) + 40); }
  size_t offset(size_t i) { return at<u64>(section(i) + 24); }
  size_t bytes_of(size_t i) { return at<u64>(section(i) + 32); }
};

bool begins(const std::string& s, const char* prefix) { return s.compare(0, strlen(prefix), prefix) == 0; }

// Attributes of .nv.info sections, in the order of the file: a format, a number, a size and a value.
template <class F> void each_attribute(Elf& e, size_t section, F f) {
  size_t at = e.offset(section);
  const size_t end = at + e.bytes_of(section);
  while (at + 4 <= end && !e.bad) {
    const int format = e.at<uint8_t>(at), number = e.at<uint8_t>(at + 1);
    const size_t size = e.at<uint16_t>(at + 2);
    at += 4;
    if (format != 4) continue;  // the value is in the two bytes of the size
    f(number, at);
    at += size;
  }
}

// The layout of a cubin is not documented; the numbers are those that cuobjdump -elf shows: attribute 0x2f is
// the registers of a symbol, 0x12 the stack, 0x05 the block of the launch bounds.
Image read_cubin(Elf e) {
  Image image;
  image.kind = Image::cubin;
  const u32 flags = e.at<u32>(0x30);
  image.capability = e.at<uint8_t>(8) >= 8 ? flags >> 8 & 0xff : flags & 0xff;  // ABI version 8 is CUDA 13's
  size_t symbols = 0, strings = 0;
  for (size_t i = 0; i < e.count; i++) {
    const std::string name = e.name(i);
    if (begins(name, ".text.")) image.kernels[name.substr(6)];
    if (name == ".symtab") symbols = e.offset(i), strings = e.offset(e.link(i));
  }
  for (size_t i = 0; i < e.count && !e.bad; i++) {
    const std::string name = e.name(i);
    if (begins(name, ".nv.shared.") && image.kernels.count(name.substr(11))) {
      const size_t bytes = e.bytes_of(i);
      image.kernels[name.substr(11)].shared =
          (unsigned)(image.capability >= 90 && bytes >= 1024 ? bytes - 1024 : bytes);
    }
    if (name == ".nv.info")
      each_attribute(e, i, [&](int number, size_t at) {
        if (number != 0x2f && number != 0x12) return;
        auto it = image.kernels.find(e.text(strings + e.at<u32>(symbols + 24 * e.at<u32>(at))));
        if (it == image.kernels.end()) return;
        (number == 0x2f ? it->second.registers : it->second.local) = e.at<u32>(at + 4);
      });
    if (begins(name, ".nv.info.") && image.kernels.count(name.substr(9)))
      each_attribute(e, i, [&](int number, size_t at) {
        if (number == 0x05)
          image.kernels[name.substr(9)].threads = e.at<u32>(at) * e.at<u32>(at + 4) * e.at<u32>(at + 8);
      });
  }
  if (e.bad || image.kernels.empty()) image.kind = Image::unknown;
  return image;
}

// read_ptx finds the target, the entries and the thread counts of their launch bounds.
Image read_ptx(const std::string& text) {
  Image image;
  image.kind = Image::ptx;
  const size_t target = text.find(".target sm_");
  if (target != std::string::npos) image.capability = (unsigned)atoi(text.c_str() + target + 11);
  for (size_t at = text.find(".entry "); at != std::string::npos; at = text.find(".entry ", at + 1)) {
    const size_t name = at + 7, end = text.find_first_of("(\n ", name), body = text.find('{', end);
    if (body == std::string::npos) break;
    Limits& limits = image.kernels[text.substr(name, end - name)];
    const std::string head = text.substr(end, body - end);
    const size_t bound = head.find(".maxntid ");
    unsigned x = 1024, y = 1, z = 1;
    if (bound != std::string::npos) sscanf(head.c_str() + bound, ".maxntid %u, %u, %u", &x, &y, &z);
    limits.threads = x * y * z;
  }
  if (!image.capability || image.kernels.empty()) image.kind = Image::unknown;
  return image;
}

}  // namespace

// object_size is where the section headers end, which is behind everything else in the files of interest.
size_t object_size(const char* elf) {
  Reader r{elf, 64};
  return r.at<u64>(0x28) + (size_t)r.at<uint16_t>(0x3c) * 64;
}

Image read_image(const char* bytes, size_t most) {
  Image image;
  if (!memcmp(bytes, "\x7f" "ELF", 4)) {
    Reader r{bytes, most};
    r.size = std::min(most, std::max<size_t>(64, object_size(bytes)));
    const int machine = r.at<uint16_t>(0x12);
    if (machine == 62) image.kind = Image::host;  // x86-64: from the stand-in of NVRTC
    if (machine == 190) return read_cubin(Elf(r));
    return image;
  }
  const std::string text(bytes, strnlen(bytes, most));
  std::istringstream words(text);
  std::string word;
  words >> word;
  if (word == "emu") image.kind = Image::stand_in;
  while (image.kind == Image::stand_in && words >> word)
    image.kernels[word] = {settings.registers, 1024, 1 << 10, settings.local};
  if (text.find(".version") != std::string::npos) return read_ptx(text);
  return image;
}

}  // namespace emu
