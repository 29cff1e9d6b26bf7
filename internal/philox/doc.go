// Package philox makes random numbers from counters: number i of a stream is a function of the stream's key and i
// alone.
//
// The generator is Philox 4x32 with ten rounds (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1,
// 2, 3", 2011): a block cipher that turns a counter of four words into four random words. There is no state, so threads
// draw any range of a stream in any order, a mask is drawn again instead of being saved, and two devices agree because
// they compute the same function.
//
// All functions of this package give the same bits on every platform: they use only the operations that processors
// round exactly. In processing order: philox.go has streams, keys and uniform numbers, normal.go normal numbers.
package philox
