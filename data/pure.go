package data

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"reflect"
	"slices"

	"github.com/weft-ml/weft/tensor"
)

// CheckPure makes the first n examples of epoch 0 twice, the second time in reverse order unless they come in theirs
// only, and returns an error that names the first stage whose examples differ: it draws random numbers elsewhere than
// from [Sample], or keeps something between examples. Examples are compared by their values, also those of host tensors
// and of unexported fields; functions and channels count as equal. An error of an example is returned.
func CheckPure[T any](p *Pipeline[T], n int) error {
	if err := given(p).err; err != nil {
		return err
	}
	return checkStage(p.stage, n)
}

// checkStage is CheckPure of a stage, those it reads from first.
func checkStage(s *stage, n int) error {
	for _, f := range s.from {
		if err := checkStage(f, n); err != nil {
			return err
		}
	}
	wrong := func(i int) error {
		return fmt.Errorf("data: check pure: %s: example %d of epoch 0 is another one the second time: all its "+
			"random numbers must come from Sample.Random", s.name, i)
	}
	if s.seq != nil {
		first, err := s.list(n)
		if err != nil {
			return fmt.Errorf("data: check pure: %w", err)
		}
		again, err := s.list(n)
		for i, was := range first {
			if err != nil || i >= len(again) || again[i] != was {
				return wrong(i)
			}
		}
		return nil
	}
	if s.n != Forever {
		n = min(n, s.n)
	}
	made := func(i int) (sum [sha256.Size]byte, err error) {
		c := newCall(context.Background())
		c.guard(&err, func() error {
			x, err := s.probe(c, i)
			if err == nil {
				sum = digest(x)
			}
			return err
		})
		if err == errDropped {
			err = nil
		}
		return sum, err
	}
	var first [][sha256.Size]byte
	for i := range n {
		sum, err := made(i)
		if err != nil {
			return fmt.Errorf("data: check pure: %w", err)
		}
		first = append(first, sum)
	}
	for i, was := range slices.Backward(first) {
		if sum, err := made(i); err != nil || sum != was {
			return wrong(i)
		}
	}
	return nil
}

// listed are the digests of the first n examples of epoch 0.
func listed[T any](p *Pipeline[T], n int) (out [][sha256.Size]byte, err error) {
	w := newCrew(context.Background(), 0, 0, 0, math.MaxInt64)
	defer w.Close()
	in := read(opening{c: w.own, piece: 1}, p, 0, nil)
	for len(out) < n {
		d, err := in.next()
		if err == io.EOF {
			break
		}
		if err = errors.Join(err, d.err); err != nil {
			return nil, err
		}
		out = append(out, digest(d.x))
	}
	return out, nil
}

// digest is the hash of all values that x leads to.
func digest(x any) (sum [sha256.Size]byte) {
	h := sha256.New()
	writeValue(h, reflect.ValueOf(x), 0)
	h.Sum(sum[:0])
	return sum
}

// deepest is how far writeValue follows pointers and fields, so that it ends in a ring of pointers.
const deepest = 64

// writeValue writes a value's kind, sizes and content.
func writeValue(h hash.Hash, v reflect.Value, depth int) {
	number := func(n uint64) { h.Write(binary.LittleEndian.AppendUint64(nil, n)) }
	number(uint64(v.Kind()))
	if depth > deepest || !v.IsValid() {
		return
	}
	if v.Type() == reflect.TypeFor[*tensor.Tensor]() && !v.IsNil() {
		t := (*tensor.Tensor)(v.UnsafePointer())
		fmt.Fprint(h, t.DType(), t.Shape())
		h.Write(engine.Bytes(t.Contiguous()))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		fmt.Fprint(h, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		number(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		number(v.Uint())
	case reflect.Float32, reflect.Float64:
		fmt.Fprint(h, v.Float())
	case reflect.Complex64, reflect.Complex128:
		fmt.Fprint(h, v.Complex())
	case reflect.String:
		number(uint64(v.Len()))
		h.Write([]byte(v.String()))
	case reflect.Pointer, reflect.Interface:
		writeValue(h, v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		number(uint64(v.Len()))
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			h.Write(v.Bytes())
			return
		}
		for i := range v.Len() {
			writeValue(h, v.Index(i), depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			writeValue(h, v.Field(i), depth+1)
		}
	case reflect.Map:
		var entries []string // in the order of their hashes
		for _, key := range v.MapKeys() {
			entry := sha256.New()
			writeValue(entry, key, depth+1)
			writeValue(entry, v.MapIndex(key), depth+1)
			entries = append(entries, string(entry.Sum(nil)))
		}
		slices.Sort(entries)
		for _, e := range entries {
			h.Write([]byte(e))
		}
	}
}
