package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// pillow is what scripts/goldens/pictures.py wrote.
type pillow struct {
	Files        map[string]pillowPicture
	Base, Grey   pillowPicture
	Resized      []pillowPicture
	Square, Flat pillowPicture
}

type pillowPicture struct {
	Width, Height int
	RGB           []uint8
}

func (p pillowPicture) picture() Picture {
	return Picture{Width: p.Width, Height: p.Height, Pix: p.RGB}
}

func pillows(t testing.TB) (p pillow) {
	text, err := os.ReadFile("testdata/pictures.json")
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// difference is the largest and the mean difference of two pictures' levels.
func difference(a, b []uint8) (largest int, mean float64) {
	if len(a) != len(b) {
		return 255, 255
	}
	for i := range a {
		d := max(int(a[i])-int(b[i]), int(b[i])-int(a[i]))
		largest, mean = max(largest, d), mean+float64(d)/float64(len(a))
	}
	return largest, mean
}

// Pictures of Pillow in all formats: those without loss have its pixels, and others nearly. JPEG and WebP leave the
// rounding of decoders open, and how chroma at half the resolution is made larger; Go repeats it, libjpeg and libwebp
// interpolate.
func TestImageFolder(t *testing.T) {
	want := pillows(t)
	pictures, err := ImageFolder("testdata/pictures")
	if err != nil {
		t.Fatal(err)
	}
	if pictures.Len() != len(want.Files) || !slices.Equal(pictures.Classes(), []string{"exact", "lossy"}) {
		t.Fatalf("%d pictures of %q", pictures.Len(), pictures.Classes())
	}
	for i := range pictures.Len() {
		p, err := pictures.At(i)
		if err != nil {
			t.Error(err)
			continue
		}
		name, err := filepath.Rel("testdata/pictures", p.Name)
		if err != nil {
			t.Fatal(err)
		}
		w := want.Files[filepath.ToSlash(name)]
		largest, mean := difference(p.Pix, w.RGB)
		mostLargest, mostMean := 0, 0.
		switch filepath.Base(name) {
		case "full.jpg", "grey.jpg", "cmyk.jpg":
			mostLargest, mostMean = 3, 1
		case "half.JPEG", "progressive.jpg", "lossy.webp":
			mostLargest, mostMean = 16, 3.5
		}
		if p.Width != w.Width || p.Height != w.Height || largest > mostLargest || mean > mostMean {
			t.Errorf("%s: %d x %d, levels differ by up to %d, %.2f in the mean", p.Name, p.Width, p.Height, largest,
				mean)
		}
		if c, err := pictures.Class(i); c != p.Class || err != nil || pictures.Classes()[c] != filepath.Dir(name) {
			t.Errorf("%s has class %d and %d, error %v", name, p.Class, c, err)
		}
	}
}

func TestResizePillow(t *testing.T) {
	want := pillows(t)
	base := want.Base.picture()
	for _, w := range want.Resized {
		if p := base.Resize(w.Width, w.Height); !bytes.Equal(p.Pix, w.RGB) {
			largest, mean := difference(p.Pix, w.RGB)
			t.Errorf("%d x %d: levels differ by up to %d, %.4f in the mean", w.Width, w.Height, largest, mean)
		}
	}
	if p := want.Square.picture().Resize(36, 3); !bytes.Equal(p.Pix, want.Flat.RGB) { // rows first
		t.Error("64 x 64 made 36 x 3 differs")
	}
	if p := base.ResizeShorter(12); p.Width != 19 || p.Height != 12 {
		t.Errorf("the shorter side made 12 gives %d x %d", p.Width, p.Height)
	}
	grey := base.Floats([]float32{0}, []float32{1})
	for i, v := range grey {
		if v != float32(want.Grey.RGB[3*i])/255 {
			t.Fatalf("grey %d is %v, want %v/255", i, v, want.Grey.RGB[3*i])
		}
	}
}

// numbered is a picture whose pixel (x, y) is (x, y, 7).
func numbered(width, height int) Picture {
	p := Picture{Name: "n", Class: 3, Width: width, Height: height}
	for y := range height {
		for x := range width {
			p.Pix = append(p.Pix, uint8(x), uint8(y), 7)
		}
	}
	return p
}

func TestPictureCrops(t *testing.T) {
	p := numbered(7, 5)
	pixel := func(p Picture, x, y int) string { return fmt.Sprint(p.Pix[3*(y*p.Width+x):][:3]) }
	if c := p.Crop(2, 1, 3, 4); pixel(c, 0, 0) != "[2 1 7]" || pixel(c, 2, 3) != "[4 4 7]" || c.Class != 3 {
		t.Error(c)
	}
	if c := p.CenterCrop(3, 2); pixel(c, 0, 0) != "[2 1 7]" {
		t.Error(c)
	}
	if f := p.Flip(); pixel(f, 0, 2) != "[6 2 7]" || pixel(f, 6, 4) != "[0 4 7]" || !bytes.Equal(f.Flip().Pix, p.Pix) {
		t.Error(f)
	}
	if f := p.Pad(2); f.Width != 11 || f.Height != 9 || pixel(f, 1, 4) != "[0 0 0]" || pixel(f, 2, 2) != "[0 0 7]" ||
		!bytes.Equal(f.Crop(2, 2, 7, 5).Pix, p.Pix) {
		t.Error(f)
	}
	seen := map[string]int{}
	r := rand.New(rand.NewPCG(1, 2))
	for range 600 {
		seen[pixel(p.RandomCrop(r, 6, 3), 0, 0)]++
		seen[pixel(p.RandomFlip(r), 0, 0)]++
		if c := p.RandomResizedCrop(r, 4, 4, 0.08); c.Width != 4 || c.Height != 4 {
			t.Fatal(c)
		}
	}
	if len(seen) != 7 || seen["[6 0 7]"] < 250 || seen["[1 2 7]"] < 60 {
		t.Errorf("corners of random crops and flips: %v", seen)
	}
	for _, long := range []Picture{numbered(100, 1), numbered(1, 100)} { // no part has the wanted shape
		if c := long.RandomResizedCrop(r, 2, 2, 1); c.Width != 2 {
			t.Error(c)
		}
	}
}

// TestPictureHash holds that decoding, all changes and normalising give one hash on every platform.
func TestPictureHash(t *testing.T) {
	pictures, err := ImageFolder("testdata/pictures")
	if err != nil {
		t.Fatal(err)
	}
	changed := Map(Shuffle(From(pictures), 5), func(s Sample, p Picture) (Picture, error) {
		return p.ResizeShorter(20).Pad(2).RandomResizedCrop(s.Random, 16, 12, 0.08).RandomFlip(s.Random), nil
	})
	if err := CheckPure(changed, changed.n); err != nil {
		t.Error(err)
	}
	hash := sha256.New()
	batches := Batches(changed, 4, PictureBatch([]float32{0.485, 0.456, 0.406}, []float32{0.229, 0.224, 0.225}),
		Workers(2))
	it, err := batches.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	for b, err := range it.All() {
		if err != nil {
			t.Fatal(err)
		}
		if n := b.X.Shape()[0]; !slices.Equal(b.X.Shape(), []int{n, 3, 12, 16}) || !slices.Equal(b.Y.Shape(),
			[]int{n}) {
			t.Fatalf("shapes %v and %v", b.X.Shape(), b.Y.Shape())
		}
		hash.Write(engine.Bytes(b.X))
		hash.Write(engine.Bytes(b.Y))
	}
	const want = "15c30a154dc7f219"
	if got := fmt.Sprintf("%x", hash.Sum(nil)[:8]); got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
}

// pngOf is a PNG file of a size that is declared, with the data of a small one.
func pngOf(t testing.TB, width, height uint32) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewRGBA(image.Rect(0, 0, 3, 2))); err != nil {
		t.Fatal(err)
	}
	file := b.Bytes()
	binary.BigEndian.PutUint32(file[16:], width)
	binary.BigEndian.PutUint32(file[20:], height)
	binary.BigEndian.PutUint32(file[29:], crc32.ChecksumIEEE(file[12:29]))
	return file
}

func TestPictureFaults(t *testing.T) {
	fine, err := os.ReadFile("testdata/pictures/exact/rgb.png")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"bomb.png": {pngOf(t, 60_000, 60_000),
			"byte 0: size: found 60000 x 60000 pixels, want at most 33554432 pixels"},
		"cut.png": {fine[:len(fine)/2],
			"picture: found damaged png, want a PNG, JPEG, GIF, BMP, TIFF or WebP picture: "},
		"text.png": {[]byte("no picture at all"), `byte 17: header: found "no picture a", want a PNG`},
		"part.png": {pngOf(t, 30, 20), "picture: found damaged png, want a PNG"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := DecodePicture(name, c.file)
		runtime.ReadMemStats(&after)
		wantError(t, err, name+": ", c.want)
		if _, ok := errors.AsType[*FormatError](err); !ok {
			t.Errorf("%s: %T", name, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
			t.Errorf("%s takes %d bytes", name, used)
		}
	}
	if _, err := DecodePicture("x", fine, MaxPixels(13*9)); err != nil {
		t.Error(err)
	}
	_, err = DecodePicture("x", fine, MaxPixels(13*9-1))
	wantError(t, err, "found 13 x 9 pixels, want at most 116 pixels")
	dir := t.TempDir()
	_, err = ImageFolder(dir)
	wantError(t, err, dir, "classes: found no folder, want a folder of pictures for each class")
	in := func(name string, content []byte) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	in("b/.hidden.png", fine)
	in("b/note.txt", fine)
	in(".git/x.png", fine)
	_, err = ImageFolder(dir)
	wantError(t, err, filepath.Join(dir, "b"), "class: found no picture, want at least one")
	in("b/deep/er/x.PNG", fine)
	in("b/empty.png", nil)
	p, err := ImageFolder(dir)
	if err != nil || p.Len() != 2 || len(p.Classes()) != 1 {
		t.Fatalf("%d pictures, error %v", p.Len(), err)
	}
	_, err = p.At(1)
	wantError(t, err, "empty.png: size: found 0 bytes, want at least 1")
	print := p.Fingerprint()
	in("b/empty.png", fine)
	if p, err = ImageFolder(dir); err != nil || p.Fingerprint() == print {
		t.Errorf("a changed file has the same fingerprint %q, error %v", print, err)
	}
	if err := os.Symlink(dir, filepath.Join(dir, "b/loop")); err != nil {
		t.Skip(err)
	}
	_, err = ImageFolder(dir)
	wantError(t, err, "folders: found more than 32 below each other, want fewer")
}

func TestPictureMisuse(t *testing.T) {
	p, r := numbered(4, 3), rand.New(rand.NewPCG(1, 2))
	for want, f := range map[string]func(){
		"resize: 0 x 3 pixels": func() { p.Resize(0, 3) },
		"resize: a picture of 1 x 2 pixels": func() {
			Picture{Width: 1,
				Height: 2}.Resize(1, 1)
		},
		"crop: 4 x 4 pixels at (0, 0) are not inside a picture of 4 x 3": func() { p.Crop(0, 0, 4, 4) },
		"random crop: 5 x 1 pixels of a picture of 4 x 3: Pad":           func() { p.RandomCrop(r, 5, 1) },
		"random resized crop: a fraction of 0":                           func() { p.RandomResizedCrop(r, 1, 1, 0) },
		"floats: 2 means and 2 standard deviations, want 3": func() {
			p.Floats(make([]float32, 2),
				make([]float32, 2))
		},
		"floats: standard deviation 0 is 0": func() {
			p.Floats([]float32{0},
				[]float32{0})
		},
		"pad: a frame of -1 pixels": func() { p.Pad(-1) },
	} {
		err := engine.Try(f)
		wantError(t, err, want)
		if _, ok := errors.AsType[*tensor.Error](err); !ok {
			t.Errorf("%T", err)
		}
	}
	_, err := PictureBatch([]float32{0}, []float32{1})([]Picture{p, numbered(3, 4)})
	wantError(t, err, "n has 3 x 4 pixels, the first picture of the batch 4 x 3")
}

// FuzzPicture decodes anything without taking more than a multiple of what it says that it has.
func FuzzPicture(f *testing.F) {
	paths, err := filepath.Glob("testdata/pictures/*/*")
	if err != nil || len(paths) == 0 {
		f.Fatal(paths, err)
	}
	for _, path := range paths {
		file, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
	}
	f.Add(pngOf(f, 1<<31-1, 1<<31-1))
	f.Fuzz(func(t *testing.T, file []byte) {
		p, err := DecodePicture("x", file, MaxPixels(10_000))
		if err == nil && (len(p.Pix) != 3*p.Width*p.Height || p.Width < 1 || p.Width*p.Height > 10_000) {
			t.Errorf("%d x %d pixels with %d values", p.Width, p.Height, len(p.Pix))
		}
		if f, ok := errors.AsType[*FormatError](err); err != nil && (!ok || strings.Contains(err.Error(),
			"decoder failed")) {
			t.Errorf("%v of %v", err, f)
		}
	})
}

// TestResizeRefuses resizes to what has no pixels, has too many, or finds no memory.
func TestResizeRefuses(t *testing.T) {
	wide := Picture{Width: 4, Height: 2, Pix: make([]uint8, 3*4*2)}
	if p := wide.ResizeShorter(3); p.Width != 6 || p.Height != 3 {
		t.Errorf("%d x %d pixels, want 6 x 3", p.Width, p.Height)
	}
	lacking(t, 0)
	for want, f := range map[string]func(){
		"0 x 1 pixels, want at least 1 x 1": func() { wide.Resize(0, 1) },
		"1 x -1 pixels":                     func() { wide.Resize(1, -1) },
		"a side of 0 pixels":                func() { wide.ResizeShorter(0) },
		"a side of 9223372036854775807":     func() { wide.ResizeShorter(math.MaxInt) },
		"1099511627776 x 2 pixels":          func() { wide.Resize(1<<40, 2) },
	} {
		wantError(t, engine.Try(f), want)
	}
}
