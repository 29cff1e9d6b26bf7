package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// DiskCache says how [CacheOnDisk] keeps examples.
type DiskCache[T any] struct {
	Dir      string // where files are kept, is made if it is missing; needed
	Version  string // of the functions before the cache: another one finds nothing of what was kept
	MaxBytes int64  // that files may have: those that were there when a process began to read, and what it adds; needed

	// Encode and Decode write and read an example; needed. Decode may keep the slice.
	Encode func(x T) ([]byte, error)
	Decode func(text []byte) (T, error)
}

// CacheOnDisk keeps examples in files once they are made, for this run and later ones, up to a size. What is before it
// gives the examples of epoch 0 in every epoch. What is kept is found again if the descriptions and fingerprints of all
// stages before are the same, and the version that the caller gives. Each example has a checksum and stands alone, so
// files that are not complete or damaged are used as far as they go, and several processes may fill them at once; what
// is missing is made. That no more can be written, as on a full disk, is no error. The files may be deleted when nobody
// uses them.
func CacheOnDisk[T any](p *Pipeline[T], how DiskCache[T]) *Pipeline[T] {
	from := given(p)
	s := newStage(from.n, []*stage{from}, "cache on disk, version %.200q", how.Version)
	s.wrong(how.Dir == "" || how.MaxBytes < 1 || how.Encode == nil || how.Decode == nil,
		"want Dir, MaxBytes, Encode and Decode")
	s.wrong(s.n == Forever, "what has no end is not kept; call it before Repeat")
	if from.seq != nil {
		s.wrong(true, "%s gives examples in its order only; keep what is before it", from.seq.stage.name)
	}
	if s.err != nil {
		return finish[T](s, nil)
	}
	key := sha256.Sum256([]byte(strings.Join(append(s.describe(), how.Version), "\n")))
	kept := &diskCache{prefix: fmt.Sprintf("weft-cache-%x-", key[:12]), dir: how.Dir, left: how.MaxBytes}
	return finish(s, func(c *call, i int) (x T, err error) {
		if text, r, ok := kept.get(i); ok {
			c.stage, c.example = s, r.example
			if r.dropped {
				return x, errDropped
			}
			return how.Decode(text)
		}
		epoch, branch := c.epoch, c.branch
		defer func() { c.epoch, c.branch = epoch, branch }()
		c.epoch, c.branch = 0, 0
		if x, err = p.at(c, i); err != nil && err != errDropped {
			return x, err
		}
		c.stage = s
		var text []byte
		if err == nil {
			if text, err = how.Encode(x); err != nil {
				return x, err
			}
		}
		kept.put(i, c.example, err == errDropped, text)
		return x, err
	})
}

// diskCache is the files of a cache: each is written by one process, record behind record.
//
//	4 bytes    CRC-32C of the rest of the header
//	4 bytes    CRC-32C of the example
//	8 bytes    position in the pipeline
//	8 bytes    index of the example in its source, plus 1<<63 if a filter has left it out
//	8 bytes    of stages Repeat, see origin
//	8 bytes    size of the example
//	...        the example
type diskCache struct {
	dir, prefix string

	mu      sync.Mutex
	opened  bool
	left    int64            // bytes that may be added
	records map[int][]record // of each position: several if some are damaged, or were made at the same time
	log     *os.File         // that this process writes; nil before the first record
	end     int64            // of log
}

// record is where an example is.
type record struct {
	file    *os.File
	offset  int64
	size    int64
	sum     uint32
	example origin
	dropped bool
}

const recordHeader = 40

// open finds what is there. d.mu is held.
func (d *diskCache) open() {
	d.opened, d.records = true, map[int][]record{}
	entries, _ := os.ReadDir(d.dir) // if it is there
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), d.prefix) {
			continue
		}
		file, info, err := openRegular(filepath.Join(d.dir, e.Name()))
		if err != nil {
			continue // it is empty, or was deleted
		}
		d.left -= info.Size()
		used := false
		var header [recordHeader]byte
		for at := int64(0); info.Size()-at >= recordHeader; {
			if _, err := file.ReadAt(header[:], at); err != nil {
				break
			}
			position, r, ok := parseRecord(header)
			if at += recordHeader; !ok || r.size > info.Size()-at {
				break // it was not written to its end, or still is
			}
			r.file, r.offset, used = file, at, true
			d.records[position] = append(d.records[position], r)
			at += r.size
		}
		if !used {
			file.Close()
		}
	}
}

// parseRecord reads a header.
func parseRecord(header [recordHeader]byte) (position int, r record, ok bool) {
	b := binary.LittleEndian
	index, at, size := b.Uint64(header[16:]), b.Uint64(header[8:]), b.Uint64(header[32:])
	r = record{size: int64(size), sum: b.Uint32(header[4:]), dropped: index>>63 > 0,
		example: origin{int(index &^ (1 << 63)), b.Uint64(header[24:])}}
	ok = b.Uint32(header[:]) == crc32.Checksum(header[4:], castagnoli) && at <= math.MaxInt64 && size <= math.MaxInt64
	return int(at), r, ok
}

// get is what is kept of a position.
func (d *diskCache) get(position int) (text []byte, r record, ok bool) {
	d.mu.Lock()
	if !d.opened {
		d.open()
	}
	all := d.records[position]
	d.mu.Unlock()
	for _, r := range all {
		text, err := grown[byte](nil, int(r.size))
		if err != nil {
			continue
		}
		text = text[:r.size]
		n, _ := r.file.ReadAt(text, r.offset)
		if n == len(text) && crc32.Checksum(text, castagnoli) == r.sum {
			return text, r, true
		}
	}
	return nil, r, false
}

// put keeps what is at a position, if the limit on bytes allows it.
func (d *diskCache) put(position int, example origin, dropped bool, text []byte) {
	b := binary.LittleEndian
	var header [recordHeader]byte
	b.PutUint32(header[4:], crc32.Checksum(text, castagnoli))
	b.PutUint64(header[8:], uint64(position))
	index := uint64(example.index)
	if dropped {
		index |= 1 << 63
	}
	b.PutUint64(header[16:], index)
	b.PutUint64(header[24:], example.repeat)
	b.PutUint64(header[32:], uint64(len(text)))
	b.PutUint32(header[:], crc32.Checksum(header[4:], castagnoli))
	d.mu.Lock()
	defer d.mu.Unlock()
	all := bytes.Join([][]byte{header[:], text}, nil)
	if int64(len(all)) > d.left {
		return
	}
	if d.log == nil {
		err := os.MkdirAll(d.dir, 0o777)
		if err == nil {
			d.log, err = os.CreateTemp(d.dir, d.prefix+"*")
		}
		if err != nil {
			d.left = 0
			return
		}
	}
	if _, err := d.log.WriteAt(all, d.end); err != nil {
		d.left = 0 // what is behind it would not be found
		return
	}
	_, r, _ := parseRecord(header)
	r.file, r.offset = d.log, d.end+recordHeader
	d.records[position] = append(d.records[position], r)
	d.end += int64(len(all))
	d.left -= int64(len(all))
}
