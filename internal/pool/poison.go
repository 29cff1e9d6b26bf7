package pool

import (
	"fmt"

	"github.com/weft-ml/weft/kernels"
)

// poisonByte makes every floating-point element a NaN and every signed integer -1.
const poisonByte = 0xFF

// guardBytes is how many bytes a poisoned block has at least behind those requested.
const guardBytes = 256

// viewer is what a buffer in host memory offers for poisoning.
type viewer interface {
	Data() []byte // the memory itself, not a copy
}

// Filler is a source whose memory the host does not see. It fills a buffer after the work that uses it.
type Filler interface {
	Fill(b kernels.Buffer, value byte)
}

// SetPoison turns a debugging aid on or off. Memory that is handed out is filled with NaNs (integers: -1) and has a
// guard band behind it, see [Block.Guard]; a write to a freed block panics when the block is used again. This works
// for buffers that have a method Data() []byte; those of a [Filler] are filled and guarded, but not checked.
func (p *Pool) SetPoison(on bool) { p.poison.Store(on) }

// Poisoned tells whether memory is.
func (p *Pool) Poisoned() bool { return p.poison.Load() }

// Guard is the range of bytes behind those requested that nobody may write; it is empty if memory is not poisoned.
// [Overwritten] checks a copy of them.
func (b *Block) Guard() (from, to int) {
	if !b.pool.poison.Load() || !b.guarded {
		return 0, 0
	}
	return b.size, min(b.size+guardBytes, b.cap)
}

// Overwritten is the number of bytes of a guard band that were written.
func Overwritten(guard []byte) (n int) {
	for _, x := range guard {
		if x != poisonByte {
			n++
		}
	}
	return n
}

// Unguard ends the watch over a guard band that somebody has written, when that is reported.
func (b *Block) Unguard() { b.guarded = false }

// checkGuard panics if somebody has written behind b, or before the block that lies there. mu is held.
func (b *Block) checkGuard() {
	from, to := b.Guard()
	if v, ok := b.Buf.(viewer); ok && from < to {
		if n := Overwritten(v.Data()[from:]); n > 0 {
			b.pool.mu.Unlock()
			panic(fmt.Sprintf("pool: %d bytes behind the %d of a block were written", n, b.size))
		}
	}
}

// fill poisons a block that is not in use.
func (b *Block) fill() {
	if v, ok := b.Buf.(viewer); ok {
		data := v.Data()
		for i := range data {
			data[i] = poisonByte
		}
		b.poisoned, b.guarded = true, true
	} else if f, ok := b.pool.src.(Filler); ok {
		f.Fill(b.Buf, poisonByte)
		b.guarded = true
	}
}

// check panics if a poisoned block was written while it was free.
func (b *Block) check() {
	if !b.poisoned {
		return
	}
	for i, x := range b.Buf.(viewer).Data() {
		if x != poisonByte {
			panic(fmt.Sprintf("pool: byte %d of a freed block of %d bytes was written after it was freed", i, b.cap))
		}
	}
}
