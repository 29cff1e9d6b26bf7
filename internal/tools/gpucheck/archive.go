package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// create makes the file of results of a call, FOLDER/NAME.jsonl, which must be a new one: no call overwrites another's.
// With a number it is the first of NAME1, NAME2 and so on that there is not yet.
func create(folder, name string, numbered bool) (*os.File, error) {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, err
	}
	for i := 1; ; i++ {
		try := name
		if numbered {
			try = fmt.Sprint(name, i)
		}
		f, err := os.OpenFile(filepath.Join(folder, try+".jsonl"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if numbered && errors.Is(err, fs.ErrExist) {
			continue
		}
		return f, err
	}
}

// pack writes the files of a folder to an archive, whole or not at all.
func pack(archive, folder string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(archive), "."+filepath.Base(archive))
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err == nil {
			err = os.Rename(f.Name(), archive)
		}
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	if err := w.AddFS(os.DirFS(folder)); err != nil {
		return err
	}
	return errors.Join(w.Close(), z.Close())
}
