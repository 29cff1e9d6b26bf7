package tensor

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Values are printed as NumPy prints arrays: nested brackets, columns of one width, the fewest digits that tell an
// element from its neighbours of the same type, powers of ten where the range is wide.
const (
	printAll    = 1000 // elements; of more, long axes show their ends only
	printEdge   = 3    // entries at each end of such an axis
	printDigits = 8    // after the point
	printWidth  = 75   // characters in a line
)

// Format prints t by the verbs of package fmt:
//
//	%v        name, type, shape and values: up to 8 digits after the point, or up to 3 with %.3v
//	%.3f      the same with 3 digits after the point; %e, %g and, for integers, %d likewise
//	%s, %q    name, type and shape
//	%+v       as %v, with strides, device and whether a gradient may flow to t
//	%#v       as %+v, without values
//
// Of more than 1000 elements it prints three entries at each end of an axis. Values are read from the device, which is
// a wait, and of a large tensor no more than is printed. Of a tensor that cannot be read, such as one that was
// released, it says so; it does not panic. Inside a step it is a use of the step like others: one goroutine at a time.
func (t *Tensor) Format(f fmt.State, verb rune) {
	given("format", "the state", f)
	p := printer{digits: printDigits}
	switch {
	case t == nil:
		io.WriteString(f, t.String())
		return
	case verb == 's', verb == 'q':
		fmt.Fprintf(f, fmt.FormatString(f, verb), t.String())
		return
	case verb == 'v' && f.Flag('#'):
		io.WriteString(f, t.details())
		return
	case verb == 'v':
		if n, ok := f.Precision(); ok {
			p.digits = n
		}
	case strings.ContainsRune("eEfFgG", verb), verb == 'd' && !t.dtype.IsFloat():
		p.verb = fmt.FormatString(f, verb)
	default:
		fmt.Fprintf(f, "%%!%c(%s)", verb, t.String())
		return
	}
	head, between, values := t.String(), " ", p.text(t)
	if verb == 'v' && f.Flag('+') {
		head = t.details()
	}
	if strings.Contains(values, "\n") {
		between = "\n"
	}
	io.WriteString(f, head+between+values)
}

// details is String with the layout, the device, and whether a gradient may flow to t.
func (t *Tensor) details() string {
	s := fmt.Sprintf("%s, strides %v", t.String(), t.layout.Strides)
	if t.blk != nil && t.blk.dev != nil {
		s += ", on " + t.blk.dev.Name()
	}
	if t.needs {
		s += ", needs a gradient"
	}
	return s
}

// printer prints the values of a tensor.
type printer struct {
	verb   string // of each element, such as "%8.3f"; empty: NumPy's form
	digits int    // after the point in NumPy's form, at most

	shape []int
	cut   []bool   // the axes that show their ends
	cells []string // what remains to be written, in row-major order
}

// text is the values of t, or why they cannot be read.
func (p *printer) text(t *Tensor) (text string) {
	if t.blk == nil {
		return "(no values yet)"
	}
	err := try(func() {
		t.usable("format")
		t.fresh("format")
		p.read(t)
		text = p.nested(0, " ", printWidth)
	})
	var e *Error
	switch {
	case err == nil:
		return text
	case t.blk.refs == 0 || t.blk.closed != "":
		return "(released when " + t.blk.closed + " ended)"
	case errors.As(err, &e):
		return "(" + e.Msg + ")"
	}
	return "(" + err.Error() + ")"
}

// read makes the cells of t.
func (p *printer) read(t *Tensor) {
	if t.scope == nil && !t.device().inHostMemory() { // a step of its own cuts the axes on the device
		t.device().do(func(s *Scope) { p.read(s.In(t.Detach())) })
		return
	}
	t.scope.alone(func() {
		x := t.Detach()
		p.cut = make([]bool, t.Rank())
		for axis, n := range t.layout.Shape {
			if p.cut[axis] = t.Len() > printAll && n > 2*printEdge; p.cut[axis] {
				x = Cat(axis, x.Slice(axis, 0, printEdge), x.Slice(axis, -printEdge, End))
			}
		}
		p.shape = x.Shape()
		p.cells = p.cellsOf(x)
	})
	width := 0
	for _, c := range p.cells {
		width = max(width, utf8.RuneCountInString(c))
	}
	for i, c := range p.cells {
		p.cells[i] = fmt.Sprintf("%*s", width, c)
	}
}

// cellsOf is each element of x.
func (p *printer) cellsOf(x *Tensor) []string {
	verb := p.verb
	switch {
	case x.dtype == Bool:
		return each(ToSlice[bool](x), strconv.FormatBool)
	case !x.dtype.IsFloat() && (verb == "" || strings.HasSuffix(verb, "d")):
		return each(ToSlice[int64](x), func(v int64) string {
			if verb == "" {
				verb = "%d"
			}
			return fmt.Sprintf(verb, v)
		})
	case verb != "":
		return each(ToSlice[float64](x), func(v float64) string { return fmt.Sprintf(verb, v) })
	}
	return p.floats(each(ToSlice[float64](x), func(v float64) float64 { return shortest(v, x.dtype) }))
}

func each[From, To any](v []From, f func(From) To) []To {
	all := make([]To, len(v))
	for i := range v {
		all[i] = f(v[i])
	}
	return all
}

// shortest is the decimal with the fewest digits that, rounded to its type, is x.
func shortest(x float64, dt DType) float64 {
	switch {
	case x-x != 0 || dt == Float64:
		return x
	case dt == Float32:
		x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'e', -1, 32), 64)
		return x
	}
	for digits := 0; ; digits++ {
		d, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'e', digits, 64), 64)
		if Of(d).To(dt).Item() == x {
			return d
		}
	}
}

// floats writes numbers with their points below each other. In powers of ten it does so if the largest is 1e8 or more,
// the smallest below 1e-4, or one more than 1000 times another.
func (p *printer) floats(v []float64) []string {
	low, high := math.Inf(1), 0.0
	for _, x := range v {
		if a := math.Abs(x); a > 0 && a <= math.MaxFloat64 {
			low, high = min(low, a), max(high, a)
		}
	}
	powers := high >= 1e8 || high > 0 && (low < 1e-4 || high/low > 1000)
	digits, exponent := 0, 0 // the longest
	for _, x := range v {
		_, fraction, power := p.decimal(x, powers)
		digits, exponent = max(digits, len(fraction)), max(exponent, len(power))
	}
	return each(v, func(x float64) string {
		whole, fraction, power := p.decimal(x, powers)
		switch short := digits - len(fraction); {
		case x-x != 0:
			return whole
		case powers:
			zeros := strings.Repeat("0", exponent-len(power))
			return whole + "." + fraction + strings.Repeat("0", short) + power[:2] + zeros + power[2:]
		default:
			return whole + "." + fraction + strings.Repeat(" ", short)
		}
	})
}

// decimal is the parts of x before and after the point, and the power of ten.
func (p *printer) decimal(x float64, powers bool) (whole, fraction, power string) {
	verb := byte('f')
	switch {
	case x != x:
		return "nan", "", ""
	case x-x != 0:
		return strings.ToLower(strings.TrimPrefix(fmt.Sprint(x), "+")), "", ""
	case powers:
		verb = 'e'
	}
	parts := func(digits int) {
		s := strconv.FormatFloat(x, verb, digits, 64)
		i := strings.IndexByte(s+"e", 'e')
		whole, fraction, _ = strings.Cut(s[:i], ".")
		fraction, power = strings.TrimRight(fraction, "0"), s[i:]
	}
	if parts(-1); len(fraction) > p.digits {
		parts(p.digits)
	}
	return whole, fraction, power
}

// nested is the next cells as an array over the axes from axis on, in lines of so many characters. Lines but the first
// begin with indent.
func (p *printer) nested(axis int, indent string, width int) string {
	if axis == len(p.shape) && len(p.cells) > 0 {
		c := p.cells[0]
		p.cells = p.cells[1:]
		return c
	}
	if len(p.cells) == 0 {
		return "[]"
	}
	var entries []string
	for i := range p.shape[axis] {
		if i == printEdge && p.cut[axis] {
			entries = append(entries, "...")
		}
		entries = append(entries, p.nested(axis+1, indent+" ", width-1))
	}
	if inner := len(p.shape) - axis - 1; inner > 0 {
		return "[" + strings.Join(entries, strings.Repeat("\n", inner)+indent) + "]"
	}
	var b strings.Builder
	line := indent
	for _, e := range entries {
		if len(line) > len(indent) && len(line)+len(e) > width-1 {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = indent
		}
		line += e + " "
	}
	b.WriteString(strings.TrimSuffix(line, " "))
	return "[" + b.String()[len(indent):] + "]"
}
