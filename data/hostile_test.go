package data

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// closing is a source over a file.
type closing[T any] interface {
	Source[T]
	Fingerprint() string
	Close() error
}

// hostileFile checks how a source meets files that are missing, cut under it, or used as they must not be.
func hostileFile[T any, S closing[T]](t *testing.T, path string, open func(path string) (S, error)) {
	t.Helper()
	if _, err := open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: no file: %v", path, err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(mine, content, 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := open(mine)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readAll[T](s); err != nil || s.Fingerprint() == "" {
		t.Errorf("%s: %v, fingerprint %q", path, err, s.Fingerprint())
	}
	for _, i := range []int{-1, s.Len()} {
		_, err := s.At(i)
		wantError(t, err, "data: there is no ")
	}
	if err := os.Truncate(mine, int64(len(content)/2)); err != nil {
		t.Fatal(err)
	}
	_, err = readAll[T](s)
	if _, ok := errors.AsType[*FormatError](err); !ok {
		t.Errorf("%s cut while it is open: %T %v", path, err, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := readAll[T](s); !errors.Is(err, os.ErrClosed) || !strings.Contains(err.Error(), mine) {
		t.Errorf("%s is read after Close: %v", path, err)
	}
	if err := os.WriteFile(mine, []byte("\x1f\x8b\x08 cut"), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = open(mine)
	if f, ok := errors.AsType[*FormatError](err); !ok || f.What != "gzip header" || f.File != mine {
		t.Errorf("a damaged gzip header: %v", err)
	}
	var none S
	if none.Len() != 0 || none.Fingerprint() != "" || none.Close() != nil {
		t.Errorf("%T that is nil is not empty", none)
	}
}

func TestHostileFiles(t *testing.T) {
	hostileFile[[]byte](t, "testdata/examples.tfrecord", func(path string) (*TFRecord, error) {
		return OpenTFRecord(path)
	})
	hostileFile[TarSample](t, "testdata/shard.tar", func(path string) (*Tar, error) { return OpenTar(path) })
	hostileFile[[]float32](t, "testdata/rows.npy", func(path string) (*Array[float32], error) {
		return OpenNPY[float32](path)
	})
	hostileFile[[]int64](t, "testdata/plain.bin", func(path string) (*Tokens, error) {
		return OpenTokens([]string{path}, 4)
	})
	hostileFile[[]string](t, write(t, "x.csv", "a,b\n1,2\n3,4\n", false), func(path string) (*Rows[[]string], error) {
		return OpenCSV[[]string](path)
	})
	if (*Array[int8])(nil).Shape() != nil {
		t.Error("no array has a shape")
	}
	_, err := OpenNPZ[float32]("testdata/rows.npy", "x")
	if f, ok := errors.AsType[*FormatError](err); !ok || f.File != "testdata/rows.npy" {
		t.Errorf("an array as an archive: %v", err)
	}
}

// Reading that fails in the middle of a file is the error of the reader, with the file's name.
func TestHostileReads(t *testing.T) {
	fails := errors.New("the disk fails")
	for _, format := range []string{"csv", "jsonl"} {
		src := &unpacked{name: "x", r: bufferOf(io.MultiReader(strings.NewReader("1\n2\n3"), iotest.ErrReader(fails)))}
		r := &Rows[[]string]{}
		scan := r.scanCSV
		if format == "jsonl" {
			scan = r.scanLines
		}
		if err := scan(src); !errors.Is(err, fails) || !strings.Contains(err.Error(), "x: ") {
			t.Errorf("%s: %v", format, err)
		}
	}
	broken := iotest.ErrReader(fails)
	_, err := readIDX("x", io.MultiReader(bytes.NewReader(idxFile(0x08, []uint32{9}, nil)), broken), 17, readingOf(nil))
	if !errors.Is(err, fails) {
		t.Errorf("IDX: %v", err)
	}
	if _, err := embeddedIDX("none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("built-in digits: %v", err)
	}
	// The index of a file that nobody can ask for its time, and of one that changes while it is read through.
	path := write(t, "x", "data", false)
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	withIndexes(t)
	read := func(change func()) error {
		return indexed(file, 4, "test", reading{}, func([]byte) bool { return false }, func() error {
			change()
			return nil
		}, func() []byte { return nil })
	}
	if err := read(func() { os.WriteFile(path, []byte("other data"), 0o600) }); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path + indexSuffix); err == nil {
		t.Error("a file that changes has an index")
	}
	file.Close()
	if err := read(func() {}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed file: %v", err)
	}
	if err := os.WriteFile(path+indexSuffix, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := readIndex(path+indexSuffix, "", 4); ok {
		t.Error("an index that is much larger than its file is read")
	}
}

// A sparse file is refused: what it says that it has is not what it takes.
func TestHostileTar(t *testing.T) {
	b := []byte(tarOf(t, "a.jpg"))
	b[156] = tar.TypeGNUSparse
	copy(b[257:], "ustar  \x00") // as GNU writes it
	copy(b[483:], "00000000005\x00")
	sum := 8 * int(' ')
	for i, c := range b[:tarBlock] {
		if i < 148 || i >= 156 {
			sum += int(c)
		}
	}
	copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
	_, err := OpenTar(write(t, "sparse.tar", string(b), false))
	wantError(t, err, `byte 0: kind: found "a.jpg", a sparse file, want files without holes`)
}

// Decoders that are wrong, and folders that change, are errors of their picture.
func TestHostilePictures(t *testing.T) {
	for magic, c := range map[string]struct {
		width int
		image func() (image.Image, error)
		want  string
	}{
		"weft-panics": {4, func() (image.Image, error) { panic("index out of range") },
			"picture: found damage, want a PNG, JPEG, GIF, BMP, TIFF or WebP picture: the decoder failed: index"},
		"weft-empty": {0, nil, "size: found 0 x 4 pixels"},
		"weft-grows": {4, func() (image.Image, error) { return image.NewGray(image.Rect(0, 0, 5, 4)), nil },
			"size: found 5 x 4 pixels, declared as 4 x 4"},
	} {
		image.RegisterFormat(magic, magic, func(io.Reader) (image.Image, error) { return c.image() },
			func(io.Reader) (image.Config, error) { return image.Config{Width: c.width, Height: 4}, nil })
		_, err := DecodePicture(magic, []byte(magic))
		wantError(t, err, magic+": byte ", c.want)
		if _, ok := errors.AsType[*FormatError](err); !ok {
			t.Errorf("%s: %T", magic, err)
		}
	}
	whole, transparent := make([]uint8, 3*4*2), make([]uint8, 3*4*2)
	x := image.NewNYCbCrA(image.Rect(0, 0, 4, 2), image.YCbCrSubsampleRatio420)
	for i := range x.Y {
		x.Y[i], x.Cb[i/4], x.Cr[i/4] = uint8(30*i), uint8(90+i), uint8(200-i)
	}
	toRGB(transparent, x, false)
	toRGB(whole, &x.YCbCr, false)
	r, g, b := color.YCbCrToRGB(x.Y[0], x.Cb[0], x.Cr[0])
	if !bytes.Equal(whole, transparent) || whole[0] != r || whole[1] != g || whole[2] != b {
		t.Errorf("%v with transparency, %v without", transparent, whole)
	}
	dir := t.TempDir()
	if _, err := ImageFolder(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	class := filepath.Join(dir, "class")
	content, err := os.ReadFile("testdata/pictures/exact/rgb.png")
	if err := errors.Join(err, os.Mkdir(class, 0o700), os.WriteFile(filepath.Join(class, "a.png"), content,
		0o600), os.WriteFile(filepath.Join(dir, "note"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	small, err := ImageFolder(dir, MaxSize(10))
	if err != nil {
		t.Fatal(err)
	}
	_, err = small.At(0)
	wantError(t, err, "a.png: size: found ", "want at most 10 bytes")
	_, err = small.At(1)
	wantError(t, err, "data: there is no picture 1, only [0, 1)")
	if err := os.RemoveAll(class); err != nil {
		t.Fatal(err)
	}
	if _, err := small.At(0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a picture that is gone: %v", err)
	}
	if err := small.find(io.Discard, "class", 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a class that is gone: %v", err)
	}
	for _, link := range []string{"class", "other/x.png"} {
		link = filepath.Join(dir, link)
		if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink("nowhere", link)); err != nil {
			t.Skip(err)
		}
		if _, err := ImageFolder(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s leads nowhere: %v", link, err)
		}
		os.Remove(link)
	}
	var none *Pictures
	if none.Len() != 0 || none.Classes() != nil || none.Fingerprint() != "" {
		t.Error("no pictures are not empty")
	}
	_, err = PictureBatch([]float32{0}, []float32{1})(nil)
	wantError(t, err, "data: a batch needs at least one picture")
	_, err = PictureBatch([]float32{0}, []float32{1})([]Picture{{Width: 2, Height: 2}})
	wantError(t, err, "picture batch: a picture of 2 x 2 pixels has 0 values in Pix")
	err = engine.Try(func() { numbered(1, 1).Pad(math.MaxInt / 8) })
	wantError(t, err, "pad: a picture of ")
}

// An example that is cut, or has another byte, anywhere is a FormatError or another example, never a panic.
func TestHostileTFExample(t *testing.T) {
	records, err := OpenTFRecord("testdata/examples.tfrecord")
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	refused := 0
	for i := range records.Len() {
		record, err := records.At(i)
		if err != nil {
			t.Fatal(err)
		}
		try := func(text []byte) {
			_, err := ParseTFExample(text)
			if _, ok := errors.AsType[*FormatError](err); err != nil && !ok {
				t.Errorf("%T: %v", err, err)
			}
			if err != nil {
				refused++
			}
		}
		for n := range record {
			try(record[:n])
			for bit := range 8 {
				text := append([]byte(nil), record...)
				text[n] ^= 1 << bit
				try(text)
			}
		}
	}
	if refused < 100 {
		t.Errorf("only %d are refused", refused)
	}
}

// FuzzDiskCache: whatever a file of a cache holds, examples are those that were put there, or made again.
func FuzzDiskCache(f *testing.F) {
	dir := f.TempDir()
	d := &diskCache{dir: dir, prefix: "weft-cache-", left: 1 << 20}
	d.get(0)
	for i := range 5 {
		d.put(i, origin{index: i + 7}, i == 3, []byte("example")[:i])
	}
	text, err := os.ReadFile(d.log.Name())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(text[:len(text)-1])
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "weft-cache-1"), text, 0o666); err != nil {
			t.Fatal(err)
		}
		d := &diskCache{dir: dir, prefix: "weft-cache-", left: 1 << 20}
		defer func() { // else the files are open until memory is collected
			for _, records := range d.records {
				for _, r := range records {
					r.file.Close()
				}
			}
		}()
		for i := range 8 {
			if got, _, ok := d.get(i); ok && len(got) > len(text) {
				t.Errorf("example %d has %d bytes of a file of %d", i, len(got), len(text))
			}
			d.put(i, origin{}, false, []byte("again"))
			if got, _, ok := d.get(i); !ok || len(got) > len(text)+5 {
				t.Errorf("example %d is not kept: %q", i, got)
			}
		}
	})
}
