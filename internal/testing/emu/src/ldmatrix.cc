// ldmatrix and stmatrix: 8x8 matrices of 16-bit elements between shared memory and the registers of a warp.
// Lane 8i+j gives the address of row j of matrix i; lane l holds elements 2(l mod 4) and the next of row l/4.
#include "checker.h"

namespace emu {

namespace {

struct Operand {
  u32* to;
  const u32* from;
  u32 address;
};

char* row(const Operand& o, int lane_number, u32 offset, bool write, const char* what, Site at) {
  char* p = at_shared(o.address + offset, 16, 16, what, at);
  if (checked) check_thread(lane(lane_number), p, 16, write, at);
  return p;
}

}  // namespace

void ldmatrix(uint32_t* registers, int count, uint32_t stride, bool transposed, uint32_t address, Site at) {
  Operand mine{registers, nullptr, address};
  whole_warp("ldmatrix", &mine, at, [&](void** arguments) {
    auto operand = [&](int l) -> Operand& { return *static_cast<Operand*>(arguments[l]); };
    for (int q = 0; q < count; q++)
      for (int i = 0; i < 4; i++) {
        uint16_t m[8][8];
        for (int j = 0; j < 8; j++)
          memcpy(m[j], row(operand(8 * i + j), 8 * i + j, q * stride, false, "ldmatrix", at), 16);
        for (int l = 0; l < 32; l++) {
          const int r = l / 4, c = l % 4 * 2;
          const u32 low = transposed ? m[c][r] : m[r][c], high = transposed ? m[c + 1][r] : m[r][c + 1];
          operand(l).to[4 * q + i] = low | high << 16;
        }
      }
  });
}

void stmatrix(uint32_t address, const uint32_t* registers, int count, Site at) {
  Operand mine{nullptr, registers, address};
  whole_warp("stmatrix", &mine, at, [&](void** arguments) {
    auto operand = [&](int l) -> Operand& { return *static_cast<Operand*>(arguments[l]); };
    for (int i = 0; i < count; i++) {
      uint16_t m[8][8];
      for (int l = 0; l < 32; l++) memcpy(&m[l / 4][l % 4 * 2], &operand(l).from[i], 4);
      for (int j = 0; j < 8; j++) memcpy(row(operand(8 * i + j), 8 * i + j, 0, true, "stmatrix", at), m[j], 16);
    }
  });
}

}  // namespace emu
