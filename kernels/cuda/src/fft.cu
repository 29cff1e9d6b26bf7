// Discrete Fourier transforms of any size in double: a step for each factor of the size (Stockham; Van Loan 1992,
// section 1.7), whose sums are direct. So a large prime factor p takes p terms for each element of its step.
#include "row.cuh"

// Complexes are lines of complex numbers in the operand or the result: the start of each, and the distances of its
// elements and of the imaginary part.
struct Complexes {
  Axes lines;
  int64_t step, imaginary;
};

struct __align__(16) Complex { double re, im; };

// FourierStep makes transforms of `before` elements into those of before*radix, of lines of n. The first step reads the
// operand, the last one writes the result, and others take the numbers that the one before has written. first and
// count are of lines.
struct FourierStep {
  uint64_t first, count;
  uint32_t n, before, radix, inverse;
  Complexes x, y;
};

namespace {

constexpr int kThreads = 256;

// turned is exp(2 pi i j/n), j < n, by Taylor's series of an angle up to pi/4.
DEV Complex turned(uint64_t j, uint64_t n) {
  const uint64_t eighth = 8 * j / n;
  const uint64_t rest = 8 * j - eighth * n;
  const double t = f64_mul(f64_div((double)(eighth & 1 ? n - rest : rest), (double)n), 0.7853981633974483);
  const double z = f64_mul(t, t);
  double s = -1.0 / 1307674368000, c = 1.0 / 20922789888000;
  const double sines[] = {1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6};
  const double cosines[] = {-1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24,
                            -1.0 / 2};
#pragma unroll
  for (int k = 0; k < 6; k++) s = f64_add(f64_mul(s, z), sines[k]);
#pragma unroll
  for (int k = 0; k < 7; k++) c = f64_add(f64_mul(c, z), cosines[k]);
  s = f64_add(t, f64_mul(f64_mul(s, z), t));
  c = f64_add(f64_mul(c, z), 1);
  const bool swap = (eighth + 1) / 2 & 1;  // sine and cosine
  const double re = swap ? s : c, im = swap ? c : s;
  return {eighth >= 2 && eighth < 6 ? -re : re, eighth >= 4 ? -im : im};
}

// fourier_step: element k*m + q of the result is the sum over s of w^(s k) times element (k mod before)*m*radix + q +
// s*m, with w the root of order before*radix and m what is left of n. A thread has one.
template <class T> DEV void fourier_step(T* y, const T* x, Complex* to, const Complex* from, const FourierStep& f) {
  const uint64_t i = thread_index();
  if (i >= f.count * f.n) return;
  const uint32_t order = f.before * f.radix, m = f.n / order;
  const uint64_t line = i / f.n;
  const uint32_t o = (uint32_t)(i - line * f.n), k = o / m, q = o - k * m;
  const uint64_t at = (uint64_t)(k % f.before) * m * f.radix + q;
  if (x) x += offset_of(f.x.lines, f.first + line);
  Complex sum{0, 0};
  uint32_t power = 0;
  for (uint32_t s = 0; s < f.radix; s++) {
    Complex v;
    if (x) {
      const T* const p = x + (int64_t)(at + (uint64_t)s * m) * f.x.step;
      v = {to_compute<double>(p[0]), to_compute<double>(p[f.x.imaginary])};
    } else {
      v = load<Complex>(from + line * f.n + at + (uint64_t)s * m);
    }
    if (s == 0) {
      sum = v;
    } else {
      Complex w = turned(power, order);
      if (!f.inverse) w.im = -w.im;
      sum.re = f64_add(sum.re, f64_sub(f64_mul(v.re, w.re), f64_mul(v.im, w.im)));
      sum.im = f64_add(sum.im, f64_add(f64_mul(v.re, w.im), f64_mul(v.im, w.re)));
    }
    power = power >= order - k ? power - (order - k) : power + k;
  }
  if (to) return store(to + i, sum);
  y += offset_of(f.y.lines, f.first + line) + (int64_t)o * f.y.step;
  y[0] = to_element<T>(sum.re);
  y[f.y.imaginary] = to_element<T>(sum.im);
}

}  // namespace

#define FOURIER(suffix, T)                                                                                        \
  ENTRY(fourier_step##suffix, kThreads, 4, (T* y, const T* x, Complex* to, const Complex* from, FourierStep f),   \
        fourier_step(y, x, to, from, f))

FLOATS(FOURIER)
