package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/checkpoint/safetensors"
	"github.com/weft-ml/weft/internal/disk"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// The files of a checkpoint.
const (
	modelFile     = "model.safetensors"
	optimizerFile = "optimizer.safetensors"
	stateFile     = "state.json"

	version    = 1
	maxState   = 256 << 20 // bytes of state.json
	stepPrefix = "step-"
	tmpPrefix  = "tmp-" // of folders that are being written, or removed
)

func folderName(step int) string { return fmt.Sprintf("%s%08d", stepPrefix, step) }

// stepOf is the step of a folder; false for other folders.
func stepOf(name string) (int, bool) {
	step, err := strconv.Atoi(strings.TrimPrefix(name, stepPrefix))
	return step, err == nil && step >= 0 && folderName(step) == name
}

// listSteps lists the steps in a run's folder, ascending, and its remains.
func listSteps(fsys disk.FS, dir string) (steps []int, remains []string, err error) {
	entries, err := fsys.ReadDir(dir)
	for _, e := range entries {
		if step, ok := stepOf(e.Name); ok && e.Dir {
			steps = append(steps, step)
		} else if strings.HasPrefix(e.Name, tmpPrefix) && e.Dir {
			remains = append(remains, e.Name)
		}
	}
	slices.Sort(steps)
	return steps, remains, err
}

// A manifest is what state.json has: all of a checkpoint but for tensors, and the checksums of the other files.
type manifest struct {
	Version    int                       `json:"version"`
	Run        string                    `json:"run"`
	Step       int                       `json:"step"`
	Device     deviceState               `json:"device"`
	Files      map[string]checksum       `json:"files"`
	Optimizers map[string]optimizerState `json:"optimizers,omitempty"`
	Scaler     *amp.State                `json:"scaler,omitempty"`
	Data       []byte                    `json:"data"`
	Values     map[string][]byte         `json:"values,omitempty"`
	Metrics    map[string]number         `json:"metrics,omitempty"`
}

type deviceState struct {
	Name string `json:"name"`
	Seed uint64 `json:"seed"`
	seam.Counters
}

type checksum struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

type optimizerState struct {
	Rule       string            `json:"rule"`
	Parameters map[string]string `json:"parameters"` // by the optimizer's name for it, its name in the model's file
}

// number is a float64 that may be NaN or infinite, then a text in JSON.
type number float64

func (n number) MarshalJSON() ([]byte, error) {
	if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
		return json.Marshal(fmt.Sprint(f))
	}
	return json.Marshal(float64(n))
}

func (n *number) UnmarshalJSON(text []byte) error {
	f, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	*n = number(f)
	return err
}

// state.json begins with the SHA-256 of all that follows it.
const digestPrefix = `{"sha256": "`

func (m *manifest) encode() ([]byte, error) {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	text = append([]byte(`",`), append(text[1:], '\n')...)
	sum := sha256.Sum256(text)
	return slices.Concat([]byte(digestPrefix), []byte(hex.EncodeToString(sum[:])), text), nil
}

// readManifest reads and checks a folder's state.json.
func readManifest(fsys disk.FS, dir string) (*manifest, error) {
	name := filepath.Join(dir, stateFile)
	file, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if file.Size() > maxState {
		return nil, fmt.Errorf("checkpoint: %s has %d bytes, want at most %d", name, file.Size(), maxState)
	}
	text := make([]byte, file.Size())
	if n, err := file.ReadAt(text, 0); n < len(text) {
		return nil, fmt.Errorf("checkpoint: %s: %w", name, whole(int64(n), file.Size(), err))
	}
	m := &manifest{}
	rest, ok := bytes.CutPrefix(text, []byte(digestPrefix))
	const digits = 2 * sha256.Size
	if !ok || len(rest) < digits {
		return nil, fmt.Errorf("checkpoint: %s does not begin with its checksum", name)
	}
	sum := sha256.Sum256(rest[digits:])
	if have := hex.EncodeToString(sum[:]); have != string(rest[:digits]) {
		return nil, fmt.Errorf("checkpoint: %s is damaged: its SHA-256 is %s, want %s", name, have, rest[:digits])
	}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("checkpoint: %s: %w", name, err)
	}
	if m.Version != version {
		return nil, fmt.Errorf("checkpoint: %s has version %d of the format, want %d", name, m.Version, version)
	}
	return m, nil
}

// files are the names of the files of tensors.
func (m *manifest) files() []string {
	if len(m.Optimizers) == 0 {
		return []string{modelFile}
	}
	return []string{modelFile, optimizerFile}
}

// verify compares the files of a folder with their checksums, all at once.
func (m *manifest) verify(fsys disk.FS, dir string) error {
	names := m.files()
	results := make(chan error)
	for _, name := range names {
		go func() { results <- m.Files[name].compare(fsys, filepath.Join(dir, name)) }()
	}
	var errs []error
	for range names {
		errs = append(errs, <-results)
	}
	return errors.Join(errs...)
}

func (want checksum) compare(fsys disk.FS, name string) error {
	file, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if file.Size() != want.Size {
		return fmt.Errorf("checkpoint: %s is damaged: it has %d bytes, want %d", name, file.Size(), want.Size)
	}
	sum := sha256.New()
	n, err := io.CopyBuffer(sum, io.NewSectionReader(file, 0, file.Size()), make([]byte, min(copyBuffer, want.Size+1)))
	if n != want.Size || err != nil {
		return fmt.Errorf("checkpoint: %s: %w", name, whole(n, want.Size, err))
	}
	if have := hex.EncodeToString(sum.Sum(nil)); have != want.SHA256 {
		return fmt.Errorf("checkpoint: %s is damaged: its SHA-256 is %s, want %s", name, have, want.SHA256)
	}
	return nil
}

// writeSynced makes a file and syncs it, and hashes its content. A sync that fails is not repeated: nobody knows what
// is on the disk then.
func writeSynced(fsys disk.FS, name string, write func(io.Writer) error) (sum checksum, err error) {
	file, err := fsys.Create(name)
	if err != nil {
		return sum, err
	}
	h := &hashing{file: file, hash: sha256.New()}
	if err = write(h); err == nil {
		err = file.Sync()
	}
	return checksum{h.n, hex.EncodeToString(h.hash.Sum(nil))}, errors.Join(err, file.Close())
}

// hashing is a file, and the hash of what is written: of a large piece by a second goroutine.
type hashing struct {
	file io.Writer
	hash hash.Hash
	n    int64
}

func (h *hashing) Write(p []byte) (int, error) {
	if len(p) <= pieceBytes {
		n, err := h.file.Write(p)
		h.hash.Write(p)
		h.n += int64(n)
		return n, err
	}
	hashed := make(chan struct{})
	go func() {
		h.hash.Write(p)
		close(hashed)
	}()
	n, err := h.file.Write(p)
	<-hashed
	h.n += int64(n)
	return n, err
}

// remove removes a folder of files.
func remove(fsys disk.FS, dir string) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, fsys.Remove(filepath.Join(dir, e.Name)))
	}
	return errors.Join(append(errs, fsys.Remove(dir))...)
}

// openTensors opens one of a folder's files of tensors.
func openTensors(fsys disk.FS, name string) (*safetensors.File, disk.Reader, error) {
	r, err := fsys.Open(name)
	if err != nil {
		return nil, nil, err
	}
	file, err := safetensors.Open(r, r.Size())
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", name, err), r.Close())
	}
	return file, r, nil
}

// read is a tensor of a file as host data.
func read(t safetensors.Tensor) (x *tensor.Tensor, err error) {
	dt, ok := here(t.DType)
	if !ok {
		return nil, fmt.Errorf("checkpoint: %s is %v, which no tensor has", t.Name, t.DType)
	}
	if err := engine.Try(func() { x = tensor.Zeros(dt, t.Shape...) }); err != nil {
		return nil, err
	}
	return x, pair{from: t, to: x, name: t.Name}.copy(new(buffer))
}

// Info is what a checkpoint says of itself.
type Info struct {
	Dir     string             // the checkpoint's folder
	Run     string             // the run that it is of
	Step    int                // of the run
	Device  string             // where it was made: "cpu", "cuda:0"
	Files   []FileInfo         // sorted by name
	Hash    map[string]string  // [optim.Optimizer.Hash] of each optimizer; that of State.Optimizer is "optimizer"
	Metrics map[string]float64 // what Save was given
}

// FileInfo is a file of a checkpoint.
type FileInfo struct {
	Name   string
	Size   int64  // bytes
	SHA256 string // in hexadecimal
}

// Verify compares a checkpoint with its checksums, and computes the hashes that the run had. dir is a checkpoint's
// folder, or a run's, whose newest checkpoint is meant. Anything that is missing, of another size or changed is an
// error that names the file. Memory is a few megabytes and what the largest tensor takes three times.
func Verify(dir string) (*Info, error) {
	fsys := disk.OS
	m, err := readManifest(fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		all, _, notDir := listSteps(fsys, dir)
		if notDir != nil {
			return nil, notDir
		}
		if len(all) > 0 {
			dir = filepath.Join(dir, folderName(all[len(all)-1]))
			m, err = readManifest(fsys, dir)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := m.verify(fsys, dir); err != nil {
		return nil, err
	}
	info := &Info{Dir: dir, Run: m.Run, Step: m.Step, Device: m.Device.Name, Hash: map[string]string{},
		Metrics: map[string]float64{}}
	for _, name := range m.files() {
		info.Files = append(info.Files, FileInfo{name, m.Files[name].Size, m.Files[name].SHA256})
	}
	for name, value := range m.Metrics {
		info.Metrics[name] = float64(value)
	}
	return info, m.hashes(fsys, dir, info.Hash)
}

// hashes computes what Optimizer.Hash was.
func (m *manifest) hashes(fsys disk.FS, dir string, all map[string]string) error {
	if len(m.Optimizers) == 0 {
		return nil
	}
	var files [2]*safetensors.File
	for i, name := range m.files() {
		file, r, err := openTensors(fsys, filepath.Join(dir, name))
		if err != nil {
			return err
		}
		defer r.Close()
		files[i] = file
	}
	var failed error
	for name, o := range m.Optimizers {
		all[name] = optim.Hash(func(yield func(string, *tensor.Tensor) bool) {
			add := func(name string, t safetensors.Tensor) bool {
				x, err := read(t)
				failed = errors.Join(failed, err)
				return err == nil && yield(name, x)
			}
			for _, p := range sortedKeys(o.Parameters) {
				if t, _ := files[0].Lookup(o.Parameters[p]); !add(p, t) {
					return
				}
			}
			state, _ := ofOptimizer(files[1], name)
			for _, key := range sortedKeys(state) {
				if !add(key, state[key]) {
					return
				}
			}
		})
	}
	return failed
}
