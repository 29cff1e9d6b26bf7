package parquet

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/format"
	"github.com/weft-ml/weft/data"
)

// field is a field of a struct and the columns that it takes.
type field struct {
	name    string
	index   []int
	columns []column
	several bool // a slice of one value of each column
	list    bool // a slice of the values of one column
	pointer bool // nil where there is no value
}

// column is a column that a field takes.
type column struct {
	leaf int
	set  func(to reflect.Value, v *values, k int) bool // false: the value does not fit
	want string
}

var bytesType = reflect.TypeFor[[]byte]()

// bind finds the columns of values of type t by their names.
func (f *file) bind(t reflect.Type) ([]field, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("data/parquet: rows become structs, not %v", t)
	}
	var fields []field
	taken := make([]bool, len(f.leaves))
	rest := -1
	for _, in := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(in.Tag.Get("parquet"), ",") // as parquet-go has them, for what writes
		if in.Anonymous && in.Type.Kind() == reflect.Pointer {
			return nil, fmt.Errorf("data/parquet: %v embeds a pointer, %v", t, in.Type)
		}
		if !in.IsExported() || in.Anonymous || tag == "-" {
			continue
		}
		to := field{name: in.Name, index: in.Index}
		first, last, several := strings.Cut(tag, "..")
		slice := in.Type.Kind() == reflect.Slice && in.Type != bytesType
		var leaves []int
		switch {
		case slice && tag == "*" && rest < 0:
			rest = len(fields)
			to.several = true
		case slice && several:
			from, until := f.find(first, false), f.find(last, false)
			if from < 0 || until < from {
				return nil, f.missing(fmt.Sprintf("columns from %q to %q for the field %s", first, last, in.Name))
			}
			for i := from; i <= until; i++ {
				leaves = append(leaves, i)
			}
			to.several = true
		default:
			fold := tag == ""
			if fold {
				tag = in.Name
			}
			i := f.find(tag, fold)
			if i < 0 {
				return nil, f.missing(fmt.Sprintf("a column %q for the field %s", tag, in.Name))
			}
			leaves = append(leaves, i)
			to.list = f.leaves[i].maxRep > 0
		}
		fields = append(fields, to)
		if err := f.take(t, &fields[len(fields)-1], leaves, taken); err != nil {
			return nil, err
		}
	}
	if rest >= 0 {
		var leaves []int
		for i := range f.leaves {
			if !taken[i] {
				leaves = append(leaves, i)
			}
		}
		if err := f.take(t, &fields[rest], leaves, taken); err != nil {
			return nil, err
		}
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("data/parquet: %v has no field that takes a column", t)
	}
	return fields, nil
}

// take gives a field of type t columns.
func (f *file) take(t reflect.Type, to *field, leaves []int, taken []bool) error {
	of := t.FieldByIndex(to.index).Type
	wrong := func(l *leaf) error {
		list := ""
		if l.maxRep > 0 {
			list = strings.Repeat("lists of ", l.maxRep)
		}
		return f.bad(-1, fmt.Sprintf("column %.60q", l.path), fmt.Sprintf("%s%v", list, l.kind),
			fmt.Sprintf("what a field %s %v can hold", to.name, t.FieldByIndex(to.index).Type), nil)
	}
	switch {
	case to.list || to.several:
		if of.Kind() != reflect.Slice || of == bytesType {
			return wrong(&f.leaves[leaves[0]])
		}
		of = of.Elem()
	case of.Kind() == reflect.Pointer:
		to.pointer = true
		of = of.Elem()
	}
	for _, i := range leaves {
		l := &f.leaves[i]
		c := column{leaf: i}
		if c.set, c.want = setter(of, l); c.set == nil || l.maxRep > 1 || to.several && l.maxRep > 0 {
			return wrong(l)
		}
		to.columns = append(to.columns, c)
		taken[i] = true
	}
	return nil
}

// find is the column of a name or a path, -1 if there is none; fold does not tell upper case from lower.
func (f *file) find(name string, fold bool) int {
	for _, same := range []func(a, b string) bool{func(a, b string) bool { return a == b }, strings.EqualFold} {
		for _, l := range []func(leaf) bool{
			func(l leaf) bool { return same(l.path, name) }, func(l leaf) bool { return same(l.name, name) },
		} {
			if i := slices.IndexFunc(f.leaves, l); i >= 0 {
				return i
			}
		}
		if !fold {
			break
		}
	}
	return -1
}

// missing is the error of columns that are not there.
func (f *file) missing(want string) error {
	var names []string
	for _, l := range f.leaves {
		names = append(names, l.name)
	}
	return f.bad(-1, "columns", fmt.Sprintf("%.300q", names), want, nil)
}

// set gives a field of a struct the values of a row of a row group.
func (f *field) set(x reflect.Value, chunks map[int]*chunk, row int) error {
	to := x.FieldByIndex(f.index)
	if f.several {
		to.Grow(len(f.columns))
		to.SetLen(len(f.columns))
	}
	for i := range f.columns {
		c := &f.columns[i]
		chunk := chunks[c.leaf]
		b, err := chunk.at(row)
		if err != nil {
			return err
		}
		k := row - b.first
		from, n := k, 1
		if b.start != nil {
			from, n = int(b.start[k]), int(b.start[k+1]-b.start[k])
		}
		at := to
		switch {
		case f.list && b.holes[k]:
			return chunk.bad(-1, chunk.what(), "a list in which values are missing", "none missing", nil)
		case f.list:
			if err := c.setList(to, chunk, b, from, n); err != nil {
				return err
			}
			continue
		case n == 0 && f.pointer:
			continue
		case n == 0:
			return chunk.bad(-1, chunk.what(), "no value", fmt.Sprintf("%s, or a field that is a pointer", c.want), nil)
		case f.pointer:
			to.Set(reflect.New(to.Type().Elem()))
			at = to.Elem()
		case f.several:
			at = to.Index(i)
		}
		if err := c.setOne(at, chunk, b.parts[0].values, from-b.parts[0].first); err != nil {
			return err
		}
	}
	return nil
}

// setOne sets a value.
func (c *column) setOne(to reflect.Value, chunk *chunk, v *values, k int) error {
	if v.dict != nil {
		v, k = v.dict, int(v.index[k])
	}
	if !c.set(to, v, k) {
		return chunk.bad(-1, chunk.what(), v.show(k), c.want, nil)
	}
	return nil
}

// setList sets a slice to n values.
func (c *column) setList(to reflect.Value, chunk *chunk, b *block, from, n int) error {
	total := 0
	i, found := slices.BinarySearchFunc(b.parts, from, func(p part, from int) int { return p.first - from })
	if !found {
		i-- // parts[0].first is 0
	}
	if !copied(to, b.parts[i].values, from-b.parts[i].first, n) {
		to.Grow(n)
		to.SetLen(n)
		for k := range n {
			for i+1 < len(b.parts) && b.parts[i+1].first <= from+k {
				i++
			}
			if err := c.setOne(to.Index(k), chunk, b.parts[i].values, from+k-b.parts[i].first); err != nil {
				return err
			}
			if kind := to.Index(k).Kind(); kind == reflect.String || kind == reflect.Slice {
				if total += to.Index(k).Len(); total > maxPage {
					return chunk.bad(-1, chunk.what(), fmt.Sprintf("a list of more than %d bytes", maxPage), "less",
						nil)
				}
			}
		}
	}
	return nil
}

// copied sets a slice of the numbers of a column at once, if they are all in v.
func copied(to reflect.Value, v *values, from, n int) bool {
	if v.index != nil || from+n > v.n || n == 0 {
		return false
	}
	switch p := to.Addr().Interface().(type) {
	case *[]float32:
		return clone(p, v.f32, from, n)
	case *[]float64:
		return clone(p, v.f64, from, n)
	case *[]int32:
		return clone(p, v.i32, from, n)
	case *[]int64:
		return clone(p, v.i64, from, n)
	}
	return false
}

func clone[E any](to *[]E, all []E, from, n int) bool {
	if len(all) == 0 {
		return false
	}
	*to = slices.Clone(all[from : from+n])
	return true
}

// show is a value for an error.
func (v *values) show(k int) string {
	switch {
	case v.i32 != nil:
		return fmt.Sprint(v.i32[k])
	case v.i64 != nil:
		return fmt.Sprint(v.i64[k])
	}
	return "a value"
}

// setter is how values of a column become values of type t, and what they are in words; nil if they cannot.
func setter(t reflect.Type, l *leaf) (set func(to reflect.Value, v *values, k int) bool, want string) {
	text := l.kind == format.ByteArray || l.kind == format.FixedLenByteArray
	switch kind := t.Kind(); {
	case t == bytesType && text:
		return func(to reflect.Value, v *values, k int) bool {
			to.SetBytes(slices.Clone(v.bytesAt(k)))
			return true
		}, "bytes"
	case kind == reflect.String && text:
		return func(to reflect.Value, v *values, k int) bool { to.SetString(string(v.bytesAt(k))); return true }, "text"
	case kind == reflect.Bool && l.kind == format.Boolean:
		return func(to reflect.Value, v *values, k int) bool { to.SetBool(v.bools[k]); return true }, "true or false"
	case (kind == reflect.Float32 || kind == reflect.Float64) && l.kind == format.Float:
		return func(to reflect.Value, v *values, k int) bool { to.SetFloat(float64(v.f32[k])); return true }, "a number"
	case (kind == reflect.Float32 || kind == reflect.Float64) && l.kind == format.Double:
		return func(to reflect.Value, v *values, k int) bool { to.SetFloat(v.f64[k]); return true }, "a number"
	case l.kind != format.Int32 && l.kind != format.Int64:
		return nil, ""
	case kind >= reflect.Int && kind <= reflect.Int64:
		return func(to reflect.Value, v *values, k int) bool {
			x := v.integer(k, l.unsigned)
			to.SetInt(x)
			return !to.OverflowInt(x) && (x >= 0 || !l.unsigned)
		}, fmt.Sprintf("an integer of %d bits", t.Bits())
	case kind >= reflect.Uint && kind <= reflect.Uint64:
		return func(to reflect.Value, v *values, k int) bool {
			x := v.integer(k, l.unsigned)
			to.SetUint(uint64(x))
			return !to.OverflowUint(uint64(x)) && (x >= 0 || l.unsigned)
		}, fmt.Sprintf("an integer of %d bits that is not negative", t.Bits())
	}
	return nil, ""
}

// integer is integer k; those of 64 bits that are not negative may be above the largest int64.
func (v *values) integer(k int, unsigned bool) int64 {
	switch {
	case v.i64 != nil:
		return v.i64[k]
	case unsigned:
		return int64(uint32(v.i32[k]))
	default:
		return int64(v.i32[k])
	}
}

var _ data.Source[struct{}] = (*Rows[struct{}])(nil)
