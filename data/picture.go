package data

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/weft-ml/weft/kernels/expr/double"
	"github.com/weft-ml/weft/tensor"
)

// Picture is a picture in colours, and its class. What changes it makes another one: a picture's pixels do not change.
//
// The methods panic with a [tensor.Error] if sizes do not fit, so in functions of [Map] that is the error of the
// example. All of them give the same bits on every processor.
type Picture struct {
	Name          string // of its file
	Class         int    // a number from 0; -1 if there is none
	Width, Height int
	Pix           []uint8 // [Height Width 3]: red, green, blue
}

// with is p with other pixels, all black yet.
func (p Picture) with(op string, width, height int) Picture {
	if width < 1 || height < 1 || width > math.MaxInt/3/height {
		engine.Fail(tensor.ErrShape, op, "a picture of %d x %d pixels, want at least 1 x 1", width, height)
	}
	pix, err := grown[uint8](nil, 3*width*height)
	if err != nil {
		engine.Fail(tensor.ErrMemory, op, "a picture of %d x %d pixels: %v", width, height, err)
	}
	p.Width, p.Height, p.Pix = width, height, pix[:3*width*height]
	return p
}

// check makes sure that the pixels are as many as the sizes say.
func (p Picture) check(op string) {
	if p.Width < 1 || p.Height < 1 || p.Width > math.MaxInt/3/p.Height || len(p.Pix) != 3*p.Width*p.Height {
		engine.Fail(tensor.ErrShape, op, "a picture of %d x %d pixels has %d values in Pix, want three a pixel",
			p.Width,
			p.Height, len(p.Pix))
	}
}

// Crop is the part of width x height pixels whose upper left corner is at (x, y). It must lie inside the picture.
func (p Picture) Crop(x, y, width, height int) Picture {
	p.check("crop")
	if width < 1 || height < 1 || x < 0 || y < 0 || x > p.Width-width || y > p.Height-height {
		engine.Fail(tensor.ErrIndex, "crop", "%d x %d pixels at (%d, %d) are not inside a picture of %d x %d", width,
			height,
			x, y, p.Width, p.Height)
	}
	out := p.with("crop", width, height)
	for row := range height {
		copy(out.Pix[3*row*width:3*(row+1)*width], p.Pix[3*((y+row)*p.Width+x):])
	}
	return out
}

// CenterCrop is the part of width x height pixels in the middle.
func (p Picture) CenterCrop(width, height int) Picture {
	return p.Crop((p.Width-width)/2, (p.Height-height)/2, width, height)
}

// RandomCrop is a part of width x height pixels, each with the same probability. [Picture.Pad] before it lets parts
// reach over the edge.
func (p Picture) RandomCrop(r *rand.Rand, width, height int) Picture {
	engine.Given("random crop", "the random numbers", r)
	if width < 1 || height < 1 || width > p.Width || height > p.Height {
		engine.Fail(tensor.ErrShape, "random crop", "%d x %d pixels of a picture of %d x %d: Pad or Resize it before",
			width, height, p.Width, p.Height)
	}
	x := r.IntN(p.Width - width + 1)
	return p.Crop(x, r.IntN(p.Height-height+1), width, height)
}

// RandomResizedCrop is a part of the picture made width x height pixels large. The part has at least the fraction least
// of the picture's area, 0.08 is usual, and is at most a third wider than high or higher than wide.
func (p Picture) RandomResizedCrop(r *rand.Rand, width, height int, least float64) Picture {
	engine.Given("random resized crop", "the random numbers", r)
	p.check("random resized crop")
	if !(least > 0 && least <= 1) {
		engine.Fail(tensor.ErrValue, "random resized crop",
			"a fraction of %v of the area, want more than 0, at most 1", least)
	}
	widest := double.Log(4. / 3)
	for range 10 {
		area := float64(p.Width) * float64(p.Height) * (least + float64((1-least)*r.Float64()))
		shape := double.Exp(float64(2*widest*r.Float64()) - widest)
		w, h := int(math.Round(math.Sqrt(area*shape))), int(math.Round(math.Sqrt(area/shape)))
		if w >= 1 && h >= 1 && w <= p.Width && h <= p.Height {
			return p.RandomCrop(r, w, h).Resize(width, height)
		}
	}
	w, h := p.Width, p.Height // too long or too high: the middle
	w, h = min(w, max(1, h*4/3)), min(h, max(1, w*4/3))
	return p.CenterCrop(w, h).Resize(width, height)
}

// Flip is the picture with left and right changed.
func (p Picture) Flip() Picture {
	p.check("flip")
	out := p.with("flip", p.Width, p.Height)
	for at := 0; at < len(p.Pix); at += 3 * p.Width {
		from, to := p.Pix[at:at+3*p.Width], out.Pix[at:at+3*p.Width]
		for x := 0; x < len(from); x += 3 {
			copy(to[len(to)-x-3:len(to)-x], from[x:])
		}
	}
	return out
}

// RandomFlip is [Picture.Flip] in one of two cases.
func (p Picture) RandomFlip(r *rand.Rand) Picture {
	engine.Given("random flip", "the random numbers", r)
	if r.IntN(2) == 0 {
		return p
	}
	return p.Flip()
}

// Pad is the picture in a black frame of n pixels.
func (p Picture) Pad(n int) Picture {
	p.check("pad")
	if n < 0 || n > math.MaxInt/4-max(p.Width, p.Height) {
		engine.Fail(tensor.ErrValue, "pad", "a frame of %d pixels", n)
	}
	out := p.with("pad", p.Width+2*n, p.Height+2*n)
	for y := range p.Height {
		copy(out.Pix[3*((y+n)*out.Width+n):], p.Pix[3*y*p.Width:3*(y+1)*p.Width])
	}
	return out
}

// normal are the values of the 256 levels of each channel: (level/255 - mean) / std, rounded to float32 at each step.
func normal(op string, mean, std []float32) [][256]float32 {
	if len(mean) != len(std) || len(mean) != 1 && len(mean) != 3 {
		engine.Fail(tensor.ErrShape, op,
			"%d means and %d standard deviations, want 3 of each for colours or 1 for grey",
			len(mean), len(std))
	}
	values := make([][256]float32, len(mean))
	for c := range values {
		if std[c] == 0 {
			engine.Fail(tensor.ErrValue, op, "standard deviation %d is 0", c)
		}
		for level := range values[c] {
			values[c][level] = (float32(level)/255 - mean[c]) / std[c]
		}
	}
	return values
}

// normalize writes the pixels as float32[C Height Width].
func (p Picture) normalize(to []float32, values [][256]float32) {
	n := p.Width * p.Height
	if len(values) == 1 {
		for i := range n { // the weights of ITU-R 601, in 1/65536
			r, g, b := uint32(p.Pix[3*i]), uint32(p.Pix[3*i+1]), uint32(p.Pix[3*i+2])
			to[i] = values[0][uint8((19595*r+38470*g+7471*b+1<<15)>>16)]
		}
		return
	}
	for c := range values {
		plane, value := to[c*n:(c+1)*n], &values[c]
		for i := range plane {
			plane[i] = value[p.Pix[3*i+c]]
		}
	}
}

// Floats are the pixels as float32[C Height Width], plane by plane: (level/255 - mean) / std with one mean and standard
// deviation for each of the three colours, or with one of each for grey.
func (p Picture) Floats(mean, std []float32) []float32 {
	p.check("floats")
	values := normal("floats", mean, std)
	to, err := grown[float32](nil, len(values)*p.Width*p.Height)
	if err != nil {
		engine.Fail(tensor.ErrMemory, "floats", "%v", err)
	}
	to = to[:len(values)*p.Width*p.Height]
	p.normalize(to, values)
	return to
}

// PictureBatch is the function for [Batches] that makes X float32[B C Height Width] of the values of [Picture.Floats]
// and Y int64[B] of the classes. All pictures of a batch must have the same size.
func PictureBatch(mean, std []float32) func([]Picture) (Batch, error) {
	values := normal("picture batch", mean, std)
	return func(pictures []Picture) (b Batch, err error) {
		if len(pictures) == 0 {
			return b, fmt.Errorf("data: a batch needs at least one picture")
		}
		width, height := pictures[0].Width, pictures[0].Height
		for _, p := range pictures {
			if err := engine.Try(func() { p.check("picture batch") }); err != nil {
				return b, err
			}
			if p.Width != width || p.Height != height {
				return b, fmt.Errorf("data: %s has %d x %d pixels, the first picture of the batch %d x %d: Resize or "+
					"crop them before", p.Name, p.Width, p.Height, width, height)
			}
		}
		batchX, x, err := unset[float32](len(pictures), len(values), height, width)
		if err != nil {
			return b, err
		}
		batchY, y, err := unset[int64](len(pictures))
		if err != nil {
			return b, err
		}
		for i, p := range pictures {
			p.normalize(x[i*len(values)*width*height:][:len(values)*width*height], values)
			y[i] = int64(p.Class)
		}
		return Batch{X: batchX, Y: batchY}, nil
	}
}
