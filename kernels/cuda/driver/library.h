// The driver library, found when the program runs.
#ifndef WEFT_LIBRARY_H
#define WEFT_LIBRARY_H

#include "include/cuda.h"

// The library and its cuInit, as far as they came; the first call decides.
typedef struct {
	CUresult status;     // CUDA_SUCCESS, CUDA_ERROR_NO_DEVICE without a library, or what cuInit said
	const char *library; // what was opened; "" if nothing was
	const char *detail;  // what the loader said about a library that could not be opened
} weft_driver_state;

weft_driver_state weft_driver_open(void);

// The image of the kernels that the library itself has, the string weft_kernels; null in a GPU's driver. Libraries that
// stand in for a driver may have it.
const char *weft_driver_kernels(void);

// The path of the library by which the driver compiles PTX, or null and in *detail the reason. The driver opens it by
// itself when it needs it.
const char *weft_ptx_compiler_open(const char **detail);

#endif
