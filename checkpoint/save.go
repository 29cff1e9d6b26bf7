package checkpoint

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/weft-ml/weft/checkpoint/npy"
	"github.com/weft-ml/weft/checkpoint/safetensors"
	"github.com/weft-ml/weft/internal/disk"
	"github.com/weft-ml/weft/tensor"
)

// SaveModel writes the parameters and state of a model to a file, under their state-dict names; tied ones once, under
// the first of their names. The file is NumPy's if the path ends in ".npz", else safetensors; endings by which [Load]
// would take it for a file of PyTorch, such as ".pt", are an error. A file that has the path is replaced, and stays if
// saving fails: even if the machine loses power there is always the one or the other, and when SaveModel has returned
// it is the new one. No step may update the model meanwhile.
//
// The option [Rename] gives tensors the names that others have for them, by the first rule whose name in the model fits
// each, and transposes them if the rule says so; a matrix is then in the host's memory as a whole. Other options are
// for [Load] alone, and an error here.
func SaveModel(path string, model any, options ...Option) error {
	return saveModel(disk.OS, path, model, options...)
}

// copyBuffer is the size of the pieces in which elements are copied.
const copyBuffer = 4 << 20

func saveModel(fsys disk.FS, path string, model any, options ...Option) error {
	c := configOf(options)
	if c.partial || c.convert || c.key != "" {
		return fmt.Errorf("checkpoint: %s: an option of Load is given to SaveModel, which has Rename alone", path)
	}
	if ext := filepath.Ext(path); ext != ".npz" && slices.Contains(otherFormats, ext) {
		return fmt.Errorf("checkpoint: %s: files that end in %s are read, not written; end it in .safetensors, which "+
			"PyTorch reads too, or in .npz", path, ext)
	}
	var tensors []safetensors.Tensor
	pairs := map[string]pair{} // by the name in the file
	if err := engine.Try(func() {
		engine.Walk(model, func(name string, t *tensor.Tensor) {
			engine.Raw(t) // fails if there is none
			p := pair{to: t, name: name, from: safetensors.Tensor{DType: inFiles[t.DType()], Shape: t.Shape()}}
			p.from.Name, p.transpose = renameBack(c.rules, name)
			if p.transpose = p.transpose && t.Rank() == 2; p.transpose {
				slices.Reverse(p.from.Shape)
			}
			tensors = append(tensors, p.from)
			pairs[p.from.Name] = p
		})
	}); err != nil {
		return err
	}
	if len(tensors) == 0 {
		return fmt.Errorf("checkpoint: %s: %T has no parameters that can be saved; those in unexported fields cannot",
			path, model)
	}
	buf := make([]byte, copyBuffer)
	data := func(w io.Writer, t safetensors.Tensor) error { return pairs[t.Name].write(w, buf) }
	return disk.Replace(fsys, path, func(w io.Writer) error {
		if filepath.Ext(path) == ".npz" {
			return npy.WriteZip(w, tensors, data)
		}
		return safetensors.Write(w, tensors, nil, data)
	})
}

// write writes the elements as the file has them.
func (p pair) write(w io.Writer, buf []byte) error {
	raw := engine.Raw(p.to)
	if !p.transpose {
		_, err := io.CopyBuffer(w, io.NewSectionReader(raw, 0, raw.Size()), buf)
		return err
	}
	bytes := make([]byte, raw.Size())
	if n, err := raw.ReadAt(bytes, 0); n < len(bytes) {
		return whole(int64(n), raw.Size(), err)
	}
	bytes, err := transposed(bytes, p.to.DType(), p.to.Dim(0), p.to.Dim(1), p.to.DType())
	if err != nil {
		return err
	}
	_, err = w.Write(bytes)
	return err
}
