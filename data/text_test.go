package data

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// alphabet is a corpus in which the token after k is k+1, modulo 26.
func alphabet(t *testing.T, n int) *Text {
	t.Helper()
	text, err := NewText([]byte(strings.Repeat("abcdefghijklmnopqrstuvwxyz", n/26+1)[:n]), Chars)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTextChars(t *testing.T) {
	text, err := NewText([]byte("héllo\nwörld"), Chars)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(text.vocab); got != "\ndhlorwéö" || text.VocabSize() != 9 {
		t.Errorf("vocabulary %q of size %d", got, text.VocabSize())
	}
	tokens, err := text.Encode("wöh\n")
	if err != nil || !slices.Equal(tokens, []int64{6, 8, 2, 0}) {
		t.Errorf("tokens %v, error %v", tokens, err)
	}
	if got := text.Decode(6, 8, 2, 0, -1, 9); got != "wöh\n\uFFFD\uFFFD" {
		t.Errorf("decoded %q", got)
	}
	_, err = text.Encode("lözl")
	wantError(t, err, `character 'z' at byte 3 does not occur in the corpus`)
	if text.TrainLen() != 9 || text.ValidationLen() != 2 {
		t.Errorf("%d + %d tokens", text.TrainLen(), text.ValidationLen())
	}
}

func TestTextBytes(t *testing.T) {
	corpus := []byte("h\xff\x00é")
	text, err := NewText(corpus, Bytes)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := text.Encode(string(corpus))
	if err != nil || !slices.Equal(tokens, []int64{'h', 0xff, 0, 0xc3, 0xa9}) || text.VocabSize() != 256 {
		t.Errorf("tokens %v of %d, error %v", tokens, text.VocabSize(), err)
	}
	if got := text.Decode(tokens...); got != string(corpus) {
		t.Errorf("decoded %q", got)
	}
	if got := text.Decode(256, 'a'); got != "\uFFFDa" {
		t.Errorf("decoded %q", got)
	}
}

func TestTextBadInput(t *testing.T) {
	_, err := NewText(nil, Chars)
	wantError(t, err, "text: size: found 0 bytes")
	_, err = NewText([]byte("ab\xffcd"), Chars)
	wantError(t, err, "text: byte 2: character: found 0xff, want valid UTF-8")
	_, err = NewText([]byte("a"), Level(7))
	wantError(t, err, "unknown level 7")

	path := filepath.Join(t.TempDir(), "corpus.txt")
	if _, err := ReadText(path, Chars); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if err := os.WriteFile(path, []byte("ab\xc3"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := ReadText(path, Chars)
	wantError(t, err, path+": byte 2: character: found 0xc3")
	if text != nil {
		t.Error("a text beside an error")
	}
}

func TestTextTooShort(t *testing.T) {
	text := alphabet(t, 100) // 90 to train with, 10 for validation
	if _, err := text.Batch(4, 89, 1, 0); err != nil {
		t.Error(err)
	}
	_, err := text.Batch(4, 90, 1, 0)
	wantError(t, err, "the training part has 90 tokens, a context of 90 needs at least 91")
	_, err = text.Batch(0, 5, 1, 0)
	wantError(t, err, "0 rows in a batch")
	_, err = text.Batch(4, 0, 1, 0)
	wantError(t, err, "a context of 0 tokens")
	n := 0
	for _, err := range text.Validation(4, 10, 0) {
		wantError(t, err, "the validation part has 10 tokens, a context of 10 needs at least 11")
		n++
	}
	if n != 1 {
		t.Errorf("%d errors", n)
	}
}

func TestTextBatch(t *testing.T) {
	text := alphabet(t, 2600)
	seen := map[int64]bool{}
	for step := range 200 {
		batch, err := text.Batch(8, 5, 42, step)
		if err != nil {
			t.Fatal(err)
		}
		x, y := values[int64](t, batch.X, 8, 5), values[int64](t, batch.Y, 8, 5)
		for i := range x {
			if y[i] != (x[i]+1)%26 || i%5 > 0 && x[i] != y[i-1] {
				t.Fatalf("step %d: X %v, Y %v", step, x, y)
			}
			seen[x[i]] = true
		}
		again, err := text.Batch(8, 5, 42, step)
		if err != nil || !slices.Equal(values[int64](t, again.X, 8, 5), x) {
			t.Fatalf("step %d is not the same the second time", step)
		}
	}
	if len(seen) != 26 {
		t.Errorf("%d of 26 tokens seen", len(seen))
	}
	first := func(rows int, seed uint64, step int) []int64 {
		batch, err := text.Batch(rows, 5, seed, step)
		if err != nil {
			t.Fatal(err)
		}
		return values[int64](t, batch.X, rows, 5)
	}
	if slices.Equal(first(8, 42, 0), first(8, 42, 1)) || slices.Equal(first(8, 42, 0), first(8, 43, 0)) {
		t.Error("another step or seed gives the same batch")
	}
	if !slices.Equal(first(8, 42, 3)[:10], first(2, 42, 3)) {
		t.Error("a row depends on how many there are")
	}
}

// Every offset of the training part can be drawn, none outside it.
func TestTextBatchOffsets(t *testing.T) {
	corpus := make([]byte, 200)
	for i := range corpus {
		corpus[i] = byte(i)
	}
	text, err := NewText(corpus, Bytes)
	if err != nil {
		t.Fatal(err)
	}
	const context = 30
	starts := make([]int, 180-context)
	for step := range 300 {
		batch, err := text.Batch(50, context, 7, step)
		if err != nil {
			t.Fatal(err)
		}
		x := values[int64](t, batch.X, 50, context)
		for row := range 50 {
			starts[x[row*context]]++
		}
		if last := slices.Max(values[int64](t, batch.Y, 50, context)); last >= 180 {
			t.Fatalf("token %d belongs to the validation part", last)
		}
	}
	// 149 degrees of freedom, deviation 17.
	if x := chiSquare(starts); x > 149+5*17 || slices.Contains(starts, 0) {
		t.Errorf("chi-square of offsets %.0f, want about 149; rarest %d times", x, slices.Min(starts))
	}
}

func TestTextValidation(t *testing.T) {
	corpus := make([]byte, 250)
	for i := range corpus {
		corpus[i] = byte(i)
	}
	text, err := NewText(corpus, Bytes) // validation part: 225 ... 249
	if err != nil {
		t.Fatal(err)
	}
	first := func(rows, context, limit int) (starts []int64, sizes []int) {
		k := 0
		for batch, err := range text.Validation(rows, context, limit) {
			if err != nil || batch.Index != k {
				t.Fatalf("batch %d has index %d, error %v", k, batch.Index, err)
			}
			n := batch.X.Shape()[0]
			x, y := values[int64](t, batch.X, n, context), values[int64](t, batch.Y, n, context)
			for i := range x {
				if y[i] != x[i]+1 || x[i] != x[i/context*context]+int64(i%context) {
					t.Fatalf("X %v, Y %v", x, y)
				}
			}
			for row := range n {
				starts = append(starts, x[row*context])
			}
			sizes = append(sizes, n)
			k++
		}
		return starts, sizes
	}
	if starts, sizes := first(3, 4, 0); !slices.Equal(starts, []int64{225, 229, 233, 237, 241, 245}) ||
		!slices.Equal(sizes, []int{3, 3}) {
		t.Errorf("windows at %v in batches of %v", starts, sizes)
	}
	if starts, sizes := first(4, 5, 0); !slices.Equal(starts, []int64{225, 230, 235, 240}) ||
		!slices.Equal(sizes, []int{4}) {
		t.Errorf("windows at %v in batches of %v", starts, sizes)
	}
	if starts, sizes := first(2, 4, 3); !slices.Equal(starts, []int64{225, 233, 241}) ||
		!slices.Equal(sizes, []int{2, 1}) {
		t.Errorf("three windows at %v in batches of %v", starts, sizes)
	}
	if starts, _ := first(100, 24, 9); !slices.Equal(starts, []int64{225}) {
		t.Errorf("one window at %v", starts)
	}
	for range text.Validation(1, 4, 0) {
		break // leaving early is fine
	}
}

// Decoding gives back what was encoded.
func FuzzText(f *testing.F) {
	f.Add([]byte("hello wörld"), false)
	f.Add([]byte("\xff\xfe"), true)
	f.Add([]byte("\uFFFD"), false)
	f.Fuzz(func(t *testing.T, corpus []byte, chars bool) {
		level := Bytes
		if chars {
			level = Chars
		}
		text, err := NewText(corpus, level)
		if err != nil {
			return
		}
		tokens, err := text.Encode(string(corpus))
		if err != nil {
			t.Fatal(err)
		}
		if got := text.Decode(tokens...); got != string(corpus) {
			t.Errorf("%q became %q", corpus, got)
		}
		if n := text.TrainLen() + text.ValidationLen(); n != len(tokens) || text.TrainLen() != n*9/10 {
			t.Errorf("%d tokens in %d + %d", len(tokens), text.TrainLen(), text.ValidationLen())
		}
	})
}
