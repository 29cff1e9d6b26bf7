package safetensors

import (
	"fmt"
	"slices"
	"strings"
)

const (
	metadataKey = "__metadata__"
	formatKey   = "format"
	// maxMetadata is the most entries of the metadata that are read. Programs write one to fifty, some of them long.
	maxMetadata = 1 << 15
	// leastEntry is the length of the shortest entry that a header can have: "":{"dtype":"U8","shape":[],...[0,1]},
	leastEntry = 50
)

// parse reads the header into metadata and entries.
func (f *File) parse() error {
	s, err := newScanner(f.header, 8)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(f.header, "{") {
		s.fail(0, "header", s.here(), "'{' as the first byte")
	}
	f.entries = make([]entry, 0, min(strings.Count(f.header, "{"), len(f.header)/leastEntry))
	s.object("header", func(key string, at int) {
		if key == metadataKey {
			f.parseMetadata(s, at)
			return
		}
		f.entries = append(f.entries, parseEntry(s, key, at))
	})
	return s.end("header")
}

func (f *File) parseMetadata(s *scanner, at int) {
	if f.metadata != nil {
		s.fail(at, "header", "a second "+metadataKey, "one")
	}
	f.metadata = map[string]string{}
	s.object(metadataKey, func(key string, at int) {
		if _, twice := f.metadata[key]; twice {
			s.fail(at, "key in "+metadataKey, quote(key)+" for a second time", "each key once")
		}
		if len(f.metadata) == maxMetadata {
			s.fail(at, metadataKey, "more entries", fmt.Sprintf("at most %d", maxMetadata))
		}
		f.metadata[key] = s.str("text in " + metadataKey)
	})
}

// parseEntry reads what is said of one tensor.
func parseEntry(s *scanner, name string, at int) entry {
	e := entry{name: name}
	var n size
	var offsets [2]uint64
	fields := [...]string{"dtype", "shape", "data_offsets"}
	var seen [len(fields)]bool
	s.name = name
	s.object("entry", func(key string, at int) {
		field := slices.Index(fields[:], key)
		if field < 0 || seen[field] {
			s.fail(at, "entry", "the key "+quote(key), "dtype, shape and data_offsets, once each")
			return
		}
		seen[field] = true
		switch key {
		case "dtype":
			e.dtype = parseType(s)
		case "shape":
			s.peek()
			e.shape = uint32(s.at)
			n = parseShape(s)
		case "data_offsets":
			offsets = parseOffsets(s)
		}
	})
	if seen != [...]bool{true, true, true} {
		s.fail(at, "entry", "not all keys", "dtype, shape and data_offsets")
	}
	if s.err == nil {
		e.begin, e.end = int64(offsets[0]), int64(offsets[1])
		checkSize(s, at, e, n)
	}
	s.name = ""
	return e
}

func parseType(s *scanner) DType {
	s.peek()
	at := s.at
	name := s.str("dtype")
	d, ok := ParseDType(name)
	if !ok {
		s.fail(at, "dtype", quote(name), "a type of the format, such as F32")
	}
	return d
}

// parseShape reads the sizes of all axes, and keeps only their product.
func parseShape(s *scanner) (n size) {
	rank := 0
	s.list('[', ']', "shape", func() {
		if rank++; rank > MaxRank {
			s.fail(s.at, "shape", "more axes", fmt.Sprintf("at most %d", MaxRank))
		}
		n.axis(s.integer("shape"))
	})
	return n
}

func parseOffsets(s *scanner) (offsets [2]uint64) {
	s.peek()
	at, count := s.at, 0
	s.list('[', ']', "data_offsets", func() {
		if v := s.integer("data_offsets"); count < 2 {
			offsets[count] = v
		}
		count++
	})
	if count != 2 {
		s.fail(at, "data_offsets", fmt.Sprintf("%d numbers", count), "begin and end")
	}
	return offsets
}

// checkSize compares the data's size with shape and type. The entry begins at a place of the header.
func checkSize(s *scanner, at int, e entry, n size) {
	const what = "data_offsets"
	if e.end < e.begin {
		s.fail(at, what, fmt.Sprintf("[%d, %d]: reversed", e.begin, e.end), "begin and end")
		return
	}
	switch bytes, problem := n.bytes(e.dtype); {
	case problem != "":
		s.fail(at, "size", problem, "whole bytes, fewer than 2^61")
	case bytes != e.end-e.begin:
		s.fail(at, what, fmt.Sprintf("[%d, %d]: %d bytes", e.begin, e.end, e.end-e.begin),
			fmt.Sprintf("%d, as dtype and shape say", bytes))
	}
}
