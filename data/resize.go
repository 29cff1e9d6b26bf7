package data

import (
	"math"

	"github.com/weft-ml/weft/tensor"
)

// Resize is the picture with other numbers of pixels: linear interpolation, and means over all pixels that become one
// where it gets smaller (antialiasing). The pixels are
// those of Pillow 13, and so of torchvision, with BILINEAR.
func (p Picture) Resize(width, height int) Picture {
	p.check("resize")
	if width < 1 || height < 1 {
		engine.Fail(tensor.ErrShape, "resize", "%d x %d pixels, want at least 1 x 1", width, height)
	}
	taps := func(from, to int) float64 { return float64(to) * (2*math.Ceil(max(1, float64(from)/float64(to))) + 1) }
	if bytes := 4 * (taps(p.Width, width) + taps(p.Height, height)); bytes > 1<<20 {
		if err := room(int(min(bytes, math.MaxInt/2))); err != nil {
			engine.Fail(tensor.ErrMemory, "resize", "%d x %d pixels: %v", width, height, err)
		}
	}
	if saved := p.Height - height; saved > 0 && saved > 2*(p.Width-width) { // Pillow's rule; it decides about roundings
		return p.resizeRows(height).resizeColumns(width)
	}
	return p.resizeColumns(width).resizeRows(height)
}

// resizeColumns makes all rows width pixels long.
func (p Picture) resizeColumns(width int) Picture {
	if width == p.Width {
		return p
	}
	out := p.with("resize", width, p.Height)
	pixels := resampling(p.Width, width)
	for y := range p.Height {
		from, to := p.Pix[3*y*p.Width:3*(y+1)*p.Width], out.Pix[3*y*width:3*(y+1)*width]
		for x, w := range pixels {
			var sum [3]int32
			for k, weight := range w.weights {
				pixel := from[3*(w.first+k) : 3*(w.first+k)+3]
				sum[0] += weight * int32(pixel[0])
				sum[1] += weight * int32(pixel[1])
				sum[2] += weight * int32(pixel[2])
			}
			to[3*x], to[3*x+1], to[3*x+2] = level(sum[0]), level(sum[1]), level(sum[2])
		}
	}
	return out
}

// resizeRows makes height rows.
func (p Picture) resizeRows(height int) Picture {
	if height == p.Height {
		return p
	}
	out := p.with("resize", p.Width, height)
	sum := make([]int32, 3*p.Width)
	for y, w := range resampling(p.Height, height) {
		clear(sum)
		for k, weight := range w.weights {
			for i, v := range p.Pix[3*(w.first+k)*p.Width:][:len(sum)] {
				sum[i] += weight * int32(v)
			}
		}
		to := out.Pix[3*y*p.Width:][:len(sum)]
		for i, s := range sum {
			to[i] = level(s)
		}
	}
	return out
}

// ResizeShorter is [Picture.Resize] to size pixels on the shorter side; the other one, rounded down, keeps the
// picture's proportions.
func (p Picture) ResizeShorter(size int) Picture {
	p.check("resize shorter")
	if size < 1 || size > math.MaxInt/max(p.Width, p.Height) {
		engine.Fail(tensor.ErrShape, "resize shorter", "a side of %d pixels", size)
	}
	if p.Width <= p.Height {
		return p.Resize(size, size*p.Height/p.Width)
	}
	return p.Resize(size*p.Width/p.Height, size)
}

// resampled is the weights of neighbouring pixels that one pixel of a resized row is the sum of, in units of
// 2^-weightBits.
type resampled struct {
	first   int
	weights []int32
}

const weightBits = 22 // so that 255 times the sum of all weights stays below 2^31

// level is a sum of levels times weights, rounded to a level.
func level(sum int32) uint8 { return uint8(min(max((sum+1<<(weightBits-1))>>weightBits, 0), 255)) }

// resampling is how a row of n pixels becomes one of m: the weights of a triangle, two pixels wide in the coarser of
// the two rows, around the middle of each new pixel, with a sum of 1. Products are rounded before they are added to,
// so that no processor fuses the two.
func resampling(n, m int) []resampled {
	scale := float64(n) / float64(m)
	support := max(scale, 1)
	rows := make([]resampled, m)
	var weights []float64
	var all []int32
	for i := range rows {
		center := float64((float64(i) + 0.5) * scale)
		first := max(int(center-support+0.5), 0)
		last := min(int(center+support+0.5), n)
		weights = weights[:0]
		sum := 0.0
		for k := first; k < last; k++ {
			w := max(0, 1-math.Abs(float64((float64(k)-center+0.5)*(1/support))))
			weights = append(weights, w)
			sum += w
		}
		from := len(all)
		for _, w := range weights {
			all = append(all, int32(0.5+float64(w/sum*(1<<weightBits))))
		}
		rows[i] = resampled{first, all[from:]}
	}
	return rows
}
