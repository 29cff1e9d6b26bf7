package tensor

import "github.com/weft-ml/weft/kernels"

// PixelShuffle makes r*r channels the pixels of a square (Shi et al. 2016): [.. C*r*r H W] gives [.. C H*r W*r].
func (t *Tensor) PixelShuffle(r int) *Tensor {
	lead, c, h, w := t.image("pixel_shuffle", r)
	if c%(r*r) != 0 {
		fail(ErrShape, "pixel_shuffle", "%d channels of %v are no multiple of %d*%d", c, t, r, r)
	}
	t = t.Reshape(kernels.Count(lead), c/(r*r), r, r, h, w).Permute(0, 1, 4, 2, 5, 3)
	return t.Reshape(append(lead, c/(r*r), h*r, w*r)...)
}

// PixelUnshuffle undoes [Tensor.PixelShuffle]: [.. C H*r W*r] gives [.. C*r*r H W].
func (t *Tensor) PixelUnshuffle(r int) *Tensor {
	lead, c, h, w := t.image("pixel_unshuffle", r)
	if h%r != 0 || w%r != 0 {
		fail(ErrShape, "pixel_unshuffle", "the last axes of %v are no multiples of %d", t, r)
	}
	t = t.Reshape(kernels.Count(lead), c, h/r, r, w/r, r).Permute(0, 1, 3, 5, 2, 4)
	return t.Reshape(append(lead, c*r*r, h/r, w/r)...)
}

// image is the sizes of t, which has at least three axes; r is a factor of at least 1.
func (t *Tensor) image(op string, r int) (lead []int, c, h, w int) {
	t.given(op)
	s, n := t.Shape(), t.Rank()
	if n < 3 {
		fail(ErrShape, op, "%v has %d axes, [.. channels height width] is needed", t, n)
	}
	if r < 1 || r > 1<<15 {
		fail(ErrValue, op, "factor %d is outside [1, %d]", r, 1<<15)
	}
	return s[: n-3 : n-3], s[n-3], s[n-2], s[n-1]
}
