package safetensors

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The names that Hugging Face gives to the files of a model.
const (
	modelName = "model.safetensors"
	indexName = "model.safetensors.index.json"
	shardName = "model-%05d-of-%05d.safetensors"
	maxShards = 99999
	// maxForeign is the largest index of other formats: some 40,000 tensors, whose names are kept.
	maxForeign = 4 << 20
)

// A Model is a model in one file, or in several with an index: shards.
type Model struct {
	shards []shard
}

type shard struct {
	*File
	name string
	file *os.File
}

// OpenPath opens a model: a file, an index such as "model.safetensors.index.json", or a folder with a file
// "model.safetensors" or that index. Beside what [Open] refuses, these are a [*FormatError]: an index that calls a
// shard by more than the name of a file, and a tensor that is in two shards, not where the index says, or not in the
// index. A shard that is missing is an error with [fs.ErrNotExist]. The size that an index tells is not looked at: the
// shards' own sizes are.
func OpenPath(path string) (*Model, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	m := &Model{}
	switch {
	case info.IsDir():
		file := filepath.Join(path, modelName)
		if _, absent := os.Stat(file); errors.Is(absent, fs.ErrNotExist) {
			err = m.openIndex(filepath.Join(path, indexName))
		} else {
			err = m.open(file)
		}
	case strings.HasSuffix(path, ".json"):
		err = m.openIndex(path)
	default:
		err = m.open(path)
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// open adds a file to the shards.
func (m *Model) open(path string) error {
	file, size, err := openRegular(path)
	if err != nil {
		return err
	}
	m.shards = append(m.shards, shard{nil, filepath.Base(path), file})
	m.shards[len(m.shards)-1].File, err = Open(file, size)
	return inFile(path, err)
}

// openIndex reads an index and opens the shards that it names.
func (m *Model) openIndex(path string) error {
	text, shards, err := readIndex(path, maxHeader)
	if err != nil {
		return err
	}
	for _, name := range shards {
		if err := m.open(filepath.Join(filepath.Dir(path), name)); err != nil {
			return err
		}
	}
	return inFile(path, m.compare(text))
}

// ReadIndex reads an index of shards in any format, such as "pytorch_model.bin.index.json": the shard of each tensor by
// the tensor's name. An index of more than 4 MiB, or that calls a shard by more than the name of a file, or has a
// tensor twice, is a [*FormatError].
func ReadIndex(path string) (map[string]string, error) {
	text, _, err := readIndex(path, maxForeign)
	if err != nil {
		return nil, err
	}
	where := map[string]string{}
	return where, inFile(path, eachWeight(text, func(s *scanner, at int, name, shard string) {
		if _, twice := where[name]; twice {
			s.fail(at, "weight_map", quote(name)+" for a second time", "each name once")
		}
		where[name] = shard
	}))
}

// readIndex reads the text of an index, and the names of its shards.
func readIndex(path string, most int64) (string, []string, error) {
	file, size, err := openRegular(path)
	if err != nil {
		return "", nil, err
	}
	defer file.Close()
	if size > most {
		return "", nil, &FormatError{File: path, Offset: -1, What: "file size", Found: fmt.Sprintf("%d bytes", size),
			Want: fmt.Sprintf("at most %d", most)}
	}
	var text strings.Builder
	text.Grow(int(size))
	if _, err := io.Copy(&text, io.NewSectionReader(file, 0, size)); err != nil {
		return "", nil, err
	}
	names := map[string]bool{}
	err = eachWeight(text.String(), func(s *scanner, at int, _, shard string) {
		if shard == "" || shard == "." || shard == ".." || strings.ContainsAny(shard, "/\\:\x00") {
			s.fail(at, "shard", quote(shard), "the name of a file in the folder of the index")
		}
		names[shard] = true
		if len(names) > maxShards {
			s.fail(at, "shard", "more files", fmt.Sprintf("at most %d", maxShards))
		}
	})
	return text.String(), slices.Sorted(maps.Keys(names)), inFile(path, err)
}

// compare makes sure that the index says of each tensor where it is, and of no others.
func (m *Model) compare(index string) error {
	listed := map[string][]bool{} // by shard and entry
	shards := map[string]shard{}
	for _, s := range m.shards {
		listed[s.name], shards[s.name] = make([]bool, s.Len()), s
	}
	err := eachWeight(index, func(s *scanner, at int, name, shard string) {
		switch i := shards[shard].find(name); {
		case i < 0:
			s.fail(at, "weight_map", quote(name)+" in "+quote(shard)+", which does not have it", "its shard")
		case listed[shard][i]:
			s.fail(at, "weight_map", quote(name)+" for a second time", "each name once")
		default:
			listed[shard][i] = true
		}
	})
	if err != nil {
		return err
	}
	for _, s := range m.shards {
		if i := slices.Index(listed[s.name], false); i >= 0 {
			name := s.entries[i].name
			found := fmt.Sprintf("nothing of %s, which is in %s", quote(name), quote(s.name))
			for _, other := range m.shards {
				if other.name != s.name && other.find(name) >= 0 {
					found = fmt.Sprintf("one shard for %s, which is in %s and %s", quote(name), quote(s.name),
						quote(other.name))
				}
			}
			return &FormatError{Offset: -1, What: "weight_map", Found: found,
				Want: "all tensors of the shards, each in one"}
		}
	}
	return nil
}

// eachWeight calls visit for the entries of an index: {"metadata": {...}, "weight_map": {"NAME": "SHARD", ...}}.
func eachWeight(text string, visit func(s *scanner, at int, name, shard string)) error {
	s, err := newScanner(text, 0)
	if err != nil {
		return err
	}
	maps := 0
	s.object("index", func(key string, at int) {
		if key != "weight_map" {
			s.skip("index", 0)
			return
		}
		maps++
		s.object("weight_map", func(name string, at int) {
			if shard := s.str("weight_map"); s.err == nil {
				visit(s, at, name, shard)
			}
		})
	})
	if maps != 1 {
		s.fail(0, "index", fmt.Sprintf("%d keys weight_map", maps), "one")
	}
	return s.end("index")
}

// inFile adds the path of a file to an error of its format.
func inFile(path string, err error) error {
	var format *FormatError
	if errors.As(err, &format) && format.File == "" {
		format.File = path
	}
	return err
}

// openRegular opens a file and returns its size. Opening a pipe would wait for somebody who writes.
func openRegular(path string) (*os.File, int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, &FormatError{File: path, Offset: -1, What: "kind of file", Found: info.Mode().Type().String(),
			Want: "a regular file"}
	}
	file, err := os.Open(path)
	return file, info.Size(), err
}

// Close closes the files. Tensors of the model can no longer be read.
func (m *Model) Close() error {
	var errs []error
	for _, s := range m.shards {
		errs = append(errs, s.file.Close())
	}
	return errors.Join(errs...)
}

// Len is the number of tensors.
func (m *Model) Len() int {
	n := 0
	for _, s := range m.shards {
		n += s.Len()
	}
	return n
}

// Files yields the files of the model by name.
func (m *Model) Files() iter.Seq2[string, *File] {
	return func(yield func(string, *File) bool) {
		for _, s := range m.shards {
			if !yield(s.name, s.File) {
				return
			}
		}
	}
}

// Tensors yields the tensors of all files, in the order of their data.
func (m *Model) Tensors() iter.Seq[Tensor] {
	return func(yield func(Tensor) bool) {
		for _, s := range m.shards {
			for t := range s.Tensors() {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// Lookup returns the tensor with a name, which may be one of its aliases; false if there is none.
func (m *Model) Lookup(name string) (t Tensor, ok bool) {
	for _, s := range m.shards {
		if found, is := s.Lookup(name); is && (!ok || found.Name == name) {
			t, ok = found, true
		}
	}
	return t, ok
}

// WriteShards writes a model as Hugging Face does it: to "model.safetensors" if its data have at most limit bytes, else
// to as many shards as are needed, "model-00001-of-00003.safetensors" and so on, and at last to their index,
// "model.safetensors.index.json". Tensors go to shards in the order in which they are given, larger ones than limit to
// one of their own. The function create makes a file. The rest is as in [Write].
func WriteShards(create func(name string) (io.WriteCloser, error), limit int64, tensors []Tensor,
	metadata map[string]string, data func(w io.Writer, t Tensor) error) error {
	if limit < 1 {
		return fmt.Errorf("safetensors: a limit of %d bytes", limit)
	}
	if _, err := fullMetadata(tensors, metadata); err != nil {
		return err
	}
	shards, total := split(tensors, limit)
	if len(shards) > maxShards {
		return fmt.Errorf("safetensors: %d shards, at most %d", len(shards), maxShards)
	}
	where := map[string]string{}
	for i, shard := range shards {
		name := fmt.Sprintf(shardName, i+1, len(shards))
		if len(shards) == 1 {
			name = modelName
		}
		err := writeFile(create, name, func(w io.Writer) error { return Write(w, shard, metadata, data) })
		if err != nil {
			return err
		}
		for _, t := range shard {
			where[t.Name] = name
		}
	}
	if len(shards) == 1 {
		return nil
	}
	return writeFile(create, indexName, func(w io.Writer) error {
		_, err := w.Write(encodeIndex(where, total))
		return err
	})
}

// split divides tensors into shards.
func split(tensors []Tensor, limit int64) (shards [][]Tensor, total int64) {
	first, size := 0, int64(0)
	for i, t := range tensors {
		if n := t.Bytes(); i > first && n > limit-size {
			shards = append(shards, tensors[first:i])
			first, size = i, 0
		}
		size += t.Bytes()
		total += t.Bytes()
	}
	return append(shards, tensors[first:]), total
}

// writeFile makes a file and closes it.
func writeFile(create func(name string) (io.WriteCloser, error), name string, write func(w io.Writer) error) error {
	file, err := create(name)
	if err != nil {
		return err
	}
	if err := write(file); err != nil {
		return errors.Join(err, file.Close())
	}
	return file.Close()
}

// encodeIndex is the text of an index.
func encodeIndex(where map[string]string, total int64) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\n  \"metadata\": {\n    \"total_size\": %d\n  },\n  \"weight_map\": {", total)
	comma := ""
	for _, name := range slices.Sorted(maps.Keys(where)) {
		out.WriteString(comma + "\n    ")
		writeString(&out, name)
		out.WriteString(": ")
		writeString(&out, where[name])
		comma = ","
	}
	out.WriteString("\n  }\n}\n")
	return out.Bytes()
}
