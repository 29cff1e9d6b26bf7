//go:build cuda && cgo && linux

package cuda

import (
	"math"

	"github.com/weft-ml/weft/kernels"
)

// Convolutions are products with an operand that is unfolded, some images at a time: see conv.cu. The order of the
// terms is that of kernels/cpu.
func init() {
	plans["conv"] = planConv
	plans["conv_transpose"] = planConvTranspose
	plans["conv_weight"] = planConvWeight
}

const (
	matmulChunk = 256      // terms of a chunk of the canonical order of products
	convScratch = 64 << 20 // bytes of unfolded operands and products, unless an image or a chunk takes more
)

// unfoldAxis is the struct UnfoldAxis of conv.cu.
type unfoldAxis struct {
	n, step, start, stride, dilation int64
	positions, size                  uint32
}

// unfolding is the struct Unfolding of conv.cu.
type unfolding struct {
	axis                              [3]unfoldAxis
	image, channel, toImage, toRow    int64
	first, columns, positions, window uint32
}

// A convolution is the geometry of an op call, with three spatial axes; those that are missing have size 1.
type convolution struct {
	x, y, weight             convArg
	groups                   int
	stride, before, dilation [3]int
}

// A convArg is an operand or the result: its first two axes, then the spatial ones.
type convArg struct {
	at             uint64 // address
	shape, strides [2]int
	size, step     [3]int // of the spatial axes: sizes and strides
	dtype          kernels.DType
}

func (c *call) convArg(a *kernels.Arg) convArg {
	v := convArg{at: c.address(a), shape: [2]int(a.Shape), strides: [2]int(a.Strides), size: [3]int{1, 1, 1},
		dtype: a.DType}
	first := 5 - len(a.Shape)
	copy(v.size[first:], a.Shape[2:])
	copy(v.step[first:], a.Strides[2:])
	return v
}

// from is the address of an image.
func (a *convArg) from(image int) uint64 { return a.at + uint64(image*a.strides[0]*a.dtype.Size()) }

func (c *call) convolution(x, weight, y *kernels.Arg, ints []int) *convolution {
	v := &convolution{x: c.convArg(x), y: c.convArg(y), weight: c.convArg(weight), groups: ints[len(ints)-1],
		stride: [3]int{1, 1, 1}, dilation: [3]int{1, 1, 1}}
	axes := len(ints) / 4
	copy(v.stride[3-axes:], ints)
	copy(v.before[3-axes:], ints[axes:])
	copy(v.dilation[3-axes:], ints[2*axes:])
	return v
}

// seen is what windows see of x, along each axis.
func (v *convolution) seen() (axes [3]unfoldAxis) {
	for d := range axes {
		axes[d] = unfoldAxis{int64(v.x.size[d]), int64(v.x.step[d]), -int64(v.before[d]), int64(v.stride[d]),
			int64(v.dilation[d]), uint32(v.y.size[d]), uint32(v.weight.size[d])}
	}
	return axes
}

// elements are those of the operand a, in places or some of them, as windows of one element.
func (a *convArg) elements() (axes [3]unfoldAxis) {
	for d := range axes {
		axes[d] = unfoldAxis{n: int64(a.size[d]), step: int64(a.step[d]), stride: 1, positions: uint32(a.size[d]),
			size: 1}
	}
	return axes
}

// newUnfolding reads a; positions and elements of the window are those of its axes.
func (c *call) newUnfolding(a *convArg, axes [3]unfoldAxis) unfolding {
	u := unfolding{axis: axes, image: int64(a.strides[0]), channel: int64(a.strides[1])}
	positions, window := 1, 1
	for _, axis := range axes {
		positions *= int(axis.positions)
		window *= int(axis.size)
	}
	c.wantConv(positions)
	c.wantConv(window)
	u.positions, u.window = uint32(positions), uint32(window)
	return u
}

// wantConv refuses sizes that the kernels have no numbers for.
func (c *call) wantConv(size int) {
	if size > math.MaxInt32 {
		c.refuse("sizes above 2^31 are not supported: %d", size)
	}
}

// unfold launches a copy to matrix `to` of so many rows and columns; the steps of u are set.
func (c *call) unfold(to, from uint64, d kernels.DType, rows, columns int, u *unfolding) {
	c.wantConv(rows)
	c.wantConv(int(u.first) + columns)
	if rows*columns == 0 {
		return
	}
	u.columns = uint32(columns)
	c.startWindows("conv_unfold_"+suffixes[d], rows*columns)
	arg(c, to)
	arg(c, from)
	arg(c, uint64(rows*columns))
	structure(c, u)
}

// A convPart is elements of the result, which one product for each image and group computes.
type convPart struct {
	seen   [3]unfoldAxis // of the operand
	weight [3]unfoldAxis // the elements of the window that take part, as positions
	size   [3]int        // of the elements in the result
	first  int           // offset of the first of them
	step   [3]int        // their strides
}

func (p *convPart) taps() (n int) {
	n = 1
	for _, a := range p.weight {
		n *= int(a.positions)
	}
	return n
}

// planConv multiplies the weight [o, (c, t)] by the unfolded x.
func planConv(c *call, l *kernels.Launch) {
	v := c.convolution(&l.In[0], &l.In[1], &l.Out[0], l.Ints)
	part := convPart{v.seen(), v.weight.elements(), v.y.size, 0, v.y.step}
	weight := v.weight
	weight.shape = [2]int{weight.shape[1], weight.shape[0]}
	weight.strides = [2]int{weight.strides[1], weight.strides[0]}
	c.convParts(l, v.groups, &v.x, &weight, &v.y, []convPart{part})
}

// planConvTranspose has a part for each phase of the stride, to which the same elements of the window contribute, and
// multiplies these, [c, (o, t)], by the unfolded y.
func planConvTranspose(c *call, l *kernels.Launch) {
	v := c.convolution(&l.Out[0], &l.In[1], &l.In[0], l.Ints)
	if l.Out[0].Len() == 0 {
		return
	}
	phases := [3]int{}
	for d := range phases {
		phases[d] = min(v.stride[d], v.x.size[d])
	}
	var parts []convPart
	for number := range kernels.Count(phases[:]) {
		part := convPart{step: v.x.step}
		for d, rest := 2, number; d >= 0; d-- {
			first := rest % phases[d]
			rest /= phases[d]
			part.size[d] = (v.x.size[d] - first + v.stride[d] - 1) / v.stride[d]
			part.first += first * v.x.step[d]
			part.step[d] = v.stride[d] * v.x.step[d]
			part.seen[d], part.weight[d] = v.reaching(d, first)
			part.seen[d].positions = uint32(part.size[d])
		}
		parts = append(parts, part)
	}
	c.convParts(l, v.groups, &v.y, &v.weight, &v.x, parts)
}

// reaching is what elements first, first + stride, ... of x along axis d get: of y, and from which elements t of the
// window. These are those for which the stride divides first + before - t*dilation, which are equally far apart.
func (v *convolution) reaching(d, first int) (seen, weight unfoldAxis) {
	last := -1
	for t := range v.weight.size[d] {
		from := first + v.before[d] - t*v.dilation[d]
		if from%v.stride[d] != 0 {
			continue
		}
		at := int64(from / v.stride[d])
		switch weight.positions {
		case 0:
			weight.start, seen.start = int64(t), at
		case 1:
			weight.stride, seen.dilation = int64(t-last), at-seen.start
		}
		last = t
		weight.positions++
	}
	weight.n, weight.step, weight.size = int64(v.weight.size[d]), int64(v.weight.step[d]), 1
	seen.n, seen.step, seen.stride, seen.size = int64(v.y.size[d]), int64(v.y.step[d]), 1, weight.positions
	return seen, weight
}

// convParts computes the parts of result y. The first axis of the weight is the channels of x, of all groups or of one;
// the second those of y. A part that is all of y needs no places.
func (c *call) convParts(l *kernels.Launch, groups int, x, weight, y *convArg, parts []convPart) {
	d := y.dtype
	if l.Out[0].Len() == 0 {
		return
	}
	images, channels, m := x.shape[0], x.shape[1]/groups, y.shape[1]/groups
	weights, unfolded, products := 0, 0, 0 // elements
	for i := range parts {
		taps, columns := parts[i].taps(), kernels.Count(parts[i].size[:])
		weights = max(weights, roundUp(weight.shape[0]*weight.shape[1]*taps, 64))
		unfolded = max(unfolded, roundUp(x.shape[1]*taps*columns, 64))
		if len(parts) > 1 {
			products = max(products, y.shape[1]*columns)
		}
	}
	block := max(1, min(images, convScratch/d.Size()/max(1, unfolded+products)))
	matrix := c.scratch((weights + block*(unfolded+products)) * d.Size())
	columnsAt := matrix + uint64(weights*d.Size())
	productsAt := columnsAt + uint64(block*unfolded*d.Size())
	for i := range parts {
		part := &parts[i]
		taps, columns := part.taps(), kernels.Count(part.size[:])
		terms := channels * taps
		u := c.newUnfolding(weight, part.weight)
		u.toImage, u.toRow = int64(taps), int64(weight.shape[0]*taps)
		c.unfold(matrix, weight.at, d, weight.shape[1], weight.shape[0]*taps, &u)
		p := product{a: matrix, b: columnsAt, m: uint32(m), n: uint32(columns), k: uint32(terms), cRow: uint32(columns),
			aRow: u.toRow, aColumn: 1, bRow: int64(columns), bColumn: 1}
		batch := productBatch{rank: 2, stride: [2][kernels.MaxDims]int64{
			{0, int64(m) * u.toRow}, {int64(groups * terms * columns), int64(terms * columns)}}}
		if weight.shape[1] == m { // its first axis has the groups
			batch.stride[0][1] = int64(terms)
		}
		u = c.newUnfolding(x, part.seen)
		u.toImage, u.toRow = int64(x.shape[1]*taps*columns), int64(columns)
		for first := 0; first < images; first += block {
			count := min(block, images-first)
			c.unfold(columnsAt, x.from(first), d, x.shape[1]*taps, count*columns, &u)
			if p.c = y.from(first); len(parts) > 1 {
				p.c = productsAt
			}
			batch.size = [kernels.MaxDims]int64{int64(count), int64(groups)}
			c.multiply(&p, &batch, count*groups, d)
			if len(parts) > 1 || len(l.In) > 2 {
				c.place(l, y, part, p.c, first, count)
			}
		}
	}
}

// place moves finished products of a part, for count images, to their places in y, and adds the bias.
func (c *call) place(l *kernels.Launch, y *convArg, part *convPart, from uint64, first, count int) {
	positions := kernels.Count(part.size[:])
	n := count * y.shape[1] * positions
	if n == 0 {
		return
	}
	var axes kernels.Dims
	axes.PushAll([]int{count, y.shape[1]}, y.strides[:])
	axes.PushAll(part.size[:], part.step[:])
	c.startWindows("conv_place_"+suffixes[y.dtype], n)
	arg(c, y.from(first)+uint64(part.first*y.dtype.Size()))
	arg(c, from)
	if len(l.In) > 2 {
		c.pointer(&l.In[2])
		arg(c, int64(l.In[2].Strides[0]))
	} else {
		arg(c, uint64(0))
		arg(c, int64(0))
	}
	arg(c, uint64(n))
	arg(c, uint64(y.shape[1]))
	arg(c, uint64(positions))
	structure(c, &axes)
}

// planConvWeight multiplies y [o, (n, p)] by the transposed unfolded x [(c, t), (n, p)], one product for each chunk of
// terms, and adds these in their order.
func planConvWeight(c *call, l *kernels.Launch) {
	v := c.convolution(&l.In[0], &l.Out[0], &l.In[1], l.Ints)
	d, n := v.x.dtype, l.Out[0].Len()
	if n == 0 {
		return
	}
	ux, uy := c.newUnfolding(&v.x, v.seen()), c.newUnfolding(&v.y, v.y.elements())
	positions := int(ux.positions)
	terms := v.x.shape[0] * positions
	if terms == 0 {
		c.fill(result{to: v.weight.at, dtype: uint64(d.Code())}, 0, n)
		return
	}
	out, columns := v.weight.shape[0]/v.groups, v.weight.shape[1]*int(ux.window)
	rowsX, rowsY := v.groups*columns, v.weight.shape[0]
	chunks := min(ceilDiv(terms, matmulChunk), max(1, convScratch/d.Size()/(matmulChunk*(rowsX+rowsY)+n)))
	piece := chunks * matmulChunk
	seen := c.scratch((piece*(rowsX+rowsY) + chunks*n) * d.Size())
	grads := seen + uint64(piece*rowsX*d.Size())
	products := grads + uint64(piece*rowsY*d.Size())
	ux.toImage, uy.toImage = int64(positions), int64(positions)
	for first := 0; first < terms; first += piece {
		count := min(piece, terms-first)
		ux.first, ux.toRow = uint32(first%positions), int64(count)
		uy.first, uy.toRow = ux.first, ux.toRow
		c.unfold(seen, v.x.from(first/positions), d, rowsX, count, &ux)
		c.unfold(grads, v.y.from(first/positions), d, rowsY, count, &uy)
		p := product{a: grads, b: seen, c: products, m: uint32(out), n: uint32(columns), k: matmulChunk,
			cRow: uint32(columns), aRow: int64(count), aColumn: 1, bRow: 1, bColumn: int64(count)}
		batch := productBatch{rank: 2, stride: [2][kernels.MaxDims]int64{
			{matmulChunk, int64(out * count)}, {matmulChunk, int64(columns * count)}}}
		whole, rest := count/matmulChunk, count%matmulChunk
		if whole > 0 {
			batch.size = [kernels.MaxDims]int64{int64(whole), int64(v.groups)}
			c.multiply(&p, &batch, whole*v.groups, d)
		}
		if rest > 0 {
			done := uint64(whole * matmulChunk * d.Size())
			p.a, p.b, p.c, p.k = p.a+done, p.b+done, p.c+uint64(whole*n*d.Size()), uint32(rest)
			batch.size = [kernels.MaxDims]int64{1, int64(v.groups)}
			c.multiply(&p, &batch, v.groups, d)
		}
		c.startWindows("conv_add_"+suffixes[d], n)
		arg(c, v.weight.at)
		arg(c, products)
		arg(c, uint64(n))
		arg(c, uint64(ceilDiv(count, matmulChunk)))
		arg(c, uint32(min(first, 1)))
	}
}
