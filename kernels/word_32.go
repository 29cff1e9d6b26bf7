//go:build 386 || arm || mips || mipsle

package kernels

// Sizes of tensors are int, and are up to 2^48.
var _ = weft_needs_a_processor_with_64_bits
