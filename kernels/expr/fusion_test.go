package expr

import (
	"slices"
	"strings"
	"testing"
)

func TestGuard(t *testing.T) {
	args, params := []string{"p", "g", "m"}, []string{"lr", "b"}
	f := Must("n = b*m + g; p - lr*n; n", args, params)
	want := Must("n = b*m + g; where(skip, p, p - lr*n); where(skip, m, n)", append(args, "skip"), params)
	guarded := f.Guard("skip", []string{"p", "m"})
	if guarded.Key() != want.Key() || guarded.Roots[1] != want.Roots[1] {
		t.Errorf("guarded: %s, want %s", guarded, want)
	}
	if again := f.Guard("skip", []string{"p", "m"}); again != guarded {
		t.Error("the same guarded function is two")
	}
	if again := Must(guarded.Src, guarded.Args, guarded.Params); again.Key() != want.Key() {
		t.Errorf("its source %q reads as %s", guarded.Src, again)
	}
	for _, skip := range []float64{0, 1} {
		got := guarded.Eval([]float64{2, 3, 5, skip}, []float64{0.5, 10}, nil)
		n := 10*5 + 3.
		want := []float64{2 - 0.5*n, n}
		if skip != 0 {
			want = []float64{2, 5}
		}
		if !slices.Equal(got, want) {
			t.Errorf("skip %v: %v, want %v", skip, got, want)
		}
	}
	for _, old := range [][]string{{"p"}, {"p", "q"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("guarded with %v", old)
				}
			}()
			f.Guard("skip", old)
		}()
	}
}

func TestFuse(t *testing.T) {
	xy := []string{"x", "y"}
	f := Must("x*tanh(y)", xy, nil)
	f.Fuse("fuse_test")
	Must("x - tanh(y)", xy, nil).Fuse("fuse_test_y", "y")
	for _, c := range []struct {
		src     string
		args    []string
		uniform uint64
		want    string
	}{
		{"x*tanh(y)", xy, 0, "fuse_test"},
		{"t = tanh(b); a*t", []string{"a", "b", "unused"}, 0, "fuse_test"},
		{"x*tanh(y)", xy, 2, ""},
		{"tanh(y)*x", xy, 0, ""},
		{"y*tanh(x)", xy, 0, ""},
		{"x*tanh(y); x", xy, 0, ""},
		{"x - tanh(y)", xy, 2, "fuse_test_y"},
		{"x - tanh(y)", xy, 0, ""},
	} {
		name := ""
		if fusion := Must(c.src, c.args, nil).Fusion(c.uniform); fusion != nil {
			name = fusion.Name
		}
		if name != c.want {
			t.Errorf("%s %b is fused as %q, want %q", c.src, c.uniform, name, c.want)
		}
	}
	if Must("x*tanh(y)", xy, []string{"p"}).Fusion(0) != nil {
		t.Error("a function with another number of scalars is fused")
	}

	before := len(Fusions())
	Must("x*y", xy, nil).Fuse("one_instruction")
	Must("x", []string{"x"}, []string{"p"}).Fuse("no_instruction")
	f.Fuse("once_more")
	if len(Fusions()) != before {
		t.Errorf("fused what has a kernel: %v", Fusions()[before].Name)
	}
	defer func() {
		if s, _ := recover().(string); !strings.Contains(s, "fuse_test") {
			t.Errorf("a name taken twice: %q", s)
		}
	}()
	Must("x/tanh(y)", xy, nil).Fuse("fuse_test")
}
