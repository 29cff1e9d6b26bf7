package profile

import (
	"fmt"

	"github.com/weft-ml/weft/internal/pool"
	"github.com/weft-ml/weft/tensor"
)

// WarnLeaks calls f when tensors that the program keeps at one line pile up on a device, as when each step appends a
// kept loss to a slice: when 256 of them are there of which the program refers to half or more, which takes two cycles
// of Go's collector to know, and again at each doubling. The text says how many there are, their bytes, and what and
// where the last one is. f runs in the goroutine that keeps it and must not use the device. A later WarnLeaks of the
// device replaces it, for all its users; a nil f ends it. The error is of kind [tensor.ErrDevice], if the device is
// closed.
func WarnLeaks(dev *tensor.Device, f func(text string)) error {
	if f == nil {
		return engine.WarnLeaks(dev, nil)
	}
	return engine.WarnLeaks(dev, func(l pool.Leak) { f(fmt.Sprint(l)) })
}
