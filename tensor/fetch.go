package tensor

import (
	"runtime"

	"github.com/weft-ml/weft/kernels/cpu"
)

// Fetch begins to copy the elements of t to the host, without waiting for the device. The result gives them, in row-major
// order, once they have arrived, and nil before: numbers that a training loop watches, one step late. They never arrive if the
// device fails before; what comes next on it tells.
func (t *Tensor) Fetch() (arrived func() []float64) {
	t.alive("fetch")
	dev := t.device()
	if dev.inHostMemory() {
		v := ToSlice[float64](t)
		return func() []float64 { return v }
	}
	c := t.Detach().Contiguous()
	data := make([]byte, c.Len()*c.dtype.Size())
	copied("fetch", dev.shared.backend.CopyOut(0, data, c.blk.buf, c.layout.Offset*c.dtype.Size()))
	mark := dev.shared.backend.Record(0)
	runtime.KeepAlive(c)
	dtype, shape := c.dtype, c.Shape()
	var v []float64
	return func() []float64 {
		if v != nil {
			return v
		}
		if done, err := mark.Done(); done && err == nil {
			v = ToSlice[float64](newTensor(hostBlock(cpu.Wrap(data), "fetch"), dtype, shape, nil))
		}
		return v
	}
}
