// Package vec holds the vector kernels of the CPU backend: loops over slices of float32 that exist in four tiers
// (AVX-512, AVX2, NEON and portable Go) and give the same bits in each of them.
//
// The kernels are generated from the scalar programs of package [github.com/weft-ml/weft/kernels/expr/lane]; the files
// named z_* carry the command that makes them. Of whole pointwise operations there are those that
// [github.com/weft-ml/weft/kernels/expr.Fusions] lists, found by name. What is written by hand here is the choice of
// the tier, the order of sums, and the ends of vectors in [Uniform] and the conversions.
package vec
