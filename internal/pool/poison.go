package pool

import "fmt"

// poisonByte makes every floating-point element a NaN and every signed integer -1.
const poisonByte = 0xFF

// viewer is what a buffer in host memory offers for poisoning.
type viewer interface {
	Data() []byte // the memory itself, not a copy
}

// SetPoison turns a debugging aid on or off: memory handed out is full of NaNs (and of -1 for
// integers) until it is written, and a write to a freed block panics when the block is used again.
// Only buffers with a method Data() []byte take part.
func (p *Pool) SetPoison(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.poison = on
}

// fill poisons a block that nobody uses.
func (b *Block) fill() {
	if v, ok := b.Buf.(viewer); ok {
		data := v.Data()
		for i := range data {
			data[i] = poisonByte
		}
		b.poisoned = true
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
