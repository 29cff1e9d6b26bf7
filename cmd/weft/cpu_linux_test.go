package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestModelName(t *testing.T) {
	for text, want := range map[string]string{
		"processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\n" +
			"model name\t: Some CPU @ 2.00GHz\nstepping\t: 1\n\n" +
			"processor\t: 1\ncpu family\t: 26\nmodel name\t: other\n": "Some CPU @ 2.00GHz (Zen 3)",
		"processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd40\n": "Neoverse V1",
		"processor\t: 0\nCPU implementer\t: 0x7f\nCPU part\t: 0xd40\n":// no name that is known
		"implementer 0x7f, part 0xd40",
	} {
		if got := modelName(text); got != want && got != "amd64 "+want && got != "arm64 "+want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestGeneration(t *testing.T) {
	for _, c := range []struct {
		vendor                  string
		family, model, stepping int
		want                    string
	}{
		{"AuthenticAMD", 23, 0x01, 2, "Zen"},      // EPYC 7601
		{"AuthenticAMD", 23, 0x08, 2, "Zen+"},     // Ryzen 7 2700X
		{"AuthenticAMD", 23, 0x31, 0, "Zen 2"},    // EPYC 7742
		{"AuthenticAMD", 25, 0x01, 1, "Zen 3"},    // EPYC 7763
		{"AuthenticAMD", 25, 0x21, 0, "Zen 3"},    // Ryzen 9 5950X
		{"AuthenticAMD", 25, 0x11, 1, "Zen 4"},    // EPYC 9654
		{"AuthenticAMD", 25, 0x61, 2, "Zen 4"},    // Ryzen 9 7950X
		{"AuthenticAMD", 25, 0xa0, 2, "Zen 4"},    // EPYC 9754
		{"AuthenticAMD", 26, 0x02, 1, "Zen 5"},    // EPYC 9755
		{"GenuineIntel", 6, 0x3f, 2, "Haswell"},   // Xeon E5-2680 v3
		{"GenuineIntel", 6, 0x4f, 1, "Broadwell"}, // Xeon E5-2680 v4
		{"GenuineIntel", 6, 0x55, 4, "Skylake-X"}, // Xeon Platinum 8175M
		{"GenuineIntel", 6, 0x55, 7, "Cascade Lake"},
		{"GenuineIntel", 6, 0x55, 11, "Cooper Lake"},
		{"GenuineIntel", 6, 0x6a, 6, "Ice Lake"},
		{"GenuineIntel", 6, 0x8f, 8, "Sapphire Rapids"},
		{"GenuineIntel", 6, 0xcf, 2, "Emerald Rapids"},
		{"GenuineIntel", 6, 0xad, 1, "Granite Rapids"},
		{"GenuineIntel", 19, 0x01, 0, "family 19, model 1"},
		{"AuthenticAMD", 99, 0x02, 0, "family 99, model 2"},
		{"Another", 6, 0x8f, 0, "family 6, model 143"},
	} {
		if got := generation(c.vendor, c.family, c.model, c.stepping); got != c.want {
			t.Errorf("%s family %d model %#x stepping %d: %s, want %s",
				c.vendor, c.family, c.model, c.stepping, got, c.want)
		}
	}
}

// Texts of the Linux kernel about links, and of the driver about itself.
func TestPCIeLink(t *testing.T) {
	sys := t.TempDir()
	for _, c := range []struct{ speed, width, maxSpeed, maxWidth, want string }{
		{"32.0 GT/s PCIe", "16", "32.0 GT/s PCIe", "16", "PCIe 5.0 x16"},
		{"2.5 GT/s PCIe", "8", "16.0 GT/s PCIe", "16",
			"PCIe 1.0 x8 now, 4.0 x16 at most; an idle GPU lowers the speed, a slot with few lanes limits the width"},
		{"8 GT/s", "16", "8 GT/s", "16", "PCIe 3.0 x16"},
		{"8.0 GT/s PCIe", "4", "Unknown", "255", "PCIe 3.0 x4"},
		{"Unknown", "0", "Unknown", "255", "PCIe, link unknown"},
	} {
		writeFiles(t, filepath.Join(sys, "0000:65:00.0"),
			map[string]string{"current_link_speed": c.speed, "current_link_width": c.width,
				"max_link_speed": c.maxSpeed, "max_link_width": c.maxWidth})
		if got := pcieLink(sys, "0000:65:00.0"); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	if got := pcieLink(sys, "0000:66:00.0"); got != "PCIe, link unknown" {
		t.Error(got)
	}
	for text, want := range map[string]string{
		"NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n" +
			"GCC version:  gcc version 12.3.0": "550.54.15",
		"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.57.08  Release Build\n": "575.57.08",
		"NVRM version: unlike\nGCC version: gcc version 123.45":                               "",
	} {
		if got := driverRelease(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// writeFiles makes files with the given contents, each with a line end, in dir.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for file, content := range files {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTopology(t *testing.T) {
	sys := t.TempDir()
	if got := coreCount(sys, 4, 3); got != "4 hardware threads; Weft uses 3 (GOMAXPROCS)" {
		t.Error(got)
	}
	writeFiles(t, sys, map[string]string{
		"cpu0/topology/thread_siblings_list": "0,2", "cpu1/topology/thread_siblings_list": "1,3",
		"cpu2/topology/thread_siblings_list": "0,2", "cpu3/topology/thread_siblings_list": "1,3",
		"cpu0/cache/index0/level": "1", "cpu0/cache/index0/type": "Data", "cpu0/cache/index0/size": "48K",
		"cpu0/cache/index3/level": "3", "cpu0/cache/index3/type": "Unified", "cpu0/cache/index3/size": "32768K",
	})
	const want = "2, with 4 hardware threads, of which 4 are for this process; Weft uses 3 (GOMAXPROCS)"
	if got := coreCount(sys, 4, 3); got != want {
		t.Error(got)
	}
	if got := cacheSizes(sys); got != "L1d 48 KiB, L3 32768 KiB" {
		t.Error(got)
	}
}
