//go:build cuda && cgo && linux

package cuda

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
)

// captured is a graph of launches.
func captured(b *Backend, all ...*kernels.Launch) (*graph, error) {
	return b.capture(func(s *stream, submit func(*call) error) error {
		for _, l := range all {
			plan, err := b.plan(l.Op, l.DType())
			if err != nil {
				return err
			}
			if err := s.run(plan, l, submit); err != nil {
				return err
			}
		}
		return nil
	})
}

// What is captured runs when the graph is launched, each time anew, with scratch memory that nothing else uses. Indices
// outside their axis are told of the operation that was captured, whatever ran since.
func TestGraph(t *testing.T) {
	b := kernelDevice(t)
	const table, chosen, columns = 4, 3, 5
	r := newFuzz(9)
	x := r.contiguous(kernels.Float32, table, columns)
	row := func(i int) []byte { return x.data[4*columns*i : 4*columns*(i+1)] }
	ids := value{kernels.Uint8, []byte{2, 0, 2}, kernels.Layout{Shape: []int{chosen}, Strides: []int{1}}}
	from, which, to := put(t, b, x), put(t, b, ids), put(t, b, r.result(kernels.Float32, chosen, columns))
	take := &kernels.Launch{Op: rowOf("embedding", cpu.IndexSelect), Ints: []int{0}, In: []kernels.Arg{from, which},
		Out: []kernels.Arg{to}}
	add := &kernels.Launch{Op: rowOf("index_add", cpu.IndexAdd), Ints: []int{0}, In: []kernels.Arg{from, which, to},
		Out: []kernels.Arg{put(t, b, r.result(kernels.Float32, table, columns))}} // sorts its indices in scratch memory
	got := func(a *kernels.Arg) []byte {
		y := make([]byte, 4*a.Len())
		b.CopyOut(0, y, a.Buf, 4*a.Offset)
		if err := b.Synchronize(0); err != nil {
			t.Fatal(err)
		}
		return y
	}
	before := got(&to)
	g, err := captured(b, take, add)
	if err != nil {
		t.Fatal(err)
	}
	defer g.free()
	if !bytes.Equal(got(&to), before) {
		t.Fatal("what is captured has run")
	}
	for _, rows := range [][]byte{{2, 0, 2}, {1, 3, 3}} {
		b.CopyIn(0, which.Buf, 0, rows)
		if err := b.Run(add); err != nil {
			t.Fatal(err)
		}
		for range 3 { // with other work between
			if err := errors.Join(g.launch(0), b.Run(add)); err != nil {
				t.Fatal(err)
			}
		}
		if want := bytes.Join([][]byte{row(int(rows[0])), row(int(rows[1])), row(int(rows[2]))}, nil); !bytes.Equal(
			got(&to), want) {
			t.Errorf("rows %v differ", rows)
		}
		plain := got(&add.Out[0])
		b.Fill(add.Out[0].Buf, 0xff)
		if err := g.launch(0); err != nil || !bytes.Equal(got(&add.Out[0]), plain) {
			t.Errorf("sums of rows %v differ: %v", rows, err)
		}
	}

	const want = "embedding: the index at [1] is 9, outside [0, 4), axis 0 of [4 5], in an earlier operation"
	for _, others := range []int{0, reportCount - 1, reportCount + 5} {
		for range others {
			if err := b.Run(take); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range []kernels.Stream{0, 1, 0} {
			b.CopyIn(id, which.Buf, 0, []byte{1, 9, 9})
			if err := errors.Join(g.launch(id), b.Synchronize(id)); !errors.Is(err, kernels.ErrIndex) ||
				!strings.HasSuffix(err.Error(), want) {
				t.Fatalf("after %d others, stream %d: error %v, want %s", others, id, err, want)
			}
			b.CopyIn(id, which.Buf, 0, []byte{3, 1, 0})
			if err := errors.Join(b.Synchronize(id), g.launch(id), g.launch(id), b.Synchronize(id)); err != nil {
				t.Fatalf("after %d others, stream %d: %v", others, id, err)
			}
		}
	}
	_, err = captured(b, slices.Repeat([]*kernels.Launch{take}, reportCount+1)...)
	if err == nil || !strings.Contains(err.Error(), "takes 1024 operations") {
		t.Errorf("more operations with indices than have a place: %v", err)
	}
}

// A capture that fails leaves nothing behind; what the driver refuses meanwhile is an error of the capture.
func TestGraphFails(t *testing.T) {
	needBare(t)
	if !inChild(t, "WEFT_EMU=leaks=1") {
		return
	}
	fakeImages(t)
	b := device(t)
	m := alloc(t, b, 12)
	noop := &kernels.Launch{Op: noopOp, Out: []kernels.Arg{vector(m, 0, 1)}}
	refused := errors.New("no")
	if _, err := b.capture(func(*stream, func(*call) error) error { return refused }); err != refused {
		t.Errorf("error %v", err)
	}
	second := false
	during := func(f func() error) error {
		second = false
		_, err := b.capture(func(*stream, func(*call) error) error {
			if second {
				return f()
			}
			second = true
			return nil
		})
		return err
	}
	if err := during(func() error { return refused }); err != refused {
		t.Errorf("error %v", err)
	}
	if err := during(func() error { panic(kernels.Errorf(kernels.ErrDevice, "test", "no")) }); err == nil {
		t.Error("a panic is no error")
	}
	for _, ignored := range []bool{false, true} {
		err := during(func() error {
			_, err := b.Alloc(4)
			if ignored {
				return nil
			}
			return err
		})
		if err == nil || !strings.Contains(err.Error(), map[bool]string{false: "(900)", true: "(901)"}[ignored]) {
			t.Errorf("memory is taken during a capture: %v", err)
		}
	}
	for _, b.sync = range []bool{true, false} {
		g, err := captured(b, slices.Repeat([]*kernels.Launch{noop}, 2*markEvery)...)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(g.launch(0), b.Synchronize(0)); err != nil {
			t.Error(err)
		}
		g.free()
	}
}

// The report of a fault names launches of graphs.
func TestGraphFault(t *testing.T) {
	needBare(t)
	if !inChild(t) {
		return
	}
	fakeImages(t)
	b := device(t)
	to := []kernels.Arg{vector(alloc(t, b, 4), 0, 1)}
	g, err := captured(b, &kernels.Launch{Op: noopOp, Out: to}, &kernels.Launch{Op: faultOp, Out: to})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.launch(0); err != nil {
		t.Fatal(err)
	}
	suspects := regexp.MustCompile(
		`2 launches: noop \(noop_f32\) at graph_test.go:\d+, fault \(fault_f32\) at graph_test.go:\d+;`)
	if err = b.Synchronize(0); !errors.Is(err, ErrFault) || !suspects.MatchString(err.Error()) {
		t.Errorf("error %v", err)
	}
}
