package tensor

import (
	"runtime"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// Fetch starts to copy the elements of t to the host, without waiting for the device. The result returns them in
// row-major order once they have arrived, and nil before. A training loop can watch a loss this way, one step late and
// without a wait. If the device fails first, they never arrive, and the next operation on the device returns the error.
func (t *Tensor) Fetch() (arrived func() []float64) {
	t.usable("fetch")
	t.fresh("fetch")
	dev := t.device()
	if dev.inHostMemory() {
		v := ToSlice[float64](t)
		return func() []float64 { return v }
	}
	dtype, shape := t.dtype, t.Shape()
	data := makeHost[byte]("fetch", t.Len()*dtype.Size())
	var event kernels.Event
	t.scope.alone(func() {
		c := t.Detach().Contiguous()
		copied("fetch", dev.shared.backend.CopyOut(0, data, c.blk.buf, c.layout.Offset*dtype.Size()))
		event = dev.shared.backend.Record(0)
		runtime.KeepAlive(c)
	})
	var v []float64
	return func() []float64 {
		if v != nil {
			return v
		}
		if done, err := event.Done(); done && err == nil {
			v = ToSlice[float64](newTensor(hostBlock(cpu.Wrap(data), "fetch"), dtype, shape, nil))
		}
		return v
	}
}
