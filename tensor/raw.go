package tensor

import (
	"io"
	"runtime"
)

// raw is the elements of a tensor as bytes, row-major and little-endian, as files hold them: an [io.ReaderAt] and an
// [io.WriterAt].
type raw struct{ t *Tensor }

// raw is engine.Raw.
func (t *Tensor) raw() raw {
	t.usable("raw")
	if t.scope != nil || !t.IsContiguous() {
		fail(ErrStep, "raw", "%v must be contiguous and belong to no step", t)
	}
	return raw{t}
}

// Size is the number of bytes.
func (r raw) Size() int64 { return int64(r.t.given("raw").Len() * r.t.dtype.Size()) }

// span is how many of n bytes from off on there are.
func (r raw) span(n int, off int64) (int, error) {
	switch {
	case off < 0:
		return 0, try(func() { fail(ErrValue, "raw", "the offset %d is negative", off) })
	case off >= r.Size():
		return 0, io.EOF
	case int64(n) > r.Size()-off:
		return int(r.Size() - off), io.EOF
	}
	return n, nil
}

// ReadAt copies bytes from off on to p. It waits for the device.
func (r raw) ReadAt(p []byte, off int64) (n int, err error) {
	n, end := r.span(len(p), off)
	if n == 0 {
		return 0, end
	}
	if err := r.use(reading, func(d *Device) {
		if d.inHostMemory() {
			copy(p[:n], bytesOf(r.t)[off:])
			return
		}
		d.read("read", p[:n], r.t.blk.buf, r.t.layout.Offset*r.t.dtype.Size()+int(off))
	}); err != nil {
		return 0, err
	}
	return n, end
}

// WriteAt copies p to the bytes from off on, at once: there is no step that could fail and change nothing. It is an
// error of kind [ErrBusy] beside a step that uses the parameter.
func (r raw) WriteAt(p []byte, off int64) (n int, err error) {
	n, end := r.span(len(p), off)
	if n < len(p) {
		if end == io.EOF {
			end = io.ErrShortWrite
		}
		return 0, end
	}
	if n == 0 {
		return 0, end
	}
	if err := r.use(writing, func(d *Device) {
		if d.inHostMemory() {
			copy(bytesOf(r.t)[off:], p)
		} else {
			d.copyIn("write", r.t.blk, r.t.layout.Offset*r.t.dtype.Size()+int(off), p)
		}
		if r.t.root != nil {
			r.t.root.version.Add(1)
		}
	}); err != nil {
		return 0, err
	}
	return n, nil
}

// use calls f while no step uses the parameter in a way that is at odds with how.
func (r raw) use(how access, f func(d *Device)) error {
	defer runtime.KeepAlive(r.t)
	dev := r.t.device()
	return try(func() {
		dev.do(func(s *Scope) {
			if r.t.root != nil {
				s.touch(r.t.root.arena, how)
			}
			f(dev)
		})
	})
}
