// Package images holds the compiled kernels of package cuda. They are committed, so that neither building nor running
// a program needs a compiler for GPUs.
//
// A file such as softmax.pack holds all images of kernels/cuda/src/softmax.cu, one behind the other: each is one
// kernel for one target, compressed with the one before as dictionary. So a program loads the kernels that it uses and
// no others. manifest.txt says where each image begins, and of which sources it was made. Both are written by "make
// kernels"; "make kernels-check" compiles again, compares, and looks at the machine code. docs/KERNEL-IMAGES.md tells
// how to work with them, and what budget.txt and predictions.txt are for.
//
// In processing order: budget.txt (what kernels may use), predictions.txt (how fast they should be), the packs,
// manifest.txt, z_packs.go (embeds the packs), images.go (reads them), assembled.txt (PTX that all assemblers took).
package images
