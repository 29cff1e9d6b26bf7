package checkpoint

import (
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

	"github.com/weft-ml/weft/checkpoint/npy"
	"github.com/weft-ml/weft/checkpoint/safetensors"
	"github.com/weft-ml/weft/checkpoint/torchfile"
	"github.com/weft-ml/weft/internal/disk"
)

// Weights are the tensors of a model's files, in whatever format: what [Load] loads.
type Weights struct {
	Files []WeightsFile

	opened []io.Closer
}

// A WeightsFile is one of the files.
type WeightsFile struct {
	Name    string                       // of the file, without its folder
	Len     int                          // number of tensors
	Tensors iter.Seq[safetensors.Tensor] // in the order of the file
	Values  map[string]any               // the rest, by name: string, and of PyTorch int64, float64 and bool
}

// The names that Hugging Face gives to files of PyTorch.
const (
	torchName  = "pytorch_model.bin"
	torchIndex = "pytorch_model.bin.index.json"
)

// otherFormats are the endings of files that are no safetensors.
var otherFormats = []string{".pt", ".pth", ".bin", ".ckpt", ".npy", ".npz"}

// OpenWeights opens a file of weights, an index of shards, or a folder with either. The name tells the format:
//
//	.pt .pth .bin .ckpt        torch.save of PyTorch 1.6 and newer (package torchfile)
//	.bin.index.json            shards of these, as Hugging Face has them
//	.npy .npz                  NumPy (package npy); the tensor of a .npy file has the name of the file, without ".npy"
//	anything else              safetensors, or their index
//
// In a folder it is model.safetensors, its index, pytorch_model.bin, or its index: the first that there is. Names,
// types and shapes are read, no data. A file that its format does not allow is a [*safetensors.FormatError].
func OpenWeights(path string) (*Weights, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return openFolder(path)
	}
	w := &Weights{}
	switch {
	case strings.HasSuffix(path, ".bin.index.json"):
		err = w.openTorchIndex(path)
	case slices.Contains(otherFormats, filepath.Ext(path)):
		err = w.open(path)
	default:
		err = w.openSafetensors(path)
	}
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// openFolder opens what is in a folder.
func openFolder(path string) (*Weights, error) {
	w := &Weights{}
	err := w.openSafetensors(path)
	if err == nil {
		return w, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, w.Close())
	}
	for _, name := range []string{torchName, torchIndex} {
		file := filepath.Join(path, name)
		if _, absent := os.Stat(file); absent == nil {
			return OpenWeights(file)
		}
	}
	if steps, _, _ := listSteps(disk.OS, path); len(steps) > 0 {
		return nil, fmt.Errorf("checkpoint: the folder %s has checkpoints of a run and no weights itself; name one, "+
			"such as %s: %w", path, filepath.Join(path, folderName(steps[len(steps)-1])), fs.ErrNotExist)
	}
	return nil, fmt.Errorf("checkpoint: the folder %s has neither %s nor %s, nor an index of shards of these: %w", path,
		modelFile, torchName, fs.ErrNotExist)
}

// openSafetensors adds safetensors files.
func (w *Weights) openSafetensors(path string) error {
	model, err := safetensors.OpenPath(path)
	if err != nil {
		return err
	}
	w.opened = append(w.opened, model)
	for name, file := range model.Files() {
		values := map[string]any{}
		for key, text := range file.Metadata() {
			values[key] = text
		}
		w.Files = append(w.Files, WeightsFile{name, file.Len(), file.Tensors(), values})
	}
	return nil
}

// open adds a file of PyTorch or NumPy.
func (w *Weights) open(path string) error {
	r, err := disk.OS.Open(path)
	if err != nil {
		return err
	}
	w.opened = append(w.opened, r)
	file := WeightsFile{Name: filepath.Base(path)}
	switch filepath.Ext(path) {
	case ".npy":
		var t safetensors.Tensor
		t, err = npy.Open(r, r.Size())
		t.Name = strings.TrimSuffix(file.Name, ".npy")
		file.Len, file.Tensors = 1, slices.Values([]safetensors.Tensor{t})
	case ".npz":
		var all []safetensors.Tensor
		all, err = npy.OpenZip(r, r.Size())
		file.Len, file.Tensors = len(all), slices.Values(all)
	default:
		var f *torchfile.File
		if f, err = torchfile.Open(r, r.Size()); err == nil {
			file.Len, file.Tensors, file.Values = f.Len(), f.Tensors(), f.Values()
		}
	}
	var format *safetensors.FormatError
	if errors.As(err, &format) {
		format.File = path
	}
	w.Files = append(w.Files, file)
	return err
}

// openTorchIndex adds the shards of an index, and makes sure that each tensor is where the index says.
func (w *Weights) openTorchIndex(path string) error {
	where, err := safetensors.ReadIndex(path)
	if err != nil {
		return err
	}
	wrong := func(found, want string) error {
		return &safetensors.FormatError{File: path, Offset: -1, What: "weight_map", Found: found, Want: want}
	}
	for _, shard := range slices.Compact(slices.Sorted(maps.Values(where))) {
		if err := w.open(filepath.Join(filepath.Dir(path), shard)); err != nil {
			return err
		}
		for t := range w.Files[len(w.Files)-1].Tensors {
			for _, name := range names(t) {
				if where[name] != shard {
					return wrong(fmt.Sprintf("%q for %.80q, which is in %q", where[name], name, shard), "its shard")
				}
				delete(where, name)
			}
		}
	}
	for name, shard := range where {
		return wrong(fmt.Sprintf("%.80q in %q, which does not have it", name, shard), "its shard")
	}
	return nil
}

// names are all names of a tensor.
func names(t safetensors.Tensor) []string { return append([]string{t.Name}, t.Aliases...) }

// Tensors yields the tensors of all files.
func (w *Weights) Tensors() iter.Seq[safetensors.Tensor] {
	return func(yield func(safetensors.Tensor) bool) {
		for _, file := range w.Files {
			for t := range file.Tensors {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// Close closes the files. Tensors of them can no longer be read.
func (w *Weights) Close() error {
	var errs []error
	for _, file := range w.opened {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}
