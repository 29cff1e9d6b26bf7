package plan

import "github.com/weft-ml/weft/kernels"

// Trace finds the lifetimes of memory in a list of op calls. A result is alive from the op call that writes it to the
// last one that reads it. Memory that is read before it is written belongs to the time before the list, and is left
// out; memory that is written piece by piece, such as gradients of several parameters, is alive from its first use to
// its last.
type Trace struct {
	calls  int
	blocks []Block
	now    map[kernels.Buffer]int // the block that has a buffer
}

// before stands for memory of the time before the list.
const before = -1

// Add appends an op call. The launch is not kept.
func (t *Trace) Add(l *kernels.Launch) {
	if t.now == nil {
		t.now = map[kernels.Buffer]int{}
	}
	for _, x := range l.In {
		i, known := t.now[x.Buf]
		if !known {
			i = before
			t.now[x.Buf] = before
		}
		if i != before {
			t.blocks[i].Last = t.calls
		}
	}
	for _, y := range l.Out {
		t.write(l, y)
	}
	t.calls++
}

// write is a result y of the op call l.
func (t *Trace) write(l *kernels.Launch, y kernels.Arg) {
	bytes := (y.Offset + y.Len()) * y.DType.Size()
	i, known := t.now[y.Buf]
	switch {
	case known && i == before:
		return
	case known && (y.Offset > 0 || reads(l, y.Buf)): // a part of it, or in place
		b := &t.blocks[i]
		b.Last, b.Size = t.calls, max(b.Size, bytes)
	default:
		t.now[y.Buf] = len(t.blocks)
		t.blocks = append(t.blocks, Block{bytes, t.calls, t.calls})
	}
}

func reads(l *kernels.Launch, b kernels.Buffer) bool {
	for _, x := range l.In {
		if x.Buf == b {
			return true
		}
	}
	return false
}

// Blocks are the memory of the results so far.
func (t *Trace) Blocks() []Block { return t.blocks }
