package safetensors

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A scanner reads the JSON of headers: objects, arrays, strings and whole numbers. Beside encoding/json it allocates
// nothing but strings with escapes, knows where it is, sees keys that come twice, and refuses what is no text.
//
// The first error stays; after it nothing is read.
type scanner struct {
	text string // valid UTF-8
	at   int    // the next byte
	base int64  // where the text begins in the file
	name string // of the tensor whose entry is read, for errors
	err  *FormatError
}

// newScanner is a scanner of a text that begins at offset base of its file, unless the text is no UTF-8.
func newScanner(text string, base int64) (*scanner, error) {
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) {
			return nil, &FormatError{Offset: base + int64(i), What: "text", Found: fmt.Sprintf("byte 0x%02x", text[i]),
				Want: "UTF-8"}
		}
	}
	return &scanner{text: text, base: base}, nil
}

// end makes sure that nothing but white space follows, and returns the first error.
func (s *scanner) end(what string) error {
	if s.peek(); s.at < len(s.text) {
		s.fail(s.at, what, s.here()+" after the last bracket", "spaces")
	}
	if s.err != nil {
		return s.err
	}
	return nil
}

// fail remembers an error at a place of the text.
func (s *scanner) fail(at int, what, found, want string) {
	if s.err == nil {
		if s.name != "" {
			what += " of " + quote(s.name)
		}
		s.err = &FormatError{Offset: s.base + int64(at), What: what, Found: found, Want: want}
		s.at = len(s.text)
	}
}

// peek is the next byte that is no white space; 0 at the end, and after an error.
func (s *scanner) peek() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// here says what comes next.
func (s *scanner) here() string {
	if s.at >= len(s.text) {
		return "the end of the header"
	}
	r, _ := utf8.DecodeRuneInString(s.text[s.at:])
	return strconv.QuoteRune(r)
}

// expect reads one byte.
func (s *scanner) expect(c byte, what string) {
	if s.peek() != c {
		s.fail(s.at, what, s.here(), strconv.QuoteRune(rune(c)))
		return
	}
	s.at++
}

// list reads what lies between two brackets; item reads one of the items.
func (s *scanner) list(open, end byte, what string, item func()) {
	s.expect(open, what)
	if s.peek() == end {
		s.at++
		return
	}
	for s.err == nil {
		item()
		if s.peek() == end {
			s.at++
			return
		}
		s.expect(',', what)
	}
}

// object reads an object; member reads the value of a key that was found at a place.
func (s *scanner) object(what string, member func(key string, at int)) {
	s.list('{', '}', what, func() {
		s.peek()
		at := s.at
		key := s.str(what)
		s.expect(':', what)
		if s.err == nil {
			member(key, at)
		}
	})
}

// integer reads a number of 0 to 2^63-1.
func (s *scanner) integer(what string) uint64 {
	s.peek()
	start := s.at
	n := uint64(0)
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		digit := uint64(s.text[s.at] - '0')
		if n > (math.MaxInt64-digit)/10 {
			s.fail(start, what, "2^63 or more", "less")
			return 0
		}
		n = 10*n + digit
		s.at++
	}
	switch digits := s.at - start; {
	case digits == 0:
		s.fail(start, what, s.here(), "a number without sign")
	case digits > 1 && s.text[start] == '0':
		s.fail(start, what, "a number that begins with 0", "a JSON number")
	case s.at < len(s.text) && strings.IndexByte(".eE", s.text[s.at]) >= 0:
		s.fail(start, what, "a fraction or an exponent", "a whole number, written out")
	}
	return n
}

// skip reads any value, with at most 64 levels of brackets.
func (s *scanner) skip(what string, depth int) {
	switch c := s.peek(); {
	case depth == 64:
		s.fail(s.at, what, "more brackets in brackets", "at most 64")
	case c == '{':
		s.object(what, func(string, int) { s.skip(what, depth+1) })
	case c == '[':
		s.list('[', ']', what, func() { s.skip(what, depth+1) })
	case c == '"':
		s.str(what)
	default:
		start := s.at
		for s.at < len(s.text) && strings.IndexByte(",]} \t\r\n", s.text[s.at]) < 0 {
			s.at++
		}
		if !json.Valid([]byte(s.text[start:s.at])) {
			s.fail(start, what, quote(s.text[start:s.at]), "a value")
		}
	}
}

// str reads a string. It shares the memory of the text unless it has escapes.
func (s *scanner) str(what string) string {
	if s.peek() != '"' {
		s.fail(s.at, what, s.here(), "a string")
		return ""
	}
	start, backslash := s.at+1, false
	for end := start; end < len(s.text); end++ {
		switch c := s.text[end]; {
		case c == '"':
			s.at = end + 1
			if backslash {
				return s.unescape(start, end, what)
			}
			return s.text[start:end]
		case c == '\\':
			backslash = true
			end++
		case c < ' ':
			s.fail(end, what, strconv.QuoteRune(rune(c)), "an escape in its place")
			return ""
		}
	}
	s.fail(s.at, what, "a string without end", `"`)
	return ""
}

// In strings a backslash and one of the letters stand for one of these bytes. A slash needs no backslash, and may have
// one.
const (
	letters = `"\bfnrt` + "/"
	escaped = "\"\\\b\f\n\r\t" + "/"
)

// unescape is the part of the text from start to end without its escapes. It becomes no longer by that.
func (s *scanner) unescape(start, end int, what string) string {
	var out strings.Builder
	out.Grow(end - start)
	for raw := s.text[start:end]; raw != ""; {
		plain := strings.IndexByte(raw, '\\')
		if plain < 0 {
			out.WriteString(raw)
			break
		}
		out.WriteString(raw[:plain])
		raw = raw[plain:]
		if i := strings.IndexByte(letters, raw[1]); i >= 0 {
			out.WriteByte(escaped[i])
			raw = raw[2:]
			continue
		}
		r, n := unicodeEscape(raw)
		if n == 0 {
			s.fail(end-len(raw), what, fmt.Sprintf("%.12q", raw), `an escape of JSON, surrogates in pairs`)
			return ""
		}
		out.WriteRune(r)
		raw = raw[n:]
	}
	return out.String()
}

// unicodeEscape reads \uXXXX, or two of them for a surrogate pair, and returns how many bytes they are; 0 if they stand
// for no character.
func unicodeEscape(text string) (r rune, n int) {
	unit := func(text string) rune {
		if len(text) < 6 || text[:2] != `\u` {
			return -1
		}
		v, err := strconv.ParseUint(text[2:6], 16, 16)
		if err != nil {
			return -1
		}
		return rune(v)
	}
	r = unit(text)
	switch {
	case r < 0:
		return 0, 0
	case !utf16.IsSurrogate(r):
		return r, 6
	}
	if r = utf16.DecodeRune(r, unit(text[6:])); r == utf8.RuneError {
		return 0, 0
	}
	return r, 12
}
