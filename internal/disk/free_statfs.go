//go:build linux || darwin

package disk

import (
	"io/fs"
	"math"
	"math/bits"
	"syscall"
)

func free(name string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(name, &st); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	hi, bytes := bits.Mul64(st.Bavail, uint64(st.Bsize))
	if hi != 0 || bytes > math.MaxInt64 {
		return math.MaxInt64, nil
	}
	return int64(bytes), nil
}
