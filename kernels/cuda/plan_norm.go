//go:build cuda && cgo && linux

package cuda

import "github.com/weft-ml/weft/kernels"

func init() {
	plans["layer_norm"] = planNorm
	plans["rms_norm"] = planNorm
	plans["layer_norm_grad"] = planNormGrad
	plans["rms_norm_grad"] = planNormGrad
}

const normBlocks = 4 // of norm.cu that a multiprocessor holds: more rows are taken in turns

// planNorm normalises rows, the last l.Ints[0] axes. Layer norm has the results y, mean and rstd, RMS norm has no mean.
func planNorm(c *call, l *kernels.Launch) error {
	x := &l.In[0]
	axes := lastAxes(x, l.Ints[0])
	count, n := extent(x, axes)
	if count == 0 {
		return nil
	}
	if err := c.startRows("norm", x.DType, min(count, normBlocks*rowWarps*c.b.gpu.SMs), n, rowWarps); err != nil {
		return err
	}
	mean, parameters := uint64(0), [2]*kernels.Arg{}
	if layer := len(l.Out) == 3; layer {
		mean = c.address(&l.Out[1])
	}
	for k := range l.In[1:] {
		parameters[k] = &l.In[1+k]
	}
	arg(c, c.address(&l.Out[0]))
	arg(c, mean)
	arg(c, c.address(&l.Out[len(l.Out)-1]))
	c.rows(x, axes)
	c.parameter(parameters[0])
	c.parameter(parameters[1])
	arg(c, uint64(count))
	arg(c, uint32(n))
	arg(c, l.Floats[0])
	return nil
}

// parameter appends an operand as one row; none if it is missing.
func (c *call) parameter(a *kernels.Arg) {
	if a == nil {
		structure(c, &rows{})
		return
	}
	c.rows(a, lastAxes(a, len(a.Shape)))
}

// normOperands are the operands of a norm's gradient; RMS norm has no mean, and weight may be missing.
type normOperands struct{ g, x, mean, rstd, weight *kernels.Arg }

func normOperandsOf(l *kernels.Launch) normOperands {
	o := normOperands{g: &l.In[0], x: &l.In[1]}
	rest := l.In[2:]
	if layer := len(l.Ints) == 4; layer { // x, weight and bias may have gradients
		o.mean, rest = &rest[0], rest[1:]
	}
	o.rstd = &rest[0]
	if len(rest) > 1 {
		o.weight = &rest[1]
	}
	return o
}

// normRows appends g, x, mean and rstd.
func (c *call) normRows(o *normOperands, axes []int) {
	c.rows(o.g, axes)
	c.rows(o.x, axes)
	if o.mean != nil {
		c.rows(o.mean, nil)
	} else {
		structure(c, &rows{})
	}
	c.rows(o.rstd, nil)
}

// planNormGrad computes the gradients that l.Ints[1:] asks for by a 1: of x, weight and, for layer norm, bias.
func planNormGrad(c *call, l *kernels.Launch) error {
	o := normOperandsOf(l)
	axes := lastAxes(o.x, l.Ints[0])
	count, n := extent(o.x, axes)
	if l.Ints[1] == 1 && count*n > 0 {
		if err := c.startRows("norm_grad", o.x.DType, count, n, rowWarps); err != nil {
			return err
		}
		c.pointer(&l.Out[0])
		c.normRows(&o, axes)
		c.parameter(o.weight)
		arg(c, uint64(count))
		arg(c, uint32(n))
	}
	var wanted [2]result // dweight, dbias
	for k := range l.Ints[2:] {
		if l.Ints[2+k] == 1 {
			wanted[k] = c.resultOf(&l.Out[1+k])
		}
	}
	if n == 0 || wanted == [2]result{} {
		return nil
	}
	return c.normParameters(&o, axes, count, n, wanted)
}

// normParameters computes dweight and dbias where they are wanted.
func (c *call) normParameters(o *normOperands, axes []int, count, n int, wanted [2]result) error {
	if count == 0 {
		for _, y := range wanted {
			if y.to != 0 {
				if err := c.fill(y, 0, n); err != nil {
					return err
				}
			}
		}
		return nil
	}
	folds := ceilDiv(count, foldBlock)
	if folds > maxGridOther {
		return kernels.Errorf(kernels.ErrDevice, c.op, "%d rows; kernels on %s take %d", count, c.b.Name(), maxGridOther*foldBlock)
	}
	number := numberOf(o.x.DType)
	to := wanted
	if folds > 1 {
		size := partialBytes(number, n, count)
		room, err := c.scratch(2 * size)
		if err != nil {
			return err
		}
		for k := range to {
			if to[k].to != 0 {
				to[k] = result{to: room + uint64(k*size), dtype: uint64(number)}
			}
		}
	}
	symbol := "norm_parameters_" + reader(o.x.DType)
	if err := c.start(symbol, dim{uint32(ceilDiv(n, foldColumns)), uint32(folds), 1}, foldThreads); err != nil {
		return err
	}
	structure(c, &to[0])
	structure(c, &to[1])
	c.normRows(o, axes)
	arg(c, uint64(count))
	arg(c, uint32(n))
	if folds == 1 {
		return nil
	}
	for k := range wanted {
		if wanted[k].to != 0 {
			if err := c.upperLevels("sum", wanted[k], to[k].to, number, n, folds); err != nil {
				return err
			}
		}
	}
	return nil
}
