//go:build cuda && cgo && linux

package tensor

import _ "github.com/weft-ml/weft/kernels/cuda" // registers itself
