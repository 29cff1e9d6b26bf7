package checkpoint

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/weft-ml/weft/amp"
	"github.com/weft-ml/weft/checkpoint/safetensors"
	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/internal/disk"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// State is all of a run that a checkpoint holds. What the run does not have stays nil; a checkpoint is resumed with the
// kinds of state that it was saved with.
type State struct {
	Device     *tensor.Device              // its counters decide the random numbers of steps; needed
	Model      any                         // parameters and states, an [optim.EMA] among them; needed
	Optimizer  *optim.Optimizer            // moments, counters, gradients that no update has taken
	Optimizers map[string]*optim.Optimizer // further ones by name, which has no "/" and is not "optimizer"
	Scaler     *amp.GradScaler             // the loss scaler
	Data       data.Resumable              // the position in the data

	// Values are pointers to further values of the run by name: an [encoding.BinaryMarshaler] and BinaryUnmarshaler, or
	// anything that JSON can hold. Resume replaces all of that, entries of maps and fields that were not saved, too;
	// unexported fields stay. What holds tensors goes to Model.
	Values map[string]any
}

// only is the name of State.Optimizer among the optimizers.
const only = "optimizer"

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// sized is the bytes of a tensor.
type sized interface {
	io.ReaderAt
	Size() int64
}

// A part is a tensor to be written.
type part struct {
	safetensors.Tensor
	of  *tensor.Tensor
	raw sized // its bytes, or those of the snapshot
}

// A draft is a checkpoint to be written.
type draft struct {
	manifest manifest
	parts    map[string][]part // by file
	snapshot snapshot          // that they are read from; nil: from the tensors
	pace     *pace             // of writing; nil: as fast as it goes
}

// write writes a file of tensors.
func (c *draft) write(name string, w io.Writer) error {
	var tensors []safetensors.Tensor
	var buf buffer
	from := map[string]part{}
	for _, p := range c.parts[name] {
		tensors, from[p.Name] = append(tensors, p.Tensor), p
	}
	return safetensors.Write(c.pace.over(w), tensors, nil, func(w io.Writer, t safetensors.Tensor) error {
		piece := buf.of(int(min(copyBuffer, max(1, t.Bytes())))) // CopyBuffer takes no empty one
		_, err := io.CopyBuffer(w, io.NewSectionReader(from[t.Name].raw, 0, t.Bytes()), piece)
		return err
	})
}

// add adds a tensor to a file.
func (c *draft) add(file, name string, t *tensor.Tensor) {
	c.parts[file] = append(c.parts[file], part{safetensors.Tensor{Name: name, DType: inFiles[t.DType()],
		Shape: t.Shape()}, t, engine.Raw(t)})
}

// optimizers are all optimizers by name.
func (st *State) optimizers() (map[string]*optim.Optimizer, error) {
	all := map[string]*optim.Optimizer{}
	maps.Copy(all, st.Optimizers)
	if all[only] != nil || slices.ContainsFunc(sortedKeys(all), func(name string) bool {
		return strings.Contains(name, "/")
	}) {
		return nil, fmt.Errorf("checkpoint: Optimizers has the names %q; none may be %q or have a \"/\"",
			sortedKeys(all), only)
	}
	if st.Optimizer != nil {
		all[only] = st.Optimizer
	}
	return all, nil
}

// given is the error of a state that lacks what is needed.
func (st *State) given() error {
	if st == nil || st.Device == nil || st.Model == nil {
		return errors.New("checkpoint: the state is nil, or has no Device or no Model")
	}
	return nil
}

// bytes is about how many bytes of tensors a checkpoint will have.
func (st *State) bytes() (n int64, err error) {
	if err := st.given(); err != nil {
		return 0, err
	}
	all, err := st.optimizers()
	return n, errors.Join(err, engine.Try(func() {
		engine.Walk(st.Model, func(_ string, t *tensor.Tensor) { n += engine.Raw(t).Size() })
		for _, o := range all {
			n += o.StateBytes()
		}
	}))
}

// collect takes stock of the run. Tensors are not read.
func (st *State) collect() (c *draft, err error) {
	if err := st.given(); err != nil {
		return nil, err
	}
	c = &draft{manifest: manifest{Version: version, Files: map[string]checksum{},
		Optimizers: map[string]optimizerState{}, Values: map[string][]byte{}}, parts: map[string][]part{}}
	m := &c.manifest
	optimizers, err := st.optimizers()
	if err != nil {
		return nil, err
	}
	if tried := engine.Try(func() {
		m.Device = deviceState{st.Device.Name(), engine.Seed(st.Device), engine.Counters(st.Device)}
		names := map[*tensor.Tensor]string{}
		engine.Walk(st.Model, func(name string, t *tensor.Tensor) {
			names[t] = name
			c.add(modelFile, name, t)
		})
		for _, name := range sortedKeys(optimizers) {
			if err == nil {
				err = c.addOptimizer(name, optimizers[name], names)
			}
		}
		if st.Scaler != nil {
			scaler := st.Scaler.State()
			m.Scaler = &scaler
		}
	}); tried != nil || err != nil {
		return nil, errors.Join(tried, err)
	}
	if st.Data != nil {
		position, err := st.Data.State()
		if err != nil {
			return nil, fmt.Errorf("checkpoint: the data's position: %w", err)
		}
		m.Data = append([]byte{}, position...)
	}
	for name, v := range st.Values {
		if m.Values[name], err = encode(v); err != nil {
			return nil, fmt.Errorf("checkpoint: the value %q: %w", name, err)
		}
	}
	return c, nil
}

// addOptimizer adds an optimizer, whose parameters are in the model under the given names.
func (c *draft) addOptimizer(name string, o *optim.Optimizer, names map[*tensor.Tensor]string) error {
	st := o.State()
	info := optimizerState{st.Rule, map[string]string{}}
	for _, p := range o.Parameters() {
		if names[p] == "" {
			return fmt.Errorf("checkpoint: the optimizer %q updates %s, which is not in the model that is saved", name,
				p.Name())
		}
		info.Parameters[p.Name()] = names[p]
	}
	c.manifest.Optimizers[name] = info
	for _, key := range sortedKeys(st.Tensors) {
		c.add(optimizerFile, name+"/state/"+key, st.Tensors[key])
	}
	for _, key := range sortedKeys(st.Grads) {
		c.add(optimizerFile, name+"/grad/"+key, st.Grads[key])
	}
	return nil
}

// ofOptimizer lists what a file has of an optimizer.
func ofOptimizer(file *safetensors.File, name string) (state, grads map[string]safetensors.Tensor) {
	state, grads = map[string]safetensors.Tensor{}, map[string]safetensors.Tensor{}
	for t := range file.Tensors() {
		if key, ok := strings.CutPrefix(t.Name, name+"/state/"); ok {
			state[key] = t
		} else if key, ok := strings.CutPrefix(t.Name, name+"/grad/"); ok {
			grads[key] = t
		}
	}
	return state, grads
}

// encode is a value as bytes.
func encode(v any) ([]byte, error) {
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Pointer || r.IsNil() {
		return nil, fmt.Errorf("it is %T, want a pointer, so that Resume can set it", v)
	}
	if b, ok := v.(encoding.BinaryMarshaler); ok {
		return b.MarshalBinary()
	}
	text, err := json.Marshal(v)
	if e := r.Elem(); err == nil && e.Kind() == reflect.Struct && e.NumField() > 0 && string(text) == "{}" {
		return nil, fmt.Errorf("nothing of a %T is in its JSON; what holds tensors goes to Model, anything else needs "+
			"exported fields or the methods of encoding.BinaryMarshaler", v)
	}
	return text, err
}

func decode(v any, text []byte) error {
	if b, ok := v.(encoding.BinaryUnmarshaler); ok {
		return b.UnmarshalBinary(text)
	}
	forget(reflect.ValueOf(v))
	return json.Unmarshal(text, v)
}

// forget sets to zero what of v JSON holds: entries of maps and elements that are not in the text would stay, and so
// would fields that were left out of it as they were zero. Pointers lead to where they did.
func forget(v reflect.Value) {
	if v.CanAddr() && v.Addr().CanInterface() {
		if _, ok := v.Addr().Interface().(json.Unmarshaler); ok {
			return // it knows
		}
	}
	switch k := v.Kind(); {
	case k == reflect.Pointer:
		if !v.IsNil() {
			forget(v.Elem())
		}
	case k == reflect.Interface:
		if v.Elem().Kind() == reflect.Pointer {
			forget(v.Elem())
		}
	case k == reflect.Map && v.CanSet(): // not an embedded one of an unexported type
		v.Clear()
	case k == reflect.Slice && v.CanSet():
		v.Slice(0, v.Cap()).Clear()
	case k == reflect.Array:
		for i := range v.Len() {
			forget(v.Index(i))
		}
	case k == reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-" {
				forget(v.Field(i))
			}
		}
	default:
		if v.CanSet() {
			v.SetZero()
		}
	}
}

// restore gives the run the state of a folder, whose files have been verified. What does not fit is found before
// anything changes, but for the contents of Data, Values and optimizers.
func (st *State) restore(fsys disk.FS, dir string, m *manifest) error {
	own, err := st.collect()
	if err != nil {
		return err
	}
	if err := m.fits(&own.manifest, dir); err != nil {
		return err
	}
	path := filepath.Join(dir, modelFile)
	file, r, err := openTensors(fsys, path)
	if err != nil {
		return err
	}
	defer r.Close()
	pairs, err := match(st.Model, path, file.Tensors(), config{})
	if err != nil {
		return err
	}
	if st.Data != nil {
		if err := st.Data.Restore(m.Data); err != nil {
			return fmt.Errorf("checkpoint: %s: the data's position: %w", dir, err)
		}
	}
	for _, name := range sortedKeys(m.Values) {
		if err := decode(st.Values[name], m.Values[name]); err != nil {
			return fmt.Errorf("checkpoint: %s: the value %q: %w", dir, name, err)
		}
	}
	if st.Scaler != nil {
		if err := st.Scaler.Restore(*m.Scaler); err != nil {
			return fmt.Errorf("checkpoint: %s: %w", dir, err)
		}
	}
	if err := load(path, pairs); err != nil {
		return err
	}
	if err := st.restoreOptimizers(fsys, dir, m); err != nil {
		return err
	}
	return engine.SetCounters(st.Device, m.Device.Counters) // last, since restoring optimizers is a step
}

// fits compares the kinds of state of a checkpoint with those of the run.
func (m *manifest) fits(own *manifest, dir string) error {
	var wrong []string
	differ := func(what string, have, want any) {
		if !reflect.DeepEqual(have, want) {
			wrong = append(wrong, fmt.Sprintf("%s: it has %v, the run %v", what, have, want))
		}
	}
	differ("seed of the device", m.Device.Seed, own.Device.Seed)
	differ("optimizers", sortedKeys(m.Optimizers), sortedKeys(own.Optimizers))
	differ("a loss scaler", m.Scaler != nil, own.Scaler != nil)
	if m.Scaler != nil && own.Scaler != nil { // the state of one that is off would switch off the other, and back
		differ("a loss scaler that scales", !m.Scaler.Off, !own.Scaler.Off)
	}
	differ("a position in the data", m.Data != nil, own.Data != nil)
	differ("values", sortedKeys(m.Values), sortedKeys(own.Values))
	if wrong != nil {
		return fmt.Errorf("checkpoint: %s does not fit to the run; %s", dir, strings.Join(wrong, "; "))
	}
	return nil
}

// restoreOptimizers gives optimizers their state. Moments take as much memory as parameters or more, so Restore, which
// looks whether they fit, gets zeros, and then they are read in pieces into their place.
func (st *State) restoreOptimizers(fsys disk.FS, dir string, m *manifest) error {
	all, err := st.optimizers()
	if err != nil || len(all) == 0 {
		return err
	}
	path := filepath.Join(dir, optimizerFile)
	file, r, err := openTensors(fsys, path)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, name := range sortedKeys(all) {
		of := optim.State{Rule: m.Optimizers[name].Rule, Tensors: map[string]*tensor.Tensor{},
			Grads: map[string]*tensor.Tensor{}}
		state, grads := ofOptimizer(file, name)
		for key, t := range grads {
			if of.Grads[key], err = read(t); err != nil {
				return err
			}
		}
		if err := st.Device.Step(func(s *tensor.Scope) error {
			for key, t := range state {
				dt, ok := here(t.DType)
				if !ok {
					return fmt.Errorf("%s is %v, which no tensor has", t.Name, t.DType)
				}
				of.Tensors[key] = s.Full(0, dt).Expand(t.Shape...)
			}
			return all[name].Restore(s, of)
		}); err != nil {
			return fmt.Errorf("checkpoint: %s: the optimizer %q: %w", dir, name, err)
		}
		var pairs []pair
		for key, to := range all[name].State().Tensors {
			pairs = append(pairs, pair{from: state[key], to: to, name: name + " " + key})
		}
		if err := load(path, pairs); err != nil {
			return err
		}
	}
	return nil
}
