package tensor

import "github.com/weft-ml/weft/kernels/cpu"

// Room returns an error of kind [ErrMemory] unless the process may have so many bytes more: of the machine's memory, of
// that of its container, and of its address space (ulimit -v). Go ends a process that asks for more. What reads data
// of any size asks first.
func Room(bytes int) error { return cpu.Room(bytes) }
