#include "textflag.h"

// func framePointer() unsafe.Pointer
TEXT ·framePointer(SB), NOSPLIT|NOFRAME, $0-8
	MOVQ BP, ret+0(FP)
	RET

// func Goroutine() uintptr
TEXT ·Goroutine(SB), NOSPLIT|NOFRAME, $0-8
	MOVQ TLS, CX
	MOVQ 0(CX)(TLS*1), AX // the runtime's record of the goroutine
	MOVQ AX, ret+0(FP)
	RET
