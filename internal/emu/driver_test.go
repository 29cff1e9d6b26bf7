//go:build emu && cgo && linux

package emu

import "testing"

func TestFill(t *testing.T) {
	for _, d := range []*Driver{plain, checkedDriver} {
		d := fresh(t, d)
		p := upload(t, d, make([]uint32, 1000))
		must(t, d.Launch(function(t, d, "fill_b4"), [3]uint32{4, 1, 1}, [3]uint32{256, 1, 1}, 0, 0, p, uint32(7), uint64(999)))
		for i, x := range download[uint32](t, d, p, 1000) {
			if want := uint32(7); i < 999 && x != want || i == 999 && x != 0 {
				t.Fatalf("element %d is %d", i, x)
			}
		}
	}
}
