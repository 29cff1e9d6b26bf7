package kernels_test

import (
	"strings"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// The text of an error can be read, whatever it is about.
func TestErrorIsShort(t *testing.T) {
	long := strings.Repeat("é", 5000)
	e := kernels.Errorf(kernels.ErrShape, "op"+long, "begin %s end; way out", long)
	e.Site, e.In = "main.go:1", strings.Repeat("blocks/", 10_000)+"last"
	s := e.Error()
	if len(s) > 1400 || strings.ToValidUTF8(s, "?") != s {
		t.Errorf("%d bytes: %q", len(s), s)
	}
	for _, part := range []string{"main.go:1: op", "begin é", " ... ", "end; way out, in blocks/", "/last"} {
		if !strings.Contains(s, part) {
			t.Errorf("%q is not in %q", part, s)
		}
	}
	e.Op, e.Msg, e.In = "op", strings.Repeat("m", 1000), strings.Repeat("p", 200)
	if want := "main.go:1: op: " + e.Msg + ", in " + e.In; e.Error() != want {
		t.Errorf("%q, want it whole", e.Error())
	}
}
