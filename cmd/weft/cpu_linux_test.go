package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestModelName(t *testing.T) {
	for text, want := range map[string]string{
		"processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\nmodel name\t: other\n":           "Some CPU @ 2.00GHz",
		"processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd40\n": "implementer 0x41, part 0xd40",
	} {
		if got := modelName(text); got != want && got != "amd64 "+want && got != "arm64 "+want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTopology(t *testing.T) {
	sys := t.TempDir()
	if got := coreCount(sys, 4, 3); got != "4 hardware threads; Weft uses 3 (GOMAXPROCS)" {
		t.Error(got)
	}
	for file, content := range map[string]string{
		"cpu0/topology/thread_siblings_list": "0,2\n", "cpu1/topology/thread_siblings_list": "1,3\n",
		"cpu2/topology/thread_siblings_list": "0,2\n", "cpu3/topology/thread_siblings_list": "1,3\n",
		"cpu0/cache/index0/level": "1\n", "cpu0/cache/index0/type": "Data\n", "cpu0/cache/index0/size": "48K\n",
		"cpu0/cache/index3/level": "3\n", "cpu0/cache/index3/type": "Unified\n", "cpu0/cache/index3/size": "32768K\n",
	} {
		path := filepath.Join(sys, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := coreCount(sys, 4, 3); got != "2, with 4 hardware threads, of which 4 are for this process; Weft uses 3 (GOMAXPROCS)" {
		t.Error(got)
	}
	if got := cacheSizes(sys); got != "L1d 48 KiB, L3 32768 KiB" {
		t.Error(got)
	}
}
