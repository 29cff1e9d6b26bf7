package data

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// TarSample is an example of a tar file: the files of one key.
type TarSample struct {
	Key   string            // the path of the files, up to the first dot of their name
	Files map[string][]byte // by what follows the dot, in lower case: "jpg", "cls", "seg.png"
}

// Tar is a [Source] of the examples in a tar file as WebDataset writes them.
type Tar struct {
	file  *opened
	keys  []string
	ends  []int // parts up to the end of each sample
	parts []tarPart
}

// tarPart is a file in a tar file.
type tarPart struct {
	ext          string
	offset, size int64
}

// OpenTar opens a regular tar file, plain or compressed with gzip, whose files belong together by their names up to
// the first dot (WebDataset): "a/1.jpg" and "a/1.cls" are the example "a/1". The headers are read at once, the files
// when they are asked for; [Concat] joins several tar files. Folders, links, and names without a dot or that begin
// with two underscores are skipped.
//
// A file that ends too early, a name that is there twice, and an example whose files are not beside each other are a
// [*FormatError].
func OpenTar(path string, options ...ReadOption) (*Tar, error) {
	file, err := openAt(path, options)
	if err != nil {
		return nil, err
	}
	t := &Tar{file: file}
	if err := indexed(file.file, file.size, "tar", readingOf(options), t.parse, t.scan, t.note); err != nil {
		file.Close()
		return nil, err
	}
	return t, nil
}

const tarBlock = 512

// scan reads all headers.
func (t *Tar) scan() error {
	t.keys, t.ends, t.parts = nil, nil, nil
	at := io.NewSectionReader(t.file.r, 0, t.file.size)
	r := tar.NewReader(at)
	seen := map[string]bool{}
	exts := map[string]string{}
	end := int64(0)
	for {
		header, err := r.Next()
		if err == io.EOF {
			break
		}
		offset, seekErr := at.Seek(0, io.SeekCurrent)
		if err = errors.Join(err, seekErr); err != nil {
			e := t.file.bad(end, "header", "damage", "that of a file in a tar file")
			e.Err = err
			return e
		}
		sparse := header.Typeflag == tar.TypeGNUSparse
		for key := range header.PAXRecords {
			sparse = sparse || strings.HasPrefix(key, "GNU.sparse.")
		}
		size := header.Size
		switch {
		case sparse:
			return t.file.bad(end, "kind", fmt.Sprintf("%.60q, a sparse file", header.Name), "files without holes")
		case header.Typeflag != tar.TypeReg:
			size = 0
		}
		if size > t.file.size-offset {
			e := t.file.bad(offset, "size", fmt.Sprintf("%d bytes", t.file.size-offset),
				fmt.Sprintf("%d of the file %.60q", size, header.Name))
			e.Err = io.ErrUnexpectedEOF
			return e
		}
		end = offset + (size+tarBlock-1)/tarBlock*tarBlock
		if header.Typeflag != tar.TypeReg {
			continue
		}
		folder := strings.LastIndexByte(header.Name, '/') + 1
		dot := strings.IndexByte(header.Name[folder:], '.')
		if dot < 1 || strings.HasPrefix(header.Name[folder:], "__") {
			continue
		}
		key, ext := header.Name[:folder+dot], strings.ToLower(header.Name[folder+dot+1:])
		if known, ok := exts[ext]; ok {
			ext = known
		} else {
			exts[ext] = ext
		}
		if err := t.add(key, tarPart{ext, offset, size}, seen); err != nil {
			return err
		}
	}
	if end >= t.file.size {
		return t.file.bad(end, "end", "the end of the file", "a block of zeros")
	}
	return nil
}

// add notes a file; seen has the keys before.
func (t *Tar) add(key string, part tarPart, seen map[string]bool) (err error) {
	n := len(t.keys)
	if n == 0 || t.keys[n-1] != key {
		if seen[key] {
			return t.file.bad(part.offset, "sample", fmt.Sprintf("files of %.60q at two places", key),
				"all of them beside each other")
		}
		seen[key] = true
		if t.keys, err = grown(t.keys, 1); err != nil {
			return fmt.Errorf("%s: %w", t.file.name, err)
		}
		t.keys, t.ends = append(t.keys, key), append(t.ends, len(t.parts))
	} else if slices.ContainsFunc(t.parts[t.first(n-1):], func(p tarPart) bool { return p.ext == part.ext }) {
		return t.file.bad(part.offset, "sample", fmt.Sprintf("%.60q twice", key+"."+part.ext), "each name once")
	}
	if t.parts, err = grown(t.parts, 1); err != nil {
		return fmt.Errorf("%s: %w", t.file.name, err)
	}
	t.parts = append(t.parts, part)
	t.ends[len(t.ends)-1] = len(t.parts)
	return nil
}

// first is the first part of sample i.
func (t *Tar) first(i int) int {
	if i == 0 {
		return 0
	}
	return t.ends[i-1]
}

// Len is the number of examples.
func (t *Tar) Len() int {
	if t == nil {
		return 0
	}
	return len(t.keys)
}

// At reads example i. An i outside [0, Len) is an error.
func (t *Tar) At(i int) (s TarSample, err error) {
	if err := wantExample("sample", i, t.Len()); err != nil {
		return s, err
	}
	s = TarSample{Key: t.keys[i], Files: map[string][]byte{}}
	for _, p := range t.parts[t.first(i):t.ends[i]] {
		if p.size > math.MaxInt {
			return s, t.file.bad(p.offset, "size", fmt.Sprint(p.size), "less")
		}
		content, err := grown[byte](nil, int(p.size))
		if err != nil {
			return s, fmt.Errorf("%s: %w", t.file.name, err)
		}
		content = content[:p.size]
		if err := t.file.read(content, p.offset, fmt.Sprintf("%.60q", s.Key+"."+p.ext)); err != nil {
			return TarSample{}, err
		}
		s.Files[p.ext] = content
	}
	return s, nil
}

// Close closes the file. At must not be called afterwards.
func (t *Tar) Close() error {
	if t == nil {
		return nil
	}
	return t.file.Close()
}

// Fingerprint has the file's name, size and time of change.
func (t *Tar) Fingerprint() string {
	if t == nil {
		return ""
	}
	return t.file.Fingerprint()
}
