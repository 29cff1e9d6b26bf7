package nn

import (
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/tensor"
)

// A cell is what a recurrent layer computes at each time, from x, the product of the weights with its input, and r,
// that with its state h:
//
//	tanh, relu   h' = f(x + r)
//	lstm         i, f, g, o = x + r in quarters
//	             c' = sigmoid(f)*c + sigmoid(i)*tanh(g), h' = sigmoid(o)*tanh(c')
//	gru          a, z, n = x and r in thirds, with sums of the first two
//	             h' = (1 - sigmoid(z))*tanh(xn + sigmoid(a)*rn) + sigmoid(z)*h
//
// With a projection, h' of an LSTM is multiplied by one more matrix.
type cell struct {
	name  string
	gates int        // rows of the weights over the size of the state
	op    *tensor.Op // of the state
}

var (
	tanhCell   = cell{"rnn", 1, engine.Op("tanh")}
	reluCell   = cell{"rnn", 1, engine.Op("relu")}
	lstmCell   = cell{"lstm", 4, engine.Op("lstm_state")}
	gruCell    = cell{"gru", 3, engine.Op("gru")}
	lstmOutput = engine.Op("lstm_output")
)

// recurrence is a cell over all times in one direction. The weight gradients of all times are one product.
type recurrence struct {
	cell
	reverse bool
	alive   *tensor.Tensor // [T B 1], bool: which sequences have this time; the others keep their state; nil: all
}

// loop is the operands of a recurrence.
type loop struct {
	x    *tensor.Tensor // [T B G*H]
	h, c *tensor.Tensor // first state: [B P], P = H without a projection, and [B H]; c of an LSTM only
	hh   *tensor.Tensor // [G*H P]
	bias *tensor.Tensor // [G*H], of a GRU only; nil: none
	hr   *tensor.Tensor // [P H], a projection; nil: none
}

// list is the operands that are there, pick the same from such a list.
func (l loop) list() (in []*tensor.Tensor) {
	for _, t := range []*tensor.Tensor{l.x, l.h, l.hh, l.c, l.bias, l.hr} {
		if t != nil {
			in = append(in, t)
		}
	}
	return in
}

func (l loop) pick(from []*tensor.Tensor) loop {
	for _, t := range []**tensor.Tensor{&l.x, &l.h, &l.hh, &l.c, &l.bias, &l.hr} {
		if *t != nil {
			*t, from = from[0], from[1:]
		}
	}
	return l
}

// frame is what the gradient of one time reads.
type frame struct {
	h, c           *tensor.Tensor // state before
	x, r           *tensor.Tensor // of a GRU
	gates          *tensor.Tensor // x + r; of a GRU the first two thirds
	next, nextC    *tensor.Tensor // state after, for sequences that are alive
	raw            *tensor.Tensor // next before the projection
	stateH, stateC *tensor.Tensor // after
	alive, zero    *tensor.Tensor // zero: [], to take the place of what is not alive
}

// step is the cell.
func (k *cell) step(x *tensor.Tensor, l loop, h, c *tensor.Tensor) (f frame) {
	f = frame{h: h, c: c, x: x, r: h.Linear(l.hh, l.bias)}
	switch k.name {
	case "gru":
		size := h.Dim(-1)
		f.gates = x.Slice(-1, 0, 2*size).Add(f.r.Slice(-1, 0, 2*size))
		f.next = engine.Apply(k.op, f.gruOperands(), nil, nil)
		return f
	case "lstm":
		f.gates = x.Add(f.r)
		g := f.gates.Chunk(-1, 4)
		f.nextC = engine.Apply(k.op, []*tensor.Tensor{g[0], g[1], g[2], c}, nil, nil)
		f.raw = engine.Apply(lstmOutput, []*tensor.Tensor{g[3], f.nextC}, nil, nil)
		if f.next = f.raw; l.hr != nil {
			f.next = f.raw.Linear(l.hr, nil)
		}
	default:
		f.gates = x.Add(f.r)
		f.next = engine.Apply(k.op, []*tensor.Tensor{f.gates}, nil, nil)
	}
	f.x, f.r = nil, nil
	return f
}

// gruOperands are reset and update gate, the two parts of the candidate, and the state.
func (f *frame) gruOperands() []*tensor.Tensor {
	size := f.h.Dim(-1)
	g := f.gates.Chunk(-1, 2)
	return []*tensor.Tensor{g[0], g[1], f.x.Slice(-1, 2*size, 3*size), f.r.Slice(-1, 2*size, 3*size), f.h}
}

// pull is the gradients for x and r, in parts along the last axis, and for the states before, but for what flows
// through r, from those for the state after.
func (k *cell) pull(f frame, l loop, dh, dc *tensor.Tensor) (dx, dr []*tensor.Tensor, direct, dcBefore *tensor.Tensor) {
	switch k.name {
	case "gru":
		d := engine.Pull(k.op, f.gruOperands(), f.next, dh)
		return d[:3], []*tensor.Tensor{d[0], d[1], d[3]}, d[4], nil
	case "lstm":
		if l.hr != nil {
			dh = dh.MatMul(l.hr)
		}
		g := f.gates.Chunk(-1, 4)
		out := engine.Pull(lstmOutput, []*tensor.Tensor{g[3], f.nextC}, f.raw, dh)
		d := engine.Pull(k.op, []*tensor.Tensor{g[0], g[1], g[2], f.c}, f.nextC, dc.Add(out[1]))
		dx = []*tensor.Tensor{d[0], d[1], d[2], out[0]}
		return dx, dx, nil, d[3]
	}
	dx = engine.Pull(k.op, []*tensor.Tensor{f.gates}, f.next, dh)
	return dx, dx, nil, nil
}

// times are the positions in the order in which they are computed.
func (r *recurrence) times(n int) []int {
	order := make([]int, n)
	for i := range order {
		if order[i] = i; r.reverse {
			order[i] = n - 1 - i
		}
	}
	return order
}

// forward computes the frames of all times.
func (r *recurrence) forward(l loop) []frame {
	frames := make([]frame, l.x.Dim(0))
	l.hh = l.hh.T().Contiguous().T() // its transpose contiguous: products with few rows read that in place
	h, c := l.h, l.c
	var zero *tensor.Tensor
	if r.alive != nil {
		zero = engine.NewFull(l.x, 0, h.DType())
	}
	for _, t := range r.times(len(frames)) {
		f := r.step(l.x.Select(0, t), l, h, c)
		f.stateH, f.stateC = f.next, f.nextC
		if r.alive != nil {
			f.alive, f.zero = r.alive.Select(0, t), zero
			f.stateH = f.alive.Where(f.next, h)
			if c != nil {
				f.stateC = f.alive.Where(f.nextC, c)
			}
		}
		frames[t], h, c = f, f.stateH, f.stateC
	}
	return frames
}

// divide splits the gradient of the state after into those for what the cell makes and for the state before.
func (f *frame) divide(d *tensor.Tensor) (next, before *tensor.Tensor) {
	if f.alive == nil || d == nil {
		return d, nil
	}
	return f.alive.Where(d, f.zero), f.alive.Where(f.zero, d)
}

// A series is a matrix for each time. Unless they are recorded all are made in one piece of memory, their stack.
type series struct {
	at  []*tensor.Tensor
	all *tensor.Tensor
}

func newSeries(times int) *series { return &series{at: make([]*tensor.Tensor, times)} }

// put joins parts along the last axis to the matrix of time t.
func (q *series) put(t int, parts []*tensor.Tensor) *tensor.Tensor {
	s, join := parts[0].Scope(), func() *tensor.Tensor { return tensor.Cat(-1, parts...) }
	if engine.Recording(s) {
		q.at[t] = join()
		return q.at[t]
	}
	if q.all == nil {
		columns := 0
		for _, p := range parts {
			columns += p.Dim(-1)
		}
		q.all = engine.Empty(s, parts[0].DType(), len(q.at), parts[0].Dim(0), columns)
	}
	return engine.Into(q.all.Select(0, t), join)
}

// stack is the matrices of all times, [T ...].
func (q *series) stack() *tensor.Tensor {
	if q.all != nil {
		return q.all
	}
	return tensor.Stack(0, q.at...)
}

// sum is the sum of those that are there.
func sum(terms ...*tensor.Tensor) (total *tensor.Tensor) {
	for _, t := range terms {
		switch {
		case total == nil:
			total = t
		case t != nil:
			total = total.Add(t)
		}
	}
	return total
}

// backward is the gradients of the operands, from those for the states h of all times and the last c.
func (r *recurrence) backward(l loop, frames []frame, dy, dc *tensor.Tensor) (grads loop) {
	n := len(frames)
	dxs, drs := newSeries(n), newSeries(n)
	before, nexts, raws := make([]*tensor.Tensor, n), make([]*tensor.Tensor, n), make([]*tensor.Tensor, n)
	var dh *tensor.Tensor
	order := r.times(n)
	for i := n - 1; i >= 0; i-- {
		t := order[i]
		f := frames[t]
		next, kept := f.divide(sum(dy.Select(0, t), dh))
		nextC, keptC := f.divide(dc)
		var direct *tensor.Tensor
		var dx, dr []*tensor.Tensor
		dx, dr, direct, dc = r.pull(f, l, next, nextC)
		dGates := dxs.put(t, dx)
		if r.name == "gru" {
			dGates = drs.put(t, dr)
		}
		dh = sum(dGates.MatMul(l.hh), direct, kept)
		dc = sum(dc, keptC)
		before[t], nexts[t], raws[t] = f.h, next, f.raw
	}
	grads = loop{x: dxs.stack(), h: dh, c: dc}
	dr := grads.x
	if r.name == "gru" {
		dr = drs.stack()
	}
	grads.hh = weightGrad(dr, before)
	if l.bias != nil {
		grads.bias = dr.Sum(0, 1)
	}
	if l.hr != nil {
		grads.hr = weightGrad(tensor.Stack(0, nexts...), raws)
	}
	return grads
}

// weightGrad is the gradient of a weight that made results with gradients g, [T B out], of the operands in, [B in] for
// each time.
func weightGrad(g *tensor.Tensor, in []*tensor.Tensor) *tensor.Tensor {
	return g.Flatten(0, 1).T().MatMul(tensor.Cat(0, in...))
}

// run is the states h of all times, [T B P], and the last c, as one operation.
func (r *recurrence) run(l loop) (y, c *tensor.Tensor) {
	s := l.x.Scope()
	records := engine.Recording(s)
	n, batch, size := l.x.Dim(0), l.x.Dim(1), l.h.Dim(-1)
	var in []*tensor.Tensor
	var frames []frame
	flat := autograd.Custom(r.name, func(c *autograd.Ctx, taken ...*tensor.Tensor) *tensor.Tensor {
		in = taken
		made := r.forward(l.pick(in))
		parts := make([]*tensor.Tensor, n)
		for t, f := range made {
			parts[t] = f.stateH.Flatten(0, -1)
			if records {
				c.Save(f.kept()...)
			}
		}
		if records {
			frames = made
		}
		if l.c != nil {
			parts = append(parts, made[r.times(n)[n-1]].stateC.Flatten(0, -1))
		}
		if c.Save(in...); r.alive != nil {
			c.Save(r.alive)
		}
		return tensor.Cat(0, parts...)
	}, func(c *autograd.Ctx, g *tensor.Tensor) []*tensor.Tensor {
		l := l.pick(in)
		if engine.Recording(s) { // the frames are functions of the operands
			frames = r.forward(l)
		}
		var dc *tensor.Tensor
		if l.c != nil {
			dc = g.Slice(0, n*batch*size, g.Len()).Reshape(l.c.Shape()...)
		}
		grads := r.backward(l, frames, g.Slice(0, 0, n*batch*size).Reshape(n, batch, size), dc).list()
		for i, d := range grads {
			grads[i] = d.To(in[i].DType())
		}
		return grads
	}, l.list()...)
	if l.c != nil {
		c = flat.Slice(0, n*batch*size, flat.Len()).Reshape(l.c.Shape()...)
	}
	return flat.Slice(0, 0, n*batch*size).Reshape(n, batch, size), c
}

// kept is what the frame holds that the recurrence has made.
func (f *frame) kept() (all []*tensor.Tensor) {
	for _, t := range []*tensor.Tensor{f.gates, f.r, f.next, f.nextC, f.raw, f.stateH, f.stateC, f.zero} {
		if t != nil {
			all = append(all, t)
		}
	}
	return all
}
