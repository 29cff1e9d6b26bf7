package golden

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// formatVersion is the only value of the "format" field that is understood.
	formatVersion = 1

	// maxBytes bounds the uncompressed size of a file, so that a damaged one
	// cannot fill the memory.
	maxBytes = 64 << 20
)

// File is one golden file, completely read and checked.
type File struct {
	Script string            // program that wrote the file, from the repository's root
	Torch  string            // version of PyTorch that computed the values
	Notes  map[string]string // remarks for readers, by topic
	Cases  []Case            // operations to check, in the order of the script

	arrays map[string]Array
}

// Array is one named array of a file.
type Array struct {
	DType string // "float64", "float32", "int64", "int32", "uint8" or "bool"
	Shape []int  // sizes of the axes, outermost first; empty for a scalar
	Data  any    // []float64, []float32, []int64, []int32, []uint8 or []bool
}

// Open reads the named file of testdata/goldens. The folder is found from the
// working directory upwards, as tests run in the folder of their package.
func Open(name string) (*File, error) {
	dir, err := folder()
	if err != nil {
		return nil, err
	}
	return Load(filepath.Join(dir, name))
}

// Ops names the files that hold cases of single operations: ops.json.gz and
// ops_FAMILY.json.gz, in the order of their names. Without any it panics.
func Ops() (names []string) {
	dir, err := folder()
	if err != nil {
		panic(err)
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "ops*.json.gz"))
	if len(paths) == 0 {
		panic("golden: no ops*.json.gz in " + dir)
	}
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return names
}

// folder is testdata/goldens.
func folder() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("golden: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "testdata", "goldens"), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("golden: no go.mod in the working directory or above it")
		}
		dir = parent
	}
}

// Load reads and checks the file at path.
func Load(path string) (*File, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("golden: %w", err)
	}
	f, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("golden: %s: %w", path, err)
	}
	return f, nil
}

// parse decodes the bytes of a whole file.
func parse(raw []byte) (*File, error) {
	text, err := unzip(raw)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Format int
		Script string
		Torch  string
		Notes  map[string]string
		Arrays map[string]struct {
			DType string
			Shape []int
			Data  []byte // encoding/json decodes the base64
		}
		Cases []Case
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		var corrupt base64.CorruptInputError
		if errors.As(err, &corrupt) {
			return nil, fmt.Errorf("bad base64: %w", err)
		}
		return nil, fmt.Errorf("bad JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("bad JSON: more text after the end of the document")
	}
	if doc.Format != formatVersion {
		return nil, fmt.Errorf("format is %d; only %d is understood", doc.Format, formatVersion)
	}
	if doc.Script == "" || doc.Torch == "" {
		return nil, errors.New("header lacks the script or the PyTorch version")
	}
	f := &File{
		Script: doc.Script, Torch: doc.Torch, Notes: doc.Notes, Cases: doc.Cases,
		arrays: make(map[string]Array, len(doc.Arrays)),
	}
	for name, a := range doc.Arrays {
		data, err := decode(a.DType, a.Shape, a.Data)
		if err != nil {
			return nil, fmt.Errorf("array %q: %w", name, err)
		}
		f.arrays[name] = Array{DType: a.DType, Shape: a.Shape, Data: data}
	}
	for _, c := range f.Cases {
		if err := c.check(f); err != nil {
			return nil, fmt.Errorf("case %q: %w", c.Name, err)
		}
	}
	return f, nil
}

// unzip decompresses a file of at most maxBytes.
func unzip(raw []byte) ([]byte, error) {
	zr, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("bad gzip: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(zr, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("bad gzip: %w", err)
	}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("longer than %d bytes uncompressed", maxBytes)
	}
	return text, nil
}

// decode turns little-endian bytes into a slice of the element type.
func decode(dtype string, shape []int, raw []byte) (any, error) {
	switch dtype {
	case "float64":
		return elements[float64](shape, raw, 8)
	case "float32":
		return elements[float32](shape, raw, 4)
	case "int64":
		return elements[int64](shape, raw, 8)
	case "int32":
		return elements[int32](shape, raw, 4)
	case "uint8":
		return elements[uint8](shape, raw, 1)
	case "bool":
		for i, b := range raw {
			if b > 1 {
				return nil, fmt.Errorf("element %d of a bool array is %d", i, b)
			}
		}
		return elements[bool](shape, raw, 1)
	}
	return nil, fmt.Errorf("unknown dtype %q", dtype)
}

// elements reads the elements of an array of the given shape.
func elements[T any](shape []int, raw []byte, size int) ([]T, error) {
	n := 1
	for _, d := range shape {
		if d < 0 {
			return nil, fmt.Errorf("shape %v has a negative size", shape)
		}
		if d > 0 && n > maxBytes/d {
			return nil, fmt.Errorf("shape %v is too large", shape)
		}
		n *= d
	}
	if len(raw) != n*size {
		return nil, fmt.Errorf("shape %v needs %d bytes, data hold %d", shape, n*size, len(raw))
	}
	out := make([]T, n)
	if _, err := binary.Decode(raw, binary.LittleEndian, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Names lists all arrays in alphabetical order.
func (f *File) Names() []string {
	return slices.Sorted(maps.Keys(f.arrays))
}

// Under lists the arrays whose name starts with prefix, with the prefix cut
// off, in alphabetical order: Under("gpt/f64/grad/") gives the parameters'
// names.
func (f *File) Under(prefix string) []string {
	var names []string
	for name := range f.arrays {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			names = append(names, rest)
		}
	}
	slices.Sort(names)
	return names
}

// Has reports whether the file holds an array of that name.
func (f *File) Has(name string) bool {
	_, ok := f.arrays[name]
	return ok
}

// Array returns the named array; it panics if there is none. The caller must
// not change the data.
func (f *File) Array(name string) Array {
	a, ok := f.arrays[name]
	if !ok {
		panic(fmt.Sprintf("golden: no array %q", name))
	}
	return a
}

// Float64 returns the elements and the shape of a float64 array. Like the
// other typed readers it panics if the array is missing or of another type: a
// test then names a value that its file does not hold.
func (f *File) Float64(name string) ([]float64, []int) { return typed[float64](f, name) }

// Float32 returns the elements and the shape of a float32 array.
func (f *File) Float32(name string) ([]float32, []int) { return typed[float32](f, name) }

// Int64 returns the elements and the shape of an int64 array.
func (f *File) Int64(name string) ([]int64, []int) { return typed[int64](f, name) }

// Bool returns the elements and the shape of a bool array.
func (f *File) Bool(name string) ([]bool, []int) { return typed[bool](f, name) }

// typed returns copies, so that no test can change what the next one reads.
func typed[T any](f *File, name string) ([]T, []int) {
	a := f.Array(name)
	data, ok := a.Data.([]T)
	if !ok {
		panic(fmt.Sprintf("golden: array %q is %s, not %T", name, a.DType, *new(T)))
	}
	return slices.Clone(data), slices.Clone(a.Shape)
}

// Values returns the elements of an array of any type as float64 (false is 0,
// true is 1), and its shape. It panics on an int64 that float64 cannot hold.
func (f *File) Values(name string) ([]float64, []int) {
	a := f.Array(name)
	var out []float64
	switch data := a.Data.(type) {
	case []float64:
		out = slices.Clone(data)
	case []float32:
		out = widen(data)
	case []int64:
		for _, v := range data {
			// The largest int64 rounds up to 2^63, which some processors saturate back.
			if int64(float64(v)) != v || v == math.MaxInt64 {
				panic(fmt.Sprintf("golden: array %q: float64 cannot hold %d", name, v))
			}
		}
		out = widen(data)
	case []int32:
		out = widen(data)
	case []uint8:
		out = widen(data)
	case []bool:
		out = make([]float64, len(data))
		for i, v := range data {
			if v {
				out[i] = 1
			}
		}
	}
	return out, slices.Clone(a.Shape)
}

func widen[T float32 | int64 | int32 | uint8](data []T) []float64 {
	out := make([]float64, len(data))
	for i, v := range data {
		out[i] = float64(v)
	}
	return out
}
