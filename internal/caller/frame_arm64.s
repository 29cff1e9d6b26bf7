#include "textflag.h"

// func framePointer() unsafe.Pointer
TEXT ·framePointer(SB), NOSPLIT|NOFRAME, $0-8
	MOVD R29, ret+0(FP)
	RET

// func Goroutine() uintptr
TEXT ·Goroutine(SB), NOSPLIT|NOFRAME, $0-8
	MOVD g, R0 // the runtime's record of the goroutine
	MOVD R0, ret+0(FP)
	RET
