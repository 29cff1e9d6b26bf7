package images

import (
	"strings"
	"testing"
)

// FuzzParse: a manifest is read or refused; one that is read says the same when it is written and read again, and the
// code of its images, which is not what the manifest promises, is refused.
func FuzzParse(f *testing.F) {
	f.Add("compiler nvrtc 12.4\nfamily a 12ab\nimage f,g sm_80 3 40 99\nimage h sm_80 2 32 98 77\n", []byte("abcde"))
	f.Add("family a 1\nfamily a 2\nimage x y 0 0 z\n", []byte{})
	f.Add("image x y -1 0 z", []byte("p"))
	f.Add("family a 1\nimage x y 9223372036854775807 0 z", []byte("p"))
	f.Add(strings.Join(strings.SplitAfterN(manifest, "\n", 8)[:7], ""), packs["attention"])
	f.Fuzz(func(t *testing.T, text string, pack []byte) {
		if len(pack) > 1<<12 {
			t.Skip("long")
		}
		m, err := Parse(text, map[string][]byte{"a": pack, "attention": pack})
		if err != nil {
			if m != nil {
				t.Error("a manifest beside an error")
			}
			return
		}
		for _, g := range m.Images {
			if code, err := g.Code(); err == nil && len(code) > 1<<20 {
				t.Errorf("%d bytes of code", len(code))
			}
		}
		lines := m.Lines()
		if again, err := Parse(lines, map[string][]byte{"a": pack, "attention": pack}); err != nil ||
			again.Lines() != lines {
			t.Errorf("%q became %q: %v", text, lines, err)
		}
	})
}
