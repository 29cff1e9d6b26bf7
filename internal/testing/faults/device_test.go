package faults

import (
	"github.com/weft-ml/weft/kernels"
)

// device is another device, the CPU or with the build tag emu an emulated GPU, whose memory counts as its own. It fails
// at one of the things that may fail: allocations, launches (those that wait for the commit when they are prepared) and
// copies.
type device struct {
	kernels.Backend
	armed  bool
	failAt int // which, counted from 1
	seen   [kinds]int
	failed kind // the one that failed, if failAt has been reached

	prepared map[*kernels.Op]int // launches that have not run
	lostAt   int                 // which launch of a commit finds the device lost, counted from 1
}

type kind int

const (
	none kind = iota
	allocation
	launch
	transfer
	kinds
)

func (k kind) String() string { return [...]string{"nothing", "allocation", "launch", "copy"}[k] }

// faulty is the only device of its kind, and inner the kind of the other one.
var (
	faulty device
	inner  = "cpu"
)

func init() {
	kernels.Register("faults", func(int) (b kernels.Backend, err error) {
		if faulty.Backend == nil {
			faulty.Backend, err = kernels.Open(inner)
		}
		return &faulty, err
	})
}

// arm makes thing n fail.
func (d *device) arm(n int) {
	d.armed, d.failAt, d.seen, d.failed, d.prepared = true, n, [kinds]int{}, none, map[*kernels.Op]int{}
}

// disarm ends the counting.
func (d *device) disarm() { d.armed = false }

// due is an error if the thing that happens now is to fail.
func (d *device) due(k kind, err error, op string) error {
	if !d.armed {
		return nil
	}
	d.seen[k]++
	if d.failAt--; d.failAt != 0 {
		return nil
	}
	d.failed = k
	return kernels.Errorf(err, op, "this %v was to fail", k)
}

// Name keeps the device apart from the CPU.
func (d *device) Name() string { return "faults" }

// Refuse refuses allocations, also those that the pool has memory for.
func (d *device) Refuse(int) error { return d.due(allocation, kernels.ErrMemory, "alloc") }

// AllocHost refuses memory of the host, too. That of the CPU is its own.
func (d *device) AllocHost(n int) (kernels.Buffer, error) {
	if err := d.due(allocation, kernels.ErrMemory, "alloc"); err != nil {
		return nil, err
	}
	if p, ok := d.Backend.(kernels.Pinner); ok {
		return p.AllocHost(n)
	}
	return d.Alloc(n)
}

func (d *device) Copy(id kernels.Stream, dst kernels.Buffer, off int, src kernels.Buffer, srcOff, n int) error {
	if err := d.due(transfer, kernels.ErrDevice, "copy"); err != nil {
		return err
	}
	return d.Backend.Copy(id, dst, off, src, srcOff, n)
}

func (d *device) CopyIn(id kernels.Stream, dst kernels.Buffer, off int, src []byte) error {
	if err := d.due(transfer, kernels.ErrDevice, "copy_in"); err != nil {
		return err
	}
	return d.Backend.CopyIn(id, dst, off, src)
}

func (d *device) CopyOut(id kernels.Stream, dst []byte, src kernels.Buffer, off int) error {
	if err := d.due(transfer, kernels.ErrDevice, "copy_out"); err != nil {
		return err
	}
	return d.Backend.CopyOut(id, dst, src, off)
}

func (d *device) Read(id kernels.Stream, dst []byte, src kernels.Buffer, off int) error {
	if err := d.due(transfer, kernels.ErrDevice, "read"); err != nil {
		return err
	}
	return d.Backend.Read(id, dst, src, off)
}

// Prepare fails in the place of the Run that follows.
func (d *device) Prepare(l *kernels.Launch) error {
	if err := d.due(launch, kernels.ErrDevice, l.Op.Name); err != nil {
		return err
	}
	if d.armed {
		d.prepared[l.Op]++
	}
	if p, ok := d.Backend.(kernels.Preparer); ok {
		return p.Prepare(l)
	}
	return nil
}

func (d *device) Run(l *kernels.Launch) error {
	if !l.Prepared {
		if err := d.due(launch, kernels.ErrDevice, l.Op.Name); err != nil {
			return err
		}
	} else if d.lostAt--; d.lostAt == 0 {
		return kernels.Errorf(kernels.ErrDevice, l.Op.Name, "the device is lost")
	} else if d.armed {
		if d.prepared[l.Op]--; d.prepared[l.Op] < 0 {
			panic("faults: " + l.Op.Name + " was not prepared")
		}
	}
	return d.Backend.Run(l)
}
