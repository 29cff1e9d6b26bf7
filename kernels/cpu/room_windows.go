package cpu

import (
	"syscall"
	"unsafe"
)

var globalMemoryStatus = syscall.NewLazyDLL("kernel32.dll").NewProc("GlobalMemoryStatusEx")

// physical is the machine's memory in bytes, 0 if it is not known.
func physical() uint64 {
	var status struct { // MEMORYSTATUSEX
		length, load    uint32
		total, free     uint64
		pageFile        [2]uint64
		virtual         [2]uint64
		virtualExtended uint64
	}
	status.length = uint32(unsafe.Sizeof(status))
	if ok, _, _ := globalMemoryStatus.Call(uintptr(unsafe.Pointer(&status))); ok == 0 {
		return 0
	}
	return status.total
}
