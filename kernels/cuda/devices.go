//go:build cuda && cgo && linux

package cuda

import (
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/driver"
)

// Built tells whether this program can use GPUs.
const Built = true

// Devices lists the GPUs, also those that are too old ([GPU.Check] tells). The error, of kind [kernels.ErrDevice],
// says why there is none and what to do about it.
func Devices() ([]GPU, Driver, error) {
	library, err := driver.Open()
	var found []driver.GPU
	if err == nil {
		found, err = driver.Devices()
	}
	if err != nil {
		return nil, Driver{library}, kernels.Errorf(kernels.ErrDevice, "open", "%v", err)
	}
	all := make([]GPU, len(found))
	for i := range found {
		all[i].GPU = found[i]
	}
	return all, Driver{library}, nil
}
