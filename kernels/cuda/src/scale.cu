// What other families need beside: filling, and dividing by a count.
#include "index.cuh"

KERNEL(set_f32, 256, 8)(uint32_t* to, uint32_t value, uint64_t n) {
  const uint64_t i = thread_number();
  if (i < n) to[i] = value;
}
EXPORT(set_f32);

KERNEL(divide_f32, 256, 8)(float* x, uint64_t n, float by) {
  const uint64_t i = thread_number();
  if (i < n) x[i] = __fdiv_rn(x[i], by);
}
EXPORT(divide_f32);
