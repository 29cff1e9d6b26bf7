package vec

import "github.com/weft-ml/weft/internal/philox"

// uniformBlocks writes n blocks of four numbers, from block first on; n is a multiple of 16.
func uniformBlocks(dst *float32, s philox.Source, first uint64, n int) {
	c := s.Counter + first
	words := [...]uint32{uint32(c), uint32(c >> 32), s.Stream, uint32(s.Key), uint32(s.Key >> 32)}
	if current == AVX512 {
		uniformAVX512(dst, &words[0], n)
		return
	}
	uniformAVX2(dst, &words[0], n)
}
