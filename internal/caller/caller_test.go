package caller

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// here is the line that called it, as the runtime finds it.
func here(skip int) string {
	_, file, line, _ := runtime.Caller(skip + 1)
	return file[strings.LastIndexByte(file, '/')+1:] + ":" + strconv.Itoa(line)
}

func TestSite(t *testing.T) {
	for range 3 { // the first time and from the table
		if got, want := Site(), here(0); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// through calls f from the given depth, so that paths differ in their middle.
//
//go:noinline
func through(depth int, f func() string) string {
	if depth == 0 {
		return f()
	}
	return through(depth-1, f)
}

func TestPaths(t *testing.T) {
	for range 2 {
		for depth := range 100 {
			got := through(depth, func() string { return Site() + " " + here(0) })
			if site, want, _ := strings.Cut(got, " "); site != want {
				t.Errorf("depth %d: %s, want %s", depth, site, want)
			}
		}
	}
}

// Stacks move when they grow; frame pointers must be right afterwards.
func TestManyStacks(t *testing.T) {
	done := make(chan bool)
	for g := range 50 {
		go func() {
			defer func() { done <- true }()
			for depth := range 200 {
				if through(depth*g/10, Site) == "" {
					t.Error("no caller")
				}
			}
		}()
	}
	for range 50 {
		<-done
	}
}

func TestAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Site() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestInLibrary(t *testing.T) {
	for _, c := range []struct {
		function, file string
		in             bool
	}{
		{"github.com/weft-ml/weft/tensor.(*Tensor).Add", root + "tensor/op.go", true},
		{"github.com/weft-ml/weft/tensor.TestAdd", root + "tensor/op_test.go", false},
		{"main.main", root + "examples/mlp/main.go", false},
		{"main.main", root + "cmd/weft/main.go", false},
		{"runtime.goexit", "asm.s", true},
		{"slices.Backward[go.shape.[]int,go.shape.int].func1", goroot + "slices/iter.go", true},
		{"github.com/weft-ml/weft/tensor.limitFromText.SplitSeq.splitSeq.func1", goroot + "strings/iter.go", true},
		{"testing.tRunner", goroot + "testing/testing.go", false},
		{"example.com/slices.Sum", "/home/user/slices/sum.go", false},
		{"main.main", "/home/user/main.go", false},
		{"main.main.Anomaly.func1", root + "tensor/anomaly.go", true},
	} {
		if inLibrary(c.function, c.file) != c.in {
			t.Errorf("%s in %s: %v", c.function, c.file, !c.in)
		}
	}
}

func BenchmarkSite(b *testing.B) {
	through(20, func() string {
		for b.Loop() {
			Site()
		}
		return ""
	})
}

func TestGoroutine(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("goroutines cannot be told apart")
	}
	mine, other := Goroutine(), make(chan uintptr)
	go func() { other <- Goroutine() }()
	if o := <-other; mine == 0 || mine != Goroutine() || o == mine {
		t.Errorf("%x and %x, another one %x", mine, Goroutine(), o)
	}
}
