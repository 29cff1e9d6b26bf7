package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Each process gets a line: how it ended, the end of what it printed, and its figures.
func TestResults(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("no /bin/sh")
	}
	folder := t.TempDir()
	log, err := os.Create(filepath.Join(folder, "results.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c := &check{folder: folder, out: folder, log: log, step: "s", end: time.Now().Add(time.Minute)}
	c.do("good", time.Minute, "/bin/sh", "-c", `echo words; echo '{"GB/s": 3}'`)
	c.do("bad", time.Minute, "/bin/sh", "-c", "echo no; exit 3")
	c.do("hangs", 50*time.Millisecond, "/bin/sh", "-c", "exec sleep 60")
	c.small = true
	c.do("slow", 300*time.Millisecond, "/bin/sh", "-c", "sleep 0.5")
	c.small = false
	c.do("missing", time.Minute, filepath.Join(folder, "none"))
	c.do("not here", time.Minute, "no-such-program")
	c.do("no peer", time.Minute, "/bin/sh", "-c", "echo no PyTorch; exit 77")
	list := filepath.Join(folder, "some.test")
	if err := os.WriteFile(list, []byte("#!/bin/sh\ncase $1 in -test.list) echo TestA; echo TestB; echo TestC; echo BenchmarkC;; *) echo '--- SKIP: TestC/part (0.00s)'; test $2 = '^TestC$' || test $2 = '^TestA$';; esac\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	c.tests("some.test", ".", time.Minute)
	c.end = time.Now()
	c.do("late", time.Minute, "/bin/sh", "-c", "true")

	want := []struct {
		name                 string
		ok, timeout, skipped bool
		output               string
	}{
		{"good", true, false, false, "words"}, {"bad", false, false, false, "no"}, {"hangs", false, true, false, ""}, {"slow", true, false, false, ""}, {"missing", false, false, false, "no such file"},
		{"not here", true, false, true, "not found"}, {"no peer", true, false, true, "no PyTorch"},
		{"TestA", true, false, false, ""}, {"TestB", false, false, false, ""}, {"TestC", true, false, true, ""}, {"late", false, false, false, "time for this step"},
	}
	f, err := os.Open(log.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for i := 0; lines.Scan(); i++ {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if i >= len(want) {
			t.Fatalf("one line too many: %+v", r)
		}
		if w := want[i]; r.Name != w.name || r.OK != w.ok || r.Timeout != w.timeout || r.Skipped != w.skipped || !strings.Contains(r.Output, w.output) || r.Step != "s" {
			t.Errorf("line %d is %+v, want %+v", i, r, w)
		}
		if i == 0 && string(r.Values) != `{"GB/s":3}` {
			t.Errorf("the values are %s", r.Values)
		}
	}
	if c.failed != 5 {
		t.Errorf("%d failed, want 5", c.failed)
	}
}

// Two devices that end with different weights are a failure, even if all processes end well.
func TestHash(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("no /bin/sh")
	}
	folder := t.TempDir()
	for program, script := range map[string]string{"mlp": `echo '{"event":"done","hash":"1f"}'`, "chargpt": `echo "{\"hash\":\"$7\"}"`} {
		if err := os.WriteFile(filepath.Join(folder, program), []byte("#!/bin/sh\n"+script+"\n"), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(folder, "results.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c := &check{folder: folder, out: folder, log: log, end: time.Now().Add(time.Minute)}
	i := slices.IndexFunc(steps, func(s step) bool { return s.name == "hash" })
	steps[i].run(c)
	text, err := os.ReadFile(log.Name())
	if err != nil {
		t.Fatal(err)
	}
	if c.failed != 1 || !strings.Contains(string(text), `"chargpt hash","ok":false,"seconds":0,"output":"the CPU ends with \"cpu\", the GPU with \"cuda\""`) {
		t.Errorf("%d failed\n%s", c.failed, text)
	}
}

// What comes before the vendor's figures leaves them their time, however long it hangs.
func TestEnds(t *testing.T) {
	all := ends([]step{{name: "a"}, {name: "b", share: 0.25}, {name: "c"}, {name: "d", share: 0.5}}, 80*time.Second)
	if want := []time.Duration{20 * time.Second, 40 * time.Second, 40 * time.Second, 80 * time.Second}; !slices.Equal(all, want) {
		t.Errorf("steps end at %v, want %v", all, want)
	}
	before := time.Duration(0)
	for i, end := range ends(steps, 9*time.Minute) {
		if steps[i].name == "vendor" && end-before < 2*time.Minute {
			t.Errorf("the vendor's figures have %v", end-before)
		}
		before = end
	}
}

// The state of the GPU comes from nvidia-smi, and is null without one.
func TestQuery(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("no /bin/sh")
	}
	folder := t.TempDir()
	t.Setenv("PATH", folder)
	if g := query(); g != nil {
		t.Errorf("without nvidia-smi: %+v", g)
	}
	if err := os.WriteFile(filepath.Join(folder, "nvidia-smi"), []byte("#!/bin/sh\necho 'NVIDIA H200, 550.54.15, 1980, 2619, 700.00, [N/A], 41'\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	if g := query(); g == nil || *g != (gpu{"NVIDIA H200", "550.54.15", 1980, 2619, 700, 0, 41}) {
		t.Errorf("%+v", g)
	}
}

// Every family of figures can be measured, here on the CPU.
func TestFamilies(t *testing.T) {
	for _, f := range families {
		if err := measure(f.name, "cpu", true); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
	}
}
