package disk

import (
	"os"
	"syscall"
)

// begin has the system begin to write n bytes of a file, from byte at on. It is no promise: a failure comes with Sync.
func begin(file *os.File, at, n int64) {
	const write = 2 // SYNC_FILE_RANGE_WRITE
	syscall.SyncFileRange(int(file.Fd()), at, n, write)
}
