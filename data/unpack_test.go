package data

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// TestRegisterCompression reads a file of lines in a compression of the test's own, whose files begin with "UP!".
func TestRegisterCompression(t *testing.T) {
	before := compressions
	defer func() { compressions = before }()
	damage := errors.New("damage")
	RegisterCompression("upper", "UP!", func(r io.Reader) (io.Reader, error) {
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		text, damaged := strings.CutSuffix(strings.ToLower(string(content[3:])), "?")
		if text == "" {
			return nil, damage
		}
		if damaged {
			return io.MultiReader(strings.NewReader(text), iotest.ErrReader(damage)), nil
		}
		return strings.NewReader(text), nil
	})
	rows, err := OpenCSV[[]string](write(t, "x.csv", "UP!A,B\nC,D\n", false))
	if err != nil {
		t.Fatal(err)
	}
	if row, err := rows.At(0); err != nil || !slices.Equal(row, []string{"c", "d"}) {
		t.Errorf("row %q, error %v", row, err)
	}
	for file, want := range map[string]string{
		"UP!": "byte 0: upper header: found damaged upper data", "UP!A,B\n?": "found damaged upper data",
	} {
		_, err := OpenCSV[[]string](write(t, "x.csv", file, false))
		wantError(t, err, want)
		if f, ok := errors.AsType[*FormatError](err); !ok || !errors.Is(err, damage) {
			t.Errorf("%q: %v", file, f)
		}
	}
	_, err = OpenCSV[[]string](write(t, "x.csv", "UP!A,B\nC,D\n", false), MaxSize(3))
	wantError(t, err, "more than 3 bytes")
	_, err = ReadText(write(t, "x.txt", zstdMagic+"text", false), Bytes)
	wantError(t, err, "x.txt: byte 0: compression: found Zstandard, want none or gzip (a program that imports")

	fails := errors.New("the disk fails")
	for _, text := range []string{"UP!", "\x1f\x8b\x08\x00"} {
		file := io.MultiReader(strings.NewReader(text), iotest.ErrReader(fails))
		_, err := unpack("x", file, 100, readingOf(nil))
		if _, ok := errors.AsType[*FormatError](err); ok || !errors.Is(err, fails) {
			t.Errorf("a read fails: %v", err)
		}
	}
}
