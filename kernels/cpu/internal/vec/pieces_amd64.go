package vec

import (
	"unsafe"

	"github.com/weft-ml/weft/internal/philox"
)

// uniformBlocks writes n blocks of four numbers, from block first on; n is a multiple of 16.
func uniformBlocks(dst *float32, s philox.Source, first uint64, n int) {
	words := streamWords(s, first)
	if current == AVX512 {
		uniformAVX512(dst, &words[0], n)
		return
	}
	uniformAVX2(dst, &words[0], n)
}

// run converts n elements, a multiple of 64.
func (c conversion) run(dst, src unsafe.Pointer, n int) {
	if current == AVX512 {
		switch c {
		case fromFloat16:
			fromFloat16AVX512((*float32)(dst), (*uint16)(src), n)
		case toFloat16:
			toFloat16AVX512((*uint16)(dst), (*float32)(src), n)
		case fromBFloat16:
			fromBFloat16AVX512((*float32)(dst), (*uint16)(src), n)
		case toBFloat16:
			toBFloat16AVX512((*uint16)(dst), (*float32)(src), n)
		case fromUint8:
			fromUint8AVX512((*float32)(dst), (*uint8)(src), n)
		}
		return
	}
	switch c {
	case fromFloat16:
		fromFloat16AVX2((*float32)(dst), (*uint16)(src), n)
	case toFloat16:
		toFloat16AVX2((*uint16)(dst), (*float32)(src), n)
	case fromBFloat16:
		fromBFloat16AVX2((*float32)(dst), (*uint16)(src), n)
	case toBFloat16:
		toBFloat16AVX2((*uint16)(dst), (*float32)(src), n)
	case fromUint8:
		fromUint8AVX2((*float32)(dst), (*uint8)(src), n)
	}
}
