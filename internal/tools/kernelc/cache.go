package main

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// A cache keeps what compilers, assemblers and disassemblers said, in files of build/kernelc. The key of an entry is
// the hash of all that the answer depends on: the files of the program that gave it, its arguments, and every text that
// it read. An entry that is not whole, or stands under another key than its own, is as if it were not there. Without a
// cache, where it is nil, all programs run.
type cache struct {
	dir string

	mu       sync.Mutex
	programs map[string][]byte // hashes of files
}

// kept is how long an entry that nobody asks for stays.
const kept = 30 * 24 * time.Hour

// output is what a program wrote: a result, and remarks.
type output struct{ result, log []byte }

// A question is one run of a program.
type question struct {
	programs  []string // files that it consists of
	arguments []string
	input     []byte // all text that it reads
}

// ask returns what the cache has about a question, or else what run answers, which it keeps.
func (c *cache) ask(q question, run func() (output, error)) (output, error) {
	if c == nil {
		return run()
	}
	key, err := c.key(q)
	if err != nil {
		return output{}, err
	}
	file := filepath.Join(c.dir, key[:2], key)
	if entry, err := os.ReadFile(file); err == nil {
		if out, ok := unpackEntry(key, entry); ok {
			now := time.Now()
			return out, os.Chtimes(file, now, now)
		}
	}
	out, err := run()
	if err != nil {
		return output{}, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return output{}, err
	}
	return out, writeFile(file, packEntry(key, out))
}

// packEntry writes an entry: a checksum of the key and of the rest, the length of the result, the result, and the log.
func packEntry(key string, out output) []byte {
	body := binary.LittleEndian.AppendUint64(nil, uint64(len(out.result)))
	body = append(append(body, out.result...), out.log...)
	return append(checksum(key, body), body...)
}

func unpackEntry(key string, entry []byte) (out output, ok bool) {
	const head = sha256.Size + 8
	if len(entry) < head || string(checksum(key, entry[sha256.Size:])) != string(entry[:sha256.Size]) {
		return output{}, false
	}
	n := binary.LittleEndian.Uint64(entry[sha256.Size:])
	return output{entry[head : head+n], entry[head+n:]}, true
}

func checksum(key string, body []byte) []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s", key, body)
	return h.Sum(nil)
}

// key identifies a question, programs by the contents of their files.
func (c *cache) key(q question) (string, error) {
	h := sha256.New()
	for _, file := range q.programs {
		hash, err := c.program(file)
		if err != nil {
			return "", err
		}
		h.Write(hash)
	}
	fmt.Fprintf(h, "%q\n%s", q.arguments, q.input)
	return hex.EncodeToString(h.Sum(nil)), nil
}

// program is the hash of a file, which is read once.
func (c *cache) program(file string) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if hash := c.programs[file]; hash != nil {
		return hash, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(text)
	if c.programs == nil {
		c.programs = map[string][]byte{}
	}
	c.programs[file] = hash[:]
	return hash[:], nil
}

// prune removes entries that nobody has asked for in a long time.
func (c *cache) prune() error {
	if c == nil {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(c.dir, "*", "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && time.Since(info.ModTime()) > kept {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	return nil
}
