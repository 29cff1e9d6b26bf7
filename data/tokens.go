package data

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Tokens is a [Source] of windows of tokens from files of integers of 16 or 32 bits: example i are context tokens and
// the one that follows them. Windows follow each other with one token in common, so that each token but the first of a
// file is predicted once; what is left at the end of a file, and is less than a window, is left out.
type Tokens struct {
	context int
	shards  []shard
}

// shard is a file of tokens.
type shard struct {
	*opened
	begin int64 // of the first token, in bytes
	width int64 // of a token, in bytes
	n     int64 // tokens
	end   int   // windows up to the end of this shard
}

// The headers of llm.c: 256 integers of 32 bits, of which the first three say what is in the file.
const (
	tokenHeader  = 1024
	tokenMagic16 = 20240520 // version 1: GPT-2, 2 bytes
	tokenMagic32 = 20240801 // version 7: Llama 3, 4 bytes
)

// Tokens32 says that files of tokens without a header have 4 bytes a token, not 2.
func Tokens32() ReadOption { return ReadOption{func(r *reading) { r.tokens32 = true }} }

// OpenTokens opens files of tokens, little-endian: those without a header, as nanoGPT makes them, which have 2 bytes a
// token unless [Tokens32] says otherwise, and those with the header of llm.c, which tells. Windows are read when they
// are asked for. Plain files are mapped into memory on Linux and macOS, those compressed with gzip are held there. A
// file that is not what it says, or has less than one window, is a [*FormatError].
func OpenTokens(paths []string, context int, options ...ReadOption) (*Tokens, error) {
	if context < 1 || context > 1<<30 {
		return nil, fmt.Errorf("data: OpenTokens: a context of %d tokens, want 1 to 2^30", context)
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("data: OpenTokens: no files")
	}
	t := &Tokens{context: context}
	for _, path := range paths {
		file, err := openAt(path, options)
		if err != nil {
			t.Close()
			return nil, err
		}
		file.mapIn()
		s := shard{opened: file}
		t.shards = append(t.shards, s)
		if err := t.open(&t.shards[len(t.shards)-1], readingOf(options)); err != nil {
			t.Close()
			return nil, err
		}
	}
	return t, nil
}

// open reads the header of a file.
func (t *Tokens) open(s *shard, options reading) error {
	s.width = 2
	if options.tokens32 {
		s.width = 4
	}
	var head [12]byte
	if s.size >= tokenHeader {
		if err := s.read(head[:], 0, "header"); err != nil {
			return err
		}
	}
	magic, version := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	switch {
	case magic == tokenMagic16 && version == 1:
		s.begin, s.width = tokenHeader, 2
	case magic == tokenMagic32 && version == 7:
		s.begin, s.width = tokenHeader, 4
	case magic == tokenMagic16 || magic == tokenMagic32:
		return s.bad(4, "version", fmt.Sprint(version), "1 of GPT-2's tokens, or 7 of Llama 3's")
	}
	s.n = (s.size - s.begin) / s.width
	if s.begin > 0 {
		if n := int64(binary.LittleEndian.Uint32(head[8:])); (s.size - s.begin) != n*s.width {
			return s.bad(8, "size", fmt.Sprintf("%d bytes after the header", s.size-s.begin),
				fmt.Sprintf("%d for %d tokens", n*s.width, n))
		}
	} else if s.size%s.width != 0 {
		return s.bad(s.size-s.size%s.width, "size", fmt.Sprintf("%d bytes", s.size),
			fmt.Sprintf("whole tokens of %d bytes", s.width))
	}
	windows := (s.n - 1) / int64(t.context)
	if windows < 1 {
		return s.bad(-1, "size", fmt.Sprintf("%d tokens", s.n), fmt.Sprintf("at least %d, one window", t.context+1))
	}
	s.end = t.Len() + int(windows)
	return nil
}

// Len is the number of windows.
func (t *Tokens) Len() int {
	if t == nil {
		return 0
	}
	n := 0
	for _, s := range t.shards {
		n = max(n, s.end)
	}
	return n
}

// At is window i: context+1 tokens. An i outside [0, Len) is an error.
func (t *Tokens) At(i int) ([]int64, error) {
	if err := wantExample("window", i, t.Len()); err != nil {
		return nil, err
	}
	k, first := 0, 0
	for i >= t.shards[k].end {
		first = t.shards[k].end
		k++
	}
	s := &t.shards[k]
	raw, err := grown[byte](nil, int(s.width)*(t.context+1))
	if err != nil {
		return nil, fmt.Errorf("%s: window %d: %w", s.name, i, err)
	}
	raw = raw[:cap(raw)]
	offset := s.begin + int64(i-first)*int64(t.context)*s.width
	if err := s.read(raw, offset, fmt.Sprintf("window %d", i)); err != nil {
		return nil, err
	}
	tokens, err := grown[int64](nil, t.context+1)
	if err != nil {
		return nil, fmt.Errorf("%s: window %d: %w", s.name, i, err)
	}
	tokens = tokens[:cap(tokens)]
	for j := range tokens {
		if s.width == 2 {
			tokens[j] = int64(binary.LittleEndian.Uint16(raw[2*j:]))
		} else {
			tokens[j] = int64(binary.LittleEndian.Uint32(raw[4*j:]))
		}
	}
	return tokens, nil
}

// Close closes the files. At must not be called afterwards.
func (t *Tokens) Close() error {
	if t == nil {
		return nil
	}
	var first error
	for _, s := range t.shards {
		if err := s.Close(); first == nil {
			first = err
		}
	}
	return first
}

// Fingerprint has the names, sizes and times of change of the files.
func (t *Tokens) Fingerprint() string {
	if t == nil {
		return ""
	}
	var all []string
	for _, s := range t.shards {
		all = append(all, s.fingerprint)
	}
	return hashed(strings.Join(all, "\n"))
}

// TokenBatch is the function for [Batches] that makes windows of tokens into X int64[B context] and Y int64[B
// context], the token that follows each of X. All windows must have the same length, at least 2.
func TokenBatch(windows [][]int64) (b Batch, err error) {
	if len(windows) == 0 || len(windows[0]) < 2 {
		return b, fmt.Errorf("data: a batch needs at least one window of 2 tokens")
	}
	context := len(windows[0]) - 1
	for i, w := range windows {
		if len(w) != context+1 {
			return b, fmt.Errorf("data: window %d of the batch has %d tokens, the first one %d", i, len(w), context+1)
		}
	}
	batchX, x, err := unset[int64](len(windows), context)
	if err != nil {
		return b, err
	}
	batchY, y, err := unset[int64](len(windows), context)
	if err != nil {
		return b, err
	}
	for i, w := range windows {
		copy(x[i*context:(i+1)*context], w)
		copy(y[i*context:(i+1)*context], w[1:])
	}
	return Batch{X: batchX, Y: batchY}, nil
}
