package matmul

// panelDepth is the number of rows in a panel of B, a multiple of chunk.
const panelDepth = 4 * Chunk

// maxWidth is the most columns of a strip.
const maxWidth = 32

// A panel is a block of B, packed into strips: chunk by chunk, in each chunk strip by strip, in each strip row by row.
type panel struct {
	column   int // of the grid, -1 if the panel is not packed
	j0, j1   int // the columns of B
	unpacked int // full strips that are read in place; the others follow them
	packed   []float32
	strips   []unfoldedStrip // of an unfolded B
	segments [][2]int        // of a row of C: where columns of the panel begin and end
	_        [64]byte        // keeps the panels of different workers in different cache lines
}

// An unfoldedStrip is a strip of an unfolded B, of one vector or two.
type unfoldedStrip [2]stripVector

// A stripVector is some columns of a strip.
type stripVector struct {
	column  int // the first one
	columns int // 0: there is no second vector
	data    int // where it is read in place, -1 if the strip is packed
	c       int // where it is in a row of C
}

// follows reports whether one call of a micro-kernel takes two strips.
func (s *unfoldedStrip) follows(before *unfoldedStrip, lanes int) bool {
	return s[0].follows(&before[1], lanes) && s[1].follows(&s[0], lanes) && before[1].follows(&before[0], lanes)
}

// follows reports whether two full vectors are neighbours, in memory and in C.
func (v *stripVector) follows(before *stripVector, lanes int) bool {
	return v.columns == lanes && before.columns == lanes && v.c == before.c+lanes &&
		(v.data == before.data+lanes || max(v.data, before.data) < 0)
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
	if size := count*width*(p.k1-p.k0) + p.tier.lanes; len(b.packed) < size {
		b.packed = make([]float32, size)
	}
	for k0 := p.k0; k0 < p.k1; {
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
// memory are read in place, unless many rows of A pass by.
func (p *product) findStrips(b *panel) {
	columns, lanes := &p.unfolded.Columns, p.tier.lanes
	b.strips = b.strips[:0]
	if p.unfolded.Run > 0 {
		p.findRuns(b)
		return
	}
	inPlace := InPlace[float32](p.m)
	for j := b.j0; j < b.j1; j += 2 * lanes {
		n := min(2*lanes, b.j1-j)
		s := unfoldedStrip{{j, min(n, lanes), -1, j}, {j + lanes, max(0, n-lanes), -1, j + lanes}}
		if at := columns.Cursor(j); inPlace && n == 2*lanes && at.Neighbours(n) {
			s[0].data, s[1].data = at.Offset, at.Offset+lanes
		}
		b.strips = append(b.strips, s)
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
	first := b.j0 / lanes / each * u.Run
	from, to := u.Columns.Cursor(first), u.Result.Cursor(first)
	b.segments = b.segments[:0]
	for j := b.j0 / lanes; j < b.j1/lanes; j++ {
		x := j % each * lanes
		v := stripVector{j/each*u.Run + x, min(lanes, u.Run-x), from.Offset + x, to.Offset + x}
		beyond := p.lastRow+v.data+lanes > len(u.Data)
		if beyond {
			v.data = -1
		}
		last := len(b.strips) - 1
		switch {
		case last < 0 || b.strips[last][1].columns > 0:
			b.strips = append(b.strips, unfoldedStrip{v})
		case beyond || b.strips[last][0].data < 0: // both are packed
			v.data, b.strips[last][0].data = -1, -1
			fallthrough
		default:
			b.strips[last][1] = v
		}
		if last := len(b.segments) - 1; last >= 0 && b.segments[last][1] == v.c {
			b.segments[last][1] += v.columns
		} else {
			b.segments = append(b.segments, [2]int{v.c, v.c + v.columns})
		}
		if j%each == each-1 {
			from.Skip(u.Run)
			to.Skip(u.Run)
		}
	}
}

// packUnfolded packs the other strips of one chunk. The padding of vectors has any values.
func (p *product) packUnfolded(b *panel, dst []float32, k0, kc int) {
	u, width := p.unfolded, p.tier.width()
	for s, at := range b.strips {
		if at[0].data >= 0 {
			continue
		}
		first := u.Columns.Offset(at[0].column)
		if u.Run == 0 {
			if pieces, count := p.pieces(at[0].column, at[0].columns+at[1].columns); count > 0 {
				_ = dst[((s+1)*kc-1)*width+pieces[2*count-1]+p.tier.lanes-1] // what the last vector reaches
				p.tier.copyPieces(&dst[s*kc*width], &u.Data[first], &u.Rows[k0], kc, &pieces[0], count)
				continue
			}
		}
		var columns [maxWidth]int
		for v := range at {
			of := u.Columns.Cursor(at[v].column)
			for x := range at[v].columns {
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
	return b.packed[((k0-p.k0)*strips+(strip-b.unpacked)*kc)*width:], width, kc * width
}

// packTranspose sets dst[p*stride+r] to element (r, p) of src for r < rows and p < k.
func (t *assembly) packTranspose(dst []float32, stride int, src Matrix, rows, k int) {
	r, even := 0, 0
	if src.ColStride == 1 {
		even = k &^ 3
	}
	if even > 0 {
		for ; r+8 <= rows; r += 8 {
			t.transpose8(&dst[r], stride, &src.Data[r*src.RowStride], src.RowStride, even)
		}
		for ; r+4 <= rows; r += 4 {
			t.transpose4(&dst[r], stride, &src.Data[r*src.RowStride], src.RowStride, even)
		}
	}
	// The rest: the last rows, and the last columns of the rows above.
	copyTranspose(dst, stride, src, r, rows, 0, k)
	copyTranspose(dst, stride, src, 0, r, even, k)
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

// packColumns packs rows of A, full panels and what is left, by the offsets of columns from where a begins.
func (p *product) packColumns(dst []float32, a Matrix, rows int, columns []int) {
	for k := 0; k < len(columns); {
		run := 1
		for k+run < len(columns) && columns[k+run] == columns[k+run-1]+a.ColStride {
			run++
		}
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
