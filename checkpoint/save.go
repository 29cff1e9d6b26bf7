package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"

	"github.com/weft-ml/weft/checkpoint/safetensors"
	"github.com/weft-ml/weft/internal/disk"
	"github.com/weft-ml/weft/tensor"
)

// SaveModel writes the parameters and state of a model to a safetensors file, under their state-dict names; tied ones
// once, under the first of their names. A file that has the name is replaced, and stays if saving fails: even if the
// machine loses power there is always the one or the other, and when SaveModel has returned it is the new one. No step
// may update the model meanwhile.
func SaveModel(path string, model any) error { return saveModel(disk.OS, path, model) }

// copyBuffer is the size of the pieces in which elements are copied.
const copyBuffer = 4 << 20

// sized is the bytes of a tensor.
type sized interface {
	io.ReaderAt
	Size() int64
}

func saveModel(fsys disk.FS, path string, model any) error {
	var tensors []safetensors.Tensor
	raws := map[string]sized{}
	if err := engine.Try(func() {
		engine.Walk(model, func(name string, t *tensor.Tensor) {
			tensors = append(tensors, safetensors.Tensor{Name: name, DType: inFiles[t.DType()], Shape: t.Shape()})
			raws[name] = engine.Raw(t)
		})
	}); err != nil {
		return err
	}
	tmp := fmt.Sprintf("%s.tmp-%08x", path, rand.Uint32())
	file, err := fsys.Create(tmp)
	if err != nil {
		return err
	}
	buf := make([]byte, copyBuffer)
	err = safetensors.Write(file, tensors, nil, func(w io.Writer, t safetensors.Tensor) error {
		raw := raws[t.Name]
		_, err := io.CopyBuffer(w, io.NewSectionReader(raw, 0, raw.Size()), buf)
		return err
	})
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = fsys.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, fsys.Remove(tmp))
	}
	return fsys.SyncDir(filepath.Dir(path))
}
