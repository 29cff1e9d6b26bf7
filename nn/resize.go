package nn

import (
	"slices"
	"strings"

	"github.com/weft-ml/weft/tensor"
)

// Upsample changes the sizes of the spatial axes, as [Interpolate] does.
type Upsample struct {
	Size                    []int     // of the spatial axes, or one for all
	ScaleFactor             []float64 // in place of sizes
	Mode                    string    // "": nearest
	AlignCorners, Antialias bool
}

// NewUpsample makes the layer. Options are [Size] or [ScaleFactor], [Mode], [AlignCorners] and [Antialias].
func NewUpsample(opts ...LayerOption) *Upsample { return upsampleOf("upsample", opts) }

func upsampleOf(layer string, opts []LayerOption) *Upsample {
	c := layerOf(layer, opts, "Size", "ScaleFactor", "Mode", "AlignCorners", "Antialias")
	return &c.upsample
}

// Forward maps [N C S..] to [N C S'..].
func (u *Upsample) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("upsample", "the layer", u)
	return u.resize("upsample", x)
}

// Interpolate changes the sizes of the spatial axes of x [N C S..], of which there are 1 to 3: to [Size], or by
// [ScaleFactor], rounded down. The [Mode] is nearest, if there is none, nearest-exact, area, linear (one axis),
// bilinear or bicubic (two) or trilinear (three); positions are as in [tensor.Tensor.Resample], and those of area the
// windows of [tensor.Tensor.AdaptiveAvgPool]. [AlignCorners] is for the linear and the cubic modes, [Antialias] for
// bilinear and bicubic.
func Interpolate(x *tensor.Tensor, opts ...LayerOption) *tensor.Tensor {
	return upsampleOf("interpolate", opts).resize("interpolate", x)
}

// filters are those of the modes of [tensor.Tensor.Resample], and how many axes a mode is for; 0: any.
var filters = map[string]struct {
	name string
	axes int
}{
	"": {"nearest", 0}, "nearest": {"nearest", 0}, "nearest-exact": {"nearest-exact", 0}, "area": {"area", 0},
	"linear": {"linear", 1}, "bilinear": {"linear", 2}, "trilinear": {"linear", 3}, "bicubic": {"cubic", 2},
}

func (u *Upsample) resize(op string, x *tensor.Tensor) *tensor.Tensor {
	axes := x.Rank() - 2
	filter, known := filters[u.Mode]
	switch given := len(u.Size) + len(u.ScaleFactor); {
	case axes < 1 || axes > 3:
		engine.Fail(tensor.ErrShape, op, "%v has %d axes, [N C S..] with 1 to 3 spatial axes is needed", x, x.Rank())
	case !known:
		engine.Fail(tensor.ErrValue, op, "there is no mode %q; modes are nearest, nearest-exact, area, linear, "+
			"bilinear, bicubic and trilinear", u.Mode)
	case filter.axes != 0 && filter.axes != axes:
		engine.Fail(tensor.ErrShape, op, "mode %s is for %d spatial axes, %v has %d", u.Mode, filter.axes, x, axes)
	case len(u.Size) > 0 && len(u.ScaleFactor) > 0:
		engine.Fail(tensor.ErrValue, op, "sizes %v and factors %v are given; one of them is needed", u.Size,
			u.ScaleFactor)
	case given != 1 && given != axes:
		engine.Fail(tensor.ErrValue, op, "%d sizes or factors are given, %v has %d spatial axes", given, x, axes)
	case u.AlignCorners && !strings.Contains("linear cubic", filter.name):
		engine.Fail(tensor.ErrValue, op, "mode %s has no corners to align", filter.name)
	case u.Antialias && filter.axes != 2:
		engine.Fail(tensor.ErrValue, op, "mode %s has no antialiasing; bilinear and bicubic have", filter.name)
	}
	sizes, scales := slices.Clone(u.Size), make([]float64, axes)
	for d := range axes {
		if len(u.Size) > 0 {
			sizes = append(sizes[:d], u.Size[min(d, len(u.Size)-1)])
			continue
		}
		scales[d] = u.ScaleFactor[min(d, len(u.ScaleFactor)-1)]
		want(op, "ScaleFactor", scales[d], scales[d] > 0, "(0, Inf)")
		size := scales[d] * float64(x.Dim(2+d))
		want(op, "the size that ScaleFactor makes", size, size < 1<<31, "[0, 2^31)")
		sizes = append(sizes, int(size))
	}
	if filter.name == "area" {
		return x.AdaptiveAvgPool(sizes...)
	}
	for d, size := range sizes {
		x = x.Resample(2+d, size, filter.name, scales[d], u.AlignCorners, u.Antialias)
	}
	return x
}

// PixelShuffle makes channels pixels, as [tensor.Tensor.PixelShuffle] does.
type PixelShuffle struct{ Factor int }

// NewPixelShuffle makes the layer, which has sides of the given factor of a pixel's.
func NewPixelShuffle(factor int) *PixelShuffle { return &PixelShuffle{factor} }

// Forward maps [.. C*r*r H W] to [.. C H*r W*r].
func (p *PixelShuffle) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("pixel_shuffle", "the layer", p)
	return x.PixelShuffle(p.Factor)
}

// PixelUnshuffle undoes [PixelShuffle].
type PixelUnshuffle struct{ Factor int }

// NewPixelUnshuffle makes the layer.
func NewPixelUnshuffle(factor int) *PixelUnshuffle { return &PixelUnshuffle{factor} }

// Forward maps [.. C H*r W*r] to [.. C*r*r H W].
func (p *PixelUnshuffle) Forward(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("pixel_unshuffle", "the layer", p)
	return x.PixelUnshuffle(p.Factor)
}
