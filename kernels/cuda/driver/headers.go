package driver

import "embed"

// Headers holds what stands in for a CUDA toolkit when a program is built: the directories include and link. They are
// embedded for two reasons: "weft cuda-env" copies them to where cgo finds them, and "go mod vendor" leaves out
// directories that no Go file names.
//
//go:embed include link
var Headers embed.FS
