package checkpoint

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/weft-ml/weft/internal/disk"
	"github.com/weft-ml/weft/tensor"
)

// A Manager keeps the checkpoints of one run in a folder. Make one with [Open]. It is for one goroutine, and a folder
// is for one Manager at a time.
type Manager struct {
	dir         string
	fsys        disk.FS
	keep        int    // 0: all
	metric      string // that decides which one is best; "" for none
	highest     bool
	synchronous bool
	skip        bool // while one is being written
	take        func([]*tensor.Tensor) (snapshot, error)

	run       string
	committed []*manifest   // of this run, ascending
	inTheWay  map[int]bool  // folders of the run that are no checkpoints
	space     bool          // there is space on the disk
	called    time.Time     // when Save was, the last time
	inFlight  chan error    // the end of a save; nil if there is none
	hurry     chan struct{} // closed where somebody waits for it
	failed    error         // the first error of a save
	stats     Stats
	closed    bool
}

// Stats counts what a [Manager] has done.
type Stats struct {
	Saved       int     // checkpoints committed
	Skipped     int     // left out with [SkipBusy]
	Synchronous int     // saves without a snapshot
	Waited      int     // snapshots that a device had no room for, so that Save, or a step, waited for the host's copy
	Passed      []error // why the last Resume passed over checkpoints, newest first
}

// An OpenOption changes how a [Manager] works.
type OpenOption struct{ set func(*Manager) }

// Keep keeps the newest n checkpoints, at least 1, and with [Best] or [Highest] the best one. Without it all are kept.
func Keep(n int) OpenOption {
	if n < 1 {
		engine.Fail(tensor.ErrValue, "keep", "%d checkpoints; want at least 1", n)
	}
	return OpenOption{func(ck *Manager) { ck.keep = n }}
}

// Best spares the checkpoint with the lowest value of a metric, such as "val_loss", from removal. Those saved without
// it, or with NaN, are none. Of equal ones it is the newest.
func Best(metric string) OpenOption {
	return OpenOption{func(ck *Manager) { ck.metric, ck.highest = metric, false }}
}

// Highest is [Best] for the highest value, such as that of "accuracy".
func Highest(metric string) OpenOption {
	return OpenOption{func(ck *Manager) { ck.metric, ck.highest = metric, true }}
}

// SkipBusy leaves out a save, and counts it, while the one before is being written, in the place of waiting for it.
// Call Stats, which waits, before a save that must not be left out, such as the last one.
func SkipBusy() OpenOption { return OpenOption{func(ck *Manager) { ck.skip = true }} }

// Synchronous has Save return when the checkpoint is on the disk. It takes no memory for a snapshot.
func Synchronous() OpenOption { return OpenOption{func(ck *Manager) { ck.synchronous = true }} }

// ErrSpace is the kind of error of a disk that has no space for the checkpoints to come.
var ErrSpace = errors.New("too little space on the disk")

// Open opens the folder of a run, and makes it if there is none.
func Open(dir string, options ...OpenOption) (*Manager, error) { return open(disk.OS, dir, options) }

func open(fsys disk.FS, dir string, options []OpenOption) (*Manager, error) {
	ck := &Manager{dir: filepath.Clean(dir), fsys: fsys, inTheWay: map[int]bool{},
		take: func(ts []*tensor.Tensor) (snapshot, error) { return engine.Snapshot(ts) }}
	for _, option := range options {
		if option.set != nil {
			option.set(ck)
		}
	}
	if err := ck.makeFolder(ck.dir); err != nil {
		return nil, err
	}
	_, _, err := listSteps(fsys, ck.dir)
	return ck, err
}

// makeFolder makes a folder and those above it. Its name is synced even if it is there: who made it may have been
// killed.
func (ck *Manager) makeFolder(dir string) error {
	err := ck.fsys.Mkdir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = ck.makeFolder(filepath.Dir(dir)); err == nil {
			err = ck.fsys.Mkdir(dir)
		}
	}
	made := err == nil
	if !made && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err = ck.fsys.SyncDir(filepath.Dir(dir)); err != nil && made {
		err = errors.Join(err, ck.fsys.Remove(dir)) // a second sync of the same name would tell nothing
	}
	return err
}

// Steps lists the checkpoints in the folder by their steps, ascending, without looking into them.
func (ck *Manager) Steps() ([]int, error) {
	all, _, err := listSteps(ck.fsys, ck.dir)
	return all, err
}

// Stats returns the counts. It waits for a save that is being written.
func (ck *Manager) Stats() Stats {
	ck.settle()
	return ck.stats
}

// Resume gives st the state of the newest checkpoint that is whole, and returns its step, or 0 if the folder has none.
// Those that it passes over, since a file is missing or is not what its checksum says, are logged, and in Stats; if all
// are so, it is an error: start afresh in another folder. It removes what a killed run has left half-written.
//
// It is an error if the folder has checkpoints of more than one run, if the checkpoint is of a run with another model,
// seed, optimizer or other kinds of state, and if the disk has no space for the checkpoints to come ([ErrSpace]). If
// reading fails on the way, st is in parts of the one and of the other: do not go on with it.
//
// A run that ends with the same bits as one that was never stopped makes the same State, calls Resume, and goes on with
// the loop's step.
func (ck *Manager) Resume(st *State) (step int, err error) {
	if err := ck.usable(); err != nil {
		return 0, err
	}
	ck.settle() // Close has its error
	all, remains, err := listSteps(ck.fsys, ck.dir)
	if err != nil {
		return 0, err
	}
	found, err := ck.survey(all)
	if err != nil {
		return 0, err
	}
	for _, name := range remains {
		dir := filepath.Join(ck.dir, name)
		// After a loss of power a checkpoint may have two names, that of its temporary folder, too.
		twin, _ := readManifest(ck.fsys, dir)
		if slices.ContainsFunc(found, func(m *manifest) bool { return reflect.DeepEqual(m, twin) }) {
			continue
		}
		if err := remove(ck.fsys, dir); err != nil {
			return 0, err
		}
	}
	if n, err := st.bytes(); err != nil {
		return 0, err
	} else if err := ck.checkSpace(n, len(found)); err != nil {
		return 0, err
	}
	for len(found) > 0 {
		m := found[len(found)-1]
		err := m.verify(ck.fsys, ck.folder(m.Step))
		if err == nil {
			if err := st.restore(ck.fsys, ck.folder(m.Step), m); err != nil {
				return 0, err
			}
			ck.run, ck.committed = m.Run, found
			return m.Step, nil
		}
		ck.passOver(m.Step, err)
		found = found[:len(found)-1]
	}
	if len(all) > 0 {
		return 0, fmt.Errorf("checkpoint: %s: none of %d checkpoints is whole: %w", ck.dir, len(all),
			errors.Join(ck.stats.Passed...))
	}
	return 0, nil
}

// survey reads what the folders say of themselves. Those that are no checkpoints are passed over.
func (ck *Manager) survey(all []int) (found []*manifest, err error) {
	ck.stats.Passed, ck.inTheWay = nil, map[int]bool{}
	for _, step := range slices.Backward(all) {
		m, err := readManifest(ck.fsys, ck.folder(step))
		if err == nil && m.Step != step {
			err = fmt.Errorf("checkpoint: %s says that it is of step %d", ck.folder(step), m.Step)
		}
		if err != nil {
			ck.passOver(step, err)
			continue
		}
		if len(found) > 0 && m.Run != found[0].Run || ck.run != "" && m.Run != ck.run {
			return nil, fmt.Errorf("checkpoint: %s is of another run than the rest of the folder: move it away, or "+
				"use another folder", ck.folder(step))
		}
		found = append(found, m)
	}
	slices.Reverse(found)
	return found, nil
}

func (ck *Manager) passOver(step int, err error) {
	slog.Warn("checkpoint: passed over", "folder", ck.folder(step), "error", err)
	ck.stats.Passed = append(ck.stats.Passed, err)
	ck.inTheWay[step] = true
}

func (ck *Manager) folder(step int) string { return filepath.Join(ck.dir, folderName(step)) }

func (ck *Manager) usable() error {
	if ck == nil || ck.fsys == nil || ck.closed {
		return errors.New("checkpoint: the manager is nil or closed")
	}
	return nil
}

// checkSpace makes sure, once, that checkpoints of n bytes of tensors fit on the disk, of which there are some.
func (ck *Manager) checkSpace(n int64, there int) error {
	if ck.space {
		return nil
	}
	free, err := ck.fsys.Free(ck.dir)
	if err != nil {
		return err
	}
	most := 1 // that are there while one is being written
	if ck.keep > 0 {
		most += ck.keep
	}
	if ck.metric != "" {
		most++
	}
	need := n * int64(max(1, most-there))
	if free >= 0 && free < need {
		return fmt.Errorf("checkpoint: %s: the checkpoints to come take %d bytes, the disk has %d: %w", ck.dir, need,
			free, ErrSpace)
	}
	ck.space = true
	return nil
}

// Save saves the run after a step, which counts up: a copy is made on the device, Save returns, and the copy is written
// while the run goes on. The copy takes as much memory as the state has, from the device's pool. Without room there it
// goes to the host's memory before Save returns; without room anywhere, or with the option [Synchronous], it is written
// before Save returns. One save is written at a time; a second one waits for it, or is left out with [SkipBusy]. A step
// that the folder has is not written again.
//
// Writing is spread over time so that it takes few processors from the run: over up to half of the time since Save was
// called before. It hurries once Save, Stats or Close wait for it.
//
// The checkpoint is safe when the next Save, or Close, has returned without an error. An error of a save that was being
// written is returned by the next Save, which saves nevertheless, and by Close. Older checkpoints stay as they are.
//
// metrics, which may be nil, are for [Best]. No step may change the state until Save has returned.
func (ck *Manager) Save(step int, st *State, metrics map[string]float64) error {
	if err := ck.usable(); err != nil {
		return err
	}
	now := time.Now()
	var since time.Duration
	if !ck.called.IsZero() {
		since = now.Sub(ck.called)
	}
	ck.called = now
	if ck.skip && ck.inFlight != nil && len(ck.inFlight) == 0 {
		ck.stats.Skipped++
		return nil
	}
	earlier := ck.settle()
	c, err := ck.prepare(step, st, metrics)
	switch {
	case err != nil:
		ck.ended(err)
	case c == nil: // it is there
	default:
		err = ck.snapshot(c)
		if c.snapshot != nil {
			done := make(chan error, 1)
			ck.inFlight, ck.hurry = done, make(chan struct{})
			c.pace = newPace(ck.hurry, c.size(), since)
			go func() { done <- ck.write(c) }()
			break
		}
		if err == nil {
			err = ck.write(c)
			ck.stats.Synchronous++
		}
		ck.ended(err)
	}
	return errors.Join(earlier, err)
}

// Close waits for the save that is being written. It returns the first error that a save has had.
func (ck *Manager) Close() error {
	if ck == nil || ck.closed {
		return nil
	}
	ck.settle()
	ck.closed = true
	return ck.failed
}

// settle waits for the save in flight. Until then the goroutine that writes has the manager for itself.
func (ck *Manager) settle() error {
	if ck.inFlight == nil {
		return nil
	}
	close(ck.hurry)
	err := <-ck.inFlight
	ck.inFlight = nil
	ck.ended(err)
	return err
}

// ended counts a save.
func (ck *Manager) ended(err error) {
	if err == nil {
		ck.stats.Saved++
	} else if ck.failed == nil {
		ck.failed = err
	}
}

// prepare takes stock of what is to be saved; nil if the step is there.
func (ck *Manager) prepare(step int, st *State, metrics map[string]float64) (*draft, error) {
	if n := len(ck.committed); n > 0 && step <= ck.committed[n-1].Step || step < 0 {
		if slices.ContainsFunc(ck.committed, func(m *manifest) bool { return m.Step == step }) {
			return nil, nil
		}
		return nil, fmt.Errorf("checkpoint: step %d comes before what is saved", step)
	}
	if ck.run == "" {
		all, err := ck.Steps()
		if err != nil {
			return nil, err
		}
		if len(all) > 0 {
			return nil, fmt.Errorf("checkpoint: %s has %d checkpoints of another run: Resume goes on with that, or "+
				"use another folder", ck.dir, len(all))
		}
		var id [8]byte
		rand.Read(id[:])
		ck.run = hex.EncodeToString(id[:])
	}
	c, err := st.collect()
	if err != nil {
		return nil, err
	}
	c.manifest.Run, c.manifest.Step, c.manifest.Metrics = ck.run, step, map[string]number{}
	for name, value := range metrics {
		c.manifest.Metrics[name] = number(value)
	}
	return c, ck.checkSpace(c.size(), len(ck.committed))
}

// size is the number of bytes of all tensors.
func (c *draft) size() (n int64) {
	for _, parts := range c.parts {
		for _, p := range parts {
			n += p.raw.Size()
		}
	}
	return n
}

// A snapshot is engine.Snapshot.
type snapshot interface {
	Saved(i int) *io.SectionReader
	Waited() bool
	Free()
}

// snapshot copies all tensors; there is none without memory for that, or if there is to be none.
func (ck *Manager) snapshot(c *draft) error {
	if ck.synchronous {
		return nil
	}
	var all []*part
	var tensors []*tensor.Tensor
	for _, parts := range c.parts {
		for i := range parts {
			all, tensors = append(all, &parts[i]), append(tensors, parts[i].of)
		}
	}
	s, err := ck.take(tensors)
	if errors.Is(err, tensor.ErrMemory) {
		slog.Warn("checkpoint: no memory for a snapshot, so this save is synchronous", "error", err)
		return nil
	} else if err != nil {
		return err
	}
	for i, p := range all {
		p.raw = s.Saved(i)
	}
	c.snapshot = s
	return nil
}

// release gives the memory of the snapshot back.
func (ck *Manager) release(c *draft) {
	if c.snapshot == nil {
		return
	}
	if c.snapshot.Waited() {
		slog.Warn("checkpoint: a device had no room for a snapshot, or was closed, so Save, a step, or Close waited "+
			"until it was in the host's memory", "step", c.manifest.Step)
		ck.stats.Waited++
	}
	c.snapshot.Free()
}

// write writes a checkpoint and commits it: the folder gets its name when all in it is on the disk, and the checkpoint
// is safe when the name is.
func (ck *Manager) write(c *draft) error {
	defer ck.release(c)
	step := c.manifest.Step
	tmp, old := ck.tmp(step), ""
	err := ck.fill(tmp, c)
	if err == nil && ck.inTheWay[step] {
		old = ck.tmp(step)
		if err = ck.fsys.Rename(ck.folder(step), old); errors.Is(err, fs.ErrNotExist) {
			err, old = nil, ""
		}
	}
	if err == nil {
		ck.inTheWay[step] = true // until the name is on the disk
		err = ck.fsys.Rename(tmp, ck.folder(step))
	}
	if err != nil {
		remove(ck.fsys, tmp) // what stays of it is removed by the next Resume
		return err
	}
	if err := ck.fsys.SyncDir(ck.dir); err != nil {
		return err
	}
	delete(ck.inTheWay, step)
	ck.committed = append(ck.committed, &manifest{Step: step, Metrics: c.manifest.Metrics})
	if old != "" {
		ck.discard(old)
	}
	ck.retain()
	return nil
}

// tmp is a new name for a folder that is no checkpoint.
func (ck *Manager) tmp(step int) string {
	var random [4]byte
	rand.Read(random[:])
	return filepath.Join(ck.dir, fmt.Sprintf("%s%08d-%x", tmpPrefix, step, random))
}

// fill makes a folder with the files of a checkpoint, and syncs them.
func (ck *Manager) fill(dir string, c *draft) error {
	if err := ck.fsys.Mkdir(dir); err != nil {
		return err
	}
	for _, name := range c.manifest.files() {
		sum, err := writeSynced(ck.fsys, filepath.Join(dir, name), func(w io.Writer) error { return c.write(name, w) })
		if err != nil {
			return err
		}
		c.manifest.Files[name] = sum
	}
	text, err := c.manifest.encode()
	if err != nil {
		return err
	}
	if _, err := writeSynced(ck.fsys, filepath.Join(dir, stateFile), func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}); err != nil {
		return err
	}
	return ck.fsys.SyncDir(dir)
}

// retain removes what is neither among the newest checkpoints nor the best one. A folder loses its name before its
// files, so that there is never half a checkpoint under a good name.
func (ck *Manager) retain() {
	if ck.keep == 0 {
		return
	}
	best, kept := ck.best(), []*manifest{}
	for i, m := range ck.committed {
		if i >= len(ck.committed)-ck.keep || m == best {
			kept = append(kept, m)
			continue
		}
		tmp := ck.tmp(m.Step)
		if err := ck.fsys.Rename(ck.folder(m.Step), tmp); err != nil {
			slog.Warn("checkpoint: an old one stays", "error", err)
			if !errors.Is(err, fs.ErrNotExist) {
				kept = append(kept, m)
			}
			continue
		}
		ck.discard(tmp)
	}
	ck.committed = kept
}

// discard removes a folder that has lost its name. What stays of it is removed by the next Resume.
func (ck *Manager) discard(tmp string) {
	if err := remove(ck.fsys, tmp); err != nil {
		slog.Warn("checkpoint: remains stay", "folder", tmp, "error", err)
	}
}

// best is the best checkpoint; nil if there is none.
func (ck *Manager) best() (best *manifest) {
	for _, m := range ck.committed {
		v, ok := m.Metrics[ck.metric]
		if !ok || v != v {
			continue
		}
		if best == nil || v == best.Metrics[ck.metric] || v > best.Metrics[ck.metric] == ck.highest {
			best = m
		}
	}
	return best
}
