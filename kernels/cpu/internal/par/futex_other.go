//go:build !linux

package par

import (
	"sync/atomic"
	"time"
)

// futexWait returns at once: on this system helpers end when they have watched in vain.
func futexWait(*atomic.Uint32, uint32, time.Duration) {}

// futexWake has nobody to wake.
func futexWake(*atomic.Uint32, int) {}

// yield does nothing: runtime.Gosched has been called.
func yield() {}
