package cpu

import (
	"unsafe"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// A large result has non-temporal stores, which pass the caches: its lines are not read from memory first, and what is
// read of it next would have left the caches anyway. Kernels do so while they load their operands; copies of finished
// pieces, which load nothing from memory meanwhile, take up to twice as long as with usual stores.

// nonTemporalFrom is from how many elements on: most third caches are smaller. Tests lower it.
var nonTemporalFrom = 1 << 23

// cacheLine is the elements of a cache line.
const cacheLine = alignment / 4

// onLine tells whether x begins with a cache line.
func onLine[T any](x []T) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(x)))%alignment == 0 }

// setNonTemporal sets the kernel with non-temporal stores for a large result of one instruction; nil if there is none.
func (x *execution[T]) setNonTemporal(l *kernels.Launch) {
	x.nonTemporal = nil
	y := &l.Out[0]
	if !x.results[0].direct || y.Len() < nonTemporalFrom || y.DType != kernels.Float32 {
		return
	}
	for k := range l.In {
		if overlap(&l.In[k], y) {
			return
		}
	}
	x.nonTemporal, _ = any(kernel[float32](vec.InstrNonTemporal(x.p.only))).(kernel[T])
}
