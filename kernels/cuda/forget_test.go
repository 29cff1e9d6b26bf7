//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"runtime"
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/expr"
)

// runExpression queues "x + i" on n elements of x, from x to y.
func runExpression(t *testing.T, b *Backend, i int, x, y kernels.Buffer, n int) *kernels.Op {
	t.Helper()
	op := &kernels.Op{Name: "user", Expr: expr.Must("x + "+itoa(i), []string{"x"}, nil)}
	l := &kernels.Launch{Op: op, In: []kernels.Arg{vector(x, 0, n)}, Out: []kernels.Arg{vector(y, 0, n)}}
	if err := b.Run(l); err != nil {
		t.Fatal(err)
	}
	return op
}

// loadedExpressions counts the compiled images on a device.
func loadedExpressions(b *Backend) (n int) {
	b.images.mu.Lock()
	defer b.images.mu.Unlock()
	for m := range b.images.modules {
		if m.compiled {
			n++
		}
	}
	return n
}

// A program that makes expressions without end has a bounded number of them on the device, whether or not the device
// keeps up with the host, and whether or not it says how far it is; those in use stay. In the emulator
// launches in flight of a module that is unloaded are faults, and it refuses more modules than it is told.
func TestExpressionsWithoutEnd(t *testing.T) {
	for _, marks := range []string{"", "fail=cuStreamWriteValue32:1:801"} {
		t.Run(marks, func(t *testing.T) {
			needBare(t)
			t.Setenv("WEFT_CACHE", "off")
			defer debug.SetGCPercent(debug.SetGCPercent(-1)) // as with so large a heap that Go would not collect
			b := device(t)
			m := alloc(t, b, 64)
			kept := runExpression(t, b, -1, m, m, 4)
			const many, most = 1500, 4*expr.Kept + 1
			t.Setenv("WEFT_EMU", "leaks=1,modules="+itoa(most)+","+marks)
			for i := range many {
				runExpression(t, b, i, m, m, 4)
			}
			if n := loadedExpressions(b); n > most {
				t.Errorf("%d modules are loaded", n)
			}
			t.Setenv("WEFT_EMU", "leaks=1,fail=nvrtcCompileProgram:1:6") // it is not compiled again
			if again := runExpression(t, b, -1, m, m, 4); again.Expr != kept.Expr {
				t.Error("an expression that the program holds was made again")
			}
			if n := len(b.images.expressions.all()); n > most {
				t.Errorf("%d expressions are known", n)
			}
			t.Logf("%d expressions, %d modules loaded", many, loadedExpressions(b))
		})
	}
}

// forgotten is b's loader with the kernels of expressions that are not used unloaded.
func forgotten(b *Backend) int {
	runtime.GC()
	b.images.mu.Lock()
	defer b.images.mu.Unlock()
	return b.images.unload(b)
}

// dropped is a function that nothing but its caller holds: the last ones are kept else.
func dropped(text string) *expr.Func {
	f := expr.Must(text, []string{"x"}, nil)
	return &expr.Func{Src: f.Src, Args: f.Args, Roots: f.Roots}
}

// A module stays while launches of it are in flight, goes after them, and comes again when the expression does.
func TestUnload(t *testing.T) {
	t.Setenv("WEFT_CACHE", "off")
	b := device(t)
	const n = 5
	x, y := alloc(t, b, 4*n), alloc(t, b, 4*n)
	b.Fill(x, 0)
	use := func(id kernels.Stream) {
		l := &kernels.Launch{Op: &kernels.Op{Name: "user", Expr: dropped("x + 1234567")}, Stream: id,
			In: []kernels.Arg{vector(x, 0, n)}, Out: []kernels.Arg{vector(y, 0, n)}}
		if err := b.Run(l); errors.Is(err, ErrNoCompiler) {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []kernels.Stream{0, 1} {
		use(id)
		if got := forgotten(b); got != 1 && onBare { // the emulator may be done
			t.Errorf("stream %d: %d modules are loaded while a launch is in flight", id, got)
		}
		if err := b.Synchronize(id); err != nil {
			t.Fatal(err)
		}
		if got := forgotten(b); got != 0 {
			t.Errorf("stream %d: %d modules are loaded when nobody uses them", id, got)
		}
	}
	use(0) // found unused, and used again before it is unloaded
	forgotten(b)
	use(0)
	if got := forgotten(b); got != 1 && onBare {
		t.Errorf("%d modules are loaded", got)
	}
	if onBare {
		return
	}
	got := make([]float32, n)
	if err := b.Read(0, unsafe.Slice((*byte)(unsafe.Pointer(&got[0])), 4*n), y, 0); err != nil {
		t.Fatal(err)
	}
	for _, v := range got {
		if v != 1234567 {
			t.Errorf("0 + 1234567 is %v", v)
		}
	}
}
