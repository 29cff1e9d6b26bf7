package tensor

import (
	"slices"

	"github.com/weft-ml/weft/internal/pool"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// offload is what a checkpoint needs from outside, in pinned memory of the host until the backward pass comes near.
// Copies run beside the work of the step: to the host, on the stream kernels.Side, from the first use of an operand on,
// while the checkpoint's function goes on; back, on kernels.Ahead, while the pass is in the checkpoint behind this one.
// The device orders them by events; the host waits for none. A nil offload has nothing to do.
type offload struct {
	scope  *Scope
	blocks []offloaded
	going  bool // copies to the host are queued, and stream 0 does not wait for them yet
	coming bool // the same of copies to the device
}

// offloaded is a block and its copy.
type offloaded struct {
	blk  *block
	op   string // that made it
	mem  *pool.Block
	here bool // the checkpoint owns the block, which has its memory on the device
}

// pinned is the source of a pool of pinned memory.
type pinned struct{ kernels.Pinner }

// Alloc takes memory that the process may have.
func (p pinned) Alloc(n int) (kernels.Buffer, error) {
	if err := cpu.Room(n); err != nil {
		return nil, err
	}
	return p.AllocHost(n)
}

// unpin gives the pinned memory that nobody uses back.
func (d *sharedDevice) unpin() {
	if d.pinned != nil {
		d.pinned.Trim()
	}
}

// offloadCheckpoints is autograd.Offload.
func offloadCheckpoints() Option { return Option{func(m *mode) { m.offload = true }} }

// send takes over b and queues its copy to the host. It is false for memory that stays where it is: of another device,
// of no bytes, and what the step keeps to its end anyway.
func (o *offload) send(b *block) bool {
	if o == nil || b.dev.shared != o.scope.home.shared || b.mem.Size() == 0 ||
		slices.Contains(o.scope.outermost.owned, b) {
		return false
	}
	mem, err := b.dev.shared.pinned.Alloc(b.mem.Size(), pool.Owner{Use: kernels.Activations, Op: b.op})
	if err != nil {
		refused("offload", err)
	}
	b.retain()
	o.blocks = append(o.blocks, offloaded{b, b.op, mem, true})
	backend := b.dev.shared.backend
	backend.Wait(kernels.Side, backend.Record(0))
	o.going = true
	copied("offload", backend.Copy(kernels.Side, mem.Buf, 0, b.buf, 0, mem.Size()))
	return true
}

// sent follows the function of the checkpoint: work that comes later may have the memory of what was sent.
func (o *offload) sent(s *Scope) {
	if o == nil {
		return
	}
	s.enter("checkpoint")
	defer s.leave()
	o.settle()
	o.release()
}

// settle has stream 0 wait for all copies under way.
func (o *offload) settle() {
	backend := o.scope.home.shared.backend
	if o.going {
		backend.Wait(0, backend.Record(kernels.Side))
	}
	if o.coming {
		backend.Wait(0, backend.Record(kernels.Ahead))
	}
	o.going, o.coming = false, false
}

// release ends the ownership of what is on the device.
func (o *offload) release() {
	for i := range o.blocks {
		if x := &o.blocks[i]; x.here {
			x.here = false
			x.blk.release("its checkpoint")
		}
	}
}

// fetch queues copies to the device of what has left it.
func (o *offload) fetch() {
	backend := o.scope.home.shared.backend
	for i := range o.blocks {
		x := &o.blocks[i]
		if x.here {
			continue
		}
		if x.blk.alive() {
			x.blk.retain()
			x.here = true
			continue
		}
		n := x.mem.Size()
		o.scope.home.fillBlock(o.scope, x.blk, x.op, n, &pool.Owner{Use: kernels.Activations, Op: x.op})
		x.here, o.coming = true, true
		backend.Wait(kernels.Ahead, backend.Record(0))
		copied("offload", backend.Copy(kernels.Ahead, x.blk.buf, 0, x.mem.Buf, 0, n))
	}
}

// arrive makes what was fetched usable.
func (o *offload) arrive() {
	if o != nil {
		o.settle()
	}
}

// drop gives all memory back.
func (o *offload) drop() {
	if o == nil {
		return
	}
	o.settle()
	o.release()
	for _, x := range o.blocks {
		o.scope.home.shared.pinned.Free(x.mem)
	}
	o.blocks = nil
}

// fetch fetches what the checkpoint of n needs, to which the pass has come, and the one to which it comes next.
func (p *backward) fetch(n *node) {
	outermost := n.checkpoint
	for outermost.up != nil {
		outermost = outermost.up
	}
	if outermost.away == nil {
		return
	}
	outermost.away.fetch()
	all := p.scope.tape.checkpoints
	for _, cp := range slices.Backward(all[:slices.Index(all, outermost)]) {
		if cp.away != nil && p.sleepsIn(cp, n) {
			cp.away.fetch()
			return
		}
	}
}
