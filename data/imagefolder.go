package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/color"
	_ "image/gif" // decoders, for package image
	_ "image/jpeg"
	_ "image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "golang.org/x/image/bmp"
	_ "golang.org/x/image/tiff"
	_ "golang.org/x/image/webp"
)

const (
	maxPixels   = 1 << 25 // of a picture, unless the option says otherwise
	maxFolders  = 32      // below each other
	pictureWant = "a PNG, JPEG, GIF, BMP, TIFF or WebP picture"
)

// MaxPixels allows pictures of up to n pixels instead of 2^25, as many as 8192 x 4096. How many a picture has is read
// before anything is unpacked. Decoding one takes up to 16 bytes a pixel for a moment.
func MaxPixels(n int) ReadOption { return ReadOption{func(r *reading) { r.pixels = n }} }

// Pictures is a [Source] of the pictures in a folder.
type Pictures struct {
	dir         string
	classes     []string
	names       []string // paths of files below dir, sorted within their class
	ends        []int    // how many pictures there are up to the end of each class
	fingerprint string
	options     reading
}

// ImageFolder is the pictures in the sub-folders of a folder, in those below them, too: the name of a sub-folder is the
// class of what is in it, and the number of the class its place among the sorted names. It takes files that end in
// .png, .jpg, .jpeg, .gif, .bmp, .tif, .tiff or .webp, upper case or lower; names that begin with a dot are skipped.
//
// Pictures are read when they are asked for. They become RGB of 8 bits: transparency is dropped, of animations the
// first picture is taken, the rotation that a camera has noted is not applied. A folder without classes, a class
// without pictures and a file that is no picture are a [*FormatError], the last one from At.
func ImageFolder(dir string, options ...ReadOption) (*Pictures, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	p := &Pictures{dir: dir, options: readingOf(options)}
	hash := sha256.New()
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			continue
		} else if info, err := os.Stat(path); err != nil {
			return nil, err
		} else if !info.IsDir() {
			continue
		}
		p.classes = append(p.classes, e.Name())
		before := len(p.names)
		if err := p.find(hash, e.Name(), 1); err != nil {
			return nil, err
		}
		if len(p.names) == before {
			return nil, &FormatError{File: path, Offset: -1, What: "class", Found: "no picture", Want: "at least one"}
		}
		slices.Sort(p.names[before:])
		p.ends = append(p.ends, len(p.names))
	}
	if len(p.classes) == 0 {
		return nil, &FormatError{File: dir, Offset: -1, What: "classes", Found: "no folder",
			Want: "a folder of pictures for each class"}
	}
	p.fingerprint = fmt.Sprintf("%s: %d pictures, %s", filepath.Base(dir), len(p.names),
		hex.EncodeToString(hash.Sum(nil)[:16]))
	return p, nil
}

// find adds the pictures in a folder below that of p.
func (p *Pictures) find(hash io.Writer, folder string, depth int) error {
	if depth > maxFolders { // perhaps a link to a folder above
		return &FormatError{File: filepath.Join(p.dir, folder), Offset: -1, What: "folders",
			Found: fmt.Sprintf("more than %d below each other", maxFolders), Want: "fewer"}
	}
	entries, err := os.ReadDir(filepath.Join(p.dir, folder))
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(folder, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		info, err := os.Stat(filepath.Join(p.dir, name)) // behind a link, too
		if err != nil {
			return err
		}
		switch ext := strings.ToLower(filepath.Ext(name)); {
		case info.IsDir():
			if err := p.find(hash, name, depth+1); err != nil {
				return err
			}
		case slices.Contains([]string{".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp"}, ext):
			fmt.Fprintf(hash, "%q %d %d\n", filepath.ToSlash(name), info.Size(), info.ModTime().UnixNano())
			if p.names, err = grown(p.names, 1); err != nil {
				return err
			}
			p.names = append(p.names, name)
		}
	}
	return nil
}

// Len is the number of pictures; 0 if p is nil.
func (p *Pictures) Len() int {
	if p == nil {
		return 0
	}
	return len(p.names)
}

// Classes are the names of the classes, by their numbers.
func (p *Pictures) Classes() []string {
	if p == nil {
		return nil
	}
	return slices.Clone(p.classes)
}

// Class is the class of picture i, which is not read for it. An i outside [0, Len) is an error.
func (p *Pictures) Class(i int) (int, error) {
	if i < 0 || i >= p.Len() {
		return 0, fmt.Errorf("data: there is no picture %d, only [0, %d)", i, p.Len())
	}
	class, last := slices.BinarySearch(p.ends, i)
	if last { // ends[class] is the first picture of the next class
		class++
	}
	return class, nil
}

// At reads picture i. An i outside [0, Len) is an error.
func (p *Pictures) At(i int) (Picture, error) {
	class, err := p.Class(i)
	if err != nil {
		return Picture{}, err
	}
	path := filepath.Join(p.dir, p.names[i])
	file, info, err := openRegular(path)
	if err != nil {
		return Picture{}, err
	}
	defer file.Close()
	src := &unpacked{name: path, r: bufferOf(file), limit: info.Size(), exact: true, reading: p.options}
	content, err := src.all()
	if err != nil {
		return Picture{}, err
	}
	x, err := decodePicture(path, content, p.options)
	x.Class = class
	return x, err
}

// Fingerprint is a hash over names, sizes and times of all files.
func (p *Pictures) Fingerprint() string {
	if p == nil {
		return ""
	}
	return p.fingerprint
}

// DecodePicture is a picture from the content of its file, as [ImageFolder] reads it; name stands for the file in
// errors. Its class is -1.
func DecodePicture(name string, file []byte, options ...ReadOption) (Picture, error) {
	return decodePicture(name, file, readingOf(options))
}

func decodePicture(name string, file []byte, options reading) (p Picture, err error) {
	r := bytes.NewReader(file)
	bad := func(what, found string, err error) error {
		return &FormatError{File: name, Offset: int64(len(file) - r.Len()), What: what, Found: found, Want: pictureWant,
			Err: err}
	}
	defer func() { // the decoders are not ours: none of them may end the program
		if v := recover(); v != nil {
			p, err = Picture{}, bad("picture", "damage", fmt.Errorf("the decoder failed: %v", v))
		}
	}()
	config, format, err := image.DecodeConfig(r)
	if err != nil {
		return p, bad("header", cut(file[:min(len(file), 12)]), err)
	}
	width, height := config.Width, config.Height
	if width < 1 || height < 1 {
		return p, bad("size", fmt.Sprintf("%d x %d pixels", width, height), nil)
	}
	if width > options.pixels/height {
		return p, &FormatError{File: name, Offset: 0, What: "size", Found: fmt.Sprintf("%d x %d pixels", width, height),
			Want: fmt.Sprintf("at most %d pixels (MaxPixels allows more)", options.pixels)}
	}
	if err := room(16 * width * height); err != nil {
		return p, fmt.Errorf("%s: %w", name, err)
	}
	r.Reset(file)
	decoded, _, err := image.Decode(r)
	if err != nil {
		return p, bad("picture", "damaged "+format, err)
	}
	bounds := decoded.Bounds()
	if bounds.Dx() > width || bounds.Dy() > height || bounds.Empty() {
		return p, bad("size", fmt.Sprintf("%d x %d pixels, declared as %d x %d", bounds.Dx(), bounds.Dy(), width,
			height), nil)
	}
	p = Picture{Name: name, Class: -1, Width: bounds.Dx(), Height: bounds.Dy()}
	if p.Pix, err = grown[uint8](nil, 3*p.Width*p.Height); err != nil {
		return Picture{}, fmt.Errorf("%s: %w", name, err)
	}
	p.Pix = p.Pix[:3*p.Width*p.Height]
	toRGB(p.Pix, decoded, format == "webp")
	return p, nil
}

// toRGB writes the pixels of an image as red, green and blue, whatever their transparency.
func toRGB(to []uint8, from image.Image, webp bool) {
	b := from.Bounds()
	at := 0
	set := func(r, g, b uint8) { to[at], to[at+1], to[at+2] = r, g, b; at += 3 }
	if m, ok := from.(*image.NYCbCrA); ok {
		from = &m.YCbCr
	}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		switch m := from.(type) {
		case *image.YCbCr:
			for x := b.Min.X; x < b.Max.X; x++ {
				l, c := m.YOffset(x, y), m.COffset(x, y)
				if webp {
					set(videoRGB(int32(m.Y[l]), int32(m.Cb[c]), int32(m.Cr[c])))
				} else {
					set(color.YCbCrToRGB(m.Y[l], m.Cb[c], m.Cr[c]))
				}
			}
		case *image.Gray:
			for _, v := range m.Pix[m.PixOffset(b.Min.X, y):][:b.Dx()] {
				set(v, v, v)
			}
		case *image.NRGBA:
			for row := m.Pix[m.PixOffset(b.Min.X, y):][:4*b.Dx()]; len(row) > 0; row = row[4:] {
				set(row[0], row[1], row[2])
			}
		default:
			for x := b.Min.X; x < b.Max.X; x++ {
				c := color.NRGBAModel.Convert(from.At(x, y)).(color.NRGBA)
				set(c.R, c.G, c.B)
			}
		}
	}
}

// videoRGB is a colour of WebP: luma from 16 to 235 and chroma of ITU-R 601, where JPEG has luma from 0 to 255. The
// coefficients are those of libwebp, in units of 2^-14; results have 6 bits too many.
func videoRGB(y, u, v int32) (r, g, b uint8) {
	clip := func(v int32) uint8 { return uint8(min(max(v>>6, 0), 255)) }
	y = y * 19077 >> 8
	return clip(y + v*26149>>8 - 14234), clip(y - u*6419>>8 - v*13320>>8 + 8708), clip(y + u*33050>>8 - 17685)
}
