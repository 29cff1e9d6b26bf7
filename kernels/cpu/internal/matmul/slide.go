package matmul

import "fmt"

// A Tap is a term of the chains that [Windows.Slide] computes: of the window at (i, j) the element (i+H, j+W) of a
// plane that begins at Offset.
type Tap struct{ Offset, H, W int }

// Windows is the chains of windows that slide over planes by one element: a row-major result, of the same taps of
// planes, with zeros where these reach beyond them. The planes are read where they are.
type Windows struct {
	dstRow, srcRow, ahead, lastDst, lastSrc int
	taps, count                             int
	blocks                                  []int // see assembly.slide
}

// slideRows is how many rows of a vector of windows follow each other.
const slideRows = 4

// NewWindows returns the windows of a result of the given size over planes of the given size, both at least one; nil if
// this tier does not know them, or if so many taps or blocks of them are better computed from a copy. While a plane is
// read, the one that is ahead elements further on is fetched.
func NewWindows(size [2]int, dstRow int, plane [2]int, srcRow, ahead int, taps []Tap) *Windows {
	const mostTaps, most = 32, 1 << 13
	tier := current()
	if tier == nil || tier.slide == nil || size[1] < tier.slideLeast || len(taps) == 0 || len(taps) > mostTaps ||
		(size[0]/slideRows+3)*divideUp(size[1], tier.lanes)*len(taps) > most {
		return nil
	}
	w := &Windows{dstRow: dstRow, srcRow: srcRow, ahead: ahead, taps: len(taps),
		lastDst: (size[0]-1)*dstRow + size[1] - 1}
	for _, t := range taps {
		w.lastSrc = max(w.lastSrc, t.Offset+(plane[0]-1)*srcRow+plane[1]-1)
	}
	within := func(i int) (bits uint32) { // the taps of row i that are in the plane
		for t := range taps {
			if h := i + taps[t].H; h >= 0 && h < plane[0] {
				bits |= 1 << t
			}
		}
		return bits
	}
	for i := 0; i < size[0]; {
		bits, rows := within(i), 1
		for rows < slideRows && i+rows < size[0] && within(i+rows) == bits {
			rows++
		}
		for next := 0; next < size[1]; next += tier.lanes {
			j := max(0, min(next, size[1]-tier.lanes)) // the last vector overlaps the one before
			n := min(tier.lanes, size[1]-j)
			w.blocks = append(w.blocks, rows, i*dstRow+j, i*srcRow+j, lanesBelow(n))
			for t, tap := range taps {
				lo, hi := min(n, max(0, -j-tap.W)), max(0, min(n, plane[1]-j-tap.W))
				if offset := tap.Offset + tap.H*srcRow + tap.W; bits>>t&1 == 1 && lo < hi {
					w.blocks = append(w.blocks, offset, lanesBelow(hi)-lanesBelow(lo))
				} else {
					w.blocks = append(w.blocks, -i*srcRow-j, 0)
				}
			}
			w.count++
		}
		i += rows
	}
	return w
}

// lanesBelow are the bits of lanes below i.
func lanesBelow(i int) int { return 1<<i - 1 }

// Slide computes the chains of the taps, in their order, of the products of weights and elements of src.
func (w *Windows) Slide(dst, src, weights []float32) {
	if w.lastDst >= len(dst) || w.lastSrc >= len(src) || w.taps > len(weights) {
		panic(fmt.Sprintf("matmul: windows of %d of %d taps, %d of %d elements, to %d of %d", w.taps, len(weights),
			w.lastSrc, len(src), w.lastDst, len(dst)))
	}
	current().slide(&dst[0], w.dstRow, &src[0], w.srcRow, w.ahead, &weights[0], w.taps, &w.blocks[0], w.count)
}
