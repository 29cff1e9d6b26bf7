//go:build cuda && cgo && linux

package cuda

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// diskCache keeps what the compiler made, for later processes: a file for each image, named by the hash of all that
// decides its content. A file begins with the SHA-256 of the code that follows; one that is damaged counts as absent.
// A cache that cannot be read or written costs time and nothing else, so its errors are not reported.
type diskCache struct {
	dir   string
	limit int64 // bytes of all files
}

// cacheLimit is some thousands of kernels.
const cacheLimit = 64 << 20

// openCache is the cache of this user: in WEFT_CACHE, or where the system keeps caches. It is nil if there is none, or
// WEFT_CACHE=off.
func openCache() *diskCache {
	dir := os.Getenv("WEFT_CACHE")
	if dir == "off" {
		return nil
	}
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil
		}
		dir = filepath.Join(user, "weft")
	}
	return &diskCache{filepath.Join(dir, "kernels"), cacheLimit}
}

// cacheKey is the hash of parts, each with its length.
func cacheKey(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d %s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// get returns the code of a key, or nil.
func (c *diskCache) get(key string) []byte {
	if c == nil {
		return nil
	}
	file := filepath.Join(c.dir, key)
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	if len(data) > sha256.Size {
		if sum := sha256.Sum256(data[sha256.Size:]); bytes.Equal(sum[:], data[:sha256.Size]) {
			os.Chtimes(file, time.Time{}, time.Now()) // the files used last stay longest
			return data[sha256.Size:]
		}
	}
	os.Remove(file)
	return nil
}

// put writes the code of a key, whole or not at all, and makes room.
func (c *diskCache) put(key string, code []byte) {
	if c == nil || os.MkdirAll(c.dir, 0o755) != nil {
		return
	}
	f, err := os.CreateTemp(c.dir, temporary+"*")
	if err != nil {
		return
	}
	sum := sha256.Sum256(code)
	_, err = f.Write(append(sum[:], code...))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(c.dir, key))
	}
	if err != nil {
		os.Remove(f.Name())
		return
	}
	c.trim()
}

// temporary begins the names of files that are being written.
const temporary = "new-"

// trim removes the files that were not used for longest until the others are within the limit, and those that
// processes began to write and left.
func (c *diskCache) trim() {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	var files []fs.FileInfo
	for _, e := range entries {
		i, err := e.Info()
		switch {
		case err != nil:
		case !strings.HasPrefix(i.Name(), temporary):
			files = append(files, i)
		case time.Since(i.ModTime()) > time.Hour:
			os.Remove(filepath.Join(c.dir, i.Name()))
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	total := int64(0)
	for _, i := range files {
		if total += i.Size(); total > c.limit {
			os.Remove(filepath.Join(c.dir, i.Name()))
		}
	}
}
