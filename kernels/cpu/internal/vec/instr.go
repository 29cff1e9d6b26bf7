package vec

import "github.com/weft-ml/weft/kernels/expr/lane"

// A Kernel computes dst[i] from a[i], b[i] and c[i] for every i of dst. Operands
// the instruction does not have are nil; the others have at least the length of
// dst. dst may be the same slice as an operand, but may not overlap one otherwise.
type Kernel = func(dst, a, b, c []float32)

// Instr returns the kernel of one instruction of pointwise expressions, or nil if there is none of this name. The names
// are those of [lane.Instrs], which define the values. The kernel follows the tier in use at each call.
func Instr(name string) Kernel {
	tiers := instrs[name]
	if tiers == nil {
		return nil
	}
	if in := lane.Find(name); in.Large != nil {
		return func(dst, a, _, _ []float32) { patched(tiers[current], in.Large, dst, a) }
	}
	return func(dst, a, b, c []float32) { tiers[current](dst, a, b, c) }
}

// InstrNonTemporal is Instr for a dst that begins with a cache line, overlaps no operand and is too large for the
// caches: non-temporal stores do not read its lines from memory first. It is nil where the tier in use has no such
// kernel, or memory does not limit the instruction.
func InstrNonTemporal(name string) Kernel {
	if tiers := instrsNonTemporal[name]; tiers != nil {
		return tiers[current]
	}
	return nil
}

// patched runs kernel k and replaces the values of operands beyond lane.TrigLimit. It works on pieces that fit the
// first cache, whose operands are saved only when they hold such a value, since dst may be a.
func patched(k Kernel, large func(float32) float32, dst, a []float32) {
	const piece = 1024
	var saved [piece]float32
	for len(dst) > 0 {
		n := min(len(dst), piece)
		d, x := dst[:n], a[:n]
		if AbsMax(x) <= lane.TrigLimit { // and no NaN
			k(d, x, nil, nil)
		} else {
			copy(saved[:], x)
			k(d, x, nil, nil)
			for i, v := range saved[:n] {
				if !(v >= -lane.TrigLimit && v <= lane.TrigLimit) {
					d[i] = large(v)
				}
			}
		}
		dst, a = dst[n:], a[n:]
	}
}

// The functions below give the generated functions the shape of a Kernel.

func portable1(f func(dst, a []float32)) Kernel {
	return func(dst, a, _, _ []float32) { f(dst, a) }
}

func portable2(f func(dst, a, b []float32)) Kernel {
	return func(dst, a, b, _ []float32) { f(dst, a, b) }
}

func portable3(f func(dst, a, b, c []float32)) Kernel { return f }
