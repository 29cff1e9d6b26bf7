package disk_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/weft-ml/weft/internal/disk"
)

func Example() {
	dir, err := os.MkdirTemp("", "disk")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	save := func() error {
		file, err := disk.OS.Create(filepath.Join(dir, "new"))
		if err != nil {
			return err
		}
		defer file.Close()
		if _, err := file.Write([]byte("weights")); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
		if err := disk.OS.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "good")); err != nil {
			return err
		}
		return disk.OS.SyncDir(dir)
	}
	fmt.Println(save())
	fmt.Println(disk.OS.ReadDir(dir))
	// Output:
	// <nil>
	// [{good false}] <nil>
}
