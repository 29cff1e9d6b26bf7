package data

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// columns is how the columns of a CSV file become a value.
type columns struct {
	names  []string // of all in the file
	fields []field  // none: the value is the record itself
}

// field is a field of a struct and the columns that it takes.
type field struct {
	index   []int
	columns []int
	slice   bool
	parse   func(v reflect.Value, text string) error
	want    string // in words
}

// newColumns finds the columns of values of type t by their names. The error is a [*FormatError] if names are missing.
func newColumns(t reflect.Type, names []string) (columns, error) {
	c := columns{names: names}
	if t == reflect.TypeFor[[]string]() {
		return c, nil
	}
	if t.Kind() != reflect.Struct {
		return c, fmt.Errorf("data: OpenCSV: rows become structs or []string, not %v", t)
	}
	taken := make([]bool, len(names))
	rest := -1
	for _, f := range reflect.VisibleFields(t) {
		tag, tagged := f.Tag.Lookup("csv")
		if f.Anonymous && f.Type.Kind() == reflect.Pointer {
			return c, fmt.Errorf("data: OpenCSV: %v embeds a pointer, %v", t, f.Type)
		}
		if !f.IsExported() || f.Anonymous || tag == "-" {
			continue
		}
		in := field{index: f.Index}
		of := f.Type
		if of.Kind() == reflect.Slice && !isText(of) {
			in.slice, of = true, of.Elem()
		}
		if in.parse, in.want = parser(of); in.parse == nil {
			return c, fmt.Errorf("data: OpenCSV: field %s of %v cannot hold a column: %v", f.Name, t, f.Type)
		}
		first, last, several := strings.Cut(tag, "..")
		switch {
		case in.slice && tag == "*" && rest < 0:
			rest = len(c.fields)
		case in.slice && !several:
			return c, fmt.Errorf("data: OpenCSV: field %s of %v is a slice: its tag must say which columns it takes, "+
				"such as `csv:\"first..last\"`, or, of one field, `csv:\"*\"` for all others", f.Name, t)
		case in.slice:
			from, to := slices.Index(names, first), slices.Index(names, last)
			if from < 0 || to < from {
				return c, missing(names, fmt.Sprintf("columns from %q to %q for the field %s", first, last, f.Name))
			}
			for i := from; i <= to; i++ {
				in.columns = append(in.columns, i)
			}
		default:
			if !tagged || tag == "" {
				tag = f.Name
			}
			at := slices.Index(names, tag)
			if at < 0 && !tagged {
				at = slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, tag) })
			}
			if at < 0 {
				return c, missing(names, fmt.Sprintf("a column %q for the field %s", tag, f.Name))
			}
			in.columns = []int{at}
		}
		for _, i := range in.columns {
			taken[i] = true
		}
		c.fields = append(c.fields, in)
	}
	if rest >= 0 {
		for i := range names {
			if !taken[i] {
				c.fields[rest].columns = append(c.fields[rest].columns, i)
			}
		}
	}
	if len(c.fields) == 0 {
		return c, fmt.Errorf("data: OpenCSV: %v has no field that takes a column", t)
	}
	return c, nil
}

// missing is the error of names that lack some.
func missing(names []string, want string) error {
	return &FormatError{What: "header", Found: fmt.Sprintf("%.300q", names), Want: want}
}

// set gives v the values of a record.
func (c *columns) set(v reflect.Value, record []string) *FormatError {
	if len(c.fields) == 0 {
		v.Set(reflect.ValueOf(slices.Clone(record)))
		return nil
	}
	for _, f := range c.fields {
		to, k, err := v, 0, error(nil)
		for _, i := range f.index {
			to = to.Field(i)
		}
		switch p := to.Addr().Interface().(type) {
		case *[]float64:
			k, err = parseFloats(p, f.columns, record, 64)
		case *[]float32:
			k, err = parseFloats(p, f.columns, record, 32)
		default:
			if f.slice {
				to.Grow(len(f.columns))
				to.SetLen(len(f.columns))
			}
			for k = 0; k < len(f.columns) && err == nil; k++ {
				at := to
				if f.slice {
					at = to.Index(k)
				}
				err = f.parse(at, record[f.columns[k]])
			}
			k--
		}
		if err != nil {
			if e, ok := errors.AsType[*strconv.NumError](err); ok {
				err = e.Err // the text is told already
			}
			i := f.columns[k]
			return &FormatError{What: fmt.Sprintf("column %.60q", c.names[i]), Found: cut([]byte(record[i])),
				Want: f.want, Err: err}
		}
	}
	return nil
}

// parseFloats sets to to the numbers of columns. If one is none, it is the column of number k.
func parseFloats[E float32 | float64](to *[]E, columns []int, record []string, bits int) (k int, err error) {
	all := make([]E, len(columns))
	*to = all
	for k, i := range columns {
		x, err := strconv.ParseFloat(record[i], bits)
		if err != nil {
			x, err = strconv.ParseFloat(strings.TrimSpace(record[i]), bits) // rare
		}
		if err != nil {
			return k, err
		}
		all[k] = E(x)
	}
	return 0, nil
}

// isText tells whether values of a type read themselves from text.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// parser is how values of a type are read, and what they are in words; nil for other types.
func parser(t reflect.Type) (parse func(v reflect.Value, text string) error, want string) {
	if isText(t) {
		return func(v reflect.Value, text string) error {
			return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(strings.TrimSpace(text)))
		}, fmt.Sprint(t)
	}
	switch t.Kind() {
	case reflect.String:
		return func(v reflect.Value, text string) error { v.SetString(strings.Clone(text)); return nil }, "text"
	case reflect.Bool:
		return func(v reflect.Value, text string) error {
			b, err := strconv.ParseBool(strings.TrimSpace(text))
			v.SetBool(b)
			return err
		}, "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(v reflect.Value, text string) error {
			n, err := strconv.ParseInt(strings.TrimSpace(text), 10, t.Bits())
			v.SetInt(n)
			return err
		}, fmt.Sprintf("an integer of %d bits", t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return func(v reflect.Value, text string) error {
			n, err := strconv.ParseUint(strings.TrimSpace(text), 10, t.Bits())
			v.SetUint(n)
			return err
		}, fmt.Sprintf("an integer of %d bits that is not negative", t.Bits())
	case reflect.Float32, reflect.Float64:
		return func(v reflect.Value, text string) error {
			x, err := strconv.ParseFloat(strings.TrimSpace(text), t.Bits())
			v.SetFloat(x)
			return err
		}, "a number"
	}
	return nil, ""
}
