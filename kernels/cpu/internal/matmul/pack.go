package matmul

// panelDepth is the number of rows in a panel of B, a multiple of chunk, if C is large: a block of it takes some chunks
// while it is in the level-2 cache. If few blocks read a panel it has one chunk, which is in that cache itself when it
// is read: with C of at most smallResult elements, and AVX-512 on Emerald Rapids, convolutions of 512x7x7 and the
// gradient of the weights of those of 128x28x28 take 0.94 of the time, a product of 1024 takes 0.98.
const panelDepth, smallResult = 4 * Chunk, 1 << 20

// maxWidth is the most columns of a strip.
const maxWidth = 32

// A panel is a block of B, packed into strips: chunk by chunk, in each chunk strip by strip, in each strip row by row.
type panel struct {
	j0, j1   int // the columns of B; j0 is -1 if the panel is not packed
	k0, k1   int // and its rows
	unpacked int // full strips that are read in place; the others follow them
	packed   []float32
	strips   []unfoldedStrip // of an unfolded B
	segments [][2]int        // of a row of C: where columns of the panel begin and end
	_        [64]byte        // keeps the panels of different workers in different cache lines
}

// An unfoldedStrip is a strip of an unfolded B, of one vector or two.
type unfoldedStrip struct {
	vectors [2]stripVector
	split   [4]int // see tileFunc; from where the first vector begins
}

// A stripVector is some columns of a strip.
type stripVector struct {
	column  int // the first one
	columns int // 0: there is no second vector
	data    int // where it is read in place, -1 if the strip is packed
	c       int // where it is in a row of C
}

// pieces is what micro-kernels take, nil if no vector is in two pieces.
func (s *unfoldedStrip) pieces() *int {
	if s.split[2]|s.split[3] == 0 {
		return nil
	}
	return &s.split[0]
}

// follows reports whether one call of a micro-kernel takes two strips.
func (s *unfoldedStrip) follows(before *unfoldedStrip, lanes int) bool {
	v, w := &s.vectors, &before.vectors
	return s.pieces() == nil && before.pieces() == nil &&
		v[0].follows(&w[1], lanes) && v[1].follows(&v[0], lanes) && w[1].follows(&w[0], lanes)
}

// follows reports whether two full vectors are neighbours, in memory and in C.
func (v *stripVector) follows(before *stripVector, lanes int) bool {
	return v.columns == lanes && before.columns == lanes && v.c == before.c+lanes &&
		(before.data >= 0 && v.data == before.data+lanes || max(v.data, before.data) < 0)
}

// pack packs a panel of B, or only the strips that cannot be read in place.
func (p *product) pack(b *panel) {
	width := p.tier.width()
	strips := divideUp(b.j1-b.j0, width)
	b.unpacked, b.segments = 0, append(b.segments[:0], [2]int{b.j0, b.j1})
	if !p.packB {
		b.unpacked = strips
		// The micro-kernels read B in full vectors, so a strip that ends inside one is packed.
		if rest := (b.j1 - b.j0) % width; rest != 0 && rest != p.tier.lanes {
			b.unpacked--
		}
	}
	count := strips - b.unpacked
	if count == 0 {
		return
	}
	if p.unfolded != nil {
		p.findStrips(b)
	}
	// Behind the last strip there is room for a vector.
	if size := count*width*(b.k1-b.k0) + p.tier.lanes; len(b.packed) < size {
		b.packed = make([]float32, size)
	}
	for k0 := b.k0; k0 < b.k1; {
		end := p.chunkEnd(k0)
		p.packChunk(b, k0, end-k0)
		k0 = end
	}
}

// packChunk packs the strips of one chunk of a panel. The padding of the last strip has any values: the micro-kernels
// do not store what they compute from it.
func (p *product) packChunk(b *panel, k0, kc int) {
	width := p.tier.width()
	dst, _, _ := p.strip(b, b.unpacked, k0, kc)
	if p.unfolded != nil {
		p.packUnfolded(b, dst, k0, kc)
		return
	}
	j0 := b.j0 + b.unpacked*width
	src := p.b.Data[k0*p.b.RowStride+j0*p.b.ColStride:]
	if p.b.ColStride == 1 {
		p.tier.copyStrips(&dst[0], &src[0], p.b.RowStride, kc, (b.j1-j0)/width, (b.j1-j0)%width)
		return
	}
	for j := j0; j < b.j1; j += width {
		columns := Matrix{src[(j-j0)*p.b.ColStride:], p.b.ColStride, p.b.RowStride}
		p.tier.packTranspose(dst[(j-j0)*kc:], width, columns, min(width, b.j1-j), kc)
	}
}

// findStrips lists the strips of an unfolded B. Of those that no run ends, full ones whose columns are neighbours in
// memory are read in place, unless many rows of A pass by, or some and the rows of B are far apart.
func (p *product) findStrips(b *panel) {
	columns, lanes := &p.unfolded.Columns, p.tier.lanes
	b.strips = b.strips[:0]
	if p.unfolded.Run > 0 {
		p.findRuns(b)
		return
	}
	inPlace := InPlace[float32](p.m) && (p.m < farRows || !p.unfolded.far(b.k0, b.k1))
	for j := b.j0; j < b.j1; j += 2 * lanes {
		n := min(2*lanes, b.j1-j)
		s := [2]stripVector{{j, min(n, lanes), -1, j}, {j + lanes, max(0, n-lanes), -1, j + lanes}}
		if at := columns.Cursor(j); inPlace && n == 2*lanes && at.Neighbours(n) {
			s[0].data, s[1].data = at.Offset, at.Offset+lanes
		}
		b.strips = append(b.strips, unfoldedStrip{vectors: s})
	}
}

// virtual is how many columns the vectors of n columns have.
func (p *product) virtual(n int) int {
	if p.unfolded.Run == 0 {
		return n
	}
	return n / p.unfolded.Run * divideUp(p.unfolded.Run, p.tier.lanes) * p.tier.lanes
}

// findRuns lists the strips of runs, which are read in place but where a vector would reach beyond the data.
func (p *product) findRuns(b *panel) {
	u, lanes := p.unfolded, p.tier.lanes
	each := divideUp(u.Run, lanes) // vectors of a run
	first := b.j0 / lanes
	begin := first/each*u.Run + first%each*lanes
	from, to := u.Columns.Cursor(begin), u.Result.Cursor(begin)
	b.segments = b.segments[:0]
	for j := first; j < b.j1/lanes; j++ {
		x := j % each * lanes
		v := stripVector{j/each*u.Run + x, min(lanes, u.Run-x), from.Offset, to.Offset}
		second, mask := 0, 0
		for i := 0; i < v.columns; {
			if i > 0 {
				second, mask = from.Offset-i, lanesFrom(i, lanes)
			}
			n := v.columns - i
			if u.Columns.Rank > 0 {
				n = min(n, from.Run())
				from.Skip(n)
			}
			i += n
		}
		if u.Result.Rank > 0 {
			to.Skip(v.columns)
		}
		if p.lastRow+v.data+lanes > len(u.Data) {
			v.data = -1
		}
		b.addVector(v, second, mask)
		if last := len(b.segments) - 1; last >= 0 && b.segments[last][1] == v.c {
			b.segments[last][1] += v.columns
		} else {
			b.segments = append(b.segments, [2]int{v.c, v.c + v.columns})
		}
	}
}

// lanesFrom are the bits of lanes from the given one on.
func lanesFrom(i, lanes int) int { return 1<<lanes - 1<<i }

// addVector adds a vector to the strips, of which the lanes in mask begin at second. Both of a strip are packed, or
// none.
func (b *panel) addVector(v stripVector, second, mask int) {
	last := len(b.strips) - 1
	if last < 0 || b.strips[last].vectors[1].columns > 0 {
		b.strips = append(b.strips, unfoldedStrip{vectors: [2]stripVector{v}, split: [4]int{second - v.data, 0, mask}})
		return
	}
	s := &b.strips[last]
	s.split[1], s.split[3] = second-s.vectors[0].data, mask
	if v.data < 0 || s.vectors[0].data < 0 {
		v.data, s.vectors[0].data = -1, -1
	}
	s.vectors[1] = v
}

// packUnfolded packs the other strips of one chunk. The padding of vectors has any values.
func (p *product) packUnfolded(b *panel, dst []float32, k0, kc int) {
	u, width := p.unfolded, p.tier.width()
	if at, n := u.Columns.Cursor(b.j0), b.j1-b.j0; u.Run == 0 && b.strips[0].vectors[0].data < 0 && at.Neighbours(n) {
		if row, even := u.rowStride(k0, k0+kc); even { // as of any matrix: whole rows are read faster than their strips
			p.tier.copyStrips(&dst[0], &u.Data[at.Offset+u.Rows[k0]], row, kc, n/width, n%width)
			return
		}
	}
	for s, at := range b.strips {
		if at.vectors[0].data >= 0 {
			continue
		}
		first := u.Columns.Offset(at.vectors[0].column)
		if u.Run == 0 {
			if pieces, count := p.pieces(at.vectors[0].column, at.vectors[0].columns+at.vectors[1].columns); count > 0 {
				_ = dst[((s+1)*kc-1)*width+pieces[2*count-1]+p.tier.lanes-1] // what the last vector reaches
				p.tier.copyPieces(&dst[s*kc*width], &u.Data[first], &u.Rows[k0], kc, &pieces[0], count)
				continue
			}
		}
		var columns [maxWidth]int
		for v := range at.vectors {
			of := u.Columns.Cursor(at.vectors[v].column)
			for x := range at.vectors[v].columns {
				columns[v*p.tier.lanes+x] = of.Offset - first
				of.Next()
			}
		}
		p.tier.gatherStrip(&dst[s*kc*width], &u.Data[first], &u.Rows[k0], kc, &columns[0])
	}
}

// maxPieces is how many vectors are at most copied for a row of a strip, rather than its elements.
const maxPieces = 12

// pieces are the vectors that make n columns from column j on of an unfolded B, none if these are better gathered: in
// many pieces, or where a vector would reach beyond the data.
func (p *product) pieces(j, n int) (list [2 * maxPieces]int, count int) {
	u, lanes := p.unfolded, p.tier.lanes
	at := u.Columns.Cursor(j)
	if last := u.Columns.Rank - 1; last >= 0 && u.Columns.Strides[last] != 1 {
		return list, 0
	}
	first, end := at.Offset, 0
	for x := 0; x < n; {
		run := n - x
		if u.Columns.Rank > 0 {
			run = min(run, at.Run())
		}
		for v := 0; v < run; v += lanes {
			if count == maxPieces {
				return list, 0
			}
			list[2*count], list[2*count+1] = at.Offset-first+v, x+v
			count++
			end = max(end, at.Offset+v+lanes)
		}
		if x += run; x < n {
			at.Skip(run)
		}
	}
	if p.lastRow+end > len(u.Data) {
		return list, 0
	}
	return list, count
}

// strip returns a strip of the panel in the chunk of kc rows from k0 on, and the strides between its rows and between
// strips.
func (p *product) strip(b *panel, strip, k0, kc int) (data []float32, rowStride, stripStride int) {
	width := p.tier.width()
	if strip < b.unpacked {
		return p.b.Data[k0*p.b.RowStride+b.j0+strip*width:], p.b.RowStride, width
	}
	strips := divideUp(b.j1-b.j0, width) - b.unpacked
	return b.packed[((k0-b.k0)*strips+(strip-b.unpacked)*kc)*width:], width, kc * width
}

// packTranspose sets dst[p*stride+r] to element (r, p) of src for r < rows and p < k.
func (t *assembly) packTranspose(dst []float32, stride int, src Matrix, rows, k int) {
	r := 0
	if src.ColStride == 1 && k >= 4 {
		for ; r+8 <= rows; r += 8 {
			t.transpose8(&dst[r], stride, &src.Data[r*src.RowStride], src.RowStride, k&^3)
		}
		for ; r+4 <= rows; r += 4 {
			t.transpose4(&dst[r], stride, &src.Data[r*src.RowStride], src.RowStride, k&^3)
		}
		if k%4 > 0 { // the last columns, and some before them once more
			t.packTranspose(dst[(k-4)*stride:], stride, MatrixOf[float32]{src.Data[k-4:], src.RowStride, 1}, r, 4)
		}
	}
	copyTranspose(dst, stride, src, r, rows, 0, k)
}

// copyTranspose is packTranspose for rows [r0, r1) and p in [p0, p1).
func copyTranspose[T float32 | float64](dst []T, stride int, src MatrixOf[T], r0, r1, p0, p1 int) {
	if r0 == r1 {
		return
	}
	for p := p0; p < p1; p++ {
		for r := r0; r < r1; r++ {
			dst[p*stride+r] = src.Data[r*src.RowStride+p*src.ColStride]
		}
	}
}

// packPanels packs full panels of A, for kc values of k.
func (t *assembly) packPanels(dst []float32, a Matrix, kc, panels int) {
	if a.RowStride == 1 {
		t.copyPanels(&dst[0], &a.Data[0], a.ColStride, kc, panels)
		return
	}
	for panel := range panels {
		rows := Matrix{a.Data[panel*panelRows*a.RowStride:], a.RowStride, a.ColStride}
		t.packTranspose(dst[panel*panelRows*kc:], panelRows, rows, panelRows, kc)
	}
}

// longRun is how many columns of A must be neighbours to be packed together, in turns of several columns.
const longRun = 16

// runLength is how many columns, at the start of a list, are each one apart from the one before.
func runLength(columns []int, apart int) int {
	n := 1
	for n < len(columns) && columns[n] == columns[n-1]+apart {
		n++
	}
	return n
}

// packColumns packs rows of A, full panels and what is left, by the offsets of columns from where a begins.
func (p *product) packColumns(dst []float32, a Matrix, rows int, columns []int) {
	for k := 0; k < len(columns); {
		run := runLength(columns[k:], a.ColStride)
		end := k + run
		for run < longRun && end < len(columns) && (end+longRun > len(columns) ||
			columns[end+longRun-1] != columns[end]+(longRun-1)*a.ColStride) { // short runs
			end++
		}
		for r := 0; r < rows; r += panelRows {
			to, from := dst[r*len(columns)+k*panelRows:], a.from(r)
			switch {
			case run >= longRun:
				from.Data = from.Data[columns[k]:]
				p.tier.packTranspose(to, panelRows, from, min(panelRows, rows-r), run)
			case rows-r >= panelRows:
				p.tier.gatherPanel(&to[0], &from.Data[0], a.RowStride, &columns[k], end-k)
			default:
				for i, column := range columns[k:end] {
					for x := range rows - r {
						to[i*panelRows+x] = from.Data[x*a.RowStride+column]
					}
				}
			}
		}
		k = end
	}
}
