package npy

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-ml/weft/checkpoint/safetensors"
)

// types are the elements in headers, in little-endian order or of one byte.
var types = map[string]safetensors.DType{
	"|b1": safetensors.BOOL, "|i1": safetensors.I8, "|u1": safetensors.U8, "<i2": safetensors.I16,
	"<u2": safetensors.U16, "<i4": safetensors.I32, "<u4": safetensors.U32, "<i8": safetensors.I64,
	"<u8": safetensors.U64, "<f2": safetensors.F16, "<f4": safetensors.F32, "<f8": safetensors.F64,
	"<c8": safetensors.C64,
}

// The header is {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } and spaces. An item ends with a comma, or
// with the dictionary.
var (
	item  = regexp.MustCompile(`^ *'(\w+)' *: *('[^'\\]*'|True|False|\([0-9, ]*\)) *(,|$)`)
	sizes = regexp.MustCompile(`^\( *((0|[1-9][0-9]*) *, *)*(0|[1-9][0-9]*)? *\)$`)
)

// parseHeader reads the text of a header. The tensor has a type and a shape.
func parseHeader(text string) (t safetensors.Tensor, columnMajor bool, err error) {
	bad := func(what, found, want string) error { return fault(what, fmt.Sprintf("%.60q", found), want) }
	rest, opened := strings.CutPrefix(strings.TrimRight(text, " \n"), "{")
	rest, closed := strings.CutSuffix(rest, "}")
	if !opened || !closed {
		return t, false, bad("header", text, "a dictionary in braces")
	}
	seen := map[string]bool{}
	for rest = strings.TrimRight(rest, " "); rest != ""; {
		m := item.FindStringSubmatch(rest)
		if m == nil {
			return t, false, bad("header", rest, "a key and its value: no records, no objects")
		}
		rest = rest[len(m[0]):]
		key, value := m[1], m[2]
		if seen[key] {
			return t, false, bad("header", key+" for a second time", "each key once")
		}
		seen[key] = true
		switch {
		case key == "descr" && strings.HasPrefix(value, "'>"):
			return t, false, bad("descr", value+": big-endian", "little-endian, which x.astype('<f4') makes")
		case key == "descr" && types[strings.Trim(value, "'")] != 0:
			t.DType = types[strings.Trim(value, "'")]
		case key == "fortran_order" && (value == "True" || value == "False"):
			columnMajor = value == "True"
		case key == "shape" && sizes.MatchString(value):
			t.Shape, err = parseShape(value)
		default:
			err = bad(key, value, "a type such as '<f4', an order and a shape")
		}
		if err != nil {
			return t, false, err
		}
	}
	if len(seen) != 3 {
		return t, false, bad("header", text, "the keys descr, fortran_order and shape")
	}
	return t, columnMajor, nil
}

// parseShape reads the sizes of (3, 4).
func parseShape(text string) ([]int, error) {
	shape := []int{}
	for _, digits := range strings.FieldsFunc(text, func(r rune) bool { return r < '0' }) {
		n, err := strconv.Atoi(digits)
		if err != nil || len(shape) == safetensors.MaxRank {
			return nil, fault("shape", fmt.Sprintf("%.60q", text), fmt.Sprintf("at most %d axes, each less than 2^63",
				safetensors.MaxRank))
		}
		shape = append(shape, n)
	}
	return shape, nil
}

// encodeHeader is all that comes before the data, padded to 64 bytes.
func encodeHeader(t safetensors.Tensor) ([]byte, error) {
	descr := ""
	for name, d := range types {
		if d == t.DType {
			descr = name
		}
	}
	if descr == "" || t.Bytes() < 0 {
		return nil, fmt.Errorf("npy: %.80q: NumPy has no array of type %v and shape %v", t.Name, t.DType, t.Shape)
	}
	shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(t.Shape), " ", ", "), "[]")
	if len(t.Shape) == 1 {
		shape += ","
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape)
	text += strings.Repeat(" ", 63-(10+len(text))%64) + "\n"
	return slices.Concat([]byte(magic), []byte{1, 0, byte(len(text)), byte(len(text) >> 8)}, []byte(text)), nil
}
