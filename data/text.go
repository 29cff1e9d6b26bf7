package data

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"unicode/utf8"

	"github.com/weft-ml/weft/internal/philox"
)

// Level says what the tokens of a [Text] are.
type Level int

const (
	// Chars makes a token of every character (Unicode code point). The vocabulary is the sorted
	// characters of the corpus.
	Chars Level = iota
	// Bytes makes a token of every byte, which is the byte's value. The vocabulary has 256 entries
	// whatever the corpus is, so any text can be encoded.
	Bytes
)

// Text is a corpus for language models: its tokens, the first 90 % to train with, the last 10 % for validation.
type Text struct {
	level  Level
	vocab  []rune         // Chars: the character of each token, ascending
	token  map[rune]int64 // Chars: the inverse of vocab
	tokens []int32
	train  int // tokens before the validation part
}

// ReadText reads a corpus from a regular file, plain or compressed with gzip; see [NewText].
func ReadText(path string, level Level, options ...ReadOption) (*Text, error) {
	file, info, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	src, err := unpack(path, file, info.Size(), readingOf(options))
	if err != nil {
		return nil, err
	}
	corpus, err := src.all()
	if err != nil {
		return nil, err
	}
	t, err := NewText(corpus, level)
	if f, ok := errors.AsType[*FormatError](err); ok {
		f.File = path
	}
	return t, err
}

// NewText encodes a corpus. With [Chars] it must be valid UTF-8, else the error is a [*FormatError]
// that gives the offset of the first wrong byte. An empty corpus is an error.
func NewText(corpus []byte, level Level) (*Text, error) {
	if len(corpus) == 0 {
		return nil, &FormatError{File: "text", Offset: -1, What: "size", Found: "0 bytes", Want: "at least 1"}
	}
	t := &Text{level: level}
	switch level {
	case Bytes:
		if err := t.makeTokens(len(corpus)); err != nil {
			return nil, err
		}
		for _, b := range corpus {
			t.tokens = append(t.tokens, int32(b))
		}
	case Chars:
		if err := t.encodeChars(corpus); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("data: text: unknown level %d, want Chars or Bytes", level)
	}
	t.train = len(t.tokens)/10*9 + len(t.tokens)%10*9/10
	return t, nil
}

// encodeChars builds the vocabulary and the tokens of a corpus of characters.
func (t *Text) encodeChars(corpus []byte) error {
	t.token = map[rune]int64{}
	n := 0
	for at := 0; at < len(corpus); n++ {
		c, size := utf8.DecodeRune(corpus[at:])
		if c == utf8.RuneError && size == 1 {
			return &FormatError{
				File: "text", Offset: int64(at), What: "character", Found: fmt.Sprintf("%#02x", corpus[at]),
				Want: "valid UTF-8 (the level Bytes takes any file)",
			}
		}
		t.token[c] = 0
		at += size
	}
	for c := range t.token {
		t.vocab = append(t.vocab, c)
	}
	slices.Sort(t.vocab)
	for i, c := range t.vocab {
		t.token[c] = int64(i)
	}
	if err := t.makeTokens(n); err != nil {
		return err
	}
	for _, c := range string(corpus) {
		t.tokens = append(t.tokens, int32(t.token[c]))
	}
	return nil
}

// makeTokens takes memory for n tokens.
func (t *Text) makeTokens(n int) (err error) {
	if t.tokens, err = grown[int32](nil, n); err != nil {
		err = fmt.Errorf("data: text of %d tokens: %w", n, err)
	}
	return err
}

// VocabSize is the number of different tokens: tokens are from 0 to VocabSize-1.
func (t *Text) VocabSize() int {
	engine.Given("text", "the text", t)
	if t.level == Bytes {
		return 256
	}
	return len(t.vocab)
}

// TrainLen is the number of tokens to train with, the first 90 %.
func (t *Text) TrainLen() int {
	engine.Given("text", "the text", t)
	return t.train
}

// ValidationLen is the number of tokens for validation, the last 10 %.
func (t *Text) ValidationLen() int {
	engine.Given("text", "the text", t)
	return len(t.tokens) - t.train
}

// Encode is the tokens of s. A character that the corpus does not have is an error that names it.
func (t *Text) Encode(s string) ([]int64, error) {
	engine.Given("text", "the text", t)
	tokens := make([]int64, 0, len(s))
	if t.level == Bytes {
		for i := range len(s) {
			tokens = append(tokens, int64(s[i]))
		}
		return tokens, nil
	}
	for at, c := range s {
		token, ok := t.token[c]
		if !ok {
			return nil, fmt.Errorf("data: text: character %q at byte %d does not occur in the corpus", c, at)
		}
		tokens = append(tokens, token)
	}
	return tokens, nil
}

// Decode is the text of tokens, the inverse of [Text.Encode]. Values that are no tokens become the
// replacement character U+FFFD.
func (t *Text) Decode(tokens ...int64) string {
	engine.Given("text", "the text", t)
	var out []byte
	for _, k := range tokens {
		switch {
		case k < 0 || k >= int64(t.VocabSize()):
			out = utf8.AppendRune(out, utf8.RuneError)
		case t.level == Bytes:
			out = append(out, byte(k))
		default:
			out = utf8.AppendRune(out, t.vocab[k])
		}
	}
	return string(out)
}

// Batch draws windows of the training part at random offsets: X int64[rows context] are tokens, Y
// int64[rows context] the token that follows each of them. The offsets are a pure function of (seed,
// step, row) and equally likely. It is an error if the training part is shorter than context+1.
func (t *Text) Batch(rows, context int, seed uint64, step int) (Batch, error) {
	engine.Given("text", "the text", t)
	part := t.tokens[:t.train]
	if err := checkWindows("training", len(part), rows, context); err != nil {
		return Batch{}, err
	}
	offsets := uint64(len(part) - context)
	words := source(forText, seed, uint64(step))
	return windows(part, rows, context, func(row int) int {
		return int(philox.Below(words.Uint64(uint64(row)), offsets))
	})
}

// Validation is the validation part in windows of context tokens that do not overlap, in order, rows of them in a
// batch; X and Y are as in [Text.Batch]. The last batch may have fewer rows, so weight batches by their rows to get the
// mean over all windows. At most limit windows are used, spread evenly; 0 means all. The sequence is the same each
// time. If the validation part is shorter than context+1, the sequence is one error.
func (t *Text) Validation(rows, context, limit int) iter.Seq2[Batch, error] {
	engine.Given("text", "the text", t)
	return func(yield func(Batch, error) bool) {
		part := t.tokens[t.train:]
		if err := checkWindows("validation", len(part), rows, context); err != nil {
			yield(Batch{}, err)
			return
		}
		all := (len(part) - 1) / context
		used := all
		if limit > 0 {
			used = min(limit, all)
		}
		rows := min(rows, used) // so that first does not overflow
		for first, k := 0, 0; first < used; first, k = first+rows, k+1 {
			batch, err := windows(part, min(rows, used-first), context, func(row int) int {
				return (first + row) * all / used * context
			})
			batch.Index = k
			if !yield(batch, err) || err != nil {
				return
			}
		}
	}
}

// checkWindows makes sure that a part of n tokens has at least one window.
func checkWindows(part string, n, rows, context int) error {
	switch {
	case rows < 1:
		return fmt.Errorf("data: text: %d rows in a batch, want at least 1", rows)
	case context < 1:
		return fmt.Errorf("data: text: a context of %d tokens, want at least 1", context)
	case n <= context:
		return fmt.Errorf("data: text: the %s part has %d tokens, a context of %d needs at least %d",
			part, n, context, context+1)
	}
	return nil
}

// windows copies context tokens from the start of each row on, and the token that follows each of them.
func windows(part []int32, rows, context int, start func(row int) int) (Batch, error) {
	batchX, x, err := unset[int64](rows, context)
	if err != nil {
		return Batch{}, err
	}
	batchY, y, err := unset[int64](rows, context)
	if err != nil {
		return Batch{}, err
	}
	for row := range rows {
		at, tokens := row*context, part[start(row):]
		for i := range context {
			x[at+i], y[at+i] = int64(tokens[i]), int64(tokens[i+1])
		}
	}
	return Batch{X: batchX, Y: batchY}, nil
}
