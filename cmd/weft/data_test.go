package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestData(t *testing.T) {
	const files = "../../data/testdata/"
	csv := filepath.Join(t.TempDir(), "x.csv")
	if err := os.WriteFile(csv, []byte("a,b\n1,2\n3,\x1b[31m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	floats := filepath.Join(t.TempDir(), "x-idx1-float")
	if err := os.WriteFile(floats, []byte("\x00\x00\x0d\x01\x00\x00\x00\x01\x3f\x80\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]string{
		files + "pictures": {"19 pictures in 2 classes (exact 13, lossy 6)",
			"13 x 9 pixels, class exact", "examples/s in one"},
		files + "shard.tar.gz": {"tar file of WebDataset, 5 samples", `train/000: cls "0", json `,
			"seg.png 200 bytes"},
		files + "examples.tfrecord": {"TFRecord file, 4 records", "ids [-1 4611686018427387904 0]",
			"image 0 bytes"},
		files + "rows.npy": {"array of float32, 4 rows of shape [2 3]", "  0: [0 1 2 3 4 5]",
			"  3: [18"},
		files + "gpt2.bin":                       {"tokens, 29 windows of 1 and", "28: [56000 58000]"},
		"../../data/digits/labels-idx1-ubyte.gz": {"IDX file, bytes of shape [1797]"},
		floats:                                   {"IDX file, []float32 of shape [1]"},
		csv:                                      {"CSV file, 2 rows", "  0: 1 | 2", `1: "3 | \x1b[31m"`},
	} {
		var stdout, stderr bytes.Buffer
		if code := run([]string{"data", "-seconds", "0.01", path}, &stdout, &stderr); code != 0 {
			t.Errorf("%s: exit code %d: %s", path, code, stderr.String())
		}
		says(t, stdout.String(), want...)
	}
	for path, want := range map[string]string{
		"data.go": "the name tells no format", files + "none.csv": "no such file",
		"../../data/testdata/pictures/exact": "no folder",
	} {
		var stdout, stderr bytes.Buffer
		if code := run([]string{"data", path}, &stdout, &stderr); code != 1 {
			t.Errorf("%s: exit code %d", path, code)
		} else {
			says(t, stderr.String(), want)
		}
	}
}
