package torchfile

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-ml/weft/checkpoint/internal/zipfile"
	"github.com/weft-ml/weft/checkpoint/safetensors"
)

const (
	format = "torch file"
	// spare is how much larger than its file a tensor may be, whose strides repeat elements.
	spare = 64 << 20
	// baseMemory and half of the file's size are what a pickle may make objects of.
	baseMemory = 20 << 20
	// maxDepth is the most containers inside each other.
	maxDepth = 64
	// maxText is the longest text, in bytes.
	maxText = 1 << 20
)

// A File is an open file: names, types and shapes of its tensors, and values. Tensors stay where they are until they
// are read. Any number of goroutines may use it at once.
type File struct {
	tensors []safetensors.Tensor
	values  map[string]any
}

// Open reads the pickle of a file of the given size. Memory is at most twice that size and 64 MiB. What cannot be read
// is a [*safetensors.FormatError]: older containers and TorchScript; an instruction, function or class that the package
// does not know; a tensor that is not inside its storage; names that come twice; types that
// [safetensors.DType] does not have.
func Open(r io.ReaderAt, size int64) (*File, error) {
	if err := refuseOld(r, size); err != nil {
		return nil, err
	}
	entries, err := zipfile.Open(r, size, format)
	if err != nil {
		return nil, err
	}
	folder, err := folderOf(entries)
	if err != nil {
		return nil, err
	}
	m := &machine{memory: baseMemory + size/2, largest: size + spare, memo: map[uint32]any{},
		storages: map[string]*io.SectionReader{}}
	var order, pickle *io.SectionReader
	for _, e := range entries {
		name, inside := strings.CutPrefix(e.Name, folder)
		key, isStorage := strings.CutPrefix(name, "data/")
		switch {
		case !inside:
			return nil, fault(-1, "zip directory", fmt.Sprintf("%.80q", e.Name), "entries of one folder")
		case e.Data == nil:
			return nil, fault(-1, fmt.Sprintf("entry %.80q", e.Name), "compressed or encrypted data", "stored data")
		case isStorage:
			m.storages[key] = e.Data
		case name == "data.pkl":
			pickle = e.Data
		case name == "byteorder":
			order = e.Data
		}
	}
	if order != nil { // files before PyTorch 2.1 do not say it
		text := make([]byte, min(order.Size(), 16))
		if _, err := order.ReadAt(text, 0); err != nil && err != io.EOF {
			return nil, fmt.Errorf("%s: %w", format, err)
		}
		if string(text) != "little" {
			return nil, fault(-1, "byteorder", fmt.Sprintf("%q", text), `"little"`)
		}
	}
	f := &File{values: map[string]any{}}
	if err := m.run(pickle, f.flatten); err != nil {
		return nil, err
	}
	return f, nil
}

// fault is the error of a file.
func fault(offset int64, what, found, want string) error {
	return &safetensors.FormatError{Format: format, Offset: offset, What: what, Found: found, Want: want}
}

// refuseOld knows the files of earlier versions.
func refuseOld(r io.ReaderAt, size int64) error {
	const want = "a zip file, as PyTorch 1.6 and newer write: load it there and save it again"
	begin := make([]byte, max(0, min(size, 512)))
	if n, err := r.ReadAt(begin, 0); n < len(begin) && err != io.EOF {
		return fmt.Errorf("%s: %w", format, err)
	}
	switch {
	case bytes.HasPrefix(begin, []byte("\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")):
		return fault(0, "file", "the container of PyTorch before 1.6", want)
	case len(begin) > 262 && string(begin[257:262]) == "ustar":
		return fault(0, "file", "a tar file, the container of PyTorch before 0.1.10", want)
	case bytes.HasPrefix(begin, []byte("\x80")):
		return fault(0, "file", "a pickle without a container", want)
	case len(begin) > 8 && begin[8] == '{' && !bytes.HasPrefix(begin, []byte("PK")):
		return fault(0, "file", "what looks like safetensors", "a zip file, or a name that ends in .safetensors")
	}
	return nil
}

// folderOf is the one folder in which all entries are, with a slash.
func folderOf(entries []zipfile.Entry) (folder string, err error) {
	for _, e := range entries {
		in, name, _ := strings.Cut(e.Name, "/")
		switch name {
		case "constants.pkl":
			return "", fault(-1, "file", "TorchScript, which is a program", "what torch.save writes of a state_dict")
		case "data.pkl":
			folder = in + "/"
		}
	}
	if folder == "" {
		return "", fault(-1, "zip directory", "no FOLDER/data.pkl", "what torch.save writes")
	}
	return folder, nil
}

// flatten gives names to what the pickle has made. Tensors that are the same part of one storage are one with aliases.
func (f *File) flatten(m *machine, root any) {
	seen := map[string]bool{}
	same := map[string]int{} // tensors by their storage, offset and layout
	var visit func(name string, x any, depth int)
	visit = func(name string, x any, depth int) {
		m.take(64 + len(name))
		if depth > maxDepth {
			m.fail("pickle", "containers that hold themselves, or deeper ones",
				fmt.Sprintf("at most %d inside each other", maxDepth))
		}
		below := name
		if below != "" {
			below += "."
		}
		switch x := x.(type) {
		case *dict:
			for _, item := range x.items {
				visit(below+item.key, item.value, depth+1)
			}
			return
		case *list:
			for i, item := range *x {
				visit(below+strconv.Itoa(i), item, depth+1)
			}
			return
		case tuple:
			for i, item := range x {
				visit(below+strconv.Itoa(i), item, depth+1)
			}
			return
		case nil:
			return
		}
		if seen[name] {
			m.fail("name", fmt.Sprintf("%.80q for a second time", name), "each name once")
		}
		m.take(256)
		seen[name] = true
		switch x := x.(type) {
		case *view:
			if i, ok := same[x.place]; ok {
				f.tensors[i].Aliases = append(f.tensors[i].Aliases, name)
				return
			}
			same[x.place] = len(f.tensors)
			t := x.Tensor
			t.Name = name
			f.tensors = append(f.tensors, t)
		case int64, float64, bool, string:
			f.values[name] = x
		default:
			m.fail(fmt.Sprintf("value of %.80q", name), kind(x), "a tensor, a number, a text or a container of these")
		}
	}
	visit("", root, 0)
	for i := range f.tensors {
		slices.Sort(f.tensors[i].Aliases)
	}
}

// Len is the number of tensors.
func (f *File) Len() int { return len(f.tensors) }

// Tensors yields the tensors in the order of the file. Those that are the same part of one storage, such as tied
// weights, are one with aliases.
func (f *File) Tensors() iter.Seq[safetensors.Tensor] {
	return func(yield func(safetensors.Tensor) bool) {
		for _, t := range f.tensors {
			t.Shape, t.Aliases = slices.Clone(t.Shape), slices.Clone(t.Aliases)
			if !yield(t) {
				return
			}
		}
	}
}

// Values returns a copy of what is no tensor, by name: int64, float64, bool and string, such as the learning rate
// "optimizer.param_groups.0.lr". None is left out.
func (f *File) Values() map[string]any { return maps.Clone(f.values) }
