package attack

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// A guarded device is the CPU, with the operands and results of each op call between pages that nobody may read. It
// makes each call twice, with memory that ends where a page of that kind begins, and with memory that begins behind
// one, so that an access outside ends the process. Both must give the same bits.
type guarded struct {
	kernels.Backend
	*slots
}

// slots are pieces of memory, each between two pages without access.
type slots struct {
	sync.Mutex
	of    [][]byte
	spare int // calls with more than fits
}

const (
	slotSize = 1 << 22
	slotsMax = 24
)

var theSlots = sync.OnceValue(func() *slots {
	page := syscall.Getpagesize()
	s := &slots{}
	for range slotsMax {
		m := must(syscall.Mmap(-1, 0, slotSize+2*page, syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_PRIVATE|syscall.MAP_ANON))
		for _, guard := range [][]byte{m[:page], m[page+slotSize:]} {
			if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
				panic(err)
			}
		}
		s.of = append(s.of, m[page:page+slotSize:page+slotSize])
	}
	return s
})

func init() {
	kernels.Register("guarded", func(int) (kernels.Backend, error) {
		b, err := kernels.Open("cpu")
		return guarded{b, theSlots()}, err
	})
}

func (guarded) Name() string { return "guarded" }

// A span is what the operands of a call use of one buffer.
type span struct {
	buf    kernels.Buffer
	lo, hi int // bytes
	result bool
	slot   []byte
}

// bytesOf is the part of its buffer that an argument uses.
func bytesOf(a *kernels.Arg) (lo, hi int) {
	lo, hi = a.Offset, a.Offset+1
	for i, n := range a.Shape {
		if d := (n - 1) * a.Strides[i]; d > 0 {
			hi += d
		} else {
			lo += d
		}
	}
	if a.Len() == 0 {
		hi = lo
	}
	return lo * a.DType.Size(), hi * a.DType.Size()
}

// spans are those of a call, one for each buffer.
func spans(l *kernels.Launch) (all []*span) {
	add := func(args []kernels.Arg, result bool) {
		for i := range args {
			lo, hi := bytesOf(&args[i])
			k := slices.IndexFunc(all, func(s *span) bool { return s.buf == args[i].Buf })
			switch {
			case lo == hi:
			case k < 0:
				all = append(all, &span{buf: args[i].Buf, lo: lo, hi: hi, result: result})
			default:
				s := all[k]
				s.lo, s.hi, s.result = min(s.lo, lo), max(s.hi, hi), s.result || result
			}
		}
	}
	add(l.In, false)
	add(l.Out, true)
	return all
}

// Run makes the call twice between the pages.
func (g guarded) Run(l *kernels.Launch) error {
	g.Lock()
	defer g.Unlock()
	all := spans(l)
	if len(all) > len(g.of) || slices.ContainsFunc(all, func(s *span) bool { return s.hi-s.lo > slotSize }) {
		g.spare++
		return g.Backend.Run(l)
	}
	var first [][]byte
	for _, behind := range []bool{false, true} {
		c := l.Clone()
		for i, s := range all {
			if s.slot = g.of[i][:s.hi-s.lo]; !behind {
				s.slot = g.of[i][slotSize-(s.hi-s.lo):]
			}
			copy(s.slot, s.buf.(*cpu.Mem).Data()[s.lo:s.hi])
		}
		move(c.In, all)
		move(c.Out, all)
		if err := g.Backend.Run(c); err != nil {
			return err
		}
		for _, s := range all {
			if s.result {
				first = append(first, bytes.Clone(s.slot))
			}
		}
	}
	n := len(first) / 2
	for i, s := range slices.DeleteFunc(all, func(s *span) bool { return !s.result }) {
		if !bytes.Equal(first[i], first[n+i]) {
			return fmt.Errorf("%s: the result depends on where memory is", l.Op.Name)
		}
		copy(s.buf.(*cpu.Mem).Data()[s.lo:s.hi], first[i])
	}
	return nil
}

// move makes arguments refer to the slots.
func move(args []kernels.Arg, all []*span) {
	for i := range args {
		a := &args[i]
		if lo, hi := bytesOf(a); lo == hi {
			a.Buf, a.Offset = cpu.Wrap(nil), 0
			continue
		}
		s := all[slices.IndexFunc(all, func(s *span) bool { return s.buf == a.Buf })]
		a.Buf, a.Offset = cpu.Wrap(s.slot), a.Offset-s.lo/a.DType.Size()
	}
}
