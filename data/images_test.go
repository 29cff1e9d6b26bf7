package data

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

func TestImagesBatch(t *testing.T) {
	d, err := NewImages([]uint8{0, 4, 8, 16, 1, 2, 3, 4}, 4, []uint8{7, 2}, 16, 10)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := d.Batch([]int{1, 0})
	if err != nil {
		t.Fatal(err)
	}
	want := []float32{1. / 16, 2. / 16, 3. / 16, 4. / 16, 0, 0.25, 0.5, 1}
	if got := values[float32](t, batch.X, 2, 4); !slices.Equal(got, want) {
		t.Errorf("X is %v", got)
	}
	if got := values[int64](t, batch.Y, 2); !slices.Equal(got, []int64{2, 7}) {
		t.Errorf("Y is %v", got)
	}
	if d.Len() != 2 || d.Classes() != 10 || d.Label(0) != 7 || !slices.Equal(d.Pixels(1), []uint8{1, 2, 3, 4}) ||
		!slices.Equal(d.Shape(), []int{4}) {
		t.Errorf("Len %d, Classes %d, Label %d, Pixels %v, Shape %v",
			d.Len(), d.Classes(), d.Label(0), d.Pixels(1), d.Shape())
	}
	_, err = d.Batch([]int{2})
	wantError(t, err, "index 2 (number 0 of the batch) is outside [0, 2)")
}

// TestImagesBytes: batches of levels, scaled in a step, have the bits of batches of floats, for every level and every
// brightest one.
func TestImagesBytes(t *testing.T) {
	dev := device(t, "cpu")
	for brightest := 1; brightest < 256; brightest++ {
		pixels := make([]uint8, 2*(brightest+1))
		for i := range pixels {
			pixels[i] = uint8(i % (brightest + 1))
		}
		images, err := NewImages(pixels, brightest+1, []uint8{0, 1}, uint8(brightest), 2)
		if err != nil {
			t.Fatal(err)
		}
		floats, err := images.Batch([]int{1, 0})
		if err != nil {
			t.Fatal(err)
		}
		levels, err := images.Bytes().Batch([]int{1, 0})
		if err != nil {
			t.Fatal(err)
		}
		if got := tensor.ToSlice[uint8](levels.X); levels.X.DType() != tensor.Uint8 || !slices.Equal(got, pixels) {
			t.Fatalf("brightest %d: levels are %v of %v", brightest, got, levels.X.DType())
		}
		var scaled []float32
		err = dev.Eval(func(s *tensor.Scope) error {
			scaled = tensor.ToSlice[float32](images.Scale(s.In(levels.X)))
			if x := s.In(floats.X); images.Scale(x) != x {
				t.Error("what is scaled is scaled again")
			}
			return nil
		})
		if err != nil || !slices.Equal(scaled, tensor.ToSlice[float32](floats.X)) {
			t.Fatalf("brightest %d: levels are scaled to %v, %v, want %v", brightest, scaled, err, floats.X)
		}
	}
}

func TestImagesWithShape(t *testing.T) {
	d, err := NewImages(make([]uint8, 12), 6, make([]uint8, 2), 255, 1)
	if err != nil {
		t.Fatal(err)
	}
	shaped, err := d.WithShape(1, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := shaped.Batch([]int{0, 1, 0})
	if err != nil {
		t.Fatal(err)
	}
	values[float32](t, batch.X, 3, 1, 2, 3)
	if !slices.Equal(d.Shape(), []int{6}) {
		t.Errorf("the first dataset now has shape %v", d.Shape())
	}
	for _, shape := range [][]int{{}, {5}, {2, 3, 2}, {0, 6}, {-2, -3}, {3}} {
		_, err := d.WithShape(shape...)
		wantError(t, err, "an image has 6 pixels")
	}
}

func TestImagesBadInput(t *testing.T) {
	for _, c := range []struct {
		pixels    []uint8
		area      int
		labels    []uint8
		brightest uint8
		classes   int
		says      string
	}{
		{nil, 4, nil, 1, 1, "images: 0 values"},
		{make([]uint8, 6), 4, make([]uint8, 1), 1, 1, "not a whole number of examples"},
		{make([]uint8, 6), 0, make([]uint8, 1), 1, 1, "want every size at least 1"},
		{make([]uint8, 8), 4, make([]uint8, 1), 1, 1, "1 labels for 2 images"},
		{make([]uint8, 8), 4, make([]uint8, 2), 0, 1, "brightest level is 0"},
		{[]uint8{0, 0, 0, 17}, 2, make([]uint8, 2), 16, 1, "image 1 has a pixel of 17, want at most 16"},
		{make([]uint8, 4), 2, []uint8{0, 3}, 16, 3, "image 1 has label 3, want less than 3"},
	} {
		_, err := NewImages(c.pixels, c.area, c.labels, c.brightest, c.classes)
		wantError(t, err, c.says)
	}
}

func TestDigits(t *testing.T) {
	train, test, err := Digits(42)
	if err != nil {
		t.Fatal(err)
	}
	if train.Len() != 1438 || test.Len() != 359 || train.Classes() != 10 || !slices.Equal(train.Shape(), []int{64}) {
		t.Errorf("train %d, test %d, classes %d, shape %v", train.Len(), test.Len(), train.Classes(), train.Shape())
	}
	// Number of images of each class in the whole set, and one fifth of it, rounded, in the test part.
	all := []int{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}
	inTrain, inTest := make([]int, 10), make([]int, 10)
	for i := range train.Len() {
		inTrain[train.Label(i)]++
	}
	for i := range test.Len() {
		inTest[test.Label(i)]++
	}
	for class, n := range all {
		if want := (2*n + 5) / 10; inTest[class] != want || inTrain[class] != n-want {
			t.Errorf("class %d: %d for the test, %d to train with, want %d and %d",
				class, inTest[class], inTrain[class], want, n-want)
		}
	}
	// Together the parts are the whole set: the same images, each as often.
	count := map[string]int{}
	for _, part := range []*Images{train, test} {
		for i := range part.Len() {
			count[string(append(part.Pixels(i), byte(part.Label(i))))]++
		}
	}
	images, err := embeddedIDX("digits/images-idx3-ubyte.gz")
	if err != nil {
		t.Fatal(err)
	}
	labels, err := embeddedIDX("digits/labels-idx1-ubyte.gz")
	if err != nil {
		t.Fatal(err)
	}
	for i, label := range labels.Data.([]uint8) {
		count[string(append(slices.Clone(images.Data.([]uint8)[64*i:64*i+64]), label))]--
	}
	for _, n := range count {
		if n != 0 {
			t.Fatal("the two parts are not the whole set")
		}
	}
	batch, err := train.Batch([]int{0, 1437})
	if err != nil {
		t.Fatal(err)
	}
	x := values[float32](t, batch.X, 2, 64)
	if slices.Max(x) != 1 || slices.Min(x) != 0 {
		t.Errorf("values from %v to %v, want 0 to 1", slices.Min(x), slices.Max(x))
	}
}

func TestDigitsSeeds(t *testing.T) {
	digest := func(seed uint64) string {
		_, test, err := Digits(seed)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(append(slices.Clone(test.pixels), test.labels...))
		return hex.EncodeToString(sum[:8])
	}
	if a, b, c := digest(1), digest(1), digest(2); a != b || a == c {
		t.Errorf("splits of seeds 1, 1, 2: %s %s %s", a, b, c)
	}
	if got, want := digest(42), "65ea0e03a49d3f26"; got != want { // frozen: accuracies are quoted for this split
		t.Errorf("split of seed 42 is %s, want %s", got, want)
	}
}

// The embedded files are those that digits/README.md names.
func TestDigitsFiles(t *testing.T) {
	for name, want := range map[string]string{
		"digits/images-idx3-ubyte.gz": "359cd13f0f514122884198b78a131df597421cbf5e93a76678fa96fc548f0d96",
		"digits/labels-idx1-ubyte.gz": "ce71631c1f31ce56fa54f31d1d498fafacff59b001e6c30c4a5e29508aa277ad",
	} {
		x, err := embeddedIDX(name)
		if err != nil {
			t.Fatal(err)
		}
		dims := make([]uint32, len(x.Shape))
		for i, d := range x.Shape {
			dims[i] = uint32(d)
		}
		sum := sha256.Sum256(idxFile(0x08, dims, x.Data.([]uint8)))
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s: hash %s, want %s", name, got, want)
		}
	}
}

func TestSplitRefusesEmptyParts(t *testing.T) {
	d, err := NewImages(make([]uint8, 6), 1, make([]uint8, 6), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, fraction := range []float64{0, 1, 0.01, -3, 7} {
		_, _, err := d.Split(1, fraction)
		wantError(t, err, "one part is empty")
	}
}

// mnistDir writes the four files of a tiny set: train of n images, test of 2, changed by edit.
func mnistDir(t *testing.T, separator, suffix string, edit func(files map[string][]byte)) string {
	t.Helper()
	const n = 3
	pixels := make([]byte, n*784)
	for i := range pixels {
		pixels[i] = byte(i)
	}
	files := map[string][]byte{
		"train-images": idxFile(0x08, []uint32{n, 28, 28}, pixels),
		"train-labels": idxFile(0x08, []uint32{n}, []byte{9, 0, 5}),
		"t10k-images":  idxFile(0x08, []uint32{2, 28, 28}, pixels[:2*784]),
		"t10k-labels":  idxFile(0x08, []uint32{2}, []byte{1, 2}),
	}
	if edit != nil {
		edit(files)
	}
	dir := t.TempDir()
	for name, content := range files {
		if suffix == ".gz" {
			content = zip(content)
		}
		rank := map[string]string{"images": "idx3", "labels": "idx1"}[name[len(name)-6:]]
		if err := os.WriteFile(filepath.Join(dir, name+separator+rank+"-ubyte"+suffix), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSplitRefusesNaN(t *testing.T) {
	d, err := NewImages([]uint8{1, 2, 3}, 1, []uint8{0, 1, 2}, 3, 3)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Split(1, math.NaN()); err == nil {
		t.Error("a fraction of NaN divides images")
	}
}

func TestMNIST(t *testing.T) {
	for _, separator := range []string{"-", "."} {
		for _, suffix := range []string{"", ".gz"} {
			train, test, err := FashionMNIST(mnistDir(t, separator, suffix, nil))
			if err != nil {
				t.Fatal(err)
			}
			if train.Len() != 3 || test.Len() != 2 || train.Label(0) != 9 || test.Label(1) != 2 {
				t.Errorf("train %d, test %d", train.Len(), test.Len())
			}
			batch, err := train.Batch([]int{2})
			if err != nil {
				t.Fatal(err)
			}
			x := values[float32](t, batch.X, 1, 784)
			for i, v := range x {
				if want := float32(byte(2*784+i)) / 255; v != want {
					t.Fatalf("pixel %d is %v, want %v", i, v, want)
				}
			}
		}
	}
}

func TestMNISTBadFiles(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(map[string][]byte)
		says []string
	}{
		"label count": {
			func(f map[string][]byte) { f["train-labels"] = idxFile(0x08, []uint32{2}, []byte{9, 0}) },
			[]string{"train-labels-idx1-ubyte: number of labels: found 2, want 3, the number of images in",
				"train-images-idx3-ubyte"},
		},
		"label range": {
			func(f map[string][]byte) { f["t10k-labels"] = idxFile(0x08, []uint32{2}, []byte{1, 10}) },
			[]string{"t10k-labels-idx1-ubyte: byte 9: label 1: found 10, want 0 to 9"},
		},
		"image size": {
			func(f map[string][]byte) {
				f["train-images"] = idxFile(0x08, []uint32{3, 8, 8}, make([]byte, 192))
			},
			[]string{"train-images-idx3-ubyte: images: found []uint8 of shape [3 8 8], " +
				"want []uint8 of shape [N 28 28]"},
		},
		"image width": {
			func(f map[string][]byte) {
				f["t10k-images"] = idxFile(0x08, []uint32{2, 28, 27}, make([]byte, 2*28*27))
			},
			[]string{"t10k-images-idx3-ubyte: images: found []uint8 of shape [2 28 27]"},
		},
		"image type": {
			func(f map[string][]byte) {
				f["train-images"] = idxFile(0x09, []uint32{3, 28, 28}, make([]byte, 3*784))
			},
			[]string{"images: found []int8"},
		},
		"swapped": {
			func(f map[string][]byte) {
				f["train-images"], f["train-labels"] = f["train-labels"], f["train-images"]
			},
			[]string{"images: found []uint8 of shape [3], want"},
		},
		"labels of two axes": {
			func(f map[string][]byte) { f["train-labels"] = idxFile(0x08, []uint32{3, 1}, []byte{1, 2, 3}) },
			[]string{"labels: found []uint8 of shape [3 1], want []uint8 of shape [N]"},
		},
		"truncated": {
			func(f map[string][]byte) { f["t10k-images"] = f["t10k-images"][:100] },
			[]string{"t10k-images-idx3-ubyte: byte 100: size: found 100 bytes, want 1584 bytes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			train, test, err := MNIST(mnistDir(t, "-", "", c.edit))
			wantError(t, err, c.says...)
			if _, ok := errors.AsType[*FormatError](err); !ok {
				t.Errorf("%T is no *FormatError", err)
			}
			if train != nil || test != nil {
				t.Error("data beside an error")
			}
		})
	}
}

func TestMNISTMissingFile(t *testing.T) {
	_, _, err := MNIST(mnistDir(t, "-", "", func(f map[string][]byte) { delete(f, "t10k-labels") }))
	wantError(t, err, "no t10k-labels in",
		"tried t10k-labels-idx1-ubyte, t10k-labels-idx1-ubyte.gz, t10k-labels.idx1-ubyte, t10k-labels.idx1-ubyte.gz")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
	_, _, err = MNIST(filepath.Join(t.TempDir(), "nowhere"))
	wantError(t, err, "no train-images in", "nowhere")
}

// The real Fashion-MNIST, where a Debian package put it.
func TestFashionMNISTReal(t *testing.T) {
	if testing.Short() {
		t.Skip("unpacks 31 MB")
	}
	const dir = "/usr/share/datasets/fashion-mnist"
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no %s (Debian package dataset-fashion-mnist)", dir)
	}
	train, test, err := FashionMNIST(dir)
	if err != nil {
		t.Fatal(err)
	}
	if train.Len() != 60000 || test.Len() != 10000 {
		t.Fatalf("%d and %d images", train.Len(), test.Len())
	}
	// The sum of all training pixels divided by 255*784*60000: the published mean is 0.2860.
	sum := 0
	for _, p := range train.pixels {
		sum += int(p)
	}
	if mean := float64(sum) / (255 * 784 * 60000); mean < 0.28595 || mean > 0.28605 {
		t.Errorf("mean pixel %.4f, want 0.2860", mean)
	}
	if got := FashionMNISTClasses[train.Label(0)]; got != "Ankle boot" {
		t.Errorf("the first picture is a %s", got)
	}
}

// FuzzLabelled: a pair of files is a data set or is refused, and a data set gives its batches.
func FuzzLabelled(f *testing.F) {
	images, labels := idxFile(0x08, []uint32{2, 2, 2}, make([]byte, 8)), idxFile(0x08, []uint32{2}, []byte{9, 0})
	f.Add(images, labels)
	f.Add(zip(images), zip(labels))
	f.Add(labels, images)
	f.Add(idxFile(0x08, []uint32{0, 2, 2}, nil), idxFile(0x08, []uint32{0}, nil))
	f.Add(idxFile(0x09, []uint32{2, 2, 2}, make([]byte, 8)), labels)
	f.Fuzz(func(t *testing.T, images, labels []byte) {
		read := func(name string) (*IDX, error) {
			return DecodeIDX(name, map[string][]byte{"images": images, "labels": labels}[name])
		}
		set, err := labelled(read, "images", "labels", 2, 255)
		if err != nil {
			if set != nil {
				t.Error("a data set beside an error")
			}
			return
		}
		batch, err := set.Batch([]int{0, set.Len() - 1})
		if err != nil || batch.X.Len() != 8 || batch.Y.Len() != 2 {
			t.Errorf("%v, %v, %v", batch.X, batch.Y, err)
		}
	})
}
