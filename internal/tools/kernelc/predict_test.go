package main

import (
	"math"
	"strings"
	"testing"
)

// The figures of one path on both machines, computed by hand: 32 elements of bfloat16, read and written.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		what   string
		p      path
		target string
		warps  int
		want   float64
	}{
		{"memory", path{instructions: 200, loaded: 64, stored: 64, waits: 1}, "sm_90", 32, 0.999},
		// 16 warps: memory 16*4096/16.45 = 3983 clocks, issue 16*2353/3 = 12549, latency 8*600+2353 = 7153.
		{"issue", path{instructions: 2353, loaded: 64, stored: 64, waits: 8}, "sm_90", 16, 0.309},
		// memory 16*4096/11.49 = 5704, issue 12549
		{"issue on an A100", path{instructions: 2353, loaded: 64, stored: 64, waits: 8}, "sm_80", 16, 0.439},
		// memory 3983, latency 32*600+700 = 19900
		{"latency", path{instructions: 700, loaded: 64, stored: 64, waits: 32}, "sm_90", 16, 0.200},
		{"no warps", path{instructions: 700, loaded: 64, stored: 64, waits: 32}, "sm_90", 0, 0},
	} {
		if got := machines[c.target].share(&c.p, c.warps); math.Abs(got-c.want) > 0.0015 {
			t.Errorf("%s: %.4f, want %.3f", c.what, got, c.want)
		}
	}
}

// Turns of loops of products, computed by hand, in clocks: on an H200 FFMA takes 1 and HMMA.16816 4, really 6.35, on an
// A100 2 and 8; MUFU takes 8, any instruction 4/3 of the scheduler.
func TestPeak(t *testing.T) {
	loop := func(body string) string { return "1:\n" + body + "\n@P1 BRA 1\nEXIT" }
	for _, c := range []struct {
		what, code string
		h200, a100 float64
	}{
		{"tensor cores", loop("HMMA.16816.F32.BF16 R0, R4, R6, R0\nHMMA.1688.F32 R0, R4, R6, R0"), 0.625, 0.997},
		// A mask that only some turns have is left out: LDS, HMMA and two branches.
		{"a mask", loop("LDS R4, [R8]\nHMMA.16816.F32 R0, R4, R6, R0\n@P0 BRA 2\nFMUL R9, R9, R9\n2:"), 0.570,
			0.956},
		// A copy of the next tile is not: LDGSTS, HMMA and two branches.
		{"a copy", loop("HMMA.16816.F32.BF16 R0, R4, R6, R0\n@P0 BRA 2\nLDGSTS.E.BYPASS.128 [R8], [R2.64]\n2:"), 0.570,
			0.956},
		{"multiply-adds beside tensor cores", loop("HMMA.16816.F32 R0, R4, R6, R0\nFFMA R9, R4, R6, R9"), 0.607, 0.985},
		// Four turns inside a turn of the outer loop: 5 HMMA, 19 and 21 instructions.
		{"a loop in a loop", loop("HMMA.16816.F32 R0, R4, R6, R0\n" + fourTurns), 0.579, 0.963},
		{"another, and work beside it", loop("HMMA.16816.F32 R0, R4, R6, R0\nFADD R8, R8, R9\nFADD R8, R8, R9\n" +
			fourTurns), 0.560, 0.948},
		{"a loop that does not count", loop("HMMA.16816.F32 R0, R4, R6, R0\n" +
			strings.Replace(fourTurns, "R5, R5, 0x2", "R5, R9, 0x2", 1)), 0.570, 0.956},
		{"float32", loop("FFMA R0, R4, R6, R0\nFFMA R1, R4, R7, R1\nFFMA R2, R5, R6, R2"), 0.549, 0.886},
		{"exponentials", loop("FFMA R0, R4, R6, R0\nMUFU.EX2 R4, R4"), 0.123, 0.246},
		// Of two loops that with more products, without the code before it.
		{"two loops", "MOV R1, R2\nMOV R1, R2\n3:\nFFMA R0, R4, R6, R0\nMUFU.EX2 R4, R4\n@P2 BRA 3\n" + loop(
			strings.Repeat("FFMA R0, R4, R6, R0\n", 5)), 0.603, 0.918},
		{"no products", loop("FADD R0, R4, R6"), 0, 0},
	} {
		turn := productPath(sassOf(c.code))
		for target, want := range map[string]float64{"sm_90": c.h200, "sm_80": c.a100} {
			if got := machines[target].peak(turn); math.Abs(got-want) > 0.0015 {
				t.Errorf("%s on %s: %.4f, want %.3f", c.what, target, got, want)
			}
		}
	}
	// Of wgmma a warp does a quarter: two, of 64 x 256 and 64 x 64, take 160 clocks, 60 others and a branch 84.
	turn := productPath(sassOf(loop("HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24, UP0\n" +
		"HGMMA.64x64x16.F32 R24, gdesc[UR8], R24, gsb0\n" + strings.Repeat("IADD3 R0, R0, R1, RZ\n", 60))))
	if got := machines["sm_90a"].peak(turn); math.Abs(got-0.981) > 0.0015 {
		t.Errorf("wgmma: %.4f", got)
	}
}

// fourTurns is a loop on tensor cores that counts to 7 in steps of 2; product has it inside another.
const product = "1:\nHMMA.16816.F32 R0, R4, R6, R0\n" + fourTurns + "\n@P1 BRA 1\nEXIT"
const fourTurns = "MOV R5, RZ\n3:\nHMMA.16816.F32 R0, R4, R6, R0\nIADD3 R5, R5, 0x2, RZ\n" +
	"ISETP.GE.U32.AND P2, PT, R5.reuse, 0x7, PT\n@!P2 BRA 3"

// slow is a copy of a row, four elements a thread, in which each load waits for the one before; fast requests all of
// them first.
const (
	fast = "LDG.E.64 R4, [R2.64]\nLDG.E.64 R6, [R2.64+8]\nLDG.E.64 R8, [R2.64+16]\nLDG.E.64 R10, [R2.64+24]\n" +
		"STG.E.64 [R12.64], R4\nSTG.E.64 [R12.64+8], R6\nSTG.E.64 [R12.64+16], R8\nSTG.E.64 [R12.64+24], R10\nEXIT"
	slow = "LDG.E.64 R4, [R2.64]\nSTG.E.64 [R12.64], R4\nLDG.E.64 R6, [R2.64+8]\nSTG.E.64 [R12.64+8], R6\n" +
		"LDG.E.64 R8, [R2.64+16]\nSTG.E.64 [R12.64+16], R8\nLDG.E.64 R10, [R2.64+24]\n" +
		"STG.E.64 [R12.64+24], R10\nEXIT"
)

// Predictions fail where a kernel waits too often, has too few threads, or takes too long.
func TestPredictions(t *testing.T) {
	for _, c := range []struct {
		code, line string
		registers  int
		want       string
	}{
		{fast, "copy_bf16 sm_90=0.95 : a copy", 32, ""},
		{fast, "copy_bf16 sm_90=0.95 : a copy", 128, ""},
		{slow, "copy_bf16 sm_90=0.95 : a copy", 128,
			"share: copy_bf16 (sm_90): a copy: 0.75 of a copy's bandwidth is predicted, limit 0.95"},
		{slow, "copy_bf16 sm_90=0.95 : a copy", 255,
			"share: copy_bf16 (sm_90): a copy: 0.41 of a copy's bandwidth is predicted, limit 0.95"},
		{fast, "copy_bf16 sm_90=0.5 expect=0.99 : a copy : copy bfloat16", 32, ""},
		{slow, "copy_bf16 sm_90=0.5 expect=0.99 : a copy : copy bfloat16", 128,
			"share: copy_bf16 (sm_90): a copy: 0.75 of a copy's bandwidth is predicted, predictions.txt expects 0.99"},
		{fast, "copy_bf16 blocks=1000 moved=4e6 launches=2 us=3 : a copy", 32, ""},
		{fast, "copy_bf16 blocks=24 moved=4e6 launches=2 us=3 : a copy", 32,
			"share: copy_bf16 (sm_90): a copy: 6.7 us are predicted, limit 3.0"},
		{fast, "copy_bf16 bytes=63 sm_90=0.1 : half of it", 32,
			"share: copy_bf16 (sm_90): half of it: 0.00 of a copy's bandwidth is predicted, limit 0.10"},
		{fast, "copy_bf16 sm_90.peak=0.5 : a copy", 32,
			"share: copy_bf16 (sm_90): a copy: 0.00 of the peak of multiply-adds is predicted, limit 0.50"},
		{product, "copy_bf16 sm_90.peak=0.57 : a product", 32, ""},
		{strings.Replace(product, "MOV", "FADD R8, R8, R9\nFADD R8, R8, R9\nMOV", 1),
			"copy_bf16 sm_90.peak=0.57 : more", 32,
			"share: copy_bf16 (sm_90): more: 0.56 of the peak of multiply-adds is predicted, limit 0.57"},
		{fast, "copy_bf16 moved=4e6 launches=1 : two\ncopy_bf16 moved=4e6 launches=1 us=3 : one", 32, ""},
		{fast, "copy_bf16 moved=4e6 launches=1 : two\ncopy_bf16 moved=4e6 launches=1 us=3 : two", 32,
			"share: copy_bf16 (sm_90): two: 3.3 us are predicted, limit 3.0"},
	} {
		all, err := parsePredictions("# operations\n" + c.line + "\n")
		if err != nil || len(all) == 0 {
			t.Fatalf("%s: %v", c.line, err)
		}
		ops := sassOf(c.code)
		r := newRow("copy_bf16", "sm_90", &figures{registers: c.registers}, 256, ops, nil, nil)
		g := &gates{}
		for _, e := range all {
			g.predict(e, &r, ops)
		}
		g.inTime(all)
		if c.want == "" && len(g.faults) > 0 || c.want != "" && (len(g.faults) != 1 || g.faults[0].String() != c.want) {
			t.Errorf("%s: faults %q, want %q", c.line, g.faults, c.want)
		}
	}
	for _, wrong := range []string{"a sm_75=1", "a sm_90=fast", "a sm_90"} {
		if _, err := parsePredictions(wrong); err == nil {
			t.Errorf("%q is taken for a prediction", wrong)
		}
	}
	g := &gates{}
	g.expected([]*prediction{{kernel: "a"}, {kernel: "b"}}, []*unit{{symbols: []string{"b"}}})
	if len(g.faults) != 1 || !strings.HasPrefix(g.faults[0].String(), "listed: a: predictions.txt has a line") {
		t.Errorf("faults %q of a kernel that is none", g.faults)
	}
}

// The committed list can be read, and names kernels of the budget.
func TestCommittedPredictions(t *testing.T) {
	p := &project{root: "../../.."}
	all, err := p.readPredictions()
	if err != nil || len(all) == 0 {
		t.Fatalf("%d predictions: %v", len(all), err)
	}
	limits, err := p.readBudget()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if limits.of(e.kernel) == nil || e.what == "" {
			t.Errorf("%s: no budget, or no operation", e.kernel)
		}
	}
}

// PTX of which a driver makes code for GPUs behind 9.0 is held against the limits there, by the record.
func TestElsewhere(t *testing.T) {
	limits, err := parseBudget("copy_bf16 registers=255 blocks=4 flight=16384\n")
	if err != nil {
		t.Fatal(err)
	}
	few, err := parseBudget("copy_bf16 registers=255 blocks=4 gpus=sm_90,sm_100\n")
	if err != nil {
		t.Fatal(err)
	}
	both := &assembled{registers: map[string]int{"sm_100": 32, "sm_120": 128}}
	r := newRow("copy_bf16", "sm_90", &figures{registers: 32}, 256, sassOf(fast), few[0], both)
	if len(r.elsewhere) != 1 || r.elsewhere["sm_100"] == 0 {
		t.Errorf("blocks %v, want those of sm_100 alone", r.elsewhere)
	}
	for _, c := range []struct {
		known *assembled
		want  string
	}{
		{nil, ""},
		{&assembled{registers: map[string]int{"sm_100": 32, "sm_120": 32}}, ""},
		{&assembled{registers: map[string]int{"sm_100": 255, "sm_120": 32}},
			"occupancy: copy_bf16 (sm_90): 1 blocks on a multiprocessor of sm_100, budget 4; " +
				"flight: copy_bf16 (sm_100): a multiprocessor waits for 8192 bytes at once, budget 16384"},
		{both,
			"occupancy: copy_bf16 (sm_90): 2 blocks on a multiprocessor of sm_120, budget 3"},
	} {
		r := newRow("copy_bf16", "sm_90", &figures{registers: 32}, 256, sassOf(fast), limits[0], c.known)
		g := &gates{budget: limits}
		g.way(&r)
		var faults []string
		for _, f := range g.faults {
			faults = append(faults, f.String())
		}
		if got := strings.Join(faults, "; "); got != c.want {
			t.Errorf("faults %s, want %s", got, c.want)
		}
	}
}
