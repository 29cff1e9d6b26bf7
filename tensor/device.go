package tensor

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weft-ml/weft/internal/pool"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
	_ "github.com/weft-ml/weft/kernels/lockstep" // registers itself
	_ "github.com/weft-ml/weft/kernels/null"     // registers itself
)

// Device is where steps run: backend, memory pool, seed and statistics. It is safe for many goroutines.
type Device struct {
	shared   *sharedDevice
	seed     uint64
	why      string
	steps    atomic.Uint64
	evals    atomic.Uint64
	models   atomic.Uint64 // placed without a name
	counting sync.RWMutex  // steps read: only between them the counters are set
	closed   atomic.Bool
	launches atomic.Uint64
}

// sharedDevice is what all Devices opened on one card have in common.
type sharedDevice struct {
	name    string
	backend kernels.Backend
	pool    *pool.Pool
	pinned  *pool.Pool // memory of the host for what is offloaded; nil if the backend has none
	users   int
	lent    lent // memory of snapshots
	batches bool // see kernels.Batcher
}

var (
	devicesMu sync.Mutex
	devices   = map[string]*sharedDevice{}
)

// OpenOption configures [Open]. A [RandomSeed] is one, too.
type OpenOption interface{ set(*openConfig) }

type openOption func(*openConfig)

func (o openOption) set(c *openConfig) { o(c) }

type openConfig struct {
	seed   uint64
	limit  memoryLimit
	poison bool
	batch  bool
	warn   func(site, why string)
}

// RandomSeed is a seed of random numbers, made by [Seed]. As an option of [Open] it fixes those of a device: the
// initial values of parameters and the random streams of steps; the default is Seed(0). [Randn] and [Uniform] take one.
type RandomSeed struct{ n uint64 }

// Seed makes a seed of a number. It is no number itself, so that a size does not compile where a seed is meant.
func Seed(n uint64) RandomSeed { return RandomSeed{n} }

func (s RandomSeed) set(c *openConfig) { c.seed = s.n }

// Poison is for debugging. Memory is full of NaNs (of -1 for integers) until it is written. An operation that writes
// past the end of its result fails; to see that, the host waits after each operation. On the CPU a write to memory that
// was returned to the pool panics when the memory is used again. An error about a tensor that is gone has the line that
// made it, which is known of large ones otherwise. It holds for all users of the device's memory, until the last one
// closes it.
func Poison() OpenOption { return openOption(func(c *openConfig) { c.poison = true }) }

// WarnWaits calls f at the first hidden wait of each kind at each line of the program: site is file:line, why is for
// what the host waits. Reading a tensor is one; others are for memory and staging buffers that the device still uses. A
// training loop should have none but those it wants. It holds for all users of the device, until the last one closes
// it. The environment variable WEFT_WARN_WAITS=1 prints the waits.
func WarnWaits(f func(site, why string)) OpenOption {
	return openOption(func(c *openConfig) { c.warn = f })
}

// Open opens a device: "cpu", another registered kind such as "cuda:1", or "auto" for the fastest one;
// [Device.String] says which was taken and why. Opening the same device twice shares its memory pool, not its seed. The
// error is of kind [ErrDevice], that of an option out of range [ErrValue].
func Open(name string, opts ...OpenOption) (*Device, error) {
	var c openConfig
	for i, o := range opts {
		if o == nil {
			return nil, try(func() { fail(ErrValue, "open", "option %d is nil", i) })
		}
		o.set(&c)
	}
	why := "as asked"
	if name == "auto" {
		name, why = "cpu", "the only kind of device in this build"
		if kinds := kernels.Drivers(); slices.Contains(kinds, "cuda") {
			if d, err := open("cuda", c); err == nil {
				d.why = "the first NVIDIA GPU"
				return d, nil
			} else {
				why = err.Error()
			}
		}
	}
	d, err := open(name, c)
	if err != nil {
		return nil, err
	}
	d.why = why
	return d, nil
}

func open(name string, c openConfig) (*Device, error) {
	devicesMu.Lock()
	defer devicesMu.Unlock()
	backend, err := kernels.Open(name)
	if err != nil {
		return nil, err
	}
	limit, err := limitFor(backend.Name(), backend, c.limit)
	if err != nil {
		closeBackend(backend)
		return nil, err
	}
	shared := devices[backend.Name()]
	if shared != nil {
		closeBackend(backend) // it is open already
	} else {
		shared = &sharedDevice{name: backend.Name(), backend: backend, pool: pool.New(backend, 0)}
		shared.pool.SetReclaim(cpu.Collect)
		shared.pool.SetRecall(shared.lent.recall)
		if p, ok := backend.(kernels.Pinner); ok {
			shared.pinned = pool.New(pinned{p}, 0)
		}
		devices[shared.name] = shared
	}
	shared.users++
	if _, ok := backend.(kernels.Batcher); ok || c.batch {
		shared.batches = true
	}
	if limit > 0 {
		shared.pool.SetLimit(limit)
	}
	if c.poison {
		shared.pool.SetPoison(true)
	}
	if c.warn == nil && os.Getenv("WEFT_WARN_WAITS") == "1" {
		c.warn = func(site, why string) { fmt.Fprintf(os.Stderr, "weft: %s: waits %s on %s\n", site, why, shared.name) }
	}
	if w, ok := backend.(kernels.Waiter); ok && c.warn != nil {
		w.Waits().Warn(c.warn)
	}
	return &Device{shared: shared, seed: c.seed}, nil
}

// closeBackend closes a backend that holds more than memory. Such a backend can be opened again.
func closeBackend(b kernels.Backend) (closed bool, err error) {
	if c, ok := b.(io.Closer); ok {
		return true, c.Close()
	}
	return false, nil
}

// Close frees the device's cached memory when its last user closes it. A GPU is then closed, too: tensors kept there
// are lost. A closed device refuses steps and all else that works on it ([ErrDevice]). Closing again does nothing.
func (d *Device) Close() (err error) {
	if err = try(func() { d.given("close") }); err != nil {
		return err
	}
	devicesMu.Lock()
	defer devicesMu.Unlock()
	if d.closed.Swap(true) {
		return nil
	}
	if d.shared.users--; d.shared.users == 0 {
		d.shared.pool.SetLimit(0)
		d.shared.pool.SetPoison(false)
		d.shared.pool.Trim()
		d.shared.unpin()
		var closed bool
		if closed, err = closeBackend(d.shared.backend); closed {
			delete(devices, d.shared.name)
		}
	}
	return err
}

// Target makes a device one of the targets of [Tensor.To].
func (*Device) Target() {}

// Name is the backend's name, such as "cpu" or "cuda:0".
func (d *Device) Name() string { return d.given("name").shared.name }

// inHostMemory tells whether the device computes on Go memory, so that host data need not be copied to it.
func (d *Device) inHostMemory() bool {
	_, ok := d.shared.backend.(cpu.Backend)
	return ok
}

// String says which device this is and why it was taken.
func (d *Device) String() string {
	if d == nil || d.shared == nil {
		return "nil device"
	}
	s := d.shared.name
	if s == "cpu" {
		s = fmt.Sprintf("cpu (%s, %d threads)", cpu.Tier(), runtime.GOMAXPROCS(0))
	}
	return s + ": " + d.why
}

// Synchronize waits until the device has done all its work and returns the first failure since the last call.
func (d *Device) Synchronize() error {
	if err := try(func() { d.usable("synchronize") }); err != nil {
		return err
	}
	return d.shared.backend.Synchronize(0)
}

// counters are those of the device. Beside a running step they count it.
func (d *Device) counters() seam.Counters {
	d.given("counters")
	return seam.Counters{Steps: d.steps.Load(), Evals: d.evals.Load()}
}

// setCounters sets them between steps.
func (d *Device) setCounters(c seam.Counters) error {
	return try(func() {
		d.usable("set_counters")
		if max(c.Steps, c.Evals) >= 1<<60 {
			fail(ErrValue, "set_counters", "no device has counted %+v", c)
		}
		if !d.counting.TryLock() {
			fail(ErrBusy, "set_counters", "a step of %s is running; set them between steps", d.Name())
		}
		defer d.counting.Unlock()
		d.steps.Store(c.Steps)
		d.evals.Store(c.Evals)
	})
}

// Stats counts what a device did since it was opened, or since what it was restored from began. An op call is one run
// of an operation; on a GPU it takes none, one or several kernels.
type Stats struct {
	Steps, Evals uint64              // those that did not fail
	Launches     uint64              // op calls run, without those of steps that have not ended
	Waits        uint64              // hidden waits of the host, not in Synchronize, by any user of the card
	Memory       kernels.MemoryStats // of the pool that all users of the card share
	Pinned       kernels.MemoryStats // of the host's memory that is pinned for what checkpoints offload
}

// Stats returns the counters.
func (d *Device) Stats() Stats {
	n := d.counters()
	s := Stats{Steps: n.Steps, Evals: n.Evals, Launches: d.launches.Load(), Memory: d.memory("stats")}
	if p := d.shared.pinned; p != nil {
		s.Pinned = p.Stats()
	}
	if w, ok := d.shared.backend.(kernels.Waiter); ok {
		s.Waits = w.Waits().Count()
	}
	return s
}

// host runs operations on plain host data, outside steps.
var host = sync.OnceValue(func() *Device {
	b, err := kernels.Open("cpu")
	if err != nil {
		panic(err)
	}
	return &Device{shared: &sharedDevice{name: "host", backend: b, pool: pool.New(b, 0)}}
})
