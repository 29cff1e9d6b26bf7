//go:build linux || darwin

package data

import (
	"os"
	"runtime"
	"syscall"
)

// mapFile maps a file into memory, for reading; nil if that cannot be done. The map ends when nothing refers to it.
func mapFile(file *os.File, size int64) *mapped {
	if size != int64(int(size)) {
		return nil
	}
	bytes, err := syscall.Mmap(int(file.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil
	}
	m := &mapped{bytes: bytes, file: file}
	runtime.AddCleanup(m, func(bytes []byte) { syscall.Munmap(bytes) }, bytes)
	return m
}
