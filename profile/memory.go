package profile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/google/pprof/profile"

	"github.com/weft-ml/weft/internal/pool"
	"github.com/weft-ml/weft/internal/seam"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/tensor"
)

// engine is what package tensor has for the other packages of the library.
var engine = tensor.Engine(seam.Key{})

// MemoryProfile is what a device's memory was used for since [Memory] was called. It is safe for many goroutines.
type MemoryProfile struct {
	counts *pool.Profile
	device string
	began  time.Time
}

// Memory starts to watch the memory of a device, for all its users, until [MemoryProfile.Stop]. What is held already
// is counted, without a Go stack. A later Memory of the same device replaces it. While it runs an allocation takes
// about a microsecond more; when none runs, none. The error is of kind [tensor.ErrDevice], if the device is closed.
func Memory(dev *tensor.Device) (*MemoryProfile, error) {
	counts, err := engine.StartMemoryProfile(dev)
	if err != nil {
		return nil, err
	}
	return &MemoryProfile{counts, dev.Name(), time.Now()}, nil
}

// given is m; it fails for nil.
func (m *MemoryProfile) given() *MemoryProfile {
	engine.Given("memory_profile", "the profile", m)
	return m
}

// Stop ends the watch. What was seen stays, to be written.
func (m *MemoryProfile) Stop() { m.given().counts.Stop() }

// The values of a sample.
var values = []*profile.ValueType{{Type: "alloc_objects", Unit: "count"}, {Type: "alloc_space", Unit: "bytes"},
	{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"},
	{Type: "peak_objects", Unit: "count"}, {Type: "peak_space", Unit: "bytes"}}

// Write writes the profile called weft_device, compressed, in the format of pprof. Its samples are what was ever handed
// out (alloc_space), what is held now (inuse_space) and, by default, what was held when all together held most
// (peak_space); for each of these also the number of blocks. The innermost frame of a stack is the layer, that is the
// path of the regions, such as "blocks.0/attn", or the category of what is outside of any. Bytes are those of the
// pool's blocks, as in [tensor.Device.MemoryAllocated].
func (m *MemoryProfile) Write(w io.Writer) error {
	if err := engine.Try(func() { m.given(); engine.Given("memory_profile", "the writer", w) }); err != nil {
		return err
	}
	b := builder{frames: map[frame]*profile.Location{}, functions: map[string]*profile.Function{}}
	b.p = &profile.Profile{SampleType: values, DefaultSampleType: "peak_space", TimeNanos: m.began.UnixNano(),
		DurationNanos: int64(time.Since(m.began)), Comments: []string{"memory of " + m.device},
		PeriodType: &profile.ValueType{Type: "space", Unit: "bytes"}, Period: 1,
		Mapping: []*profile.Mapping{{ID: 1, File: "weft_device", HasFunctions: true, HasFilenames: true,
			HasLineNumbers: true}}}
	for _, h := range m.counts.Holdings() {
		b.add(h)
	}
	return b.p.Write(w)
}

// builder makes a profile.
type builder struct {
	p         *profile.Profile
	frames    map[frame]*profile.Location
	functions map[string]*profile.Function
}

// frame is one line of a function.
type frame struct {
	function, file string
	line           int
}

// add adds a sample for h.
func (b *builder) add(h pool.Holding) {
	s := &profile.Sample{Label: map[string][]string{"category": {h.Use.String()}}}
	for _, a := range []pool.Amount{h.Total, h.Now, h.Peak} {
		s.Value = append(s.Value, int64(a.Blocks), int64(a.Bytes))
	}
	for key, value := range map[string]string{"layer": h.Layer, "operation": h.Op} {
		if value != "" {
			s.Label[key] = []string{value}
		}
	}
	s.Location = []*profile.Location{b.location(frame{function: cmp.Or(h.Layer, "("+h.Use.String()+")")})}
	if len(h.Stack) == 0 {
		s.Location = append(s.Location, b.location(frame{function: "(before the profile)"}))
	}
	frames := runtime.CallersFrames(h.Stack)
	for more := len(h.Stack) > 0; more; {
		var f runtime.Frame
		f, more = frames.Next()
		s.Location = append(s.Location, b.location(frame{f.Function, f.File, f.Line}))
	}
	b.p.Sample = append(b.p.Sample, s)
}

// location is the one of f.
func (b *builder) location(f frame) *profile.Location {
	l := b.frames[f]
	if l == nil {
		fn := b.functions[f.function]
		if fn == nil {
			fn = &profile.Function{ID: uint64(len(b.p.Function) + 1), Name: f.function, SystemName: f.function,
				Filename: f.file}
			b.p.Function, b.functions[f.function] = append(b.p.Function, fn), fn
		}
		l = &profile.Location{ID: uint64(len(b.p.Location) + 1), Mapping: b.p.Mapping[0],
			Line: []profile.Line{{Function: fn, Line: int64(f.line)}}}
		b.p.Location, b.frames[f] = append(b.p.Location, l), l
	}
	return l
}

// event is a counter in the trace event format that chrome://tracing and ui.perfetto.dev read.
type event struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	Time  float64        `json:"ts"` // microseconds
	ID    int            `json:"pid"`
	Bytes map[string]int `json:"args"`
}

// WriteTimeline writes the bytes of each category over time as JSON, in the trace event format: chrome://tracing and
// ui.perfetto.dev draw it. Time is counted from the call of [Memory]. A long timeline is thinned out, its peaks stay.
func (m *MemoryProfile) WriteTimeline(w io.Writer) error {
	if err := engine.Try(func() { m.given(); engine.Given("memory_profile", "the writer", w) }); err != nil {
		return err
	}
	all := struct {
		Events []event `json:"traceEvents"`
		Unit   string  `json:"displayTimeUnit"`
	}{[]event{}, "ms"}
	for _, at := range m.counts.Moments() {
		bytes := map[string]int{}
		for c, n := range at.Bytes {
			bytes[kernels.MemoryCategory(c).String()] = n
		}
		all.Events = append(all.Events,
			event{fmt.Sprint("memory of ", m.device), "C", float64(at.At.Nanoseconds()) / 1000, 1, bytes})
	}
	return json.NewEncoder(w).Encode(all)
}
