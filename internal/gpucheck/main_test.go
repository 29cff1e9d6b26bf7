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
	c.do("missing", time.Minute, filepath.Join(folder, "none"))
	list := filepath.Join(folder, "some.test")
	if err := os.WriteFile(list, []byte("#!/bin/sh\ncase $1 in -test.list) echo TestA; echo TestB; echo BenchmarkC;; *) test $2 = '^TestA$';; esac\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	c.tests("some.test", ".", time.Minute)
	c.end = time.Now()
	c.do("late", time.Minute, "/bin/sh", "-c", "true")

	want := []struct {
		name        string
		ok, timeout bool
		output      string
	}{
		{"good", true, false, "words"}, {"bad", false, false, "no"}, {"hangs", false, true, ""}, {"missing", false, false, "no such file"},
		{"TestA", true, false, ""}, {"TestB", false, false, ""}, {"late", false, false, "time for all steps"},
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
		if w := want[i]; r.Name != w.name || r.OK != w.ok || r.Timeout != w.timeout || !strings.Contains(r.Output, w.output) || r.Step != "s" {
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

// Every family of figures can be measured, here on the CPU.
func TestFamilies(t *testing.T) {
	for _, f := range families {
		if err := measure(f.name, "cpu", true); err != nil {
			t.Errorf("%s: %v", f.name, err)
		}
	}
}
