package kernels

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// anyShape has rank 0 to MaxDims, with many axes of size 1 and now and then an empty one.
func anyShape(r *rand.Rand) []int {
	shape := make([]int, r.IntN(MaxDims+1))
	for d := range shape {
		shape[d] = [...]int{1, 1, 2, 2, 3, 4, 5, 2}[r.IntN(8)]
		if r.IntN(60) == 0 {
			shape[d] = 0
		}
	}
	return shape
}

// anyStrides are those of a contiguous tensor, changed at some axes: repeated, reversed, with gaps, overlapping,
// swapped.
func anyStrides(r *rand.Rand, shape []int) []int {
	strides := RowMajor(make([]int, len(shape)), shape)
	for d := range strides {
		switch r.IntN(12) {
		case 0:
			strides[d] = 0
		case 1:
			strides[d] = -strides[d]
		case 2:
			strides[d] *= 2
		case 3:
			strides[d] = 1
		case 4:
			strides[d] = r.IntN(9) - 4
		case 5:
			e := r.IntN(d + 1)
			strides[d], strides[e] = strides[e], strides[d]
		}
	}
	switch r.IntN(8) {
	case 0:
		clear(strides)
	case 1:
		for d := range strides {
			strides[d] = -strides[d]
		}
	}
	return strides
}

// offsetsOf lists the offsets of a layout's elements in row-major order, by its definition.
func offsetsOf(shape, strides []int) []int {
	offsets := []int{0}
	for d, size := range shape {
		var next []int
		for _, offset := range offsets {
			for i := range size {
				next = append(next, offset+i*strides[d])
			}
		}
		offsets = next
	}
	return offsets
}

// checkDims compares all that d says with the offsets of the elements.
func checkDims(t *testing.T, r *rand.Rand, d Dims, want []int) {
	t.Helper()
	if d.Len() != len(want) {
		t.Fatalf("%+v has %d elements, want %d", d, d.Len(), len(want))
	}
	if len(want) == 0 {
		return
	}
	contiguous := true
	for i, offset := range want {
		contiguous = contiguous && offset == i
		if got := d.Offset(i); got != offset {
			t.Fatalf("%+v: element %d at %d, want %d", d, i, got, offset)
		}
	}
	if d.Contiguous() != contiguous {
		t.Fatalf("%+v: contiguous is %v", d, d.Contiguous())
	}
	i := r.IntN(len(want))
	for c := d.Cursor(i); i < len(want); {
		if c.Offset != want[i] {
			t.Fatalf("%+v: the cursor has %d at element %d, want %d", d, c.Offset, i, want[i])
		}
		n := 1
		if d.Rank > 0 {
			if n = d.Shape[d.Rank-1]; c.Run() != n-i%n {
				t.Fatalf("%+v: %d elements left at element %d", d, c.Run(), i)
			}
			n = 1 + r.IntN(c.Run())
		}
		if n == 1 {
			c.Next()
		} else {
			c.Skip(n)
		}
		i += n
	}
}

// TestSpace compares collapsed operands with their definition: the same elements in the same order, and no dimension
// that could be left out.
func TestSpace(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := &Space{} // used again
	for range 20_000 {
		shape := anyShape(r)
		operands := make([]Arg, r.IntN(5))
		for k := range operands {
			operands[k].Strides = anyStrides(r, shape)
		}
		s.Collapse(shape, operands)
		if n := Count(s.Shape[:s.Rank]); n != Count(shape) {
			t.Fatalf("%v collapses to %+v, %d elements", shape, *s, n)
		}
		for k := range operands {
			d := s.Dims(operands[k].Strides)
			checkDims(t, r, d, offsetsOf(shape, operands[k].Strides))
			if rest := d.Strides[d.Rank:]; slices.ContainsFunc(rest, func(stride int) bool { return stride != 0 }) {
				t.Fatalf("strides behind %d dimensions: %v", d.Rank, rest)
			}
		}
		for d := range s.Rank {
			needed := d == 0
			for k := range operands {
				strides := s.Dims(operands[k].Strides).Strides
				needed = needed || strides[d-1] != strides[d]*s.Shape[d]
			}
			if s.Shape[d] == 1 || !needed {
				t.Fatalf("%v collapses to %+v: dimension %d is not needed", shape, *s, d)
			}
		}
	}
}

// TestDims compares axes added one by one with their definition, and with a space of one operand.
func TestDims(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		shape := anyShape(r)
		a := Arg{Layout: Layout{Shape: shape, Strides: anyStrides(r, shape)}}
		var d Dims
		d.PushAll(shape, a.Strides)
		checkDims(t, r, d, offsetsOf(shape, a.Strides))
		var s Space
		s.Collapse(shape, []Arg{a})
		if other := s.Dims(a.Strides); d != other {
			t.Fatalf("%v %v: %+v one by one, %+v as a space", shape, a.Strides, d, other)
		}
	}
}

// TestReduction compares the results of reductions along any axes with their definition.
func TestReduction(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	red := &Reduction{} // used again
	for range 20_000 {
		shape := anyShape(r)
		l := &Layout{Shape: shape, Strides: anyStrides(r, shape), Offset: 7}
		var axes []int
		var sizes, strides [2][]int // kept, reduced
		for axis := range shape {
			k := r.IntN(2)
			sizes[k], strides[k] = append(sizes[k], shape[axis]), append(strides[k], l.Strides[axis])
			if k == 1 {
				axes = append(axes, axis)
			}
		}
		r.Shuffle(len(axes), func(i, j int) { axes[i], axes[j] = axes[j], axes[i] })
		red.Set(l, axes)
		checkDims(t, r, clean(red.Kept), offsetsOf(sizes[0], strides[0]))
		checkDims(t, r, clean(red.Reduced), offsetsOf(sizes[1], strides[1]))
		if red.Results() != Count(sizes[0]) || red.N != Count(sizes[1]) {
			t.Fatalf("%v along %v: %d results of %d elements", shape, axes, red.Results(), red.N)
		}
	}
}

// clean is d without what another use left behind its dimensions.
func clean(d Dims) Dims {
	clear(d.Shape[d.Rank:])
	clear(d.Strides[d.Rank:])
	return d
}

// TestCollapse has edges by hand.
func TestCollapse(t *testing.T) {
	for _, c := range []struct {
		shape, a, b        []int
		want, wantA, wantB []int
	}{
		{[]int{2, 3, 4}, []int{12, 4, 1}, []int{12, 4, 1}, []int{24}, []int{1}, []int{1}},
		{[]int{2, 3, 4}, []int{12, 4, 1}, []int{0, 0, 1}, []int{6, 4}, []int{4, 1}, []int{0, 1}},
		{[]int{2, 3, 4}, []int{12, 4, 1}, []int{0, 0, 0}, []int{24}, []int{1}, []int{0}},
		{[]int{2, 1, 4}, []int{4, 9, 1}, []int{1, 9, 2}, []int{2, 4}, []int{4, 1}, []int{1, 2}},
		{[]int{2, 3}, []int{-3, -1}, []int{3, 1}, []int{6}, []int{-1}, []int{1}},
		{[]int{2, 3}, []int{-3, 1}, []int{1, 1}, []int{2, 3}, []int{-3, 1}, []int{1, 1}}, // b overlaps
		{[]int{2, 0, 3}, []int{3, 3, 1}, []int{3, 3, 1}, []int{2, 0}, []int{3, 1}, []int{3, 1}},
		{[]int{1, 1}, []int{7, 7}, []int{7, 7}, nil, nil, nil},
		{nil, nil, nil, nil, nil, nil},
	} {
		var s Space
		s.Collapse(c.shape, []Arg{{Layout: Layout{Strides: c.a}}, {Layout: Layout{Strides: c.b}}})
		a, b := s.Dims(c.a), s.Dims(c.b)
		if !slices.Equal(s.Shape[:s.Rank], c.want) || !slices.Equal(a.Strides[:a.Rank], c.wantA) ||
			!slices.Equal(b.Strides[:b.Rank], c.wantB) {
			t.Errorf("%v with strides %v, %v collapses to %+v", c.shape, c.a, c.b, s)
		}
	}
}

// TestCollapseAllocations: collapsing allocates nothing.
func TestCollapseAllocations(t *testing.T) {
	a := Arg{Layout: Layout{Shape: []int{3, 1, 4, 5}, Strides: []int{20, 20, 5, 1}}}
	sum := 0
	if n := testing.AllocsPerRun(100, func() {
		var s Space
		pair := [2]Arg{a, a}
		s.Collapse(a.Shape, pair[:])
		var r Reduction
		r.Set(&a.Layout, []int{0})
		c := r.Reduced.Cursor(1)
		c.Next()
		d := s.Dims(a.Strides)
		sum += d.Strides[0] + c.Offset
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
