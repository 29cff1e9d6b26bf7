package driver

import (
	"embed"
	"io/fs"
)

// The files are embedded for two reasons: "weft cuda-env" copies them to where cgo finds them, and "go mod vendor"
// leaves out directories that no Go file names.
//
//go:embed include link
var headers embed.FS

// Headers holds what stands in for a CUDA toolkit when a program is built: the directories include and link.
func Headers() fs.FS { return headers }
