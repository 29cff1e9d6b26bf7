// Package philox makes random numbers by counting: number i of a stream is a function of the stream's key and i alone.
//
// The generator is Philox 4x32 with ten rounds (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2,
// 3", 2011): a block cipher that turns a counter of four words into four random words. No state passes from one number to
// the next, so threads draw any part of a stream in any order, a mask is drawn again instead of being kept, and a device
// agrees with another one by computing the same function.
//
// All functions of this package give the same bits on every platform: they use the processor's exactly rounded operations
// only, and no others of package math.
package philox
