package cpu

import (
	"unsafe"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu/internal/vec"
)

// A large result is stored past the caches, by non-temporal stores: its lines are then not read from memory first, and
// what is read of it next would have left the caches anyway. Kernels do so while they load their operands; copies of
// finished pieces, which load nothing from memory meanwhile, take up to twice as long as stores through the caches.

// pastCaches is from how many elements on: most third caches are smaller. Tests lower it.
var pastCaches = 1 << 23

// cacheLine is the elements of a cache line.
const cacheLine = alignment / 4

// onLine tells whether x begins with a cache line.
func onLine[T any](x []T) bool { return uintptr(unsafe.Pointer(unsafe.SliceData(x)))%alignment == 0 }

// setPast sets the kernel for a large result of one instruction, which is stored past the caches; nil if there is none.
func (x *execution[T]) setPast(l *kernels.Launch) {
	x.past = nil
	y := &l.Out[0]
	if !x.results[0].direct || y.Len() < pastCaches || y.DType != kernels.Float32 {
		return
	}
	for k := range l.In {
		if overlap(&l.In[k], y) {
			return
		}
	}
	x.past, _ = any(kernel[float32](vec.InstrPast(x.p.only))).(kernel[T])
}
