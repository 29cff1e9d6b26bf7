package crashfs_test

import (
	"fmt"

	"github.com/weft-ml/weft/internal/testing/crashfs"
)

// A file that is synced and whose folder is not: its content is safe, its name is not.
func Example() {
	fsys := crashfs.New()
	file, _ := fsys.Create("weights")
	file.Write([]byte("0123"))
	file.Sync()
	for after := range fsys.States() {
		if r, err := after.Open("weights"); err != nil {
			fmt.Println(err)
		} else {
			fmt.Println(r.Size(), "bytes")
		}
	}
	// Output:
	// open weights: no such file or directory
	// 4 bytes
}
