package checkpoint

import (
	"fmt"
	"io"
	"slices"

	"github.com/weft-ml/weft/tensor"
)

// An Option changes how [Load] loads. The zero Option changes nothing.
type Option struct{ set func(*config) }

type config struct {
	partial, convert bool
	rules            []Rule
	key              string
}

// Partial loads what the file and the model both have, and leaves the rest of the model as it is. A file that has none
// of the model's names is an error nevertheless.
func Partial() Option { return Option{func(c *config) { c.partial = true }} }

// Convert converts floating types to those of the model, with one rounding.
func Convert() Option { return Option{func(c *config) { c.convert = true }} }

// Rename gives the tensors of a file other names, by the first rule that fits each; see [GPT2]. A name for which there
// is no rule stays.
func Rename(rules []Rule) Option {
	return Option{func(c *config) { c.rules = append(c.rules, rules...) }}
}

// Key loads what is below a key of the file, such as "state_dict" of what PyTorch Lightning writes, and leaves out all
// else: the tensor "state_dict.fc.weight" is "fc.weight" then. Rules see the shorter name. Keys of keys are joined by
// dots.
func Key(key string) Option { return Option{func(c *config) { c.key = key }} }

// configOf applies options; the zero option changes nothing.
func configOf(options []Option) (c config) {
	for _, o := range options {
		if o.set != nil {
			o.set(&c)
		}
	}
	return c
}

// Load reads the values of a model's parameters and state, which have been placed (nn.Init), from a file of weights,
// an index of shards, or a folder with either: safetensors, files of PyTorch and of NumPy, see [OpenWeights]. The file
// must have the model's names, shapes and types, and no others: anything else is a [*MatchError], which lists all
// differences, and options allow some of them. Until then nothing is changed. Data go to the device in pieces of a few
// megabytes. If reading fails on the way, the model has some of the file's values and some of its own: load again, or
// start afresh with nn.Init.
//
// No step may use the model meanwhile. Optimizers keep their state; gradients are not cleared.
func Load(model any, path string, options ...Option) error {
	c := configOf(options)
	file, err := OpenWeights(path)
	if err != nil {
		return err
	}
	defer file.Close()
	pairs, err := match(model, path, file.Tensors(), c)
	if err != nil {
		return err
	}
	return load(path, pairs)
}

// load copies all pairs.
func load(path string, pairs []pair) error {
	for _, p := range pairs { // all are usable, or none is changed
		if err := engine.Try(func() { engine.Raw(p.to) }); err != nil {
			return err
		}
	}
	var buf buffer
	for i, p := range pairs {
		if err := p.copy(&buf); err != nil {
			return fmt.Errorf("checkpoint: %s: %s, after %d of %d tensors: %w", path, p.name, i, len(pairs), err)
		}
	}
	return nil
}

// A buffer is memory for pieces of data, used again and again.
type buffer []byte

// of is the buffer's first n bytes; it grows if need be.
func (b *buffer) of(n int) []byte {
	*b = slices.Grow((*b)[:0], n)[:n]
	return *b
}

// copy copies the elements, in pieces.
func (p pair) copy(buf *buffer) error {
	dt, _ := here(p.from.DType)
	data := p.from.Data()
	switch {
	case p.to.Len() == 0:
		return nil
	case p.transpose:
		return p.copyTransposed(buf, data, dt)
	case dt == p.to.DType():
		to := io.NewOffsetWriter(engine.Raw(p.to), 0)
		n, err := io.CopyBuffer(to, data, buf.of(int(min(copyBuffer, p.from.Bytes()))))
		return whole(n, p.from.Bytes(), err)
	}
	const piece = copyBuffer / 8 // elements of any type
	pieces := buf.of(min(piece, p.to.Len()) * dt.Size())
	for at := 0; at < p.to.Len(); at += piece {
		n := min(piece, p.to.Len()-at)
		bytes := pieces[:n*dt.Size()]
		if got, err := data.ReadAt(bytes, int64(at*dt.Size())); got < len(bytes) {
			return whole(int64(got), int64(len(bytes)), err)
		}
		if err := p.put(at, bytes, dt, n, 1); err != nil {
			return err
		}
	}
	return nil
}

// copyTransposed copies a matrix [rows cols] of the file to [cols rows] here: some columns at a time.
func (p pair) copyTransposed(buf *buffer, data io.ReaderAt, dt tensor.DType) error {
	rows, cols := p.from.Shape[0], p.from.Shape[1]
	width := min(cols, max(1, copyBuffer/8/rows))
	strip := buf.of(rows * width * dt.Size())
	for at := 0; at < cols; at += width {
		n := min(width, cols-at)
		line := n * dt.Size()
		for row := range rows {
			bytes := strip[row*line:][:line]
			if got, err := data.ReadAt(bytes, int64((row*cols+at)*dt.Size())); got < line {
				return whole(int64(got), int64(line), err)
			}
		}
		if err := p.put(at*rows, strip[:rows*line], dt, rows, n); err != nil {
			return err
		}
	}
	return nil
}

// put writes a matrix [rows cols], transposed and converted, from element at on.
func (p pair) put(at int, bytes []byte, dt tensor.DType, rows, cols int) error {
	bytes, err := transposed(bytes, dt, rows, cols, p.to.DType())
	if err != nil {
		return err
	}
	_, err = engine.Raw(p.to).WriteAt(bytes, int64(at*p.to.DType().Size()))
	return err
}

// transposed is a matrix [rows cols] as [cols rows], of another type perhaps.
func transposed(bytes []byte, dt tensor.DType, rows, cols int, to tensor.DType) ([]byte, error) {
	x := tensor.Zeros(dt, rows, cols)
	if _, err := engine.Raw(x).WriteAt(bytes, 0); err != nil {
		return nil, err
	}
	y := engine.Raw(x.T().Contiguous().To(to))
	bytes = make([]byte, y.Size())
	_, err := y.ReadAt(bytes, 0)
	return bytes, err
}

// whole is the error of a copy of n bytes of want.
func whole(n, want int64, err error) error {
	if err == nil || err == io.EOF {
		if n == want {
			return nil
		}
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("%d of %d bytes: %w", n, want, err)
}
