package data

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// A map reads what the file has, also where the file is cut under it, in the middle of a page or before one, or is
// longer again: never zeros that it does not have, and no fault ends the program.
func TestMapped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	content := make([]byte, 5*os.Getpagesize()+100)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range content {
		content[i] = byte(r.IntN(3)) // many zeros
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m := mapFile(file, int64(len(content)))
	if m == nil {
		t.Skip("no maps here")
	}
	page := os.Getpagesize()
	for _, size := range []int{len(content), 4*page + 17, 4 * page, page + 1, 3 * page, 0, len(content)} {
		if err := os.Truncate(path, int64(size)); err != nil {
			t.Fatal(err)
		}
		var wait sync.WaitGroup
		for g := range 4 {
			wait.Go(func() {
				r := rand.New(rand.NewPCG(uint64(size), uint64(g)))
				for range 200 {
					p, q := make([]byte, r.IntN(2*page)), make([]byte, 2*page)
					off := int64(r.IntN(len(content) + 50))
					n, err := m.ReadAt(p, off)
					k, wantErr := file.ReadAt(q[:len(p)], off)
					if n != k || err != wantErr && (len(p) > 0 || err != nil) || !bytes.Equal(p[:n], q[:k]) {
						t.Errorf("%d bytes from %d on of %d: %d, %v, want %d, %v", len(p), off, size, n, err, k,
							wantErr)
						return
					}
				}
			})
		}
		wait.Wait()
	}
	m.closed.Store(true)
	if _, err := m.ReadAt(make([]byte, 1), 0); err == nil || err == io.EOF {
		t.Errorf("after Close: %v", err)
	}
}
