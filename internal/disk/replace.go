package disk

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
)

// Replace writes a file, in the place of the one that has the name, if any, which stays if writing fails. Even if the
// machine loses power there is always the one or the other, and when Replace has returned nil it is the new one.
func Replace(fsys FS, path string, write func(w io.Writer) error) error {
	tmp := fmt.Sprintf("%s.tmp-%08x", path, rand.Uint32())
	file, err := fsys.Create(tmp)
	if err != nil {
		return err
	}
	if err = write(file); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = fsys.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(tmp))
	}
	return fsys.SyncDir(filepath.Dir(path))
}
