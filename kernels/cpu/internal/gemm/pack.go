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
	for strip := first; strip < min(first+packGroup, strips); strip++ {
		j := p.j0 + strip*width
		p.packStrip(p.packedStrip(k0, kc, strip)[:kc*width], k0, kc, j, min(width, p.j1-j))
	}
}

// packStrip copies columns [j, j+cols) of rows [k0, k0+kc) of B to a strip. Columns of the strip beyond cols get any
// values: the micro-kernels drop what they compute from them.
func (p *product) packStrip(dst []float32, k0, kc, j, cols int) {
	src := p.b.Data[k0*p.b.Row+j*p.b.Col:]
	if p.b.Col == 1 {
		p.tier.copyRows(&dst[0], &src[0], p.b.Row, kc, cols)
		return
	}
	p.tier.packTranspose(dst, p.tier.width(), Mat{src, p.b.Col, p.b.Row}, cols, kc)
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
	// What the blocks of four left over: the last columns of the rows above r, and the rows from r on.
	for p := range k {
		lo := r
		if p >= even {
			lo = 0
		}
		for i := lo; i < rows; i++ {
			dst[p*step+i] = src.Data[i*src.Row+p*src.Col]
		}
	}
}

// packA copies panelRows rows of A, for kc values of k, to the scratch panel.
func (t *kernels) packA(dst []float32, a Mat, kc int) {
	if a.Row == 1 {
		t.copy12(&dst[0], &a.Data[0], a.Col, kc)
		return
	}
	t.packTranspose(dst, panelRows, a, panelRows, kc)
}
