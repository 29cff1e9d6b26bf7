package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/weft-ml/weft/internal/disk"
)

// The index of a file, where each example begins, lies beside it under the same name and indexSuffix, so that the file
// is read through once. All of it:
//
//	8 bytes    indexMagic
//	32 bytes   SHA-256 of what follows
//	uvarint    length of the key
//	...        key: which reader made it with which options, of which file, with its size and time of change
//	...        what the reader noted
//
// An index that has another key, is damaged or does not fit is made anew. It is an error nowhere that none can be
// written: the folder may be read only, the disk full.
const (
	indexSuffix = ".weft-index"
	indexMagic  = "weftidx1"
)

// indexFrom is the size of the smallest files that get an index, in bytes.
var indexFrom int64 = 1 << 20

// NoIndex neither reads nor writes a file with the index beside the data, as else files of CSV, JSONL, TFRecord and
// tar of 1 MiB and more have, under their name and ".weft-index", unless they are compressed.
func NoIndex() ReadOption { return ReadOption{func(r *reading) { r.noIndex = true }} }

// indexed fills in the index of an open file, with load from the file beside it, else with scan, which reads the data,
// and then save writes it. load tells whether what it got fits the file.
func indexed(file *os.File, size int64, kind string, options reading, load func([]byte) bool, scan func() error,
	save func() []byte) error {
	if file == nil || options.noIndex || size < indexFrom {
		return scan()
	}
	key, err := indexKey(file, kind)
	if err != nil {
		return err
	}
	path := file.Name() + indexSuffix
	if note, ok := readIndex(path, key, size); ok && load(note) {
		return nil
	}
	if err := scan(); err != nil {
		return err
	}
	if again, err := indexKey(file, kind); err != nil || again != key {
		return nil // it changes: it has an index when it is opened the next time
	}
	_ = writeIndex(path, key, save()) // see above
	return nil
}

// indexKey tells an index apart from those of other readers, and of the file as it was at other times.
func indexKey(file *os.File, kind string) (string, error) {
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %d %d", kind, info.Size(), info.ModTime().UnixNano()), nil
}

// readIndex is what the index at a path says about a file of some size.
func readIndex(path, key string, size int64) (note []byte, ok bool) {
	file, info, err := openRegular(path)
	if err != nil {
		return nil, false
	}
	defer file.Close()
	if info.Size() > size+1<<20 {
		return nil, false
	}
	all, err := grown[byte](nil, int(info.Size()))
	if err != nil {
		return nil, false
	}
	all = all[:info.Size()]
	if _, err := io.ReadFull(file, all); err != nil {
		return nil, false
	}
	rest, ok := bytes.CutPrefix(all, []byte(indexMagic))
	if !ok || len(rest) < sha256.Size {
		return nil, false
	}
	sum, rest := rest[:sha256.Size], rest[sha256.Size:]
	if s := sha256.Sum256(rest); !bytes.Equal(s[:], sum) {
		return nil, false
	}
	return bytes.CutPrefix(rest, append(binary.AppendUvarint(nil, uint64(len(key))), key...))
}

// writeIndex writes an index in one piece.
func writeIndex(path, key string, note []byte) error {
	rest := append(binary.AppendUvarint(nil, uint64(len(key))), key...)
	rest = append(rest, note...)
	sum := sha256.Sum256(rest)
	return disk.Replace(disk.OS, path, func(w io.Writer) error {
		for _, part := range [][]byte{[]byte(indexMagic), sum[:], rest} {
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
		return nil
	})
}

// note is the lengths of an index.
func (l *lengths) note() []byte {
	begin := l.end
	if len(l.first) > 0 {
		begin = l.first[0]
	}
	note := binary.AppendUvarint(nil, uint64(begin))
	note = binary.AppendUvarint(note, uint64(l.n))
	return append(note, l.bytes...)
}

// parse reads what note wrote. It tells whether that fits a file of some size.
func (l *lengths) parse(note []byte, size int64) bool {
	begin, used := binary.Uvarint(note)
	if used <= 0 || begin > uint64(size) {
		return false
	}
	note = note[used:]
	n, used := binary.Uvarint(note)
	if used <= 0 || n > uint64(len(note)) {
		return false
	}
	*l = lengths{end: int64(begin)}
	for note = note[used:]; len(note) > 0; note = note[used:] {
		var length uint64
		length, used = binary.Uvarint(note)
		if used <= 0 || length > uint64(size-l.end) || l.add(int64(length)) != nil {
			return false
		}
	}
	return uint64(l.n) == n
}

// note is the keys and parts of a tar file.
func (t *Tar) note() (note []byte) {
	text := func(s string) { note = append(binary.AppendUvarint(note, uint64(len(s))), s...) }
	for i, key := range t.keys {
		text(key)
		parts := t.parts[t.first(i):t.ends[i]]
		note = binary.AppendUvarint(note, uint64(len(parts)))
		for _, p := range parts {
			text(p.ext)
			note = binary.AppendUvarint(binary.AppendUvarint(note, uint64(p.offset)), uint64(p.size))
		}
	}
	return note
}

// parse reads what note wrote. It tells whether that fits the file.
func (t *Tar) parse(note []byte) bool {
	bad := false
	number := func(most int64) int64 {
		n, used := binary.Uvarint(note)
		if bad = bad || used <= 0 || n > uint64(most); bad {
			return 0
		}
		note = note[used:]
		return int64(n)
	}
	text := func() string {
		n := number(int64(len(note)))
		if bad = bad || n > int64(len(note)); bad {
			return ""
		}
		s := string(note[:n])
		note = note[n:]
		return s
	}
	t.keys, t.ends, t.parts = nil, nil, nil
	seen, exts := map[string]bool{}, map[string]string{}
	for len(note) > 0 && !bad {
		key := text()
		for range number(int64(len(note))) {
			ext := text()
			if _, ok := exts[ext]; !ok {
				exts[ext] = ext
			}
			offset := number(t.file.size)
			if size := number(t.file.size - offset); bad || t.add(key, tarPart{exts[ext], offset, size}, seen) != nil {
				return false
			}
		}
	}
	return !bad
}
