//go:build !unix

package train

import "os"

// saveSignal is none where the system has no such signal.
var saveSignal os.Signal
