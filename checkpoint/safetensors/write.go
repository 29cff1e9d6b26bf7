package safetensors

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Write writes a file: the header, and then the data of each tensor, for which it calls data in the order of the file.
// The function writes all bytes of the tensor, in pieces of any size, to the writer that it is given.
//
// Tensors are sorted by the alignment of their types, the largest first, then by name. Their aliases become entries of
// the metadata, whose "format" is "pt" if it is not given: without it transformers refuses a file.
//
// Errors are those of w and of data, and of names that are given twice, are no UTF-8 or stand for something else in the
// metadata, types and shapes that the format does not have, and of data that are not as long as the tensor. All but the
// last are found before anything is written.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string, data func(w io.Writer, t Tensor) error) error {
	tensors = inFileOrder(tensors)
	header, err := encodeHeader(tensors, metadata)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 1<<16)
	if _, err := out.Write(header); err != nil {
		return err
	}
	for _, t := range tensors {
		exact := &exactly{w: out, left: t.Bytes()}
		if err := data(exact, t); err != nil {
			return err
		}
		if exact.left != 0 {
			return fmt.Errorf("safetensors: %s: %d of %d bytes were not written", quote(t.Name), exact.left, t.Bytes())
		}
	}
	return out.Flush()
}

// exactly is a writer for a certain number of bytes.
type exactly struct {
	w    io.Writer
	left int64
}

func (e *exactly) Write(p []byte) (int, error) {
	if int64(len(p)) > e.left {
		return 0, fmt.Errorf("safetensors: %d bytes more than the tensor has", int64(len(p))-e.left)
	}
	n, err := e.w.Write(p)
	e.left -= int64(n)
	return n, err
}

func inFileOrder(tensors []Tensor) []Tensor {
	return slices.SortedFunc(slices.Values(tensors), func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(b.DType, a.DType), strings.Compare(a.Name, b.Name))
	})
}

// encodeHeader is the size of the header and the header, padded.
func encodeHeader(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	metadata, err := fullMetadata(tensors, metadata)
	if err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(make([]byte, 8, 1<<12))
	out.WriteString(`{"` + metadataKey + `":{`)
	keys := slices.DeleteFunc(slices.Sorted(maps.Keys(metadata)), func(key string) bool { return key == formatKey })
	for i, key := range append([]string{formatKey}, keys...) {
		if i > 0 {
			out.WriteByte(',')
		}
		writeString(out, key)
		out.WriteByte(':')
		writeString(out, metadata[key])
	}
	out.WriteByte('}')
	offset := int64(0)
	for _, t := range tensors {
		n := t.Bytes()
		if n < 0 || offset+n < 0 {
			return nil, fmt.Errorf("safetensors: %s: the format has no tensor of type %v and shape %v here",
				quote(t.Name), t.DType, t.Shape)
		}
		out.WriteByte(',')
		writeString(out, t.Name)
		fmt.Fprintf(out, `:{"dtype":"%v","shape":[`, t.DType)
		for i, d := range t.Shape {
			if i > 0 {
				out.WriteByte(',')
			}
			out.WriteString(strconv.Itoa(d))
		}
		fmt.Fprintf(out, `],"data_offsets":[%d,%d]}`, offset, offset+n)
		offset += n
	}
	out.WriteByte('}')
	for out.Len()%8 != 0 {
		out.WriteByte(' ')
	}
	header := out.Bytes()
	if len(header)-8 > maxHeader {
		return nil, fmt.Errorf("safetensors: a header of %d bytes, the format allows %d: write shards", len(header)-8,
			maxHeader)
	}
	binary.LittleEndian.PutUint64(header, uint64(len(header)-8))
	return header, nil
}

// fullMetadata is the metadata with format and aliases. It makes sure that each name stands for one thing.
func fullMetadata(tensors []Tensor, metadata map[string]string) (map[string]string, error) {
	full := map[string]string{formatKey: "pt"}
	maps.Copy(full, metadata)
	stored := map[string]bool{}
	for _, t := range tensors {
		switch {
		case stored[t.Name]:
			return nil, fmt.Errorf("safetensors: there are two tensors %s", quote(t.Name))
		case t.Name == metadataKey:
			return nil, fmt.Errorf("safetensors: a tensor may not be named %s", metadataKey)
		}
		stored[t.Name] = true
	}
	for _, t := range tensors {
		for _, alias := range t.Aliases {
			text, taken := full[alias]
			if stored[alias] || alias == formatKey || taken && text != t.Name {
				return nil, fmt.Errorf("safetensors: the other name %s of %s is that of something else", quote(alias),
					quote(t.Name))
			}
			full[alias] = t.Name
		}
	}
	if len(full) > maxMetadata {
		return nil, fmt.Errorf("safetensors: %d entries of metadata, at most %d are read", len(full), maxMetadata)
	}
	for name := range stored {
		if !utf8.ValidString(name) {
			return nil, fmt.Errorf("safetensors: the name %s is no UTF-8", quote(name))
		}
	}
	for key, text := range full {
		if !utf8.ValidString(key) || !utf8.ValidString(text) {
			return nil, fmt.Errorf("safetensors: the metadata of %s are no UTF-8", quote(key))
		}
	}
	return full, nil
}

// writeString writes a string of JSON with no more escapes than it must have.
func writeString(out *bytes.Buffer, s string) {
	out.WriteByte('"')
	for _, c := range []byte(s) {
		switch i := strings.IndexByte(escaped, c); {
		case i >= 0 && c != '/':
			out.Write([]byte{'\\', letters[i]})
		case c < ' ':
			fmt.Fprintf(out, `\u%04x`, c)
		default:
			out.WriteByte(c)
		}
	}
	out.WriteByte('"')
}
