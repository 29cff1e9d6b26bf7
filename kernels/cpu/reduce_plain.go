package cpu

import (
	"encoding/binary"
	"math"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/par"
)

// This file has the loops of reductions for integers, bools and float64, in plain Go: elements in ascending order, as
// the references combine them.

// A plainFold combines elements of type T into results of type S.
type plainFold[T, S any] struct {
	start S
	row   func(acc S, x []T) S // combines acc with elements one after the other
	into  func(acc []S, x []T) // combines acc[i] with x[i]
}

const plainBlock = 1024 // elements that are gathered, or columns that are folded together

// launch folds the operand along the axes l.Ints.
func (f *plainFold[T, S]) launch(l *kernels.Launch) {
	r := reductionOf(l.In[0], l.Ints)
	x, out := view[T](bytesOf(l.In[0])), view[S](bytesOf(l.Out[0]))[:l.Out[0].Len()]
	switch {
	case len(out) == 0:
	case r.N == 0:
		for i := range out {
			out[i] = f.start
		}
	case r.Columns:
		f.columns(out, x, r)
	default:
		parRows(len(out), r.N, func(lo, hi int) {
			for i := lo; i < hi; i++ {
				out[i] = f.fold(x[r.Kept.Offset(i):], r)
			}
		})
	}
}

// fold folds the row that x begins with.
func (f *plainFold[T, S]) fold(x []T, r *reduction) S {
	if r.Reduced.Contiguous() {
		return f.row(f.start, x[:r.N])
	}
	var buf [plainBlock]T
	acc, at, stride := f.start, r.Reduced.Cursor(0), r.Reduced.Strides[r.Reduced.Rank-1]
	for i := 0; i < r.N; {
		n := min(at.Run(), r.N-i)
		row := x[at.Offset:]
		if stride == 1 {
			acc = f.row(acc, row[:n])
		} else {
			n = min(n, len(buf))
			for k := range buf[:n] {
				buf[k] = row[k*stride]
			}
			acc = f.row(acc, buf[:n])
		}
		i += n
		at.Skip(n)
	}
	return acc
}

// columns folds the columns of matrices, of which the last kept dimension has the columns.
func (f *plainFold[T, S]) columns(out []S, x []T, r *reduction) {
	last := r.Kept.Rank - 1
	columns, stride := r.Kept.Shape[last], r.Kept.Strides[last]
	wide := min(columns, plainBlock)
	across := (columns + wide - 1) / wide
	par.For(len(out)/columns*across, 1+rowGrain/(wide*r.N), func(lo, hi int) {
		var buf [plainBlock]T
		for i := lo; i < hi; i++ {
			first := i/across*columns + i%across*wide
			acc := out[first:min(first+wide, (i/across+1)*columns)]
			for k := range acc {
				acc[k] = f.start
			}
			from, at := r.Kept.Offset(first), r.Reduced.Cursor(0)
			for range r.N {
				row := x[from+at.Offset:]
				if stride != 1 {
					for k := range acc {
						buf[k] = row[k*stride]
					}
					row = buf[:]
				}
				f.into(acc, row[:len(acc)])
				at.Next()
			}
		}
	})
}

// Folded are the types for which sum, prod, max and min have loops.
var Folded = []kernels.DType{kernels.Float32, kernels.Float64, kernels.Int64, kernels.Int32, kernels.Uint8,
	kernels.Bool}

type integer interface{ int64 | int32 | uint8 }

func sumPlain[T integer | float64, S int64 | float64](l *kernels.Launch) {
	f := plainFold[T, S]{0, func(acc S, x []T) S {
		for _, v := range x {
			acc += S(v)
		}
		return acc
	}, func(acc []S, x []T) {
		for i, v := range x {
			acc[i] += S(v)
		}
	}}
	f.launch(l)
}

func sumBytes(l *kernels.Launch) {
	f := plainFold[uint8, int64]{0, func(acc int64, x []uint8) int64 { return acc + sumOfBytes(x) },
		func(acc []int64, x []uint8) {
			for i, v := range x {
				acc[i] += int64(v)
			}
		}}
	f.launch(l)
}

// sumOfBytes adds eight bytes at once in four lanes of 16 bits, which hold the sums of 128 times two bytes.
func sumOfBytes(x []uint8) (sum int64) {
	const odd = 0x00ff00ff00ff00ff
	for len(x) >= 8 {
		n := min(len(x)&^7, 128*8)
		var lanes uint64
		for i := 0; i+8 <= n; i += 8 {
			v := binary.LittleEndian.Uint64(x[i:])
			lanes += v&odd + v>>8&odd
		}
		sum += int64(lanes&0xffff + lanes>>16&0xffff + lanes>>32&0xffff + lanes>>48)
		x = x[n:]
	}
	for _, v := range x {
		sum += int64(v)
	}
	return sum
}

func prodPlain[T integer | float64, S int64 | float64](l *kernels.Launch) {
	f := plainFold[T, S]{1, func(acc S, x []T) S {
		for _, v := range x {
			acc *= S(v)
		}
		return acc
	}, func(acc []S, x []T) {
		for i, v := range x {
			acc[i] *= S(v)
		}
	}}
	f.launch(l)
}

func maxPlain[T integer | float64](l *kernels.Launch, start T) {
	f := plainFold[T, T]{start, func(acc T, x []T) T {
		for _, v := range x {
			if !(v < acc) { // else it changes nothing, and most do not
				acc = max(acc, v)
			}
		}
		return acc
	}, func(acc []T, x []T) {
		for i, v := range x {
			if a := acc[i]; !(v < a) {
				acc[i] = max(a, v)
			}
		}
	}}
	f.launch(l)
}

func minPlain[T integer | float64](l *kernels.Launch, start T) {
	f := plainFold[T, T]{start, func(acc T, x []T) T {
		for _, v := range x {
			if !(v > acc) { // else it changes nothing, and most do not
				acc = min(acc, v)
			}
		}
		return acc
	}, func(acc []T, x []T) {
		for i, v := range x {
			if a := acc[i]; !(v > a) {
				acc[i] = min(a, v)
			}
		}
	}}
	f.launch(l)
}

// meanFloat64 is the sum with one division by the number of elements.
func meanFloat64(l *kernels.Launch) {
	sumPlain[float64, float64](l)
	out := Slice[float64](l.Out[0])[:l.Out[0].Len()]
	n := float64(l.In[0].Len() / max(1, len(out)))
	for i := range out {
		out[i] /= n
	}
}

// Any tells whether an element along the axes l.Ints is not 0.
func Any(l *kernels.Launch) { quantify(l, false) }

// All tells whether no element along the axes l.Ints is 0.
func All(l *kernels.Launch) { quantify(l, true) }

// quantify takes elements as integers of their size; of a float all bits but that of the sign tell whether it is 0.
func quantify(l *kernels.Launch, all bool) {
	switch d := l.In[0].DType; {
	case d.IsHalf():
		quantifyBits(l, all, uint16(math.MaxInt16), nil)
	case d == kernels.Float32:
		quantifyBits(l, all, uint32(math.MaxInt32), nil)
	case d == kernels.Float64:
		quantifyBits(l, all, uint64(math.MaxInt64), nil)
	case d == kernels.Int64:
		quantifyBits(l, all, uint64(math.MaxUint64), nil)
	case d == kernels.Int32:
		quantifyBits(l, all, uint32(math.MaxUint32), nil)
	case all:
		quantifyBits(l, true, uint8(math.MaxUint8), allBytes)
	default:
		quantifyBits(l, false, uint8(math.MaxUint8), anyByte)
	}
}

// quantifyBits is quantify of elements of type T, which are not 0 if a bit of mask is set. Rows are taken by row if
// there is one.
func quantifyBits[T uint8 | uint16 | uint32 | uint64](l *kernels.Launch, all bool, mask T,
	row func(acc uint8, x []T) uint8) {
	f := plainFold[T, uint8]{0, func(acc uint8, x []T) uint8 {
		for i := 0; i < len(x) && acc == 0; i += 64 {
			var bits T
			for _, v := range x[i:min(i+64, len(x))] {
				bits |= v
			}
			acc = isTrue(bits&mask != 0)
		}
		return acc
	}, func(acc []uint8, x []T) {
		for i, v := range x {
			acc[i] |= isTrue(v&mask != 0)
		}
	}}
	if all {
		f = plainFold[T, uint8]{1, func(acc uint8, x []T) uint8 {
			if acc == 0 {
				return 0
			}
			for _, v := range x {
				if v&mask == 0 {
					return 0
				}
			}
			return 1
		}, func(acc []uint8, x []T) {
			for i, v := range x {
				acc[i] &= isTrue(v&mask != 0)
			}
		}}
	}
	if row != nil {
		f.row = row
	}
	f.launch(l)
}

// anyByte tells whether acc or a byte of x is not 0.
func anyByte(acc uint8, x []uint8) uint8 {
	for ; len(x) >= 8 && acc == 0; x = x[8:] {
		acc = isTrue(binary.LittleEndian.Uint64(x) != 0)
	}
	for _, v := range x {
		acc |= isTrue(v != 0)
	}
	return acc
}

// allBytes tells whether acc is 1 and no byte of x is 0.
func allBytes(acc uint8, x []uint8) uint8 {
	const ones = 0x0101010101010101
	for ; len(x) >= 8 && acc != 0; x = x[8:] {
		v := binary.LittleEndian.Uint64(x)
		acc = isTrue((v-ones)&^v&(ones<<7) == 0) // no byte of v is 0
	}
	for _, v := range x {
		acc &= isTrue(v != 0)
	}
	return acc
}

func isTrue(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
