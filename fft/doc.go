// Package fft has discrete Fourier transforms, with gradients.
//
// Complex numbers are pairs: a tensor of them has a last axis of two, real and imaginary parts. [Complex] makes one,
// [Real] and [Imag] take it apart, [Mul], [Conj] and [Abs] compute with it. Axes are counted without that last axis.
//
//	spectrum := fft.RFFT(signal)                     // [.., n] to [.., n/2+1 2]
//	filtered := fft.IRFFT(fft.Mul(spectrum, response)) // and back
//
// [FFT] and [IFFT] transform complex numbers, [RFFT] and [IRFFT] real ones, along the last axis or along several
// ([Axes]). As in PyTorch the inverse has the factor 1/n; [Ortho] and [Forward] divide it otherwise.
//
// Sizes need not be powers of two. Transforms are computed in float64, on the CPU by gonum, and rounded once; their
// bits may differ between devices and processor architectures, unlike those of other operations. On GPUs a size n with
// a large prime factor p takes time in proportion to n*p.
package fft
