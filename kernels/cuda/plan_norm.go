//go:build cuda && cgo && linux

package cuda

import "github.com/weft-ml/weft/kernels"

func init() {
	plans["layer_norm"] = planNorm
	plans["rms_norm"] = planNorm
	plans["layer_norm_grad"] = planNormGrad
	plans["rms_norm_grad"] = planNormGrad
}

// planNorm normalises rows, the last l.Ints[0] axes. Layer norm has the results y, mean and rstd, RMS norm has no mean.
func planNorm(c *call, l *kernels.Launch) error {
	x := &l.In[0]
	axes := lastAxes(x, l.Ints[0])
	count, n := extent(x, axes)
	if count == 0 {
		return nil
	}
	if err := c.startRows("norm", x.DType, count, n); err != nil {
		return err
	}
	mean := uint64(0)
	if len(l.Out) == 3 {
		mean = c.address(&l.Out[1])
	}
	arg(c, c.address(&l.Out[0]))
	arg(c, mean)
	arg(c, c.address(&l.Out[len(l.Out)-1]))
	c.rows(x, axes)
	c.parameter(l, 1)
	c.parameter(l, 2)
	arg(c, uint64(count))
	arg(c, uint32(n))
	arg(c, l.Floats[0])
	return nil
}

// parameter appends operand k as one row; none if it is missing.
func (c *call) parameter(l *kernels.Launch, k int) {
	if k >= len(l.In) {
		structure(c, &rows{})
		return
	}
	c.rows(&l.In[k], lastAxes(&l.In[k], len(l.In[k].Shape)))
}

// planNormGrad computes the gradients that l.Ints[1:] asks for by a 1: of x, weight and, for layer norm, bias. The
// operands are g, x, mean (for layer norm), rstd and, if present, weight.
func planNormGrad(c *call, l *kernels.Launch) error {
	x := &l.In[1]
	axes := lastAxes(x, l.Ints[0])
	count, n := extent(x, axes)
	rstd := 2
	if len(l.Ints) == 4 {
		rstd = 3
	}
	if l.Ints[1] == 1 && count*n > 0 {
		if err := c.startRows("norm_grad", x.DType, count, n); err != nil {
			return err
		}
		c.pointer(&l.Out[0])
		c.normOperands(l, axes, rstd)
		c.parameter(l, rstd+1)
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
	return c.normParameters(l, axes, rstd, count, n, wanted)
}

// normOperands appends g, x, mean and rstd.
func (c *call) normOperands(l *kernels.Launch, axes []int, rstd int) {
	c.rows(&l.In[0], axes)
	c.rows(&l.In[1], axes)
	if rstd == 3 {
		c.rows(&l.In[2], nil)
	} else {
		structure(c, &rows{})
	}
	c.rows(&l.In[rstd], nil)
}

// normParameters computes dweight and dbias where they are wanted.
func (c *call) normParameters(l *kernels.Launch, axes []int, rstd, count, n int, wanted [2]result) error {
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
	folds := (count + foldBlock - 1) / foldBlock
	if folds > maxGridOther {
		return kernels.Errorf(kernels.ErrDevice, c.op, "%d rows; kernels on %s take %d", count, c.b.Name(), maxGridOther*foldBlock)
	}
	number := numberOf(l.In[1].DType)
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
	symbol := "norm_parameters_" + reader(l.In[1].DType)
	if err := c.start(symbol, dim{uint32((n + foldColumns - 1) / foldColumns), uint32(folds), 1}, foldThreads); err != nil {
		return err
	}
	structure(c, &to[0])
	structure(c, &to[1])
	c.normOperands(l, axes, rstd)
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
