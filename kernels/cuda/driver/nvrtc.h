// NVRTC, NVIDIA's compiler as a library, found when the program runs. Headers are texts that sources include.
#ifndef WEFT_NVRTC_H
#define WEFT_NVRTC_H

#include <stddef.h>

// The path of the library that was opened and its version, 0 if it does not say; or null and in *detail the reason. The
// first call decides.
const char *weft_nvrtc_open(int *major, int *minor, const char **detail);

// Compiles text to a cubin. On failure the result is what failed, "" if the library does not say; on success null.
// *image and *log, which may be null, are for the caller to free.
const char *weft_nvrtc_compile(const char *text, const char *name, int headers, const char *const *texts,
	const char *const *names,
	int options, const char *const *option, char **image, size_t *size, char **log);

#endif
