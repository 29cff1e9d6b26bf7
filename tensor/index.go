package tensor

// Index says what [Tensor.Index] takes of an axis: [All], [At], [From] or [Span].
type Index struct {
	at          bool // one index, start, and the axis disappears
	start, stop int
	step        int
}

// All takes a whole axis.
var All = Span(0, End)

// At takes the elements at index i, which counts from the end if it is negative. The axis disappears.
func At(i int) Index { return Index{at: true, start: i} }

// From takes the elements from start on.
func From(start int) Index { return Span(start, End) }

// Span takes the elements from start on that are before stop, by the rules of [Tensor.Slice].
func Span(start, stop int) Index { return Index{start: start, stop: stop, step: 1} }

// Step takes every step-th element of i.
func (i Index) Step(step int) Index {
	i.step = step
	return i
}

// Index is a part of t, which shares its memory: the first index is for the first axis, and so on; further axes are
// taken as a whole. x.Index(All, From(1), At(-1)) is x[:, 1:, -1] elsewhere.
func (t *Tensor) Index(indices ...Index) *Tensor {
	t.given("index")
	if len(indices) > t.Rank() {
		fail(ErrShape, "index", "%d indices are given, %v has %d axes", len(indices), t, t.Rank())
	}
	for axis, i := range indices { // all before any, so that errors show t as it was given
		if i.at {
			t.position("index", axis, i.start)
		} else {
			t.wantStep("index", axis, i.step)
		}
	}
	y := t
	for axis := len(indices) - 1; axis >= 0; axis-- { // from the last, so that earlier axes keep their numbers
		if i := indices[axis]; i.at {
			y = y.Select(axis, i.start)
		} else {
			y = y.Slice(axis, i.start, i.stop, i.step)
		}
	}
	return y
}
