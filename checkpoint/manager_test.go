package checkpoint

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/internal/disk"
	"github.com/weft-ml/weft/internal/testing/crashfs"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

var (
	crashStates = flag.Int("crashes", 40000, "states that TestCrashOfRun looks at, at least; an eighth with -short")
	kills       = flag.Int("kills", 20, "processes that TestKill ends")
)

func init() { slog.SetDefault(slog.New(slog.DiscardHandler)) } // what is passed over is in Stats, too

// A fixture is a small run whose state is a function of its step.
type fixture struct {
	st   *State
	w    *tensor.Tensor
	step int
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{w: nn.Parameter(nil, 16, 8)}
	dev := device(t, 1)
	if err := nn.Init(dev, []any{f.w}); err != nil {
		t.Fatal(err)
	}
	opt := optim.New(optim.AdamW(1), []any{f.w})
	if err := dev.Step(func(s *tensor.Scope) error {
		autograd.Backward(s.In(f.w).Sum())
		return opt.Step(s)
	}); err != nil {
		t.Fatal(err)
	}
	f.st = &State{Device: dev, Model: []any{f.w}, Optimizer: opt, Values: map[string]any{"step": &f.step}}
	return f
}

// at is the run after a step.
func (f *fixture) at(step int) *State {
	f.step = step
	v := make([]float32, f.w.Len())
	for i := range v {
		v[i] = float32(step) + float32(i)/1024
	}
	f.w.Assign(tensor.FromSlice(v, f.w.Shape()...))
	return f.st
}

// is tells whether the run is in the state of a step.
func (f *fixture) is(step int) bool {
	v := tensor.ToSlice[float32](f.w)
	return f.step == step && v[0] == float32(step) && v[127] == float32(step)+127./1024
}

// bytesOf is all of a file; "" if it cannot be read.
func bytesOf(fsys disk.FS, name string) string {
	r, err := fsys.Open(name)
	if err != nil {
		return ""
	}
	defer r.Close()
	v := make([]byte, r.Size())
	r.ReadAt(v, 0)
	return string(v)
}

// tensorsOf is the files of tensors of a checkpoint.
func tensorsOf(fsys disk.FS, dir string) [2]string {
	return [2]string{bytesOf(fsys, filepath.Join(dir, modelFile)), bytesOf(fsys, filepath.Join(dir, optimizerFile))}
}

// A lossy file system forgets some syncs.
type lossy struct {
	disk.FS
	forget func(name string) bool
}

func (l lossy) SyncDir(name string) error {
	if l.forget(name) {
		return nil
	}
	return l.FS.SyncDir(name)
}

func (l lossy) Create(name string) (disk.File, error) {
	f, err := l.FS.Create(name)
	return lossyFile{f, l.forget(name)}, err
}

type lossyFile struct {
	disk.File
	forget bool
}

func (f lossyFile) Sync() error {
	if f.forget {
		return nil
	}
	return f.File.Sync()
}

// crasher lets the power fail after each operation of runs, and looks at what is left.
type crasher struct {
	f       *fixture
	resumed *fixture
	mu      sync.Mutex
	want    map[int][2]string // the files of each step
	crashes int
	faults  map[string]int
	most    int // crashes after an operation
	full    int // crashes after which the run was resumed
}

const crashSteps = 5

func newCrasher(t *testing.T, most int) *crasher {
	c := &crasher{f: newFixture(t), resumed: newFixture(t), want: map[int][2]string{}, faults: map[string]int{},
		most: most}
	fsys := crashfs.New()
	ck, err := open(fsys, "run", []OpenOption{Synchronous()})
	for step := 1; step <= crashSteps; step++ {
		err = errors.Join(err, ck.Save(step, c.f.at(step), nil))
		c.want[step] = tensorsOf(fsys, ck.folder(step))
	}
	if err != nil || len(c.want[1][0]) < 512 || len(c.want[1][1]) < 1024 || c.want[1] == c.want[2] {
		t.Fatalf("error %v, files of %d and %d bytes", err, len(c.want[1][0]), len(c.want[1][1]))
	}
	return c
}

func (c *crasher) fault(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[what]++
}

// check is what a crash may leave: a step that is whole, and none before the one that was reported as saved.
func (c *crasher) check(after *crashfs.FS, done int) {
	c.crashes++
	found := 0
	entries, _ := after.ReadDir("run")
	for _, e := range slices.Backward(entries) {
		step, ok := stepOf(e.Name)
		dir := filepath.Join("run", e.Name)
		if !ok {
			continue
		}
		m, err := readManifest(after, dir)
		if err == nil {
			err = m.verify(after, dir)
		}
		if err == nil && (tensorsOf(after, dir) != c.want[step] || m.Step != step) {
			c.fault("a checkpoint that is not whole is taken")
		}
		if err == nil {
			found = step
			break
		}
	}
	if found < done {
		c.fault("what is found is older than what was saved")
	}
	if c.crashes%16 != 0 { // resuming is slow
		return
	}
	c.full++
	c.resumed.at(0)
	ck, err := open(after, "run", nil)
	step := 0
	if err == nil {
		step, err = ck.Resume(c.resumed.st)
	}
	remains := 0
	entries, _ = after.ReadDir("run")
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name, tmpPrefix)
		if !ok {
			continue
		}
		twin := filepath.Join("run", stepPrefix+rest[:8], stateFile) // a folder with two names
		if text := bytesOf(after, filepath.Join("run", e.Name, stateFile)); text == "" || text != bytesOf(after, twin) {
			remains++
		}
	}
	switch {
	case err != nil:
		c.fault("Resume fails")
	case step != found || !c.resumed.is(step):
		c.fault("Resume gives another state")
	case remains > 0:
		c.fault("remains stay")
	}
}

// half is a folder that has the name of a checkpoint and is none.
func (c *crasher) half(now *crashfs.FS) string {
	entries, _ := now.ReadDir("run")
	for _, e := range entries {
		if step, ok := stepOf(e.Name); ok && tensorsOf(now, filepath.Join("run", e.Name)) != c.want[step] {
			return e.Name
		}
	}
	return ""
}

// run saves some steps while operation number fail fails, or none if it is negative, and goes on in a new process after
// that. It returns how many saves failed.
func (c *crasher) run(t *testing.T, fail int, done bool, options []OpenOption, forget func(string) bool) (failed int) {
	fsys := crashfs.New()
	rng := rand.New(rand.NewPCG(uint64(fail), 1))
	var saved atomic.Int64
	lost := map[string]bool{} // files whose sync has failed
	fsys.Fault = func(call int, op, name string) (error, bool) {
		if op == "sync" && lost[name] {
			c.fault("a sync that failed is repeated")
		}
		if call != fail {
			return nil, false
		}
		lost[name] = op == "sync"
		return []error{syscall.EIO, syscall.ENOSPC}[fail%2], done
	}
	var one sync.Mutex // Resume reads with two goroutines
	fsys.After = func() {
		one.Lock()
		defer one.Unlock()
		for range c.most {
			c.check(fsys.Crash(crashfs.Random(rng)), int(saved.Load()))
		}
		if half := c.half(fsys.Crash(func(n int) int { return n - 1 })); half != "" && fail < 0 {
			c.fault("the end of the process leaves half a checkpoint")
		}
	}
	var ck *Manager
	begin := func() (err error) {
		if ck, err = open(lossy{fsys, forget}, "run", options); err == nil {
			_, err = ck.Resume(c.f.st)
		}
		return err
	}
	must := func(err error) bool {
		if err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ENOSPC) {
			c.fault("another error: " + err.Error())
		}
		return err == nil
	}
	for range 3 { // the first may fail
		if must(begin()) {
			break
		}
	}
	for step := 1; step <= crashSteps; step++ {
		err := ck.Save(step, c.f.at(step), map[string]float64{"loss": float64(step % 3)})
		c.f.at(-1) // updates go on
		if !must(err) {
			failed++
		} else if ck.inFlight == nil {
			saved.Store(int64(step))
		} else if ck.synchronous {
			t.Fatal("a synchronous save is in flight")
		}
		if ck.inFlight != nil && must(ck.settle()) {
			saved.Store(int64(step))
		}
		if step == 3 { // a new process
			for range 2 {
				if must(begin()) {
					break
				}
			}
		}
	}
	return failed
}

func never(string) bool { return false }

// TestCrashOfRun lets the power fail, and each operation, while checkpoints are written and removed and while a new
// process goes on: there is always a whole one, never older than what was reported as saved.
func TestCrashOfRun(t *testing.T) {
	c := newCrasher(t, 1+*crashStates/80000)
	failed, runs, stride := 0, 0, 1
	if testing.Short() {
		stride = 8
	}
	for pass := 0; c.crashes < *crashStates/stride; pass++ {
		for fail := range 180 {
			if fail > 16 && (fail+pass)%stride != 0 {
				continue
			}
			for _, done := range []bool{false, true} {
				options := []OpenOption{Keep(1 + pass%2)}
				if pass%3 > 0 {
					options = append(options, Best("loss"))
				}
				if fail/2%2 == 0 {
					options = append(options, Synchronous())
				}
				runs++
				failed += c.run(t, fail, done, options, never)
			}
		}
	}
	t.Logf("%d crash states of %d runs, %d of them resumed, %d saves failed, %d corrupt", c.crashes, runs, c.full,
		failed, len(c.faults))
	if len(c.faults) > 0 {
		t.Errorf("faults: %v", c.faults)
	}
	if failed < 40/stride || c.full < 10 {
		t.Errorf("%d saves failed, %d runs were resumed: too few", failed, c.full)
	}
}

// TestCrashWithoutSync leaves out each kind of sync: the crashes find it.
func TestCrashWithoutSync(t *testing.T) {
	for name, forget := range map[string]func(string) bool{
		"model":     func(name string) bool { return filepath.Base(name) == modelFile },
		"optimizer": func(name string) bool { return filepath.Base(name) == optimizerFile },
		"state":     func(name string) bool { return filepath.Base(name) == stateFile },
		"folder":    func(name string) bool { return strings.HasPrefix(filepath.Base(name), tmpPrefix) },
		"names":     func(name string) bool { return name == "run" },
		"run":       func(name string) bool { return name == "." },
	} {
		c := newCrasher(t, 4)
		for range 40 {
			if c.run(t, -1, false, []OpenOption{Keep(2), Synchronous()}, forget); len(c.faults) > 0 {
				break
			}
		}
		if len(c.faults) == 0 {
			t.Errorf("without the sync of %s: no fault in %d crashes", name, c.crashes)
		}
		t.Logf("without the sync of %s: %v after %d crashes", name, c.faults, c.crashes)
	}
}

// TestDamage changes each byte of the files of a checkpoint, cuts them, adds to them and removes them: Resume passes
// over it and takes the one before.
func TestDamage(t *testing.T) {
	f := newFixture(t)
	damaged := 0
	for _, name := range []string{modelFile, optimizerFile, stateFile} {
		for at := -4; ; at++ {
			if testing.Short() && at > 0 {
				at += 40
			}
			fsys := crashfs.New()
			ck, err := open(fsys, "run", []OpenOption{Synchronous()})
			if err = errors.Join(err, ck.Save(1, f.at(1), nil), ck.Save(2, f.at(2), nil)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(ck.folder(2), name)
			text := []byte(bytesOf(fsys, path))
			switch {
			case at == -4:
				text = nil
			case at == -3:
				text = text[:len(text)-1]
			case at == -2:
				text = append(text, 0)
			case at >= 0 && at < len(text):
				text[at] ^= 1 << (at % 8)
			}
			if at >= len(text) && at >= 0 {
				break
			}
			err = fsys.Remove(path)
			if file, created := fsys.Create(path); at != -1 && err == nil {
				_, err = file.Write(text)
				err = errors.Join(created, err)
			} else if created == nil {
				err = errors.Join(err, fsys.Remove(path))
			}
			if err != nil {
				t.Fatal(err)
			}
			damaged++
			ck, err = open(fsys, "run", nil)
			if err != nil {
				t.Fatal(err)
			}
			step, err := ck.Resume(f.at(0))
			passed := ck.Stats().Passed
			if step != 1 || err != nil || !f.is(1) || len(passed) != 1 || !strings.Contains(passed[0].Error(), name) {
				t.Fatalf("%s, damage %d: step %d, error %v, passed over %v", name, at, step, err, passed)
			}
			if at == 0 { // the damaged one is written anew
				if err := errors.Join(ck.Save(2, f.at(2), nil), ck.Close()); err != nil {
					t.Fatal(err)
				}
				ck, err = open(fsys, "run", nil)
				if step, err2 := ck.Resume(f.at(0)); errors.Join(err, err2) != nil || step != 2 || !f.is(2) {
					t.Fatalf("%s: after another save: step %d, errors %v, %v", name, step, err, err2)
				}
			}
		}
	}
	t.Logf("%d damages, all found", damaged)
}

// TestRetention holds which checkpoints stay, also across processes and with folders of others.
func TestRetention(t *testing.T) {
	f := newFixture(t)
	losses := []float64{5, 3, 2, 2, math.NaN(), 4, 6, 7}
	for _, c := range []struct {
		options []OpenOption
		want    []int
	}{
		{nil, []int{1, 2, 3, 4, 5, 6, 7, 8}},
		{[]OpenOption{Keep(3)}, []int{6, 7, 8}},
		{[]OpenOption{Keep(1), Best("loss")}, []int{4, 8}},
		{[]OpenOption{Keep(2), Highest("loss")}, []int{7, 8}},
		{[]OpenOption{Keep(1), Highest("other")}, []int{8}},
	} {
		fsys := crashfs.New()
		var ck *Manager
		for i, loss := range losses {
			if i%3 == 0 { // a new process
				var err error
				if ck, err = open(fsys, "run", c.options); err != nil {
					t.Fatal(err)
				}
				if step, err := ck.Resume(f.st); step != i || err != nil {
					t.Fatalf("resumed at %d, error %v, want %d", step, err, i)
				}
			}
			if err := ck.Save(i+1, f.at(i+1), map[string]float64{"loss": loss}); err != nil {
				t.Fatal(err)
			}
			if i%3 == 2 {
				if err := ck.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := ck.Close(); err != nil {
			t.Fatal(err)
		}
		if got, err := ck.Steps(); !slices.Equal(got, c.want) || err != nil {
			t.Errorf("steps %v, error %v, want %v", got, err, c.want)
		}
	}
}

// copyTree copies the files of a folder.
func copyTree(t *testing.T, fsys disk.FS, from, to string) {
	t.Helper()
	entries, err := fsys.ReadDir(from)
	if err = errors.Join(err, fsys.Mkdir(to)); err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		file, err := fsys.Create(filepath.Join(to, e.Name))
		if err == nil {
			_, err = file.Write([]byte(bytesOf(fsys, filepath.Join(from, e.Name))))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestRuns holds that checkpoints of another run are neither resumed, mixed with nor removed, and that a step is
// written once.
func TestRuns(t *testing.T) {
	f := newFixture(t)
	fsys := crashfs.New()
	saved := func(dir string, steps ...int) *Manager {
		ck, err := open(fsys, dir, []OpenOption{Keep(1)})
		for _, step := range steps {
			err = errors.Join(err, ck.Save(step, f.at(step), nil))
		}
		if err = errors.Join(err, ck.settle()); err != nil {
			t.Fatal(err)
		}
		return ck
	}
	a, b := saved("a", 1, 2), saved("b", 1, 9)
	calls := fsys.Calls()
	if err := a.Save(2, f.at(2), nil); err != nil || fsys.Calls() != calls {
		t.Errorf("a step that is there: error %v, %d operations", err, fsys.Calls()-calls)
	}
	if err := a.Save(1, f.at(1), nil); err == nil || !strings.Contains(err.Error(), "step 1 comes before") {
		t.Errorf("a step before: error %v", err)
	}
	if a.Close() == nil {
		t.Error("Close after a save that failed: no error")
	}
	fresh, err := open(fsys, "b", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := fresh.Save(10, f.at(10), nil); err == nil || !strings.Contains(err.Error(), "another run") {
		t.Errorf("a new run in the folder of another: error %v", err)
	}
	copyTree(t, fsys, b.folder(9), a.folder(9))
	ck, err := open(fsys, "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ck.Resume(f.at(0)); err == nil || !strings.Contains(err.Error(), "another run") || !f.is(0) {
		t.Errorf("a folder of two runs: error %v", err)
	}
	copyTree(t, fsys, b.folder(9), b.folder(12))
	if ck, err = open(fsys, "b", nil); err != nil {
		t.Fatal(err)
	}
	if step, err := ck.Resume(f.at(0)); step != 9 || err != nil || len(ck.Stats().Passed) != 1 {
		t.Errorf("a folder under another name: step %d, error %v, passed %v", step, err, ck.Stats().Passed)
	}
	if err := ck.Close(); err != nil || ck.Save(20, f.st, nil) == nil {
		t.Errorf("Close: %v; Save after Close has no error", err)
	}
	if err := errors.Join(fsys.Remove(filepath.Join(b.folder(9), modelFile)),
		fsys.Remove(filepath.Join(b.folder(12), stateFile))); err != nil {
		t.Fatal(err)
	}
	if ck, err = open(fsys, "b", nil); err != nil {
		t.Fatal(err)
	}
	if step, err := ck.Resume(f.st); step != 0 || err == nil || !strings.Contains(err.Error(), "none of 2") {
		t.Errorf("nothing that is whole: step %d, error %v", step, err)
	}
}

// A gate is a file system whose writes wait.
type gate struct {
	disk.FS
	open chan struct{}
}

func (g gate) Mkdir(name string) error {
	if strings.Contains(name, tmpPrefix) {
		<-g.open
	}
	return g.FS.Mkdir(name)
}

// TestAsync holds that updates after Save are not in the checkpoint, that one save is in flight, and where its errors
// go.
func TestAsync(t *testing.T) {
	f := newFixture(t)
	fsys := crashfs.New()
	g := gate{fsys, make(chan struct{})}
	ck, err := open(g, "run", []OpenOption{SkipBusy()})
	if err != nil {
		t.Fatal(err)
	}
	for step := 1; step <= 3; step++ { // returns while nothing is written
		if err := ck.Save(step, f.at(step), nil); err != nil {
			t.Fatal(err)
		}
	}
	f.at(77)
	close(g.open)
	if st := ck.Stats(); st.Saved != 1 || st.Skipped != 2 || st.Synchronous != 0 {
		t.Errorf("stats %+v", st)
	}
	select {
	case <-ck.hurry:
	default:
		t.Error("somebody waits, and writing does not hurry")
	}
	taken := f.st.Device.Stats().Memory.SourceAllocs
	if step, err := ck.Resume(f.st); step != 1 || err != nil || !f.is(1) {
		t.Errorf("resumed at %d, error %v, the run's own step is %d", step, err, f.step)
	}
	if err := ck.Save(4, f.at(4), nil); err != nil || f.st.Device.Stats().Memory.SourceAllocs != taken {
		t.Errorf("error %v, or the snapshot's memory was not kept", err)
	}
	// An error comes with the next save, which is done, and with Close.
	ck.settle()
	fsys.Fault = func(_ int, op, _ string) (error, bool) {
		if op == "sync" {
			return syscall.EIO, false
		}
		return nil, false
	}
	if err := ck.Save(5, f.at(5), nil); err != nil {
		t.Error(err)
	}
	ck.inFlight <- <-ck.inFlight // its end
	fsys.Fault = nil
	if err := ck.Save(6, f.at(6), nil); !errors.Is(err, syscall.EIO) {
		t.Errorf("the next save: error %v", err)
	}
	if err := ck.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Close: error %v", err)
	}
	if steps, err := ck.Steps(); !slices.Equal(steps, []int{1, 4, 6}) || err != nil {
		t.Errorf("steps %v, error %v", steps, err)
	}
	// Without memory saving is synchronous.
	if ck, err = open(fsys, "other", nil); err != nil {
		t.Fatal(err)
	}
	ck.take = func([]*tensor.Tensor) (snapshot, error) { return nil, tensor.ErrMemory }
	if err := ck.Save(1, f.at(1), nil); err != nil || ck.inFlight != nil || ck.Stats().Synchronous != 1 {
		t.Errorf("without memory: error %v, stats %+v", err, ck.Stats())
	}
	if step, err := ck.Resume(f.at(0)); step != 1 || err != nil || !f.is(1) {
		t.Errorf("resumed at %d, error %v", step, err)
	}
}

// TestSpace holds that a disk that is too small is found before the first step.
func TestSpace(t *testing.T) {
	f := newFixture(t)
	size := int64(3*16*8*4 + 2*8) // the parameter, two moments and two counters
	for _, c := range []struct {
		options []OpenOption
		need    int64
	}{{nil, size}, {[]OpenOption{Keep(2)}, 3 * size}, {[]OpenOption{Keep(2), Best("x")}, 4 * size}} {
		for _, left := range []int64{c.need - 1, c.need} {
			fsys := crashfs.New()
			fsys.Space = left
			ck, err := open(fsys, "run", c.options)
			if err != nil {
				t.Fatal(err)
			}
			_, err = ck.Resume(f.st)
			if errors.Is(err, ErrSpace) != (left < c.need) || (err == nil) != (left == c.need) {
				t.Errorf("%d of %d bytes: error %v", left, c.need, err)
			}
		}
	}
}

// TestMisfit holds that a checkpoint of another run is refused before anything changes, and what cannot be saved.
func TestMisfit(t *testing.T) {
	f := newFixture(t)
	fsys := crashfs.New()
	ck, err := open(fsys, "run", []OpenOption{Synchronous()})
	if err = errors.Join(err, ck.Save(1, f.at(1), nil)); err != nil {
		t.Fatal(err)
	}
	hidden := struct{ hidden int }{}
	for name, c := range map[string]struct {
		change func(st *State)
		want   string
		save   bool // saving is an error, too
	}{
		"device":      {func(st *State) { st.Device = nil }, "no Device", true},
		"no model":    {func(st *State) { st.Model = nil }, "no Model", true},
		"model":       {func(st *State) { st.Model, st.Optimizer = []any{device2(t)}, nil }, "optimizers", false},
		"parameter":   {func(st *State) { st.Model = []any{device2(t)} }, "not in the model", true},
		"seed":        {func(st *State) { st.Device = device(t, 2) }, "seed of the device: it has 1, the run 2", false},
		"optimizer":   {func(st *State) { st.Optimizer = nil }, "optimizers: it has [optimizer], the run []", false},
		"name":        {func(st *State) { st.Optimizers = map[string]*optim.Optimizer{"a/b": nil} }, "a/b", true},
		"rule":        {func(st *State) { st.Optimizer = optim.New(optim.SGD(1), st.Model) }, "of the rule", false},
		"data":        {func(st *State) { st.Data = position{} }, "a position in the data: it has false", false},
		"values":      {func(st *State) { st.Values = nil }, "values: it has [step], the run []", false},
		"no pointer":  {func(st *State) { st.Values = map[string]any{"step": 1} }, "want a pointer", true},
		"not in JSON": {func(st *State) { st.Values = map[string]any{"step": &hidden} }, "nothing of a", true},
	} {
		st := *f.at(0)
		c.change(&st)
		if step, err := ck.Resume(&st); step != 0 || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: step %d, error %v, want %q", name, step, err, c.want)
		}
		if !f.is(0) && name != "rule" {
			t.Errorf("%s: an error, and another state", name)
		}
		other, err := open(crashfs.New(), "run", []OpenOption{Synchronous()})
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Save(1, &st, nil); (err != nil) != c.save {
			t.Errorf("%s: Save: error %v", name, err)
		}
	}
}

type position struct{}

func (position) State() ([]byte, error) { return nil, nil }
func (position) Restore([]byte) error   { return nil }

// device2 is a parameter of another model.
func device2(t *testing.T) *tensor.Tensor {
	w := nn.Parameter(nil, 2)
	if err := nn.Init(device(t, 3), []any{w}); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestClosed holds that a manager that is nil or closed is an error.
func TestClosed(t *testing.T) {
	closed, err := open(crashfs.New(), "run", nil)
	if err = errors.Join(err, closed.Close(), closed.Close()); err != nil {
		t.Fatal(err)
	}
	for _, ck := range []*Manager{nil, closed} {
		if _, err := ck.Resume(nil); err == nil || !strings.Contains(err.Error(), "nil or closed") {
			t.Errorf("Resume: error %v", err)
		}
		if err := ck.Save(1, nil, nil); err == nil || !strings.Contains(err.Error(), "nil or closed") {
			t.Errorf("Save: error %v", err)
		}
		if err := ck.Close(); err != nil {
			t.Errorf("Close: error %v", err)
		}
	}
}

// TestVerify compares what Verify says with the run, and finds a damage.
func TestVerify(t *testing.T) {
	r := newRun(t, tensor.Float16)
	dir := filepath.Join(t.TempDir(), "a", "b")
	ck, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []int{0, 7} {
		r.until(t, end)
		if err := ck.Save(r.step, r.state(), map[string]float64{"loss": 0.5}); err != nil {
			t.Fatal(err)
		}
		if err := ck.settle(); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{dir, ck.folder(end)} {
			info, err := Verify(path)
			if err != nil {
				t.Fatal(err)
			}
			if want := (map[string]string{only: r.opt.Hash()}); info.Step != end || info.Dir != ck.folder(end) ||
				!maps.Equal(info.Hash, want) || len(info.Files) != 2 || info.Metrics["loss"] != 0.5 {
				t.Errorf("%+v, want the hash %s", info, want)
			}
		}
	}
	path := filepath.Join(ck.folder(7), modelFile)
	if err := errors.Join(disk.OS.Rename(path, path+".old"), ck.Close()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, ck.folder(7), t.TempDir(), "nowhere"} {
		if info, err := Verify(path); err == nil {
			t.Errorf("%s: %+v", path, info)
		}
	}
}

// A value is after Resume what it was when it was saved, whatever it has been since.
func TestValuesAreReplaced(t *testing.T) {
	type inner struct{ N int }
	type Promoted struct{ P int }
	type hidden map[string]int
	type value struct {
		Promoted
		hidden
		Loss   float64        `json:",omitempty"`
		Seen   map[string]int `json:",omitempty"`
		List   []map[string]int
		Pair   [2]inner
		At     *inner
		Any    any
		Begun  time.Time
		Secret int `json:"-"`
		own    int
	}
	begun := time.Date(2020, 1, 2, 3, 4, 5, 6, time.UTC)
	at := &inner{1}
	v := &value{Seen: map[string]int{"a": 1}, List: []map[string]int{{"b": 1}}, At: at, Any: "x", Begun: begun}
	text, err := encode(v)
	if err != nil {
		t.Fatal(err)
	}
	want := *v
	want.Seen, want.List, want.Secret, want.own = map[string]int{"a": 1}, []map[string]int{{"b": 1}}, 7, 8
	want.hidden = hidden{"h": 1} // not in JSON
	*v = value{Promoted{5}, hidden{"h": 1}, 5,
		map[string]int{"z": 1}, []map[string]int{{"y": 1}, {"x": 2}}, [2]inner{{1}, {2}}, at, 3,
		time.Now(), 7, 8}
	at.N = 9
	if err := decode(v, text); err != nil || at.N != 1 || v.At != at || !reflect.DeepEqual(*v, want) {
		t.Errorf("%+v, want %+v: %v", *v, want, err)
	}
}

// A loss scaler that scales does not become one that is off, nor the other way round.
func TestScalerOnOff(t *testing.T) {
	for _, on := range []bool{false, true} {
		f, fsys := newFixture(t), crashfs.New()
		st := *f.at(1)
		st.Scaler = amp.NewGradScaler(amp.Enabled(on))
		ck, err := open(fsys, "run", []OpenOption{Synchronous()})
		if err != nil {
			t.Fatal(err)
		}
		if err := ck.Save(1, &st, nil); err != nil {
			t.Fatal(err)
		}
		st.Scaler = amp.NewGradScaler(amp.Enabled(!on))
		f.at(0)
		_, err = ck.Resume(&st)
		if want := fmt.Sprintf("a loss scaler that scales: it has %v, the run %v", on, !on); err == nil ||
			!strings.Contains(err.Error(), want) || !f.is(0) || st.Scaler.State().Off != on {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
