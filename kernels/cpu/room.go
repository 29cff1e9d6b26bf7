package cpu

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weft-ml/weft/kernels"
)

// Go ends a process that the system refuses memory, and Linux one whose control group has none left. So what is large
// asks first, and small requests ask together. Of each limit a sixteenth is left to what does not ask.

const (
	small     = 1 << 20   // bytes, about what it takes as long to clear as to ask
	spare     = 128 << 20 // of address space: Go takes 64 MiB at a time
	unlimited = 1 << 47   // what processors can address
)

var (
	granting  sync.Mutex   // between the question and the allocation
	unasked   atomic.Int64 // bytes of small requests since the last question
	large     atomic.Int64 // blocks in use that are not small
	givenBack atomic.Bool  // by Free, and not collected yet
	inRanges  atomic.Int64 // bytes beside Go's memory, in ranges of addresses
	unusable  pieces
)

// pieces is what Go has mapped and not in use, but cannot use either: when it needed a little, it mapped more.
type pieces struct {
	mu     sync.Mutex
	bytes  int
	total  int  // mapped at the last question
	little bool // asked for then
}

// of is the pieces among idle bytes, of total mapped ones, when so many are asked for.
func (p *pieces) of(idle, total, bytes int) int {
	const step = 4 << 20 // Go's heap grows by at least so much
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.little && total >= p.total+step {
		p.bytes = idle
	}
	p.bytes, p.total, p.little = min(p.bytes, idle), total, bytes <= small
	return p.bytes
}

// Make is make([]T, n), or an error of kind [kernels.ErrMemory] if the process has no [Room] for that, even after a
// collection.
func Make[T any](n int) ([]T, error) {
	var t T
	if n < 0 || n > kernels.MaxLen { // so that the bytes do not overflow
		return nil, kernels.Errorf(kernels.ErrMemory, "alloc", "%d elements of %d bytes requested", n, sizeOf(t))
	}
	return granted(n*sizeOf(t), true, func() []T { return counted(make([]T, n)) })
}

// counted counts b among the large blocks, if it is one, until it is collected.
func counted[T any](b []T) []T {
	var t T
	if len(b)*sizeOf(t) >= small {
		large.Add(1)
		runtime.AddCleanup(&b[0], func(n int64) { large.Add(-n) }, 1)
	}
	return b
}

// granted is what alloc allocates, so many bytes; if need be after a collection, with collect or if that frees memory
// that was given back.
func granted[T any](bytes int, collect bool, alloc func() T) (memory T, err error) {
	if bytes < 0 {
		return memory, kernels.Errorf(kernels.ErrMemory, "alloc", "%d bytes requested", bytes)
	}
	if bytes < small && unasked.Add(int64(bytes)) < small {
		return alloc(), nil
	}
	granting.Lock()
	defer granting.Unlock()
	bytes = max(bytes, small) // those before it
	err = Room(bytes)
	if err != nil && (collect || givenBack.Swap(false)) && bytes <= leastLimit().bytes { // else nothing helps
		Collect()
		err = Room(bytes)
	}
	if err != nil {
		return memory, err
	}
	unasked.Store(0)
	return alloc(), nil
}

// Collect runs Go's garbage collector and waits for its cleanups, which return the memory of dropped tensors to the
// pool, and no longer count large blocks. It is the last resort before an allocation fails.
func Collect() {
	began := make(chan struct{})
	runtime.AddCleanup(new([64]byte), func(began chan struct{}) { close(began) }, began)
	runtime.GC() // queues the cleanups
	select {
	case <-began:
	case <-time.After(5 * time.Second): // on a busy machine the runtime begins late with them
	}
	// Of what is queued the runtime loses a part when GOMAXPROCS becomes less, and runs it when that grows again: so it
	// is enough that no more are executed. A cleanup of the program's own may wait for us, too.
	cleanups := []metrics.Sample{{Name: "/gc/cleanups/queued:cleanups"}, {Name: "/gc/cleanups/executed:cleanups"}}
	metrics.Read(cleanups)
	queued, executed := cleanups[0].Value.Uint64(), cleanups[1].Value.Uint64()
	for still := 0; executed < queued && still < 100; still++ {
		time.Sleep(time.Millisecond)
		metrics.Read(cleanups)
		if now := cleanups[1].Value.Uint64(); now != executed {
			executed, still = now, 0
		}
	}
}

// Room returns an error of kind [kernels.ErrMemory] unless the process may have so many bytes more: of the machine's
// memory, of that of its control group, which a container has, and of its address space (ulimit -v). What Go's
// collector has not freed counts as used. Address space that Go has mapped stays mapped; what is free of it may be in
// pieces between the blocks in use, so a part is granted at a time, and none that did not serve before.
func Room(bytes int) error {
	total, idle := ofSystem()
	l := leastLimit()
	if left := l.left(total - idle + int(inRanges.Load())); bytes > left {
		return l.exceeded(bytes, left)
	}
	if l, mapped := spaceLimit(); l.bytes > 0 {
		fresh := l.bytes - mapped - max(spare, l.bytes/16)
		reused := (idle - unusable.of(idle, total, bytes) - spare) / int(4*(1+large.Load()))
		if left := max(fresh, reused); bytes > left {
			return l.exceeded(bytes, left)
		}
	}
	return nil
}

// Free is how many bytes more the process may have of the machine's memory, or of that of its control group.
func Free() int {
	total, idle := ofSystem()
	return max(leastLimit().left(total-idle+int(inRanges.Load())), 0)
}

// ofSystem is how many bytes Go has of the system, and how many of these are idle.
func ofSystem() (total, idle int) {
	use := []metrics.Sample{{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(use)
	return int(use[0].Value.Uint64()), int(use[1].Value.Uint64() + use[2].Value.Uint64())
}

// limit is the most that a process may have.
type limit struct {
	bytes int
	of    string
}

// left is what a process that uses so many bytes may have more.
func (l limit) left(used int) int { return l.bytes - l.bytes/16 - used }

func (l limit) exceeded(bytes, left int) error {
	return kernels.Errorf(kernels.ErrMemory, "alloc", "%d bytes requested; %d are left of %s of %d bytes",
		bytes, max(left, 0), l.of, l.bytes)
}

// leastLimit is memoryLimit or, if that is less, Go's own, of which the memory of tensors is a part: the collector
// would run all the time above it.
func leastLimit() limit {
	l := memoryLimit()
	if n := debug.SetMemoryLimit(-1); n < int64(l.bytes) {
		return limit{int(n), "Go's memory limit (GOMEMLIMIT)"}
	}
	return l
}

// memoryLimit is the least limit of memory from outside. Tests replace it.
var memoryLimit = sync.OnceValue(func() limit {
	l := limit{unlimited, "the address space"}
	if n := physical(); n > 0 && n < unlimited {
		l = limit{int(n), "the machine's memory"}
	}
	if n := groupLimit(); n > 0 && n < l.bytes {
		l = limit{n, "the memory of the control group"}
	}
	return l
})
