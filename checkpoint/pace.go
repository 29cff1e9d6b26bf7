package checkpoint

import (
	"io"
	"math"
	"runtime"
	"time"
)

// A checkpoint that is written while steps run takes processors from them: to hash a gigabyte takes half a second, and
// to hand it to the system as long. So it is written in small pieces with rests between them, such that writing takes a
// small share of the processors; faster if it would take more than half of the time between two saves, and without rest
// once somebody waits for the end.

const (
	pieceBytes   = 256 << 10 // written without a rest, a tenth of a millisecond
	processorsOf = 128       // so many processors would be one for writing
)

// A pace spreads the writing of a checkpoint over time.
type pace struct {
	hurry       <-chan struct{} // closed when somebody waits
	begun       time.Time
	within      time.Duration // of begun
	worked      time.Duration
	done, total int64 // bytes
}

// newPace is the pace of so many bytes, where the last save was so long ago; 0 if this is the first.
func newPace(hurry <-chan struct{}, total int64, since time.Duration) *pace {
	p := &pace{hurry: hurry, begun: time.Now(), within: since / 2, total: max(total, 1)}
	if since == 0 {
		p.within = math.MaxInt64 / 2
	}
	return p
}

// over is w at the pace, or without one if that is nil.
func (p *pace) over(w io.Writer) io.Writer {
	if p == nil {
		return w
	}
	return paced{p, w}
}

type paced struct {
	*pace
	to io.Writer
}

func (w paced) Write(b []byte) (n int, err error) {
	for n < len(b) {
		start := time.Now()
		m, err := w.to.Write(b[n:min(n+pieceBytes, len(b))])
		n += m
		if err != nil {
			return n, err
		}
		w.worked += time.Since(start)
		w.done += int64(m)
		w.rest()
	}
	return n, nil
}

// due is how long after begun what is done should be.
func (p *pace) due() time.Duration {
	share := min(1, float64(p.done)/float64(p.total))
	return min(p.worked*processorsOf/time.Duration(runtime.GOMAXPROCS(0)), time.Duration(share*float64(p.within)))
}

// rest waits until what is done is due.
func (p *pace) rest() {
	if d := p.due() - time.Since(p.begun); d >= time.Millisecond {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-p.hurry:
		case <-t.C:
		}
	}
}
