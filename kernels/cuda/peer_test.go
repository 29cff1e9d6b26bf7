//go:build cuda && cgo && linux

package cuda

import (
	"bytes"
	"testing"

	"github.com/weft-ml/weft/kernels"
)

// Copies between two GPUs, which reach each other or do not, keep the order of the streams of both.
func TestCopyPeer(t *testing.T) {
	for _, how := range []string{"devices=2", "devices=2,apart=1"} {
		t.Run(how, func(t *testing.T) {
			needFake(t)
			smallRings(t, 1024)
			t.Setenv("FAKE_CUDA", "leaks=1,"+how)
			a := device(t)
			opened, err := kernels.Open("cuda:1")
			if err != nil {
				t.Fatal(err)
			}
			b := opened.(*Backend)
			const n = 5000
			x, y := alloc(t, a, n), alloc(t, b, n)
			first, second, got := noise(1, n), noise(2, n), make([]byte, n)
			a.CopyIn(0, x, 0, first)
			if !b.CopyPeer(0, y, 0, x, 0, n) {
				t.Fatal("memory of a GPU is refused")
			}
			a.CopyIn(0, x, 0, second) // after the copy has read it
			b.CopyOut(0, got, y, 0)
			if err := b.Synchronize(0); err != nil || !bytes.Equal(got, first) {
				t.Errorf("%v; as the source was: %v, as it became: %v", err, bytes.Equal(got, first), bytes.Equal(got, second))
			}
			for range 3 {
				a.CopyPeer(0, x, 7, y, 100, 1000) // back, both ways in turn
				b.CopyPeer(0, y, 100, x, 7, 1000)
			}
			a.CopyOut(0, got, x, 0)
			if err := a.Synchronize(0); err != nil || !bytes.Equal(got[7:1007], first[100:1100]) || !bytes.Equal(got[:7], second[:7]) || !bytes.Equal(got[1007:], second[1007:]) {
				t.Errorf("part of it: %v", err)
			}
			b.CopyPeer(0, y, 0, x, 0, n)
			a.Free(x) // waits for the other GPU
			if host, err := kernels.Open("cpu"); err != nil {
				t.Error(err)
			} else if m, _ := host.Alloc(4); b.CopyPeer(0, y, 0, m, 0, 4) {
				t.Error("memory of the host is taken for a GPU's")
			}
			b.CopyPeer(0, y, 0, alloc(t, a, n), 0, n) // in flight when both close
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
