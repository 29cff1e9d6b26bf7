package expr

import "testing"

func TestGuard(t *testing.T) {
	args, params := []string{"p", "g", "m"}, []string{"lr", "b"}
	f := Must("n = b*m + g; p - lr*n; n", args, params)
	want := Must("n = b*m + g; where(skip, p, p - lr*n); where(skip, m, n)", append(args, "skip"), params)
	guarded := f.Guard("skip", []string{"p", "m"})
	if guarded.Key() != want.Key() || guarded.Roots[1] != want.Roots[1] {
		t.Errorf("guarded: %s, want %s", guarded, want)
	}
	if again := Must(guarded.Src, guarded.Args, guarded.Params); again.Key() != want.Key() {
		t.Errorf("its source %q reads as %s", guarded.Src, again)
	}
	for _, skip := range []float64{0, 1} {
		got := guarded.Eval([]float64{2, 3, 5, skip}, []float64{0.5, 10}, nil)
		if n := 10*5 + 3.; skip == 0 && (got[0] != 2-0.5*n || got[1] != n) || skip == 1 && (got[0] != 2 || got[1] != 5) {
			t.Errorf("skip %v: %v", skip, got)
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
