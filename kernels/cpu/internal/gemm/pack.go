package gemm

// packedStrip returns the place of a strip in the packed panel, for the chunk of kc rows from k0 on.
func (p *product) packedStrip(k0, kc, strip int) []float32 {
	width := p.tier.width()
	strips := divideUp(p.j1-p.j0, width) - p.unpacked
	return p.packed[((k0-p.k0)*strips+(strip-p.unpacked)*kc)*width:]
}

// doPack packs a group of strips of one chunk of the panel.
func (p *product) doPack(_, task int) {
	width := p.tier.width()
	strips := divideUp(p.j1-p.j0, width)
	groups := divideUp(strips-p.unpacked, packGroup)
	first := p.unpacked + task%groups*packGroup
	k0 := p.k0 + task/groups*chunk
	kc := min(chunk, p.k1-k0)
	dst := p.packedStrip(k0, kc, first)
	j0 := p.j0 + first*width
	j1 := min(j0+packGroup*width, p.j1)
	src := p.b.Data[k0*p.b.Row+j0*p.b.Col:]
	if p.b.Col == 1 {
		p.tier.copyStrips(&dst[0], &src[0], p.b.Row, kc, (j1-j0)/width, (j1-j0)%width)
		return
	}
	for j := j0; j < j1; j += width {
		p.tier.packTranspose(dst, width, Mat{src, p.b.Col, p.b.Row}, min(width, j1-j), kc)
		if j+width < j1 {
			dst, src = dst[kc*width:], src[width*p.b.Col:]
		}
	}
}

// packTranspose sets dst[p*step+r] to element (r, p) of src for r < rows and p < k.
func (t *kernels) packTranspose(dst []float32, step int, src Mat, rows, k int) {
	r, even := 0, 0
	if src.Col == 1 {
		even = k &^ 3
	}
	if even > 0 {
		for ; r+8 <= rows; r += 8 {
			t.transpose8(&dst[r], step, &src.Data[r*src.Row], src.Row, even)
		}
		for ; r+4 <= rows; r += 4 {
			t.transpose4(&dst[r], step, &src.Data[r*src.Row], src.Row, even)
		}
	}
	// What the blocks of four by four left over: the last rows, and the last columns of the rows above.
	copyTranspose(dst, step, src, r, rows, 0, k)
	copyTranspose(dst, step, src, 0, r, even, k)
}

// copyTranspose is packTranspose for rows [r0, r1) and p in [p0, p1).
func copyTranspose(dst []float32, step int, src Mat, r0, r1, p0, p1 int) {
	if r0 == r1 {
		return
	}
	for p := p0; p < p1; p++ {
		for r := r0; r < r1; r++ {
			dst[p*step+r] = src.Data[r*src.Row+p*src.Col]
		}
	}
}

// packPanels packs full panels of A, for kc values of k.
func (t *kernels) packPanels(dst []float32, a Mat, kc, panels int) {
	if a.Row == 1 {
		t.copyPanels(&dst[0], &a.Data[0], a.Col, kc, panels)
		return
	}
	for panel := range panels {
		rows := Mat{a.Data[panel*panelRows*a.Row:], a.Row, a.Col}
		t.packTranspose(dst[panel*panelRows*kc:], panelRows, rows, panelRows, kc)
	}
}
