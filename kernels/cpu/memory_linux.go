package cpu

import (
	"sync"
	"syscall"
)

// physical is the machine's memory in bytes, 0 if it is not known.
var physical = sync.OnceValue(func() uint64 {
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit)
})
