package vec

import "github.com/weft-ml/weft/internal/philox"

// Uniform sets dst to the numbers first, first+1, ... of the stream as uniform numbers in
// [0, 1): the bits of [philox.Uniform].
//
// The vector kernel makes blocks of four numbers, so many at a time that they fill whole
// vectors. What it makes beyond the ends of dst is dropped.
func Uniform(dst []float32, s philox.Source, first uint64) {
	if current == Portable {
		philox.Uniform(dst, s, first)
		return
	}
	var buf [pieceSize]float32
	if skip := int(first % 4); skip > 0 && len(dst) > 0 {
		uniformBlocks(&buf[0], s, first/4, pieceSize/4)
		n := copy(dst, buf[skip:])
		dst, first = dst[n:], first+uint64(n)
	}
	const most = 1 << 32 // blocks of one call, which the kernel counts in 32 bits
	for len(dst) >= pieceSize {
		n := min(len(dst)&^(pieceSize-1), most*4)
		uniformBlocks(&dst[0], s, first/4, n/4)
		dst, first = dst[n:], first+uint64(n)
	}
	if len(dst) > 0 {
		uniformBlocks(&buf[0], s, first/4, pieceSize/4)
		copy(dst, buf[:])
	}
}

// pieceSize is the number of elements that a kernel for whole vectors takes at a time.
const pieceSize = 128

// streamWords are the scalars of the vector kernel for blocks from number first on.
func streamWords(s philox.Source, first uint64) [5]uint32 {
	c := s.Counter + first
	return [...]uint32{uint32(c), uint32(c >> 32), s.Stream, uint32(s.Key), uint32(s.Key >> 32)}
}
