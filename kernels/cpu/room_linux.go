package cpu

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// physical is the machine's memory in bytes, 0 if it is not known.
func physical() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return uint64(info.Totalram) * uint64(info.Unit)
}

// spaceLimit is the limit of the address space, of 0 bytes if there is none, and how much of it is mapped.
func spaceLimit() (l limit, mapped int) {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &r) != nil || r.Cur >= unlimited {
		return limit{}, 0
	}
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		fmt.Sscan(string(statm), &mapped)
	}
	return limit{int(r.Cur), "the address space (ulimit -v)"}, mapped * os.Getpagesize()
}

// groupLimit is the limit of the process's control group.
func groupLimit() int { return groupLimitOf(os.DirFS("/")) }

// groupLimitOf is the least limit in bytes of the control groups of the process and of those around them, of both
// versions; 0 if there is none. A container may see the path of the host, of which it has only the root.
func groupLimitOf(root fs.FS) (least int) {
	groups, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(groups)) { // number:controllers:path
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		dir, file := "sys/fs/cgroup", "memory.max"
		if fields[1] != "" { // version 1
			if !slices.Contains(strings.Split(fields[1], ","), "memory") {
				continue
			}
			dir, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			text, _ := fs.ReadFile(root, path.Join(dir, group, file))
			if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && (least == 0 || n < least) {
				least = n
			}
			if group == "/" {
				break
			}
		}
	}
	return least
}
