//go:build !cuda || !cgo || !linux

package tensor

import "github.com/weft-ml/weft/kernels"

func init() {
	kernels.Absent("cuda", "this program was built without GPUs; on Linux, with a C compiler, set its flags once by "+
		"go run github.com/weft-ml/weft/cmd/weft cuda-env -w, then build with -tags cuda")
}
