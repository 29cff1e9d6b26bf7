// Tensor maps: what cuTensorMapEncodeTiled demands, and how the emulator keeps one of rank 2.
#include "runtime.h"

namespace emu {

namespace {

constexpr u64 kMagic = 0x7765667470616d74;

// refusal returns the first rule that a map breaks (CUDA driver API, cuTensorMapEncodeTiled).
const char* refusal(int element, int rank, const void* base, const u64* sizes, const u64* strides, const u32* box,
                    const u32* steps, int interleave, int swizzle) {
  if (rank < 1 || rank > 5) return "the rank must be 1 to 5";
  if (interleave && rank < 3) return "interleaved layouts need a rank of 3";
  const unsigned grain = interleave == 2 ? 32 : 16;
  if ((uintptr_t)base % grain) return "the address must be a multiple of 16 bytes, or 32 with 32-byte interleave";
  u64 bytes = element;
  for (int i = 0; i < rank; i++) {
    if (!sizes[i] || sizes[i] > 1ull << 32) return "sizes must be 1 to 2^32";
    if (!box[i] || box[i] > 256) return "the box must measure 1 to 256 in each dimension";
    if (steps && (steps[i] < 1 || steps[i] > 8)) return "element strides must be 1 to 8";
    bytes *= box[i];
  }
  for (int i = 0; i + 1 < rank; i++) {
    if (strides[i] % grain || strides[i] >= 1ull << 40) return "strides must be multiples of 16 bytes below 2^40";
    if (strides[i] < (i ? strides[i - 1] : sizes[0] * element)) return "strides must not shrink";
  }
  const u64 inner = (u64)box[0] * element;
  if (!interleave && inner % 16) return "the inner side of the box must be a multiple of 16 bytes";
  if (swizzle && inner > (u64)swizzle) return "the inner side of the box must not exceed the swizzle";
  if (bytes > kSharedMax) return "the box does not fit into shared memory";
  return nullptr;
}

}  // namespace

const char* encode_map(void* map, int element, int rank, void* base, const u64* sizes, const u64* strides,
                       const u32* box, const u32* steps, int interleave, int swizzle) {
  if (const char* why = refusal(element, rank, base, sizes, strides, box, steps, interleave, swizzle)) return why;
  if (rank != 2 || interleave || (steps && (steps[0] != 1 || steps[1] != 1)))
    return "the emulator has dense maps of rank 2 only";
  TensorMap t{kMagic, (char*)base, sizes[0], sizes[1], strides[0], box[0], box[1], (u32)element, (u32)swizzle};
  memset(map, 0, 128);
  memcpy(map, &t, sizeof t);
  return nullptr;
}

TensorMap read_map(const void* map, const char* what, Site at) {
  TensorMap t;
  memcpy(&t, map, sizeof t);
  if (t.magic != kMagic) fault(Fault::failure, "%s at %s:%d: the operand is no tensor map", what, at.file, at.line);
  return t;
}

u32 swizzled(u32 address, u32 mode) {
  switch (mode) {
    case 32: return address ^ (address >> 3 & 0x10);
    case 64: return address ^ (address >> 3 & 0x30);
    case 128: return address ^ (address >> 3 & 0x70);
  }
  return address;
}

}  // namespace emu
