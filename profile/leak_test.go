package profile_test

import (
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	weft "github.com/weft-ml/weft/profile"
	"github.com/weft-ml/weft/tensor"
)

// TestWarnLeaks: kept tensors that pile up are named with their line, at each doubling; those that the program drops,
// or keeps a few of, are not.
func TestWarnLeaks(t *testing.T) {
	dev, err := tensor.Open("null")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	var warned []string
	if err := weft.WarnLeaks(dev, func(text string) { warned = append(warned, text) }); err != nil {
		t.Fatal(err)
	}
	loss := func() (kept *tensor.Tensor) {
		if err := dev.Eval(func(s *tensor.Scope) error {
			s.Region("loss", func() []*tensor.Tensor { kept = s.Full(1, tensor.Float32, 2, 3).Keep(); return nil })
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return kept
	}
	var all [1300]*tensor.Tensor
	keep := func(slots int, collects bool) {
		for i := range all {
			if all[i%slots] = loss(); collects && i%100 == 99 {
				runtime.GC()
				time.Sleep(2 * time.Millisecond) // what is dropped goes back to the pool
			}
		}
	}
	percent := debug.SetGCPercent(-1)
	keep(10, false) // 1290 are dropped, and there
	debug.SetGCPercent(percent)
	if keep(10, true); len(warned) > 0 {
		t.Errorf("10 kept tensors: %v", warned)
	}
	keep(len(all), true)
	n := len(warned)
	if n < 2 || n > 3 { // from 256 to 600 on, as collections come
		t.Fatalf("1300 kept tensors: %q", warned)
	}
	for _, want := range []string{" kept tensors", " KiB", "float32[2 3] full at leak_test.go:", " in loss"} {
		if !strings.Contains(warned[0], want) {
			t.Errorf("no %q in %q", want, warned[0])
		}
	}
	if err := weft.WarnLeaks(dev, nil); err != nil {
		t.Fatal(err)
	}
	keep(len(all), true)
	if len(warned) != n {
		t.Errorf("after the watch: %q", warned)
	}
	runtime.KeepAlive(all)
	if err := weft.WarnLeaks(nil, nil); !errors.Is(err, tensor.ErrDevice) {
		t.Errorf("no device: %v", err)
	}
}
