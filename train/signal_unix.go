//go:build unix

package train

import (
	"os"
	"syscall"
)

// saveSignal asks a run to save.
var saveSignal os.Signal = syscall.SIGUSR1
