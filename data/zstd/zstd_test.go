package zstd_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/weft-ml/weft/data"
	_ "github.com/weft-ml/weft/data/zstd"
)

type row struct {
	Name  string
	Value int
}

func Example() {
	rows, err := data.OpenCSV[row]("testdata/rows.csv.zst")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rows.Close()
	last, err := rows.At(rows.Len() - 1)
	fmt.Println(rows.Len(), last, err)
	// Output: 1000 {row 999 998001} <nil>
}

// packed is content in a frame with a window of the given size.
func packed(t testing.TB, content []byte, window int) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil, zstd.WithWindowSize(window), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w.Reset(&out)
	if _, err := io.Copy(w, bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// write writes a file of its own.
func write(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// all opens a file and reads all examples.
func all[T any, S data.Source[T]](open func(string, ...data.ReadOption) (S, error)) func(string) (any, error) {
	return func(path string) (any, error) {
		s, err := open(path)
		if err != nil {
			return nil, err
		}
		var xs []T
		for i := range s.Len() {
			x, err := s.At(i)
			if err != nil {
				return nil, err
			}
			xs = append(xs, x)
		}
		return xs, nil
	}
}

// TestReaders reads files of every format, plain, compressed, and with pzstd's first frame: the same examples.
func TestReaders(t *testing.T) {
	lines := []byte("{\"a\": 1}\n{\"a\": 2}\n")
	idx := []byte{0, 0, 8, 2, 0, 0, 0, 3, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6}
	tokens := func(path string, options ...data.ReadOption) (*data.Tokens, error) {
		return data.OpenTokens([]string{path}, 4, options...)
	}
	for name, read := range map[string]func(string) (any, error){
		write(t, "x.csv", []byte("a,b\n1,2\n3,4\n")): all[[]string](data.OpenCSV[[]string]),
		write(t, "x.jsonl", lines):                   all[map[string]int](data.OpenJSONL[map[string]int]),
		"../testdata/shard.tar":                      all[data.TarSample](data.OpenTar),
		"../testdata/examples.tfrecord":              all[[]byte](data.OpenTFRecord),
		"../testdata/rows.npy":                       all[[]float32](data.OpenNPY[float32]),
		"../testdata/plain.bin":                      all[[]int64](tokens),
		write(t, "x-idx", idx):                       func(path string) (any, error) { return data.ReadIDX(path) },
		write(t, "x.txt", lines): func(path string) (any, error) {
			text, err := data.ReadText(path, data.Bytes)
			return text, err
		},
	} {
		want, err := read(name)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		small := packed(t, content, 1<<10)
		skipped := append([]byte("\x50\x2a\x4d\x18\x02\x00\x00\x00xx"), small...)
		for _, file := range [][]byte{small, skipped} {
			got, err := read(write(t, filepath.Base(name), file))
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %v, want %v, error %v", name, got, want, err)
			}
		}
	}
}

// TestHostile reads what is damaged: a FormatError each, and little memory.
func TestHostile(t *testing.T) {
	text := []byte(strings.Repeat("some text\n", 1000))
	good := packed(t, text, 1<<20)
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 0x10
	bomb := packed(t, make([]byte, 16<<20), 1<<20)
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"magic only":         {good[:4], "unexpected EOF"},
		"cut":                {good[:len(good)-10], "unexpected EOF"},
		"flipped":            {flipped, "damaged zstd data"},
		"checksum":           {append(bytes.Clone(good[:len(good)-1]), good[len(good)-1]^1), "damaged zstd data"},
		"tail":               {append(bytes.Clone(good), "tail"...), "damaged zstd data"},
		"window":             {[]byte("\x28\xb5\x2f\xfd\x00\xb8\x01\x00\x00"), "window size exceeded"},
		"the largest window": {[]byte("\x28\xb5\x2f\xfd\x00\x78\x01\x00\x00"), "size: found 0 bytes"},
		"bomb":               {bomb, "more than 1048576 bytes, want at most 1048576 bytes"},
	} {
		path := write(t, "x", c.file)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := data.ReadText(path, data.Bytes, data.MaxSize(1<<20))
		runtime.ReadMemStats(&after)
		if _, ok := errors.AsType[*data.FormatError](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a FormatError with %q", name, err, c.want)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
			t.Errorf("%s: took %d bytes", name, n)
		}
	}
}

// FuzzZstd compares with package zstd itself.
func FuzzZstd(f *testing.F) {
	for _, s := range []string{"", "a", strings.Repeat("abc", 1000)} {
		f.Add(packed(f, []byte(s), 1<<10))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		const most = 1 << 20
		if !bytes.HasPrefix(file, []byte("\x28\xb5\x2f\xfd")) {
			t.Skip("another format")
		}
		r, err := zstd.NewReader(bytes.NewReader(file), zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxWindow(32<<20))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		want, wantErr := io.ReadAll(io.LimitReader(r, most+1))
		if len(want) > most {
			wantErr = io.ErrShortBuffer
		}
		text, err := data.ReadText(write(t, "x", file), data.Bytes, data.MaxSize(most))
		if len(want) == 0 && wantErr == nil {
			wantErr = io.EOF // a text is not empty
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("error %v, that of zstd is %v", err, wantErr)
		}
		if _, ok := errors.AsType[*data.FormatError](err); err != nil && !ok {
			t.Fatalf("%T %v", err, err)
		}
		if err == nil && text.TrainLen()+text.ValidationLen() != len(want) {
			t.Fatalf("%d bytes, want %d", text.TrainLen()+text.ValidationLen(), len(want))
		}
	})
}
