package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/checkpoint/safetensors"
	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/internal/testing/crashfs"
	"github.com/weft-ml/weft/tensor"
)

// An evil is a run with a checkpoint that was made by somebody who knows the format, and can make its checksums.
type evil struct {
	*fixture
	fsys *crashfs.FS
	ck   *Manager
	m    *manifest

	sealed bool // state.json is not that of m
}

func newEvil(t testing.TB) *evil {
	t.Helper()
	e := &evil{fixture: newFixture(t), fsys: crashfs.New()}
	e.st.Scaler = amp.NewGradScaler()
	set, err := data.NewArrays(make([]float32, 8), []int{1}, make([]int64, 8), nil)
	if err != nil {
		t.Fatal(err)
	}
	e.st.Data = &data.Loader{Dataset: set, BatchSize: 2}
	if e.ck, err = open(e.fsys, "run", []OpenOption{Synchronous()}); err == nil {
		err = e.ck.Save(1, e.at(1), nil)
	}
	if err == nil {
		e.m, err = readManifest(e.fsys, e.ck.folder(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// put gives a file of the checkpoint another content.
func (e *evil) put(t testing.TB, name string, content []byte) {
	t.Helper()
	path := filepath.Join(e.ck.folder(1), name)
	err := e.fsys.Remove(path)
	file, created := e.fsys.Create(path)
	if err = errors.Join(err, created); err == nil {
		_, err = file.Write(content)
	}
	if err != nil {
		t.Fatal(err)
	}
	if name != stateFile {
		sum := sha256.Sum256(content)
		e.m.Files[name] = checksum{int64(len(content)), hex.EncodeToString(sum[:])}
	}
}

// putState gives it a state.json with the text after the checksum.
func (e *evil) putState(t testing.TB, text []byte) {
	t.Helper()
	sum := sha256.Sum256(text)
	e.sealed = true
	e.put(t, stateFile, append([]byte(digestPrefix+hex.EncodeToString(sum[:])), text...))
}

// tensors is a file of tensors of two elements.
func tensors(t testing.TB, dt safetensors.DType, names ...string) []byte {
	t.Helper()
	var all []safetensors.Tensor
	for _, name := range names {
		all = append(all, safetensors.Tensor{Name: name, DType: dt, Shape: []int{2}})
	}
	var file bytes.Buffer
	if err := safetensors.Write(&file, all, nil, func(w io.Writer, x safetensors.Tensor) error {
		_, err := w.Write(make([]byte, x.Bytes()))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// TestEvilState resumes checkpoints whose checksums are right and whose contents are not: an error says what is wrong,
// and what Verify computes of them fails, too, or is of what is there.
func TestEvilState(t *testing.T) {
	bad := errors.New("the data are bad")
	for what, change := range map[string]func(t *testing.T, e *evil){
		"unexpected end":   func(t *testing.T, e *evil) { e.putState(t, []byte(`", `)) },
		"cannot unmarshal": func(t *testing.T, e *evil) { e.putState(t, []byte(`", "version": "1"}`)) },
		"version 2":        func(t *testing.T, e *evil) { e.m.Version = 2 },
		"of step 7":        func(t *testing.T, e *evil) { e.m.Step = 7 },
		"want 0":           func(t *testing.T, e *evil) { e.m.Files = nil },
		"seed of the device: it has 2": func(t *testing.T, e *evil) {
			e.m.Device.Seed = 2
		},
		"optimizers: it has [optimizer other]": func(t *testing.T, e *evil) {
			e.m.Optimizers["other"] = optimizerState{}
		},
		"loss scaler: it has false":          func(t *testing.T, e *evil) { e.m.Scaler = nil },
		"position in the data: it has false": func(t *testing.T, e *evil) { e.m.Data = nil },
		"values: it has []":                  func(t *testing.T, e *evil) { e.m.Values = nil },
		`the value "step"`:                   func(t *testing.T, e *evil) { e.m.Values["step"] = []byte(`"x"`) },
		"the data's position":                func(t *testing.T, e *evil) { e.m.Data = []byte(`{"batches": -1}`) },
		"scale":                              func(t *testing.T, e *evil) { e.m.Scaler.Scale = -1 },
		"rule": func(t *testing.T, e *evil) {
			e.m.Optimizers[only] = optimizerState{Rule: "sgd"}
		},
		"model.safetensors: safetensors: byte 0: header size": func(t *testing.T, e *evil) {
			e.put(t, modelFile, []byte("\xff\xff\xff\xff\xff\xff\xff\xff"))
		},
		"optimizer.safetensors: safetensors: byte 0: header size": func(t *testing.T, e *evil) {
			e.put(t, optimizerFile, []byte("\xff\xff\xff\xff\xff\xff\xff\xff"))
		},
		"which no tensor has": func(t *testing.T, e *evil) {
			e.put(t, optimizerFile, tensors(t, safetensors.F8_E5M2, only+"/state/0/m"))
		},
		"is F8_E5M2, which": func(t *testing.T, e *evil) {
			e.put(t, optimizerFile, tensors(t, safetensors.F8_E5M2, only+"/grad/0"))
		},
		"the state does not fit to the optimizer": func(t *testing.T, e *evil) {
			e.put(t, optimizerFile, tensors(t, safetensors.F32, only+"/state/x", only+"/grad/y"))
		},
		"the data are bad": func(t *testing.T, e *evil) { e.st.Data = badData{e.st.Data, bad} },
	} {
		e := newEvil(t)
		change(t, e)
		if !e.sealed {
			text, err := e.m.encode()
			if err != nil {
				t.Fatal(err)
			}
			e.put(t, stateFile, text)
		}
		step, err := e.ck.Resume(e.at(0))
		if err == nil || step != 0 || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: step %d, error %v", what, step, err)
		}
	}
}

// badData are data that cannot go on.
type badData struct {
	data.Resumable
	err error
}

func (b badData) Restore([]byte) error { return b.err }

// TestEvilHashes verifies checkpoints whose files lack what state.json promises.
func TestEvilHashes(t *testing.T) {
	for what, change := range map[string]func(e *evil){
		"which no tensor has": func(e *evil) { e.put(t, modelFile, tensors(t, safetensors.F32, "x")) },
		"is F8_E5M2": func(e *evil) {
			e.put(t, optimizerFile, tensors(t, safetensors.F8_E5M2, only+"/state/x"))
		},
		"header size": func(e *evil) { e.put(t, optimizerFile, []byte("\xff\xff\xff\xff\xff\xff\xff\xff")) },
	} {
		e := newEvil(t)
		change(e)
		if err := e.m.hashes(e.fsys, e.ck.folder(1), map[string]string{}); err == nil ||
			!strings.Contains(err.Error(), what) {
			t.Errorf("%s: error %v", what, err)
		}
	}
}

// FuzzState resumes and verifies checkpoints with any state.json whose checksum is right.
func FuzzState(f *testing.F) {
	e := newEvil(f)
	all := bytesOf(e.fsys, filepath.Join(e.ck.folder(1), stateFile))
	_, text, _ := strings.Cut(all[len(digestPrefix):], `"`)
	f.Add([]byte(`"` + text))
	f.Add([]byte(`"}`))
	f.Add([]byte(`", "version": 1, "step": 1, "optimizers": {"optimizer": {"parameters": {"a": "b"}}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		e.putState(t, text)
		m, err := readManifest(e.fsys, e.ck.folder(1))
		if err != nil {
			return
		}
		if again, err := m.encode(); err != nil || !json.Valid(again) {
			t.Errorf("%q: read as %+v, which is written as %q, error %v", text, m, again, err)
		}
		m.hashes(e.fsys, e.ck.folder(1), map[string]string{})
		e.ck.run = ""
		step, err := e.ck.Resume(e.at(0))
		if (err == nil) != (step == 1) || err == nil && tensor.ToSlice[float32](e.w)[0] != 1 {
			t.Errorf("%q: step %d, error %v", text, step, err)
		}
	})
}
