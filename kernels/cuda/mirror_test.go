//go:build cuda && cgo && linux

package cuda

import (
	"encoding/binary"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/src"
	"github.com/weft-ml/weft/kernels/expr"
)

// structs are the parameters of kernels: the file and the name in C++, and the Go type that is copied to it. Of a
// template, the name has the sizes of its type parameters, or the values of others.
var structs = []struct {
	file, name string
	parameter  int // of the template: a number, or the bytes of a type
	goType     any
}{
	{"row.cuh", "Axes", 0, kernels.Dims{}},
	{"layout.cuh", "Shape64", 2, productBatch{}},
	{"matmul_half.cuh", "Parts", 0, halfParts{}},
	{"element.cuh", "Result", 0, result{}},
	{"row.cuh", "Rows", 0, rows{}},
	{"norm.cu", "Residual", 0, residual{}},
	{"copies.cu", "Copies", 0, copyMany{}},
	{"reduce.cu", "Sums", 0, manySums{}},
	{"copy.cu", "Region", 0, region{}},
	{"attention_flash_hopper.cu", "Items", 0, flashItems{}},
	{"copy.cu", "Band", 0, band{}},
	{"index_error.cuh", "IndexErrors", 0, indexErrors{}},
	{"index.cu", "Indices", 0, indices{}},
	{"index.cu", "IndexedAxis", 0, indexedAxis{}},
	{"index.cu", "Digit", 0, digit{}},
	{"index.cu", "Columns", 0, addColumns{}},
	{"index.cu", "Lines", 0, lines{}},
	{"index.cu", "LineTiles", 0, lineTiles{}},
	{"fft.cu", "FourierStep", 0, fourierStep{}},
	{"ctc.cu", "CtcRows", 0, ctcRows{}},
	{"cross_entropy.cu", "Targets", 0, targets{}},
	{"matmul.cuh", "Product", 4, product{}},
	{"window.cu", "PoolAxis", 0, poolAxis{}},
	{"window.cu", "Pooling", 0, pooling{}},
	{"window.cu", "Resampling", 0, resampling{}},
	{"window.cu", "Folding", 0, folding{}},
	{"conv.cu", "UnfoldAxis", 0, unfoldAxis{}},
	{"conv.cu", "Unfolding", 0, unfolding{}},
	{"attention.cuh", "Heads", 0, heads{}},
	{"attention.cuh", "Attention", 8, attention{}},
}

// constants are those that Go code and kernels must agree on.
var constants = []struct {
	file, name string
	value      int
}{
	{"layout.cuh", "kMaxDims", kernels.MaxDims},
	{"copy.cu", "kThreads", copyThreads}, {"copy.cu", "kTile", transposeTile},
	{"copies.cu", "kThreads", copyThreads}, {"copies.cu", "kMaxCopies", maxCopies},
	{"window.cu", "kThreads", windowThreads}, {"conv.cu", "kThreads", windowThreads},
	{"probe.cu", "kThreads", probeThreads}, {"probe.cu", "kLine", probeLine / 4},
	{"probe_hopper.cu", "kThreads", probeThreads}, {"probe_hopper.cu", "kRows", probeRows},
	{"probe_hopper.cu", "kColumns", probeColumns}, {"probe_hopper.cu", "kDepth", probeDepth},
	{"fft.cu", "kThreads", windowThreads}, {"ctc.cu", "kThreads", windowThreads},
	{"matmul.cuh", "kChunk", matmulChunk},
	{"index.cu", "kStaged", addStaged}, {"reduce_row.cu", "kColumns", prodColumns},
	{"index.cu", "kThreads", addThreads}, {"index.cu", "kSortThreads", sortThreads}, {"index.cu", "kMoved", sortMoved},
	{"reduce.cuh", "kFoldBlock", foldBlock}, {"reduce.cuh", "kFoldPartials", foldPartials},
	{"reduce.cu", "kWarps", foldWarps},
	{"reduce.cu", "kThreads", columnThreads}, {"reduce.cu", "kMaxSums", maxSums},
	{"row.cuh", "kRowWarps", rowWarps}, {"row.cuh", "kRowThreads", rowThreads},
	{"row.cuh", "kBlockWarps", blockWarps},
	{"norm.cu", "kRowPartials", rowPartials}, {"norm.cu", "kPartialRows", partialRows},
	{"norm.cu", "kColumns", normColumns},
	{"norm.cu", "kGradThreads", gradThreads},
	{"cross_entropy.cu", "kCountThreads", countThreads},
	{"cross_entropy.cu", "kCountBlocks", countBlocks},
	{"cross_entropy.cu", "kMeanThreads", meanThreads}, {"cross_entropy.cu", "kMeanBlocks", shortMean / foldBlock},
	{"matmul.cuh", "kSmallTile", smallTile}, {"matmul.cuh", "kSmallThreads", smallThreads},
	{"matmul_half.cu", "kTile", halfTile}, {"matmul_half.cu", "kThreads", halfThreads},
	{"matmul_half.cu", "kSteps", halfSteps},
	{"matmul_half.cuh", "kWideA", wideA}, {"matmul_half.cuh", "kWideB", wideB}, {"matmul_half.cuh", "kWideC", wideC},
	{"matmul_hopper.cu", "kTileRows", hopperRows}, {"matmul_hopper.cu", "kTileColumns", hopperColumns},
	{"matmul_hopper.cu", "kSteps", hopperSteps}, {"matmul_hopper.cu", "kWarps", hopperWarps},
	{"matmul_hopper.cu", "kThreads", hopperThreads}, {"matmul_hopper.cu", "kShared", hopperShared},
	{"attention.cu", "kRows", attentionRows}, {"attention.cu", "kColumns", attentionColumns},
	{"attention.cu", "kThreads", attentionThreads},
	{"attention_flash.cu", "kThreads", flashThreads}, {"attention_flash.cuh", "kPadded", flashPadded},
	{"attention_flash.cuh", "kTurn", flashTurn}, {"attention_flash_hopper_grad.cu", "kKeys", flashHopperKeys},
	{"attention_flash_hopper_grad.cu", "kThreads", flashHopperThreads},
}

// TestMirrors: structs of Go that kernels take have the names, offsets and sizes of their C++ structs, and constants
// their values.
func TestMirrors(t *testing.T) {
	h := readHeaders(t)
	for _, s := range structs {
		want := h.layout(t, s.name, s.parameter)
		var got []field
		goType := reflect.TypeOf(s.goType)
		flatten(&got, "", 0, goType)
		if len(got) != len(want.fields) {
			t.Errorf("%s of %s has %d numbers, %v %d", s.name, s.file, len(want.fields), goType, len(got))
			continue
		}
		for i, f := range want.fields {
			if got[i] != f {
				t.Errorf("%s of %s: %+v, in %v %+v", s.name, s.file, f, goType, got[i])
			}
		}
		if int(goType.Size()) != want.size {
			t.Errorf("%s of %s has %d bytes, %v %d", s.name, s.file, want.size, goType, goType.Size())
		}
	}
	for _, c := range constants {
		if got := h.constant(t, c.file, c.name); got != c.value {
			t.Errorf("%s of %s is %d, in Go %d", c.name, c.file, got, c.value)
		}
	}
	types := regexp.MustCompile(`enum Type : uint32_t \{([^}]*)\}`).FindStringSubmatch(h.text["element.cuh"])
	for i, name := range strings.Split(types[1], ",") {
		if want := strings.ToLower(strings.TrimSpace(name)); want != "k"+strings.ToLower(kernels.DTypeOf(i).String()) {
			t.Errorf("type %d is %s in element.cuh, %v in Go", i, want, kernels.DTypeOf(i))
		}
	}
}

// A field is a number in a struct: its path without case and underscores, and where it is.
type field struct {
	name   string
	offset int
}

// flatten lists the numbers of a Go type. Elements of arrays are fields that are named by their index.
func flatten(all *[]field, name string, offset int, t reflect.Type) {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			flatten(all, name+"."+plainName(f.Name), offset+int(f.Offset), f.Type)
		}
	case reflect.Array:
		for i := range t.Len() {
			flatten(all, name+"."+strconv.Itoa(i), offset+i*int(t.Elem().Size()), t.Elem())
		}
	default:
		*all = append(*all, field{name, offset})
	}
}

func plainName(name string) string {
	name = strings.ToLower(strings.ReplaceAll(name, "_", ""))
	switch name {
	case "dtype": // "type" is no name in Go
		return "type"
	case "shape", "strides": // of kernels.Dims
		return map[string]string{"shape": "size", "strides": "stride"}[name]
	}
	return name
}

// TestPackedMirrors: structs of C++ whose size depends on the operands get each field where it is.
func TestPackedMirrors(t *testing.T) {
	h := readHeaders(t)
	shape, strides := []int{3, 5, 7}, [][]int{{1000, 100, 10}, {2000, 200, 20}, {3000, 300, 30}}
	var c call
	var w stridedCopy
	operands := make([]kernels.Arg, len(strides))
	for k := range operands {
		operands[k].Strides = strides[k]
	}
	w.set(shape, 4, operands...)
	pack := func(name string, parameter int, put func(), want map[string]uint64) {
		t.Helper()
		samePacked(t, h, &c, name, parameter, put, want)
	}
	for _, name := range []string{"Shape32", "Shape64"} {
		want := map[string]uint64{".rank": 3}
		for d, size := range shape {
			want[".size."+itoa(d)] = uint64(size)
			want[".size."+itoa(d)+".value"] = uint64(size)
			multiplier, shift := divisor(uint64(size))
			want[".size."+itoa(d)+".multiplier"], want[".size."+itoa(d)+".shift"] = uint64(multiplier), uint64(shift)
			for k := range strides {
				want[".stride."+itoa(k)+"."+itoa(d)] = uint64(strides[k][d])
			}
		}
		put := func() { w.shape32(&c) }
		if name == "Shape64" {
			put = func() { w.shape64(&c) }
		}
		pack(name, len(strides), put, want)
	}
	pack("StridedRange", 3, func() { w.stridedRange(&c) }, map[string]uint64{".n": 105, ".entries": 1, ".threads": 35,
		".stride.0": 1000, ".stride.1": 2000, ".stride.2": 3000})

	op := &kernels.Op{Expr: &expr.Func{Params: []string{"a", "b"}}}
	b := &Backend{}
	c.b = b
	m := &buffer{b: b, ptr: 1 << 40, n: 1 << 20}
	l := &kernels.Launch{Op: op, Floats: []float64{1.5, -2}, Random: kernels.Random{Key: 11, Counter: 12}}
	want := map[string]uint64{".key": 11, ".counter": 12, ".uniform": 5,
		".scalar.0": math.Float64bits(1.5), ".scalar.1": math.Float64bits(-2)}
	for k := range 3 {
		a := kernels.Arg{Buf: m, DType: kernels.Float64, Layout: kernels.Layout{Offset: 100 * k}}
		l.In, l.Out = append(l.In, a), append(l.Out, a)
		address := uint64(m.ptr) + uint64(8*100*k)
		want[".in."+itoa(k)], want[".out."+itoa(k)] = address, address
	}
	l.Out = l.Out[:2]
	h.structs["Operands"] = strings.NewReplacer("at_least_one(Op::In::count)", "3", "Op::Out::count", "2",
		"at_least_one(Op::scalars)", "2", "typename Op::Compute", "double").Replace(h.structs["Operands"])
	at := stridedPointwise{uniform: 5}
	pack("Operands", 0, func() { c.operands(l, &at) }, want)
}

// samePacked tells whether what put appends is a struct with the wanted fields.
func samePacked(t *testing.T, h *headers, c *call, name string, parameter int, put func(), want map[string]uint64) {
	t.Helper()
	c.reset("test")
	c.launch(&function{}, dim{}, dim{}, 0)
	put()
	l := h.layout(t, name, parameter)
	if len(c.values) != l.size {
		t.Errorf("%s has %d bytes, %d are passed", name, l.size, len(c.values))
	}
	for i, f := range l.fields {
		end := l.size
		if i+1 < len(l.fields) {
			end = l.fields[i+1].offset
		}
		var number [8]byte
		copy(number[:], c.values[f.offset:end])
		if got := binary.LittleEndian.Uint64(number[:]); got != want[f.name] {
			t.Errorf("%s%s is %d, not %d", name, f.name, got, want[f.name])
		}
	}
}

// TestPackedStrides is the same for the struct Strides of the strided pointwise kernels, four elements a thread.
func TestPackedStrides(t *testing.T) {
	var w stridedPointwise
	w.n, w.ins, w.Rank, w.Shape, w.vectors = 60, 2, 2, [kernels.MaxDims]int{5, 12}, 2
	w.strides[0], w.strides[1] = [kernels.MaxDims]int{3, -7}, [kernels.MaxDims]int{12, 1}
	w.base[2] = 1 << 40
	w.share(4, true)
	want := map[string]uint64{".first": 1 << 40, ".threads": 15, ".each": 4, ".vectors": 2, ".step.0": 1<<32 - 7,
		".step.1": 1, ".step.2": 1, ".size.rank": 2} // a field "shape" is called size
	for d, size := range []int{5, 3} {
		axis := ".size.size." + itoa(d)
		multiplier, shift := divisor(uint64(size))
		want[axis+".value"], want[axis+".multiplier"], want[axis+".shift"] = uint64(size), uint64(multiplier),
			uint64(shift)
		for k, strides := range [][]int{{3, -28}, {12, 4}, {12, 4}} {
			want[".size.stride."+itoa(k)+"."+itoa(d)] = uint64(uint32(strides[d]))
		}
	}
	var c call
	samePacked(t, readHeaders(t), &c, "Strides", 3, func() { w.put(&c) }, want)
}

// headers are the texts of kernels, and the structs in them.
type headers struct {
	text    map[string]string
	structs map[string]string // the members, by name
}

var (
	comment    = regexp.MustCompile(`//.*`)
	definition = regexp.MustCompile(`(?m)^(?:template <[^>]*> )?struct (\w+) \{([^{}]*)\};`)
	member     = regexp.MustCompile(`^(?:const )?(\w+)(<[\dN]>)?\s+(.*)$`)
	declarator = regexp.MustCompile(`^(\*?)\s*(\w+)((?:\[\w+\])*)$`)
	arraySize  = regexp.MustCompile(`\[(\w+)\]`)
)

func readHeaders(t *testing.T) *headers {
	t.Helper()
	h := &headers{map[string]string{}, map[string]string{}}
	files, err := src.Files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := src.Files.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		h.text[f.Name()] = comment.ReplaceAllString(string(text), "")
		for _, m := range definition.FindAllStringSubmatch(h.text[f.Name()], -1) {
			if strings.Contains(m[2], ";") {
				h.structs[m[1]] = m[2]
			}
		}
	}
	h.structs["Axes"] = strings.ReplaceAll(h.structs["Shape64"], "[N]", "") // Shape64<1>
	return h
}

// A layout is a C++ struct in memory.
type layout struct {
	fields      []field
	size, align int
}

// layout lays a struct out as compilers do: each member at a multiple of its alignment. Type parameters have
// `parameter` bytes; parameters of other kinds are that number.
func (h *headers) layout(t *testing.T, name string, parameter int) layout {
	t.Helper()
	body, ok := h.structs[name]
	if !ok {
		t.Fatalf("no struct %s", name)
	}
	l := layout{align: 1}
	for _, line := range strings.Split(body, ";") {
		line = strings.Join(strings.Fields(line), " ")
		m := member.FindStringSubmatch(strings.ReplaceAll(strings.ReplaceAll(line, "* ", " *"), "const T ", "T "))
		if m == nil || m[1] == "using" {
			continue
		}
		for _, d := range strings.Split(m[3], ",") {
			d := declarator.FindStringSubmatch(strings.TrimSpace(d))
			if d == nil {
				t.Fatalf("%s: %q", name, line)
			}
			element := h.element(t, m[1], d[1] == "*", parameter)
			l.size = (l.size + element.align - 1) / element.align * element.align
			l.align = max(l.align, element.align)
			h.add(t, &l, "."+plainName(d[2]), element, arraySize.FindAllStringSubmatch(d[3], -1), parameter)
		}
	}
	l.size = (l.size + l.align - 1) / l.align * l.align
	return l
}

// add appends an element, or an array of it, to a layout.
func (h *headers) add(t *testing.T, l *layout, name string, element layout, sizes [][]string, parameter int) {
	t.Helper()
	if len(sizes) == 0 {
		for _, f := range element.fields {
			l.fields = append(l.fields, field{name + f.name, l.size + f.offset})
		}
		l.size += element.size
		return
	}
	n := parameter
	if size := sizes[0][1]; size != "N" {
		file := "layout.cuh"
		switch size {
		case "kMaxCopies":
			file = "copies.cu"
		case "kMaxSums":
			file = "reduce.cu"
		}
		n = h.value(t, file, size)
	}
	for i := range n {
		h.add(t, l, name+"."+strconv.Itoa(i), element, sizes[1:], parameter)
	}
}

// element is the layout of a member's type.
func (h *headers) element(t *testing.T, name string, pointer bool, parameter int) layout {
	t.Helper()
	sizes := map[string]int{"uint32_t": 4, "int32_t": 4, "float": 4, "uint64_t": 8, "int64_t": 8, "double": 8,
		"T": parameter, "N": parameter}
	size, plain := sizes[name]
	if pointer {
		size, plain = 8, true
	}
	if plain {
		return layout{[]field{{"", 0}}, size, size}
	}
	return h.layout(t, name, parameter)
}

// constant is the value of a constexpr of a file.
func (h *headers) constant(t *testing.T, file, name string) int {
	t.Helper()
	m := regexp.MustCompile(`(?s)constexpr \w+ [^;]*?\b` + name + ` = ([^,;]*)[,;]`).FindStringSubmatch(h.text[file])
	if m == nil {
		t.Fatalf("no constant %s in %s", name, file)
	}
	return h.value(t, file, m[1])
}

// value computes a product of numbers and constants.
func (h *headers) value(t *testing.T, file, text string) int {
	t.Helper()
	product := 1
	for _, factor := range strings.Split(text, "*") {
		factor = strings.TrimSpace(factor)
		n, err := strconv.Atoi(factor)
		if err != nil {
			n = h.constant(t, file, factor)
		}
		product *= n
	}
	return product
}
