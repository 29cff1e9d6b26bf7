// i64.cuh: the instructions of expressions on int64_t, which wrap around. Narrower types are computed with 64 bits and
// truncated in the end.
#pragma once
#include "prim.cuh"

DEV int64_t i64_add(int64_t x, int64_t y) { return (int64_t)((uint64_t)x + (uint64_t)y); }
DEV int64_t i64_sub(int64_t x, int64_t y) { return (int64_t)((uint64_t)x - (uint64_t)y); }
DEV int64_t i64_mul(int64_t x, int64_t y) { return (int64_t)((uint64_t)x * (uint64_t)y); }
DEV int64_t i64_fma(int64_t x, int64_t y, int64_t z) { return i64_add(i64_mul(x, y), z); }
DEV int64_t i64_neg(int64_t x) { return i64_sub(0, x); }

// The quotient rounded down; 0 for a division by 0.
DEV int64_t i64_div(int64_t x, int64_t y) {
  if (y == 0) return 0;
  if (y == -1) return i64_neg(x);  // the quotient of the least number overflows
  const int64_t q = x / y;
  return q - (x % y != 0 && (x < 0) != (y < 0));
}

// The remainder of the quotient rounded towards 0; x for y = 0. That of the least number by -1 would overflow.
DEV int64_t i64_fmod(int64_t x, int64_t y) { return y == 0 ? x : y == -1 ? 0 : x % y; }

DEV int64_t i64_min(int64_t x, int64_t y) { return x < y ? x : y; }
DEV int64_t i64_max(int64_t x, int64_t y) { return x > y ? x : y; }
DEV int64_t i64_abs(int64_t x) { return i64_max(x, i64_neg(x)); }
DEV int64_t i64_floor(int64_t x) { return x; }
DEV int64_t i64_ceil(int64_t x) { return x; }
DEV int64_t i64_round(int64_t x) { return x; }
DEV int64_t i64_trunc(int64_t x) { return x; }
DEV int64_t i64_lt(int64_t x, int64_t y) { return x < y; }
DEV int64_t i64_le(int64_t x, int64_t y) { return x <= y; }
DEV int64_t i64_eq(int64_t x, int64_t y) { return x == y; }
DEV int64_t i64_where(int64_t c, int64_t x, int64_t y) { return c ? x : y; }

// Bits in two's complement. Shifts by less than 0 or more than 63, as unsigned numbers more than 63, leave no bit of x
// but its sign on the right.
DEV int64_t i64_bitand(int64_t x, int64_t y) { return x & y; }
DEV int64_t i64_bitor(int64_t x, int64_t y) { return x | y; }
DEV int64_t i64_bitxor(int64_t x, int64_t y) { return x ^ y; }
DEV int64_t i64_shl(int64_t x, int64_t y) { return (uint64_t)y > 63 ? 0 : (int64_t)((uint64_t)x << y); }
DEV int64_t i64_shr(int64_t x, int64_t y) { return x >> ((uint64_t)y > 63 ? 63 : y); }
