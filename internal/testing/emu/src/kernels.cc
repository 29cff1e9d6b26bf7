// The library with kernels.

// weft_kernels tells package kernels/cuda that this library has kernels of its own, and names their image.
extern "C" __attribute__((visibility("default"))) const char weft_kernels[] = "emu";
