package data

import (
	"fmt"
	"math"
	"slices"

	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/tensor"
)

// Images is a dataset of grey images with a class each. Pixels stay bytes in memory; a batch holds
// them divided by the brightest level, so as float32 from 0 to 1, or as they are ([Images.Bytes]).
type Images struct {
	pixels  []uint8 // [N area], row-major
	labels  []uint8 // [N]
	area    int     // pixels of one image
	shape   []int   // of one example in a batch; its product is area
	classes int
	most    float32 // the brightest level of a pixel
	bytes   bool    // a batch holds levels
}

// NewImages makes a dataset of images, one after the other, each of area pixels from 0 (black) to
// brightest, and of their labels from 0 to classes-1. It refers to both slices: do not change them
// afterwards. Sizes that do not fit, and pixels or labels outside their range, are errors.
func NewImages(pixels []uint8, area int, labels []uint8, brightest uint8, classes int) (*Images, error) {
	n, err := checkCount("images", len(pixels), []int{area})
	if err != nil {
		return nil, err
	}
	if len(labels) != n {
		return nil, fmt.Errorf("data: %d labels for %d images", len(labels), n)
	}
	if brightest == 0 {
		return nil, fmt.Errorf("data: brightest level is 0, want at least 1")
	}
	if i := slices.IndexFunc(pixels, func(p uint8) bool { return p > brightest }); i >= 0 {
		return nil, fmt.Errorf("data: image %d has a pixel of %d, want at most %d", i/area, pixels[i], brightest)
	}
	if i := slices.IndexFunc(labels, func(l uint8) bool { return int(l) >= classes }); i >= 0 {
		return nil, fmt.Errorf("data: image %d has label %d, want less than %d", i, labels[i], classes)
	}
	return &Images{pixels, labels, area, []int{area}, classes, float32(brightest), false}, nil
}

// Len is the number of images.
func (d *Images) Len() int {
	engine.Given("images", "the images", d)
	return len(d.labels)
}

// Classes is the number of classes; labels are from 0 to Classes-1.
func (d *Images) Classes() int {
	engine.Given("images", "the images", d)
	return d.classes
}

// Shape is the shape of one image in a batch: flat, such as [784], unless changed by [Images.WithShape].
func (d *Images) Shape() []int {
	engine.Given("images", "the images", d)
	return slices.Clone(d.shape)
}

// WithShape is the same dataset with images of another shape in its batches, such as (1, 28, 28) for
// convolutions. It is an error if the sizes do not multiply to the pixels of an image.
func (d *Images) WithShape(shape ...int) (*Images, error) {
	engine.Given("images", "the images", d)
	if n, err := checkCount("image", d.area, shape); err != nil || n != 1 {
		return nil, fmt.Errorf("data: an image has %d pixels, shape %v does not", d.area, shape)
	}
	view := *d
	view.shape = slices.Clone(shape)
	return &view, nil
}

// Bytes is the same dataset with the levels of pixels in its batches, X uint8[B shape...]: a quarter of the memory to
// write and to upload. [Images.Scale] makes of them what batches hold otherwise.
func (d *Images) Bytes() *Images {
	engine.Given("images", "the images", d)
	view := *d
	view.bytes = true
	return &view
}

// Scale divides levels, uint8 of any shape, by the brightest one: float32 from 0 to 1, with the bits of a batch that
// holds them so. Other x, such as those of batches without [Images.Bytes], are returned.
func (d *Images) Scale(x *tensor.Tensor) *tensor.Tensor {
	engine.Given("images", "the images", d)
	engine.Given("images", "the levels", x)
	if x.DType() != tensor.Uint8 {
		return x
	}
	return engine.Fraction(x, float64(d.most))
}

// Pixels is image i as bytes, row by row. The slice is a copy. It panics with a [tensor.Error] if there is no image i.
func (d *Images) Pixels(i int) []uint8 {
	engine.Given("images", "the images", d)
	d.wantImage("pixels", i)
	return slices.Clone(d.pixels[i*d.area : (i+1)*d.area])
}

// Label is the class of image i. It panics with a [tensor.Error] if there is no image i.
func (d *Images) Label(i int) int {
	engine.Given("images", "the images", d)
	d.wantImage("label", i)
	return int(d.labels[i])
}

func (d *Images) wantImage(op string, i int) {
	if i < 0 || i >= d.Len() {
		engine.Fail(tensor.ErrIndex, op, "there is no image %d, only [0, %d)", i, d.Len())
	}
}

// Batch makes X float32[B shape...] of values from 0 to 1, or uint8 of levels ([Images.Bytes]), and Y int64[B] of
// classes. An index outside [0, Len) is an error.
func (d *Images) Batch(indices []int) (Batch, error) {
	engine.Given("images", "the images", d)
	if err := checkIndices(indices, d.Len()); err != nil {
		return Batch{}, err
	}
	var b Batch
	var err error
	if d.bytes {
		b.X, err = gather(d.pixels, d.shape, d.Len(), indices)
	} else {
		b.X, err = d.fractions(indices)
	}
	if err != nil {
		return Batch{}, err
	}
	b.Y, err = d.classesOf(indices)
	return b, err
}

// fractions are the chosen images, float32 from 0 to 1.
func (d *Images) fractions(indices []int) (*tensor.Tensor, error) {
	out, x, err := unset[float32](slices.Concat([]int{len(indices)}, d.shape)...)
	if err != nil {
		return nil, err
	}
	copyRows(len(indices), d.area, func(first, end int) {
		for k := first; k < end; k++ {
			i := indices[k]
			cpu.Fractions(x[k*d.area:(k+1)*d.area], d.pixels[i*d.area:(i+1)*d.area], d.most)
		}
	})
	return out, nil
}

// classesOf are the classes of the chosen images.
func (d *Images) classesOf(indices []int) (*tensor.Tensor, error) {
	out, y, err := unset[int64](len(indices))
	if err != nil {
		return nil, err
	}
	for k, i := range indices {
		y[k] = int64(d.labels[i])
	}
	return out, nil
}

// Split divides the dataset in two, class by class, so that both parts have the same mix of classes: of each class the
// fraction test, rounded to the nearest integer, goes to the second part. Which images these are depends on seed;
// inside the parts the order stays. It is an error if one part would be empty.
func (d *Images) Split(seed uint64, test float64) (train, rest *Images, err error) {
	engine.Given("images", "the images", d)
	members := make([][]int, min(d.classes, 256)) // image indices of each class, ascending
	for i, label := range d.labels {
		members[label] = append(members[label], i)
	}
	inTest := make([]bool, d.Len())
	total := 0
	for class, all := range members {
		n := int(math.Round(float64(len(all)) * min(max(test, 0), 1)))
		order := newPermutation(forSplit, seed, uint64(class), len(all))
		for k := range n {
			inTest[all[order.at(k)]] = true
		}
		total += n
	}
	if total == 0 || total == d.Len() || math.IsNaN(test) {
		return nil, nil, fmt.Errorf("data: a fraction of %v for the test puts %d of %d images there: one part is empty",
			test, total, d.Len())
	}
	pick := func(want bool) *Images {
		part := *d
		part.pixels, part.labels = nil, nil
		for i, is := range inTest {
			if is == want {
				part.pixels = append(part.pixels, d.pixels[i*d.area:(i+1)*d.area]...)
				part.labels = append(part.labels, d.labels[i])
			}
		}
		return &part
	}
	return pick(false), pick(true), nil
}
