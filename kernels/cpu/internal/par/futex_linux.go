package par

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Operations of the futex system call on memory that other processes do not share.
const (
	futexWaitPrivate = 128
	futexWakePrivate = 129
)

// futexWait sleeps until futexWake, unless the word differs from value, and at most for the given time.
// The thread sleeps in a system call, so that waking it does not take the way through the scheduler of Go, which
// leaves a goroutine that became ready to the processor that made it so for 60 microseconds and more.
func futexWait(word *atomic.Uint32, value uint32, limit time.Duration) {
	timeout := syscall.NsecToTimespec(int64(limit))
	syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWaitPrivate, uintptr(value),
		uintptr(unsafe.Pointer(&timeout)), 0, 0)
}

// futexWake wakes up to n threads that sleep in futexWait.
func futexWake(word *atomic.Uint32, n int) {
	syscall.Syscall(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWakePrivate, uintptr(n))
}

// yield lets other threads that are ready to run have the processor.
func yield() { syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
