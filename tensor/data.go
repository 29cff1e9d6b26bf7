package tensor

import (
	"math"
	"runtime"
	"slices"
	"unsafe"

	"github.com/weft-ml/weft/internal/philox"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// FromSlice makes host data of the given shape that use the memory of v. The slice must not be changed while a step
// uses the tensor. Without a shape the rank is 0: one element.
func FromSlice[T Elem](v []T, shape ...int) *Tensor {
	checkShape("from_slice", shape)
	if n := kernels.Count(shape); n != len(v) {
		hint := ""
		if len(shape) == 0 {
			hint = "; the shape follows the slice: FromSlice(v, len(v)) is a vector"
		}
		fail(ErrShape, "from_slice", "shape %v has %d elements, the slice has %d%s", shape, n, len(v), hint)
	}
	return newTensor(hostBlock(cpu.Wrap(memory(v)), "from_slice"), dtypeOf[T](), shape, nil)
}

// memory is the bytes of the elements of v.
func memory[T Elem](v []T) []byte {
	var z T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(z)))
}

// Of makes host data of rank 0.
func Of[T Elem](v T) *Tensor { return FromSlice([]T{v}) }

// Zeros makes host data with all elements zero.
func Zeros(dt DType, shape ...int) *Tensor {
	n := sizeOf("zeros", shape) * dt.Size()
	return newTensor(hostBlock(hostMemory("zeros", n), "zeros"), dt, shape, nil)
}

// Full makes host data with all elements equal to v.
func Full(v float64, dt DType, shape ...int) *Tensor {
	checkShape("full", shape)
	return Of(v).To(dt).Expand(shape...).Clone()
}

// Ones makes host data with all elements one.
func Ones(dt DType, shape ...int) *Tensor {
	checkShape("ones", shape)
	return Full(1, dt, shape...)
}

// Uniform makes float32 host data drawn uniformly from [lo, hi) of float32 numbers, and lo if both are equal.
func Uniform(seed RandomSeed, lo, hi float64, shape ...int) *Tensor {
	wantRange(lo, hi)
	v := makeHost[float32]("uniform", sizeOf("uniform", shape))
	philox.Uniform(v, philox.Source{Key: seed.n}, 0)
	for i, u := range v {
		if v[i] = float32(lo + float64((hi-lo)*float64(u))); float64(v[i]) >= hi { // rounded up
			v[i] = float32(max(lo, below(hi)))
		}
	}
	return FromSlice(v, shape...)
}

// wantRange fails unless uniform can draw float32 numbers from [lo, hi).
func wantRange(lo, hi float64) {
	if !(lo <= hi && hi-lo <= math.MaxFloat32 && math.Abs(lo) <= math.MaxFloat32 && math.Abs(hi) <= math.MaxFloat32) {
		fail(ErrValue, "uniform", "[%v, %v) is no range of float32 numbers: lo <= hi, and hi - lo is finite", lo, hi)
	}
}

// below is the largest float32 number less than v.
func below(v float64) float64 {
	f := float32(v)
	if float64(f) >= v {
		f = math.Nextafter32(f, float32(math.Inf(-1)))
	}
	return float64(f)
}

// Randn makes float32 host data from the standard normal distribution.
func Randn(seed RandomSeed, shape ...int) *Tensor {
	v := makeHost[float32]("randn", sizeOf("randn", shape))
	philox.Normal(v, philox.Source{Key: seed.n}, 0)
	return FromSlice(v, shape...)
}

// sizeOf checks a shape and counts its elements.
func sizeOf(op string, shape []int) int {
	checkShape(op, shape)
	return kernels.Count(shape)
}

// checkShape fails unless a tensor can have the shape; see [kernels.Fits].
func checkShape(op string, shape []int) {
	if !kernels.Fits(shape) {
		misfit(op, slices.Clone(shape), nil)
	}
}

// misfit fails with what is wrong about a shape.
func misfit(op string, shape []int, operands []*Tensor) {
	of := ""
	if len(operands) > 0 {
		of = "; operands: " + operands[0].String()
		for _, x := range operands[1:min(len(operands), 4)] {
			of += ", " + x.String()
		}
	}
	if len(shape) > kernels.MaxDims {
		fail(ErrShape, op, "a shape has %d axes, %v..., at most %d are possible%s", len(shape),
			shape[:kernels.MaxDims], kernels.MaxDims, of)
	}
	if i := slices.IndexFunc(shape, func(d int) bool { return d < 0 }); i >= 0 {
		fail(ErrShape, op, "shape %v has size %d on axis %d%s", shape, shape[i], i, of)
	}
	fail(ErrShape, op, "shape %v has more than %d elements%s", shape, kernels.MaxLen, of)
}

// ToSlice copies the elements to a new slice, in row-major order, converting from the tensor's type. It
// waits for the device.
func ToSlice[T Elem](t *Tensor) (v []T) {
	t.usable("to_slice")
	t.fresh("to_slice")
	t.scope.alone(func() {
		c := t.Detach()
		if !c.device().inHostMemory() {
			c = c.download()
		}
		c = c.To(dtypeOf[T]()).Contiguous()
		v = makeHost[T]("to_slice", c.Len())
		copy(memory(v), bytesOf(c))
		runtime.KeepAlive(c)
	})
	return v
}

// device is where the memory of t is.
func (t *Tensor) device() *Device {
	if t.blk.dev != nil {
		return t.blk.dev
	}
	return host()
}

// Device is where t is. It is nil for parameters without values and for host data: an operation copies these to the
// device of its other operands or of its step.
func (t *Tensor) Device() *Device { return t.given("device").where() }

// where is Device of a tensor that is not nil.
func (t *Tensor) where() *Device {
	switch {
	case t.blk == nil:
		return nil
	case t.blk.dev == nil && t.scope != nil: // host data that a step of the CPU took in
		return t.scope.home
	}
	return t.blk.dev
}

// hostBytes is engine.Bytes.
func (t *Tensor) hostBytes() []byte {
	t.usable("bytes")
	t.fresh("bytes")
	if !t.IsContiguous() {
		fail(ErrShape, "bytes", "%v has strides %v; take Contiguous first", t, t.layout.Strides)
	}
	if t.blk.dev != nil && !t.blk.dev.inHostMemory() {
		fail(ErrDevice, "bytes", "%v is on %s; ToSlice copies", t, t.blk.dev.Name())
	}
	return bytesOf(t)
}

// bytesOf is the memory of a contiguous tensor in host memory.
func bytesOf(t *Tensor) []byte {
	if t.Len() == 0 {
		return nil
	}
	b := t.blk.buf.(*cpu.Mem).Data()
	return b[t.layout.Offset*t.dtype.Size():][:t.Len()*t.dtype.Size()]
}

// Item is the value of a tensor with one element. It waits for the device.
func (t *Tensor) Item() float64 {
	t.given("item")
	if t.Len() != 1 {
		fail(ErrShape, "item", "%v has %d elements, Item wants one", t, t.Len())
	}
	return ToSlice[float64](t)[0]
}

// Detach is t off the tape: no gradient flows through it. It shares the memory.
func (t *Tensor) Detach() *Tensor {
	t.given("detach")
	if t.lazy != nil {
		l := t.lazy
		return apply(l.Op, []*Tensor{l.In[0].Detach()}, l.Ints, l.Floats)
	}
	t.usable("detach")
	return t.alias(t.scope)
}

// Keep takes t out of its step: the result belongs to no step, is off the tape, and lives as long as the program refers
// to it. It is a copy if the memory has other owners, as that of a batch which data.On has uploaded.
func (t *Tensor) Keep() (k *Tensor) {
	t.usable("keep")
	s := t.scope
	if s == nil {
		t.last()
		if t.blk.grads || t.blk.slot { // others write there: the next commit, or the upload of a later batch
			t.blk.dev.do(func(s *Scope) { t = s.In(t).Keep() })
		}
		return t
	}
	s.alone(func() {
		c := t.Detach().Contiguous()
		if c.blk.shared || c.blk.grads || c.blk.refs > 1 || c.Len()*c.dtype.Size() < c.blk.mem.Size() {
			c = c.Clone()
		}
		c.blk.disown()
		k = newTensor(c.blk, c.dtype, c.layout.Shape, nil)
		k.layout.Offset = c.layout.Offset
	})
	return k
}
