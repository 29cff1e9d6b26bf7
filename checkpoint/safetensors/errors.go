package safetensors

import (
	"cmp"
	"fmt"
)

// FormatError says what a file holds that its format, or this library, does not allow. The message is
// "model.safetensors: byte 58: data_offsets of "w": found [0, 8], want 24 bytes for F32[2 3]".
type FormatError struct {
	Format string // such as "npy"; "" stands for safetensors
	File   string // the file's path; "" if it came from [Open]
	Offset int64  // of the part that is wrong, in bytes; -1 if it is the file as a whole
	What   string // the part that is wrong, such as "header size"
	Found  string // what the file says
	Want   string // what would be right
	Err    error  // the cause, such as io.ErrUnexpectedEOF for a file that ends too early; may be nil
}

// Error is the message.
func (e *FormatError) Error() string {
	s := fmt.Sprintf("%s: found %s, want %s", e.What, e.Found, e.Want)
	if e.Offset >= 0 {
		s = fmt.Sprintf("byte %d: %s", e.Offset, s)
	}
	s = cmp.Or(e.File, e.Format, "safetensors") + ": " + s
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *FormatError) Unwrap() error { return e.Err }

// quote is a name for an error message: quoted, and cut where it is long.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%.80q... of %d bytes", s, len(s))
	}
	return fmt.Sprintf("%q", s)
}
