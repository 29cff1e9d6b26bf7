// Package zstd lets all readers of package data read files that are compressed with Zstandard (RFC 8878), as they read
// gzip: a program imports it for that alone.
//
//	import _ "github.com/weft-ml/weft/data/zstd"
//
// Files are told by their first bytes, not by their name, and [data.MaxSize] limits what they may become. What is
// damaged is a [*data.FormatError]. A frame may ask for a window of up to 32 MiB: the program zstd takes 8 up to level
// 19, and 128 or more with --ultra and --long. Dictionaries are refused.
//
// It is a module of its own, so that programs without such files do not depend on github.com/klauspost/compress.
package zstd

import (
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/weft-ml/weft/data"
)

// maxWindow is how many unpacked bytes a frame may refer back, in bytes of memory.
const maxWindow = 32 << 20

func init() {
	data.RegisterCompression("zstd", "\x28\xb5\x2f\xfd", open)
	data.RegisterCompression("zstd", "\x50\x2a\x4d\x18", open) // a frame to be skipped, with which pzstd begins
}

// open unpacks in the goroutine that reads.
func open(r io.Reader) (io.Reader, error) {
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow))
}
