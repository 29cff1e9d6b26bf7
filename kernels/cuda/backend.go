//go:build cuda && cgo && linux

package cuda

import (
	"cmp"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/driver"
)

func init() { kernels.Register("cuda", open) }

var (
	openMu sync.Mutex
	opened = map[int]*Backend{} // by ordinal

	deadMu sync.Mutex
	dead   = map[int]*kernels.Error{} // GPUs that this process cannot use any more, and why
)

// Built tells whether this program can use GPUs.
const Built = true

// Devices lists the GPUs, also those that are too old ([GPU.Check] tells). The error, of kind [kernels.ErrDevice],
// says why there is none and what to do about it.
func Devices() ([]GPU, Driver, error) {
	library, err := driver.Open()
	var found []driver.GPU
	if err == nil {
		found, err = driver.Devices()
	}
	if err != nil {
		return nil, Driver{library}, kernels.Errorf(kernels.ErrDevice, "open", "%v", err)
	}
	all := make([]GPU, len(found))
	for i := range found {
		all[i].GPU = found[i]
	}
	return all, Driver{library}, nil
}

// Backend is one GPU. All who open it share one value; the last [Backend.Close] gives everything back.
type Backend struct {
	gpu      GPU
	ctx      driver.Context
	users    int // guarded by openMu
	sync     bool
	closed   atomic.Bool
	fault    atomic.Pointer[kernels.Error] // once set, no work is taken any more
	deferred atomic.Pointer[kernels.Error] // failure of a call without a result, for the next Run or Synchronize
	events   events
	in, out  *ring
	side     *ring // of copies to the host on the side stream
	ahead    *ring // of copies to the device on the stream kernels.Ahead
	waits    kernels.Waits
	images   loader

	streamsMu sync.Mutex
	streams   cowMap[kernels.Stream, *stream] // streamsMu guards additions

	peersMu sync.Mutex
	peers   map[*Backend]bool // whether this GPU copies directly from another one

	memoryMu sync.Mutex
	memory   map[*buffer]struct{}    // what Alloc made and Free has not taken
	ranges   map[*addresses]struct{} // the same of Reserve
}

var (
	_ kernels.Waiter   = (*Backend)(nil)
	_ kernels.Preparer = (*Backend)(nil)
	_ kernels.Pinner   = (*Backend)(nil)
)

// Waits counts the waits that no program asked for.
func (b *Backend) Waits() *kernels.Waits { return &b.waits }

// open opens a GPU, or takes a share in it.
func open(ordinal int) (kernels.Backend, error) {
	openMu.Lock()
	defer openMu.Unlock()
	if b := opened[ordinal]; b != nil {
		b.users++
		return b, nil
	}
	deadMu.Lock()
	e := dead[ordinal]
	deadMu.Unlock()
	if e != nil {
		return nil, e
	}
	gpus, _, err := Devices()
	if err != nil {
		return nil, err
	}
	if ordinal < 0 || ordinal >= len(gpus) {
		if len(gpus) == 1 {
			return nil, kernels.Errorf(kernels.ErrDevice, "open", "there is one GPU, cuda:0, not cuda:%d", ordinal)
		}
		return nil, kernels.Errorf(kernels.ErrDevice, "open", "there are %d GPUs, cuda:0 to cuda:%d, not cuda:%d",
			len(gpus), len(gpus)-1, ordinal)
	}
	if err := gpus[ordinal].Check(); err != nil {
		return nil, err
	}
	var rc driver.Result
	b := &Backend{gpu: gpus[ordinal], users: 1, sync: os.Getenv("WEFT_CUDA_SYNC") == "1",
		memory: map[*buffer]struct{}{}, ranges: map[*addresses]struct{}{}}
	if b.ctx, rc = driver.Retain(ordinal, os.Getenv("WEFT_BLOCKING_WAITS") == "1"); rc == driver.DeviceUnavailable {
		return nil, kernels.Errorf(kernels.ErrDevice, "open",
			"the driver makes no context on %s: %s; another process has this GPU to itself, or none may use it: "+
				"wait until that process ends, or let processes share it (nvidia-smi -i %d -c 0, as root)", b.Name(),
			driver.DeviceUnavailable.String(), ordinal)
	} else if rc != driver.Success {
		return nil, b.failed("open", "making a context", rc)
	}
	b.events.ctx = b.ctx
	b.in, b.out = &ring{b: b, id: inCopies}, &ring{b: b, id: outCopies}
	b.side, b.ahead = &ring{b: b, id: kernels.Side}, &ring{b: b, id: kernels.Ahead}
	opened[ordinal] = b
	return b, nil
}

// Close gives the device back; when the last of those who opened it does, its memory is freed. Work in flight is
// waited for.
func (b *Backend) Close() error {
	openMu.Lock()
	defer openMu.Unlock()
	if b.users--; b.users != 0 {
		return nil
	}
	delete(opened, b.gpu.Ordinal)
	b.closed.Store(true)
	b.wait("close")
	for _, a := range opened {
		a.out.settle(b)
		a.forgetPeer(b)
	}
	for _, r := range [...]*ring{b.in, b.out, b.side, b.ahead} {
		r.drain()
	}
	for _, s := range b.allStreams() {
		s.mu.Lock()
		b.postpone(s.indexError())
		s.mu.Unlock()
	}
	b.memoryMu.Lock()
	defer b.memoryMu.Unlock()
	b.ctx.Do(func() driver.Result { // failures do not matter: the context takes with it what is left
		for m := range b.memory {
			b.release(m)
		}
		for r := range b.ranges {
			r.release()
		}
		for _, r := range [...]*ring{b.in, b.out, b.side, b.ahead} {
			r.free()
		}
		b.events.free()
		for _, s := range b.allStreams() {
			s.free()
		}
		b.images.free()
		return driver.Success
	})
	clear(b.memory)
	clear(b.ranges)
	err := b.check("close", "releasing the context", b.ctx.Release())
	if f := b.fault.Load(); f != nil {
		return f
	}
	return cmp.Or(b.takeDeferred(), err)
}

// wait waits for what was queued on all streams. Failures are kept for the next Synchronize.
func (b *Backend) wait(op string) {
	for _, s := range b.allStreams() {
		b.postpone(s.wait(op))
	}
}

// wait waits for what is queued on the stream.
func (s *stream) wait(op string) error {
	return s.b.check(op, "waiting for the device", s.b.ctx.Synchronize(s.handle))
}

// Batches says that a launch takes microseconds, whatever it does.
func (b *Backend) Batches() {}

// Name is "cuda:" and the number of the GPU.
func (b *Backend) Name() string { return "cuda:" + itoa(b.gpu.Ordinal) }

// GPU is the description of the device.
func (b *Backend) GPU() GPU { return b.gpu }

// Memory is that of the GPU.
func (b *Backend) Memory() int { return b.gpu.Memory }

// FreeMemory asks the driver; 0 where the device has failed.
func (b *Backend) FreeMemory() int {
	if b.usable("memory") != nil {
		return 0
	}
	free, _, _ := b.ctx.MemoryInfo()
	return free
}

// buffer is device memory, or pinned memory of the host.
type buffer struct {
	b    *Backend
	ptr  driver.Ptr
	n    int
	host unsafe.Pointer // nil: device memory
}

// release gives m to the driver. The context is current.
func (b *Backend) release(m *buffer) driver.Result {
	if m.host != nil {
		driver.FreeHost(m.host)
		return driver.Success
	}
	return b.ctx.Free(m.ptr)
}

// Bytes is the size.
func (m *buffer) Bytes() int { return m.n }

// Slice is a part of it.
func (m *buffer) Slice(old kernels.Buffer, off, n int) kernels.Buffer {
	s, _ := old.(*buffer)
	if s == nil {
		s = &buffer{}
	}
	*s = buffer{m.b, m.ptr + driver.Ptr(off), n, nil}
	if m.host != nil {
		s.host = unsafe.Add(m.host, off)
	}
	return s
}

// at is the address of byte off of m, which must be memory of this device with n bytes from there on.
func (b *Backend) at(op string, m kernels.Buffer, off, n int) driver.Ptr {
	d, ok := m.(*buffer)
	if !ok || d.b != b || off < 0 || n < 0 || n > d.n-off {
		b.misused(op, d, off, n)
	}
	return d.ptr + driver.Ptr(off)
}

// misused panics with what is wrong with bytes of m, which is nil if it is no memory of a GPU.
func (b *Backend) misused(op string, m *buffer, off, n int) {
	if m == nil || m.b != b {
		panic(kernels.Errorf(kernels.ErrDevice, op,
			"memory of another device, or of one that was closed, was given to %s", b.Name()))
	}
	panic("cuda: " + op + ": bytes " + itoa(off) + " to " + itoa(off+n) + " of " + itoa(m.n))
}

// Alloc takes n bytes from the driver, aligned to 256. It may wait for the device; package tensor therefore keeps
// memory in a pool.
func (b *Backend) Alloc(n int) (kernels.Buffer, error) {
	if err := b.usable("alloc"); err != nil {
		return nil, err
	}
	b.waits.Note("for memory from the driver")
	m := &buffer{b: b, n: n}
	var free int
	var rc driver.Result
	m.ptr, free, rc = b.ctx.Alloc(max(n, 1))
	if rc == driver.OutOfMemory {
		return nil, kernels.Errorf(kernels.ErrMemory, "alloc", "%d bytes on %s: %d of its %d bytes are free", n,
			b.Name(), free, b.gpu.Memory)
	}
	if rc != driver.Success {
		return nil, b.failed("alloc", "allocating "+itoa(n)+" bytes", rc)
	}
	b.memoryMu.Lock()
	defer b.memoryMu.Unlock()
	b.memory[m] = struct{}{}
	return m, nil
}

// AllocHost takes n bytes of pinned memory of the host, which takes long.
func (b *Backend) AllocHost(n int) (kernels.Buffer, error) {
	if err := b.usable("alloc"); err != nil {
		return nil, err
	}
	b.waits.Note("for pinned memory from the driver")
	m := &buffer{b: b, n: n}
	var rc driver.Result
	m.host, m.ptr, rc = b.ctx.AllocHost(max(n, 1))
	if rc == driver.OutOfMemory {
		return nil, kernels.Errorf(kernels.ErrMemory, "alloc", "the driver pins no %d bytes of the host's memory", n)
	}
	if rc != driver.Success {
		return nil, b.failed("alloc", "pinning "+itoa(n)+" bytes", rc)
	}
	b.memoryMu.Lock()
	defer b.memoryMu.Unlock()
	b.memory[m] = struct{}{}
	return m, nil
}

// scratch is memory for the work of an operation, of which nothing has been queued yet.
func (b *Backend) scratch(op string, n int) (kernels.Buffer, error) {
	m, err := b.Alloc(n)
	if e, ok := err.(*kernels.Error); ok && e.Kind == kernels.ErrMemory {
		return nil, kernels.Errorf(kernels.ErrScratch, op, "for its own work: %s", e.Msg)
	}
	return m, err
}

// Free waits until no work uses any memory and gives m back to the driver.
func (b *Backend) Free(m kernels.Buffer) {
	d := m.(*buffer)
	b.memoryMu.Lock()
	defer b.memoryMu.Unlock()
	if _, live := b.memory[d]; !live {
		return // the device was closed before
	}
	delete(b.memory, d)
	d.b = nil
	if b.fault.Load() == nil {
		b.waits.Note("to give memory back to the driver")
		b.wait("free")
	}
	if b.fault.Load() != nil {
		return // the memory went with the context
	}
	b.postpone(b.check("free", "freeing "+itoa(d.n)+" bytes",
		b.ctx.Do(func() driver.Result { return b.release(d) })))
}

// stream is a queue of work on the device. mu keeps the order of what several goroutines queue.
type stream struct {
	b      *Backend
	id     kernels.Stream
	handle driver.Stream

	mu      sync.Mutex
	call    call
	log     launchLog
	reports *reports // nil before the first operation with indices
	graphs  []*graph // that were launched here

	capturing bool // it is the stream of a graph, which its launches become part of
}

// stream returns the stream of a number for work of op, making it at its first use. A dead or closed device refuses.
func (b *Backend) stream(op string, id kernels.Stream) (*stream, error) {
	if err := b.usable(op); err != nil {
		return nil, err
	}
	if s := b.streams.get(id); s != nil {
		return s, nil
	}
	return b.makeStream(id)
}

func (b *Backend) makeStream(id kernels.Stream) (*stream, error) {
	b.streamsMu.Lock()
	defer b.streamsMu.Unlock()
	if s := b.streams.get(id); s != nil {
		return s, nil
	}
	s, err := b.newStream()
	if err != nil {
		return nil, err
	}
	s.id = id
	b.streams.add(id, s)
	return s, nil
}

// newStream makes a stream without a number.
func (b *Backend) newStream() (*stream, error) {
	made, rc := b.ctx.NewStream()
	if rc != driver.Success {
		return nil, b.failed("stream", "making a stream", rc)
	}
	s := &stream{b: b, handle: made}
	s.call.b, s.call.stream = b, s
	s.log.open(b.ctx)
	return s, nil
}

// free gives the stream to the driver. The context is current.
func (s *stream) free() {
	s.log.free()
	s.reports.free()
	s.handle.Destroy()
}

// Run queues an operation. An operation without kernel is an error of kind [kernels.ErrDevice]; nothing runs on the
// host in its place.
func (b *Backend) Run(l *kernels.Launch) error { return b.run(l, (*call).submit) }

// Prepare plans an operation and queues nothing: its kernels are loaded, and there is scratch memory for it.
func (b *Backend) Prepare(l *kernels.Launch) error { return b.run(l, func(*call) error { return nil }) }

// run plans an operation; submit queues it.
func (b *Backend) run(l *kernels.Launch, submit func(*call) error) (err error) {
	s, err := b.stream(l.Op.Name, l.Stream)
	if err != nil {
		return err
	}
	if !l.Prepared {
		if err := b.takeDeferred(); err != nil {
			return err
		}
	}
	defer kernels.Catch(&err) // of plans
	plan, err := b.plan(l.Op, l.DType())
	if err != nil {
		return err
	}
	return s.run(plan, l, submit)
}

// run plans an operation; submit queues it.
func (s *stream) run(plan plan, l *kernels.Launch, submit func(*call) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !l.Prepared {
		if err := s.indexError(); err != nil {
			return err
		}
	}
	c := &s.call
	c.reset(l.Op.Name)
	c.step = l.Step
	plan(c, l)
	err := submit(c)
	runtime.KeepAlive(l.Op.Expr) // what is queued is in the stream's log before its expression can be forgotten
	return err
}

// Event is a mark in a stream, and one behind its copies to the host on the copy stream.
type event struct {
	b      *Backend
	s      *stream
	handle driver.Event
	copied driver.Event // none before the first such copy of any stream
	dead   error        // why no mark was made
}

// Done tells whether everything before the mark has finished, and copies to the host have arrived.
func (e *event) Done() (bool, error) {
	if err := cmp.Or(e.dead, e.b.usable("event")); err != nil {
		return false, err
	}
	rc := e.b.ctx.Query(e.handle)
	if rc == driver.Success && e.copied != none {
		rc = e.b.ctx.Query(e.copied)
	}
	if rc == driver.NotReady {
		return false, nil
	}
	if err := e.b.check("event", "asking for progress", rc); err != nil {
		return false, err
	}
	out := e.b.outOf(e.s)
	if !out.mu.TryLock() { // somebody who copies may wait
		return false, nil
	}
	defer out.mu.Unlock()
	err := out.deliver(e.s)
	return err == nil, err
}

// Record marks the end of what is queued on a stream now.
func (b *Backend) Record(id kernels.Stream) kernels.Event {
	e := &event{b: b}
	if e.dead = b.record(id, e); e.dead != nil {
		b.postpone(e.dead)
		return e
	}
	for _, handle := range [...]driver.Event{e.handle, e.copied} {
		if handle != none {
			runtime.AddCleanup(e, b.events.put, handle)
		}
	}
	return e
}

func (b *Backend) record(id kernels.Stream, e *event) error {
	s, err := b.stream("record", id)
	if err != nil {
		return err
	}
	e.s = s
	if e.handle, err = s.mark("record"); err != nil {
		return err
	}
	if copies := b.streams.get(outCopies); copies != nil {
		if e.copied, err = copies.mark("record"); err != nil {
			b.events.put(e.handle)
		}
	}
	return err
}

// mark is an event behind what is queued on the stream.
func (s *stream) mark(op string) (driver.Event, error) {
	e, err := s.b.events.get(s.b)
	if err != nil {
		return none, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.b.check(op, "marking a stream", s.b.ctx.Record(e, s.handle)); err != nil {
		s.b.events.put(e)
		return none, err
	}
	return e, nil
}

// Wait makes what is queued on a stream from now on wait for an event. The host does not wait.
func (b *Backend) Wait(id kernels.Stream, mark kernels.Event) {
	e := mark.(*event)
	if e.dead != nil {
		return
	}
	s, err := b.stream("wait", id)
	if err != nil {
		b.postpone(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.postpone(b.check("wait", "making a stream wait", b.ctx.StreamWait(s.handle, e.handle)))
	runtime.KeepAlive(e)
}

// Synchronize waits until all work on a stream has finished and copies to the host have arrived. It returns the
// first failure since the last call.
func (b *Backend) Synchronize(id kernels.Stream) error {
	s, err := b.stream("synchronize", id)
	if err != nil {
		return err
	}
	queued := s.queued()
	if err := s.wait("synchronize"); err != nil {
		return err
	}
	if copies := b.streams.get(outCopies); copies != nil && id != kernels.Side {
		if err := copies.wait("synchronize"); err != nil {
			return err
		}
	}
	return s.finished(queued)
}

// Read copies from byte off of src to the host. It waits until that has happened, but not for work that others queue
// meanwhile, and returns the first failure since the last wait.
func (b *Backend) Read(id kernels.Stream, dst []byte, src kernels.Buffer, off int) error {
	s, err := b.stream("read", id)
	if err != nil {
		return err
	}
	queued := s.queued()
	end, err := b.outOf(s).copy("copy out", s, b.at("copy out", src, off, len(dst)), dst)
	if err != nil {
		return err
	}
	copied, err := end.mark("read")
	if err != nil {
		return err
	}
	defer b.events.put(copied)
	b.waits.Note("for the elements of a tensor")
	if rc := b.ctx.Wait(copied); rc != driver.Success {
		return b.failed("read", "waiting for the device", rc)
	}
	return s.finished(queued)
}

// queued is the number of launches that the driver has so far.
func (s *stream) queued() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.queued()
}

// finished follows a wait for the first n launches of the stream: copies arrive at the host, and failures are told.
func (s *stream) finished(n uint64) error {
	s.log.confirm(n)
	if err := s.b.outOf(s).arrived(s); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.indexError(); err != nil {
		return err
	}
	return s.b.takeDeferred()
}

// none is no event.
var none driver.Event

// events keeps events between uses.
type events struct {
	ctx  driver.Context
	mu   sync.Mutex
	all  []driver.Event
	idle []driver.Event
}

// get returns an event.
func (p *events) get(b *Backend) (driver.Event, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		e := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return e, nil
	}
	p.mu.Unlock()
	e, rc := p.ctx.NewEvent()
	if rc != driver.Success {
		return none, b.failed("event", "making an event", rc)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, e)
	return e, nil
}

// put takes an event back. Waits for it that are queued keep the mark they saw.
func (p *events) put(e driver.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, e)
}

// free destroys all events, those in use too: the device is closed, nobody asks for them any more. The context is
// current.
func (p *events) free() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.all {
		e.Destroy()
	}
	p.all, p.idle = nil, nil
}

// allStreams lists the streams in order of number.
func (b *Backend) allStreams() []*stream {
	return slices.SortedFunc(maps.Values(b.streams.all()), func(x, y *stream) int { return cmp.Compare(x.id, y.id) })
}

func itoa(n int) string { return strconv.Itoa(n) }
