package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
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
	c := &check{folder: folder, out: folder, log: log, stage: "s", end: time.Now().Add(time.Minute)}
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
	if err := os.WriteFile(list,
		[]byte("#!/bin/sh\ncase $1 in -test.list) echo TestA; echo TestB; echo TestC; echo BenchmarkC;; "+
			"*) echo '=== RUN   TestA'; echo '--- PASS: TestA (1.50s)'; echo '=== RUN   TestB'; echo no;"+
			"echo '--- FAIL: TestB (0.00s)'; echo '=== RUN   TestC'; echo '=== RUN   TestC/part';"+
			"echo '--- PASS: TestC (0.00s)'; echo '    --- SKIP: TestC/part (0.00s)'; exit 1;; esac\n"),
		0o777); err != nil {
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
		{"good", true, false, false, "words"}, {"bad", false, false, false, "no"}, {"hangs", false, true, false, ""},
		{"slow", true, false, false, ""}, {"missing", false, false, false, "no such file"},
		{"not here", true, false, true, "not found"}, {"no peer", true, false, true, "no PyTorch"},
		{"some.test", true, false, false, ""},
		{"TestA", true, false, false, ""}, {"TestB", false, false, false, "no"}, {"TestC", true, false, true, ""},
		{"late", false, false, false, "time for this stage"},
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
		if w := want[i]; r.Name != w.name || r.OK != w.ok || r.Timeout != w.timeout || r.Skipped != w.skipped ||
			!strings.Contains(r.Output, w.output) || r.Stage != "s" {
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

// The tests of a binary share a process. After a fault, a hang or a crash those that have not passed run alone.
func TestShared(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("no /bin/sh")
	}
	// Alone, TestB passes and TestC fails; in the shared process TestB meets the fault.
	const script = `#!/bin/sh
say() { echo "=== RUN   $1"; echo "$3"; echo "--- $2: $1 (0.00s)"; }
case "$1 $2" in
"-test.list .") echo TestA; echo TestB; echo TestC;;
"-test.run .") echo . >>"$0.runs"; say TestA PASS; %s;;
"-test.run ^TestB$") echo B >>"$0.runs"; say TestB PASS;;
"-test.run ^TestC$") echo C >>"$0.runs"; say TestC FAIL; exit 1;;
*) exit 9;; esac
`
	for name, c := range map[string]struct{ rest, runs, ok string }{
		"well":  {"say TestB PASS; say TestC PASS", ".", "some.test TestA TestB TestC"},
		"fails": {"say TestB FAIL; say TestC PASS; exit 1", ".", "some.test TestA TestC"},
		"fault": {"say TestB FAIL '" + lost + "'; say TestC FAIL refused; exit 1", ". B C", "TestA TestB"},
		"crash": {"echo '=== RUN   TestB'; kill -9 $$", ". B C", "TestA TestB"},
		"hang":  {"echo '=== RUN   TestB'; exec sleep 60", ". B C", "TestA TestB"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			file := filepath.Join(folder, "some.test")
			must(t, os.WriteFile(file, fmt.Appendf(nil, script, c.rest), 0o777))
			log, err := os.Create(filepath.Join(folder, "results.jsonl"))
			must(t, err)
			defer log.Close()
			k := &check{folder: folder, out: t.TempDir(), log: log, end: time.Now().Add(time.Minute)}
			k.tests("some.test", ".", time.Second)
			runs, err := os.ReadFile(file + ".runs")
			must(t, err)
			if got := strings.Join(strings.Fields(string(runs)), " "); got != c.runs {
				t.Errorf("processes: %s, want %s", got, c.runs)
			}
			text, err := os.ReadFile(log.Name())
			must(t, err)
			var ok []string
			for line := range strings.Lines(string(text)) {
				var r result
				must(t, json.Unmarshal([]byte(line), &r))
				if r.OK {
					ok = append(ok, r.Name)
				}
			}
			if got := strings.Join(ok, " "); got != c.ok {
				t.Errorf("ok are %s, want %s\n%s", got, c.ok, text)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A call leaves a file of results and an archive, and takes nothing away from those before it.
func TestArchive(t *testing.T) {
	out, printed := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(printed, "s-one.txt"), []byte("said"), 0o666))
	for _, want := range []string{"call1", "call2"} {
		log, err := create(out, "call", true)
		must(t, err)
		must(t, log.Close())
		if log.Name() != filepath.Join(out, want+".jsonl") {
			t.Errorf("%s, want %s", log.Name(), want)
		}
		must(t, pack(filepath.Join(out, want+".tar.gz"), printed))
		must(t, pack(filepath.Join(out, want+".tar.gz"), printed)) // after the next stage
	}
	if _, err := create(out, "call2", false); err == nil {
		t.Error("the results of another call are overwritten")
	}
	files, err := filepath.Glob(filepath.Join(out, "*"))
	if err != nil || len(files) != 4 {
		t.Errorf("%v, %v", files, err)
	}
	back := t.TempDir()
	unpack := exec.Command("tar", "-C", back, "-xzf", filepath.Join(out, "call2.tar.gz"))
	if text, err := unpack.CombinedOutput(); err != nil {
		t.Skipf("no tar: %v %s", err, text)
	}
	if text, err := os.ReadFile(filepath.Join(back, "s-one.txt")); err != nil || string(text) != "said" {
		t.Errorf("%q, %v", text, err)
	}
}

// Two devices that end with different weights are a failure, even if all processes end well.
func TestHash(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("no /bin/sh")
	}
	folder := t.TempDir()
	for program, script := range map[string]string{"mlp": `echo '{"event":"done","hash":"1f"}'`,
		"chargpt": `echo "{\"hash\":\"$7\"}"`} {
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
	i := slices.IndexFunc(stages, func(s stage) bool { return s.name == "hash" })
	stages[i].run(c)
	text, err := os.ReadFile(log.Name())
	if err != nil {
		t.Fatal(err)
	}
	if c.failed != 1 || !strings.Contains(string(text),
		`"chargpt hash","ok":false,"seconds":0,"output":"the CPU ends with \"cpu\", the GPU with \"cuda\""`) ||
		!strings.Contains(string(text), `"chargpt lockstep"`) || strings.Contains(string(text), `"mlp lockstep"`) {
		t.Errorf("%d failed\n%s", c.failed, text)
	}
}

// A stage has its share of the time even if earlier ones hang, and the time that they leave.
func TestEnds(t *testing.T) {
	all := ends([]stage{{name: "a"}, {name: "b", share: 0.25}, {name: "c"}, {name: "d", share: 0.5}}, 80*time.Second)
	want := []time.Duration{20 * time.Second, 40 * time.Second, 40 * time.Second, 80 * time.Second}
	if !slices.Equal(all, want) {
		t.Errorf("stages end at %v, want %v", all, want)
	}
	if all := ends([]stage{{share: 1}, {share: 3}}, 80*time.Second); all[0] != 20*time.Second {
		t.Errorf("the first of two stages ends at %v, want a quarter of the time", all[0])
	}
	for _, c := range calls {
		before, sum := time.Duration(0), 0.0
		of := slices.DeleteFunc(slices.Clone(stages), func(s stage) bool { return !slices.Contains(c.stages, s.name) })
		for i, end := range ends(of, callLimit) {
			if own := end - before; own < 45*time.Second {
				t.Errorf("%s of %s has %v", of[i].name, c.name, own)
			}
			before, sum = end, sum+of[i].share
		}
		if len(of) != len(c.stages) || math.Abs(sum-1) > 1e-9 {
			t.Errorf("%s has %d of the stages %v, with %v of its time", c.name, len(of), c.stages, sum)
		}
	}
}

// Arguments are calls or stages, and none are all calls.
func TestChoose(t *testing.T) {
	for _, c := range []struct{ name, args, want string }{
		{"", "", "bits speed why faults"}, {"", "why bits", "bits why"}, {"", "speed", "speed"},
		{"x", "speed", "x[speed]"}, {"", "hash machine", "call[hash machine]"}, {"", "bits hash", `no stage "bits"`},
		{"x", "", "-name is for stages"}, {"", "none", `no stage "none"`},
	} {
		chosen, err := choose(c.name, strings.Fields(c.args))
		var got []string
		for _, k := range chosen {
			if i := slices.IndexFunc(calls, func(of call) bool { return of.name == k.name && c.name == "" }); i < 0 {
				k.name += fmt.Sprint(k.stages)
			}
			got = append(got, k.name)
		}
		if err != nil && strings.Contains(err.Error(), c.want) {
			continue
		}
		if found := strings.Join(got, " "); err != nil || found != c.want {
			t.Errorf("%q with -name %q: %s, %v, want %s", c.args, c.name, found, err, c.want)
		}
	}
}

// The calls, with programs that do nothing and stand-ins of the vendor's: each leaves a file of results and an archive
// with what each process printed.
func TestCalls(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("no /bin/sh")
	}
	folder, out := t.TempDir(), t.TempDir()
	must(t, os.CopyFS(filepath.Join(folder, "standins"), os.DirFS("testdata")))
	must(t, os.CopyFS(folder, os.DirFS("../../../scripts"))) // with gpu-peer.py
	const test = `case $1 in -test.list) echo TestA;; *) echo "=== RUN   TestA"; echo "--- PASS: TestA (0.00s)";; esac`
	programs := map[string]string{"emu.test": test, "cuda.test": test, "ops.test": test,
		"weft": `echo "{\"ran\":\"$*\"}"`, "mlp": `echo '{"hash":"1"}'`,
		"chargpt": `echo '{"hash":"2"}'`, "self": `echo "measures $*"`}
	for name, script := range programs {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+script+"\n"), 0o777))
	}
	defer func(self string) { os.Args[0] = self }(os.Args[0])
	os.Args[0] = filepath.Join(folder, "self")
	t.Setenv("PATH", os.Getenv("PATH"))
	t.Setenv("PYTHONPATH", "")
	standIns(filepath.Join(folder, "standins"))
	for _, k := range calls {
		if err := k.run(folder, out, false, time.Minute, true); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(out, "*"))
	must(t, err)
	if len(files) != 2*len(calls) {
		t.Errorf("files %v", files)
	}
	for name, want := range map[string]string{
		"why1.tar.gz counters-ncu-matmul.txt":      "stand-in of ncu\nmeasures -speed matmul -small=true\n",
		"why1.tar.gz probe-probe.txt":              `{"ran":"probe -small=true"}` + "\n",
		"faults1.tar.gz sanitizers-racecheck.txt":  "stand-in of compute-sanitizer\n",
		"bits1.tar.gz machine-nvidia-smi-all.txt":  "stand-in, 0.0, 0, 0, 0, 0, 0\n",
		"speed1.tar.gz speed-vendor-attention.txt": "attention causal D=64",
		"speed1.tar.gz summary.txt":                "rehearsal",
	} {
		archive, file, _ := strings.Cut(name, " ")
		text, err := exec.Command("tar", "-xzOf", filepath.Join(out, archive), file).CombinedOutput()
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, %q, want %q", name, err, text, want)
		}
	}
	results, err := os.ReadFile(filepath.Join(out, "bits1.jsonl"))
	must(t, err)
	if text := string(results); !strings.Contains(text, `"gpu":{"name":"stand-in"`) ||
		strings.Contains(text, `"skipped"`) {
		t.Errorf("%s", results)
	}
}

// Sanitizers look at tests that there are.
func TestSanitized(t *testing.T) {
	files, err := filepath.Glob("../../testing/emu/ops/*_test.go")
	must(t, err)
	var all []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		all = append(all, text...)
	}
	for _, name := range strings.Split(strings.Trim(sanitized, "^()$"), "|") {
		if !strings.Contains(string(all), "\nfunc "+name+"(t *testing.T)") {
			t.Errorf("there is no test %s", name)
		}
	}
}

// stubs print figures as gpucheck and gpu-peer.py do.
var stubs = map[string]string{"gpucheck": `case $2 in
pointwise) echo 'relu float32 {"us":10,"GB/s":4000,"of copy":0.92}'
	echo 'add float32 {"us":10,"GB/s":4000,"of copy":0.94}'; echo 'gelu float32 {"us":10,"of copy":0.1}'
	echo '{"family":"pointwise"}';;
rows) echo 'layer_norm backward 1024 float32 {"us":10,"GB/s":1}'; echo 'rms_norm backward 1024 float32 {"us":10}'
	echo 'layer_norm backward 2048 float32 {"us":10}'
	echo 'softmax 1024 bfloat16 {"us":10,"of copy":0.6}'; echo 'softmax 8192 bfloat16 {"us":10,"of copy":0.9}';;
attention) echo 'attention causal D=64 bfloat16 {"us":10,"TFLOP/s":171}'
	echo 'attention causal D=64 backward bfloat16 {"us":10,"TFLOP/s":169}'; echo 'a fault ends the process'; exit 1;;
*) exit 1;; esac`, "python3": `case $2 in
rows) echo 'layer_norm backward 1024 float32 {"us": 9.8}'; echo 'rms_norm backward 1024 float32 {"us": 9.6}';;
*) exit 1;; esac`}

// Weft's families and the vendor's are measured in turn, whatever fails, and a summary says for every target whether it
// is met.
func TestSpeed(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("no /bin/sh")
	}
	folder := t.TempDir()
	for program, script := range stubs {
		if err := os.WriteFile(filepath.Join(folder, program), []byte("#!/bin/sh\n"+script+"\n"), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", folder)
	self := os.Args[0]
	defer func() { os.Args[0] = self }()
	os.Args[0] = filepath.Join(folder, "gpucheck")
	log, err := os.Create(filepath.Join(folder, "results.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c := &check{folder: folder, out: folder, log: log, stage: "speed", end: time.Now().Add(time.Minute)}
	stages[slices.IndexFunc(stages, func(s stage) bool { return s.name == "speed" })].run(c)
	text, err := os.ReadFile(log.Name())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var last result
	for line := range strings.Lines(string(text)) {
		last = result{}
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatal(err)
		}
		names = append(names, last.Name)
	}
	want := "pointwise,vendor pointwise,rows,vendor rows,reductions,vendor reductions,matmul,vendor matmul,attention," +
		"vendor attention,optimizer,vendor optimizer,copies,vendor copies,launch,summary"
	if strings.Join(names, ",") != want {
		t.Errorf("processes %v, want %s", names, want)
	}
	var values map[string]figure
	if err := json.Unmarshal(last.Values, &values); err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(filepath.Join(folder, "summary.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"relu float32": "4000 GB/s 0.92 0.93 of copy NO", "add float32": "4000 GB/s 0.94 0.93 of copy yes",
		"gelu float32":                            "0 GB/s 0.10",
		"layer_norm backward 1024 float32":        "1 GB/s 0.98 0.97 of vendor yes",
		"rms_norm backward 1024 float32":          "0 GB/s 0.96 0.97 of vendor NO",
		"layer_norm backward 2048 float32":        "0 GB/s 0.97 of vendor unknown",
		"softmax 1024 bfloat16":                   "0 GB/s 0.60 0.97, FAR 0.88 of copy NO",
		"softmax 8192 bfloat16":                   "0 GB/s 0.90 0.94 0.88 of copy yes",
		"layer_norm 1024 bfloat16":                "not measured 0.97 0.9 of copy unknown",
		"adamw":                                   "not measured 0.9 of copy unknown",
		"attention causal D=64 bfloat16":          "171.0 TFLOP/s 170 TFLOP/s yes",
		"attention causal D=64 backward bfloat16": "169.0 TFLOP/s 170 TFLOP/s NO",
	} {
		if found := row(string(table), name); found != want {
			t.Errorf("%s: %q, want %q", name, found, want)
		}
		met := values[name].Met
		if yes, no := strings.HasSuffix(want, "yes"), strings.HasSuffix(want, "NO"); (met != nil) != (yes || no) ||
			met != nil && *met != yes {
			t.Errorf("%s: %+v", name, values[name])
		}
	}
	if t.Failed() {
		t.Logf("%s", table)
	}
}

// row is the row of a table, without the name of the line and the time.
func row(table, name string) string {
	found := "no line"
	for line := range strings.Lines(table) {
		if rest, ok := strings.CutPrefix(line, name+"  "); ok {
			if found = strings.Join(strings.Fields(rest), " "); !strings.HasPrefix(found, "not") {
				_, found, _ = strings.Cut(found, " ")
			}
		}
	}
	return found
}

// What is predicted is measured.
func TestPredicted(t *testing.T) {
	lines := map[string]bool{}
	for _, f := range families {
		if f.lines != nil {
			for _, l := range f.lines(64 << 20) {
				lines[l.name] = true
			}
		}
	}
	if len(predicted) < 9 {
		t.Errorf("predictions.txt names the lines %v only", predicted)
	}
	for name := range predicted {
		if !lines[name] {
			t.Errorf("no line is called %s", name)
		}
	}
}

// The vendor's program measures Weft's lines by the same names, but for those that PyTorch lacks. Here it runs with a
// stand-in for PyTorch.
func TestPeer(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	file := filepath.Join(t.TempDir(), "said")
	for _, f := range families {
		if !f.peer {
			continue
		}
		cmd := exec.Command(python, "../../../scripts/gpu-peer.py", f.name)
		cmd.Env = append(os.Environ(), "PYTHONPATH=testdata", "PYTHONDONTWRITEBYTECODE=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", f.name, err, out)
		}
		if err := os.WriteFile(file, out, 0o666); err != nil {
			t.Fatal(err)
		}
		figures := map[string]figure{}
		collect(figures, file)
		if len(figures) == 0 {
			t.Errorf("%s has no figures", f.name)
		}
		if f.lines == nil {
			continue
		}
		for _, l := range f.lines(1 << 26) {
			if _, ok := figures[l.name]; !ok && l.name != "adamw and clip" && !strings.HasPrefix(l.name, "attention") {
				t.Errorf("the vendor has no %q", l.name)
			}
			if v := figures[l.name]; v.Time != 0 && math.Abs(v.GBs/(l.bytes/v.Time/1e3)-1) > 1e-9 && l.bytes > 0 {
				t.Errorf("%s: %v bytes for Weft, %v for the vendor", l.name, l.bytes, v.GBs*v.Time*1e3)
			}
		}
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
	if err := os.WriteFile(filepath.Join(folder, "nvidia-smi"),
		[]byte("#!/bin/sh\necho 'NVIDIA H200, 550.54.15, 1980, 2619, 700.00, [N/A], 41'\n"), 0o777); err != nil {
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
