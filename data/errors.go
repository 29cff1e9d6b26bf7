package data

import (
	"fmt"
)

// FormatError says what a file holds that its format, or the data set it should belong to, does not
// allow. The message is "train-images-idx3-ubyte: byte 3: rank: found 9, want 1 to 8 axes".
type FormatError struct {
	File   string // the file's path, or a name for data that came from elsewhere
	Offset int64  // of the part that is wrong, in bytes of the unpacked file; -1 if it is the file as a whole
	What   string // the part of the file that is wrong: "magic", "rank", "shape", "size", ...
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
	s = e.File + ": " + s
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *FormatError) Unwrap() error { return e.Err }

// checkIndices makes sure that every index names one of n examples.
func checkIndices(indices []int, n int) error {
	if len(indices) == 0 {
		return fmt.Errorf("data: a batch needs at least one index")
	}
	for k, i := range indices {
		if i < 0 || i >= n {
			return fmt.Errorf("data: index %d (number %d of the batch) is outside [0, %d)", i, k, n)
		}
	}
	return nil
}

// checkCount makes sure that n values are whole examples of the given shape, and returns how many.
func checkCount(what string, n int, shape []int) (int, error) {
	size := 1
	for _, d := range shape {
		if d < 1 {
			return 0, fmt.Errorf("data: %s: example shape %v, want every size at least 1", what, shape)
		}
		if size > n/d {
			return 0, fmt.Errorf("data: %s: %d values are not even one example of shape %v", what, n, shape)
		}
		size *= d
	}
	if n == 0 || n%size != 0 {
		return 0, fmt.Errorf("data: %s: %d values are not a whole number of examples of shape %v, %d values each",
			what, n, shape, size)
	}
	return n / size, nil
}
