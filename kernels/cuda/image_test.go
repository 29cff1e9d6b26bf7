//go:build cuda && cgo && linux

package cuda

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weft-ml/weft/internal/weaktable"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda/driver"
	"github.com/weft-ml/weft/kernels/cuda/images"
	"github.com/weft-ml/weft/kernels/cuda/src"
	"github.com/weft-ml/weft/kernels/expr"
)

// plant is a library for the bare emulator of one image with the kernels of fakeImages, and what is changed in it.
func plant(t *testing.T, change func(m *image)) *Backend {
	t.Helper()
	fakeImages(t)
	m := *shipped().all[0]
	change(&m)
	fakeLibrary(t, &m)
	return device(t)
}

func TestImageErrors(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(m *image)
		fail   string // what the driver is made to return
		kind   error
		want   []string
	}{
		{"target", func(m *image) { m.target = "sm_80" }, "", kernels.ErrDevice,
			[]string{"kernel noop_f32: this GPU is compute 9.0; shipped: 8.0 to 8.9"}},
		{"image", func(m *image) { m.code = coded("broken") }, "", kernels.ErrDevice,
			[]string{"emulator: not an image", "(200)"}},
		{"damage", func(m *image) { m.code = (&images.Image{Symbols: m.symbols, Packed: []byte{0, 9}}).Code }, "",
			kernels.ErrDevice, []string{"image fake for sm_90", "unexpected EOF"}},
		{"symbol", func(m *image) { m.code = coded("emu add_f32") }, "", kernels.ErrDevice,
			[]string{"looking for kernel noop_f32"}},
		{"no compiler", func(m *image) { m.target = "compute_80" }, "221", ErrNoCompiler,
			[]string{"for compute_80", "libnvidia-ptxjitcompiler.so.1"}},
		{"compiler off", func(m *image) { m.target = "compute_80" }, "223", ErrNoCompiler,
			[]string{"unset CUDA_DISABLE_PTX_JIT"}},
		{"old driver", func(m *image) { m.target = "compute_80" }, "222", ErrNoCompiler, []string{"550 or newer"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			b := plant(t, c.change)
			if c.fail != "" {
				t.Setenv("WEFT_EMU", "leaks=1,fail=cuModuleLoadDataEx:1:"+c.fail)
			}
			err := run(b, noopOp, alloc(t, b, 4))
			if !errors.Is(err, c.kind) || !errors.Is(err, kernels.ErrDevice) {
				t.Errorf("error %v", err)
			}
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q", err, want)
				}
			}
		})
	}
}

func TestCoverage(t *testing.T) {
	for want, targets := range map[string]string{
		"8.0 and newer, 8.0 to 8.9, 9.0 to 9.9": "sm_80 sm_90 compute_80",
		"9.0":                                   "sm_90a sm_90a",
	} {
		var some []*image
		for target := range strings.FieldsSeq(targets) {
			some = append(some, &image{target: target})
		}
		if got := coverage(some); got != want {
			t.Errorf("%s: %s, want %s", targets, got, want)
		}
	}
}

// A driver that refuses machine code, for any reason, gets PTX, and that is logged once. What says that the device is
// lost, or has no memory, is an error.
func TestPTXFallback(t *testing.T) {
	for _, code := range []string{"209", "200", "218", "222", "1", "801"} {
		t.Run(code, func(t *testing.T) { refuseImage(t, code, nil) })
	}
	t.Run("2", func(t *testing.T) { refuseImage(t, "2", kernels.ErrScratch) })
	t.Run("500", func(t *testing.T) { refuseImage(t, "500", kernels.ErrDevice) })
	t.Run("700", func(t *testing.T) {
		fakeImages(t)
		if inChild(t) {
			refuseImage(t, "700", ErrFault)
		}
	})
}

// refuseImage makes the driver answer with a code to machine code, which ends with an error of a kind, or PTX.
func refuseImage(t *testing.T, code string, kind error) {
	fakeImages(t)
	var logged strings.Builder
	was := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	t.Cleanup(func() { slog.SetDefault(was) })
	cubin := *shipped().all[0]
	ptx := cubin
	ptx.target = "compute_80"
	fakeLibrary(t, &ptx, &cubin)
	b := device(t)
	m := alloc(t, b, 4)
	t.Setenv("WEFT_EMU", "leaks=1,fail=cuModuleLoadDataEx:1:"+code)
	if err := run(b, noopOp, m); !errors.Is(err, kind) {
		t.Fatalf("error %v, want %v", err, kind)
	}
	if kind != nil {
		return
	}
	t.Setenv("WEFT_EMU", "leaks=1,fail=cuModuleLoadDataEx:1:2") // it is not asked again
	if _, err := b.images.function(b, "add_f32"); err != nil {
		t.Errorf("another kernel: %v", err)
	}
	if text := logged.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "level=WARN") ||
		!strings.Contains(text, "noop_f32: the driver refuses sm_90, and gets compute_80") ||
		!strings.Contains(text, "("+code+")") {
		t.Errorf("logged %q", text)
	}
}

// The driver's figures are held against the budget.
func TestFigures(t *testing.T) {
	for figures, want := range map[string]string{
		"":             "",
		"registers=41": "noop_f32 (sm_90): 41 registers, budget 40",
		"local=16":     "noop_f32 (sm_90): 16 bytes of local memory for a thread, budget 0",
		"registers=64,local=8": "noop_f32 (sm_90): 64 registers, budget 40; " +
			"noop_f32 (sm_90): 8 bytes of local memory for a thread, budget 0",
	} {
		t.Run(figures, func(t *testing.T) {
			b := plant(t, func(m *image) { m.registers, m.symbols = 40, []string{"noop_f32"} })
			t.Setenv("WEFT_EMU", "leaks=1,"+figures)
			n, remarks, err := b.CheckKernels()
			if got := strings.Join(remarks, "; "); n != 1 || err != nil || got != want {
				t.Errorf("%d kernels, %v, remarks %q, want %q", n, err, got, want)
			}
		})
	}
}

// Images are loaded when a kernel of theirs is first used, and once.
func TestLazyLoading(t *testing.T) {
	fakeImages(t)
	loads := map[string]int{}
	counted := func(symbol string) *image {
		return &image{family: symbol, target: "sm_90", symbols: []string{symbol}, code: func() ([]byte, error) {
			loads[symbol]++
			return []byte("emu " + symbol), nil
		}}
	}
	fakeLibrary(t, counted("noop_f32"), counted("add_f32"))
	b := device(t)
	m := alloc(t, b, 4)
	for range 3 {
		if err := run(b, noopOp, m); err != nil {
			t.Fatal(err)
		}
	}
	if loads["noop_f32"] != 1 || loads["add_f32"] != 0 {
		t.Errorf("loads: %v", loads)
	}
}

// A pointwise operation takes the image of its source, and is compiled where there is none.
func TestPointwiseImages(t *testing.T) {
	needBare(t)
	t.Setenv("WEFT_CACHE", "off")
	launch := func(text string) *kernels.Launch {
		a := kernels.Arg{DType: kernels.Float32}
		return &kernels.Launch{Op: &kernels.Op{Name: "f", Expr: expr.Must(text, []string{"x"}, nil)},
			In: []kernels.Arg{a}, Out: []kernels.Arg{a}}
	}
	known := src.PointwiseOf(launch("x+1"))
	text, err := known.Text()
	if err != nil {
		t.Fatal(err)
	}
	fakeLibrary(t, &image{family: "pointwise", target: "sm_90", symbols: known.Symbols(), text: src.Sum(text),
		code: coded("emu " + strings.Join(known.Symbols(), " "))})
	b := device(t)
	t.Setenv("WEFT_EMU", "leaks=1,fail=nvrtcCompileProgram:1:6")
	if _, err := b.images.pointwise(b, launch("x+1")); err != nil {
		t.Errorf("an image of this build: %v", err)
	}
	if _, err := b.images.pointwise(b, launch("x+2")); err == nil ||
		!strings.Contains(err.Error(), "NVRTC_ERROR_COMPILATION") {
		t.Errorf("no image, and the compiler fails: %v", err)
	}
	if _, err := b.images.pointwise(b, launch("x+2")); err != nil {
		t.Errorf("compiled: %v", err)
	}
}

func TestNoCompiler(t *testing.T) {
	if !inChild(t, "WEFT_NVRTC=/nowhere/libnvrtc.so") {
		return
	}
	_, err := compile(gpuOf(9), "pointwise_f_f32", "text", nil)
	if !errors.Is(err, ErrNoCompiler) {
		t.Errorf("error %v", err)
	}
	for _, want := range []string{"pointwise_f_f32 is not among the kernels of this build", "/nowhere/libnvrtc.so",
		"WEFT_NVRTC names it"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// What is compiled once is taken from the disk by the next process, unless the file is damaged, or another compiler,
// target or source is at work.
func TestDiskCache(t *testing.T) {
	needBare(t)
	dir := t.TempDir()
	t.Setenv("WEFT_CACHE", dir)
	// compiles tells whether a process calls the compiler for a source; setting is what the emulator is told beside.
	calls := 0
	compiles := func(g *GPU, text, setting string) bool {
		t.Helper()
		calls++
		// the number makes the setting a new one
		t.Setenv("WEFT_EMU", setting+",fail=nvrtcCompileProgram:1:6:"+itoa(calls))
		compiled = weaktable.Table[string, image]{}
		_, err := compile(g, "f", text, nil)
		if err != nil && !strings.Contains(err.Error(), "NVRTC_ERROR_COMPILATION") {
			t.Fatal(err)
		}
		return err != nil
	}
	// fill compiles a source in another process and looks at the code.
	fill := func(g *GPU, text string) {
		t.Helper()
		t.Setenv("WEFT_EMU", "")
		compiled = weaktable.Table[string, image]{}
		m, err := compile(g, "f", text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if code, err := m.code(); err != nil || !strings.HasPrefix(string(code), "emu f_vector ") {
			t.Errorf("%q, %v", code, err)
		}
	}
	hopper, ampere := gpuOf(9), gpuOf(8)
	const source, other = "POINTWISE(f, 4)", "POINTWISE(f, 8)"
	fill(hopper, source)
	files, err := filepath.Glob(filepath.Join(dir, "kernels", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q, %v", files, err)
	}
	if compiles(hopper, source, "") {
		t.Error("the cache is not used")
	}
	if !compiles(ampere, source, "") || !compiles(hopper, other, "") || !compiles(hopper, source, "compiler=13000") {
		t.Error("the cache is used for another target, source or compiler")
	}
	t.Setenv("WEFT_CACHE", "off")
	if !compiles(hopper, source, "") {
		t.Error("a cache that is off is used")
	}
	t.Setenv("WEFT_CACHE", dir)
	good, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for what, damaged := range map[string]string{
		"cut": string(good[:len(good)-1]), "empty": "",
		"flipped": string(good[:len(good)-1]) + string(good[len(good)-1]^1),
	} {
		if err := os.WriteFile(files[0], []byte(damaged), 0o644); err != nil {
			t.Fatal(err)
		}
		if !compiles(hopper, source, "") {
			t.Errorf("%s: a damaged file is used", what)
		}
		fill(hopper, source)
		if now, err := os.ReadFile(files[0]); err != nil || string(now) != string(good) {
			t.Errorf("%s: the file is not made anew: %v", what, err)
		}
	}
}

// The cache stays within its limit: the files used last stay. Files that were never finished go in time.
func TestDiskCacheLimit(t *testing.T) {
	c := &diskCache{t.TempDir(), 3 * (32 + 100)}
	old := time.Now().Add(-2 * time.Hour)
	left := filepath.Join(c.dir, temporary+"1")
	if err := os.WriteFile(left, []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	for i, key := range []string{"a", "b", "c"} {
		c.put(key, make([]byte, 100))
		at := old.Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(filepath.Join(c.dir, key), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(left); err != nil {
		t.Error("a file that is being written was removed")
	}
	if err := os.Chtimes(left, old, old); err != nil {
		t.Fatal(err)
	}
	if c.get("a") == nil { // now the youngest
		t.Error("a is not there")
	}
	c.put("d", make([]byte, 100))
	for key, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
		if got := c.get(key) != nil; got != want {
			t.Errorf("%s is there: %v, want %v", key, got, want)
		}
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("a file that was left is still there")
	}
	if c = nil; c.get("a") != nil {
		t.Error("no cache has a")
	}
}

// gpuOf is a GPU of compute capability major.0.
func gpuOf(major int) *GPU { return &GPU{driver.GPU{Major: major}} }
