package vec

import (
	"unsafe"

	"github.com/weft-ml/weft/internal/philox"
)

// uniformBlocks writes n blocks of four numbers, from block first on; n is a multiple of 16.
func uniformBlocks(dst *float32, s philox.Source, first uint64, n int) {
	words := streamWords(s, first)
	uniformNEON(dst, &words[0], n)
}

// run converts n elements, a multiple of 64.
func (c conversion) run(dst, src unsafe.Pointer, n int) {
	switch c {
	case fromFloat16:
		fromFloat16NEON((*float32)(dst), (*uint16)(src), n)
	case toFloat16:
		toFloat16NEON((*uint16)(dst), (*float32)(src), n)
	case fromBFloat16:
		fromBFloat16NEON((*float32)(dst), (*uint16)(src), n)
	case toBFloat16:
		toBFloat16NEON((*uint16)(dst), (*float32)(src), n)
	case fromUint8:
		fromUint8NEON((*float32)(dst), (*uint8)(src), n)
	}
}
