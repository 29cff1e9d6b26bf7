package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// sassOf is a kernel of lines such as "@P0 BRA 1" and "LDG.E R2, [R4.64]"; "1:" is a label.
func sassOf(lines string) []sassOp {
	var text strings.Builder
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if label, ok := strings.CutSuffix(line, ":"); ok {
			fmt.Fprintf(&text, ".L_x_%s:\n", label)
			continue
		}
		if i := strings.LastIndexByte(line, ' '); strings.Contains(line, "BRA") || strings.Contains(line, "NOINC 2") {
			line = line[:i] + " `(.L_x_" + line[i+1:] + ")"
		}
		fmt.Fprintf(&text, "        /*0000*/    %s ;\n", line)
	}
	return readOps(text.String())
}

// The full path has what guards may skip, and nothing that is seldom needed.
func TestFullPath(t *testing.T) {
	for what, c := range map[string]struct {
		code string
		want path
	}{
		"a straight line": {`
			LDG.E.128 R4, [R2.64]
			FADD R4, R4, R5
			STG.E.128 [R8.64], R4
			EXIT`,
			path{code: 4, instructions: 4, loaded: 16, stored: 16, results: 16, width: 16, waits: 1}},
		"elements behind guards": {`
			ISETP.GE.AND P0, PT, R0, R1, PT
			@P0 EXIT
			@P1 BRA 1
			LDG.E R4, [R2.64]
		1:
			@P1 BRA 2
			FADD R4, R4, R5
		2:
			@P1 BRA 3
			STG.E [R8.64], R4
		3:
			EXIT`,
			path{code: 9, instructions: 9, loaded: 4, stored: 4, results: 4, width: 4, waits: 1}},
		"a quotient that is seldom needed": {`
			LDG.E R4, [R2.64]
			@P0 BRA 1
			FADD R4, R4, R5
			CALL.REL.NOINC R20
		1:
			STG.E [R8.64], R4
			EXIT`,
			path{code: 4, instructions: 4, loaded: 4, stored: 4, results: 4, width: 4, waits: 1}},
		"offsets of many axes": {`
			@P0 BRA 1
			IMAD R2, R2, R3, R4
			MUFU.RCP R5, R6
		1:
			LDG.E R4, [R2.64]
			STG.E [R8.64], R4
			EXIT`,
			path{code: 4, instructions: 4, loaded: 4, stored: 4, results: 4, width: 4, waits: 1}},
		"two ways of one operation": {`
			@P0 BRA 1
			IMAD R2, R2, R3, R4
			LDG.E R4, [R2.64]
			BRA 2
		1:
			LDG.E R4, [R2.64]
		2:
			STG.E [R8.64], R4
			EXIT`,
			path{code: 4, instructions: 4, loaded: 4, stored: 4, results: 4, width: 4, waits: 1}},
		"the wider of two copies": {`
			@P0 BRA 1
			LDG.E.128 R4, [R2.64]
			STG.E.128 [R8.64], R4
			EXIT
		1:
			LDG.E R4, [R2.64]
			STG.E [R8.64], R4
			EXIT`,
			path{code: 4, instructions: 4, loaded: 16, stored: 16, results: 16, width: 16, waits: 1}},
		"the wider of two copies, which moves a little less": {`
			@P0 BRA 1
			LDG.E.64 R4, [R2.64]
			STG.E.64 [R8.64], R4
			EXIT
		1:
			LDG.E R4, [R2.64]
			LDG.E R5, [R2.64+4]
			LDG.E R6, [R2.64+8]
			STG.E [R8.64], R4
			STG.E [R8.64+4], R5
			STG.E [R8.64+8], R6
			EXIT`,
			path{code: 4, instructions: 4, loaded: 8, stored: 8, results: 8, width: 8, waits: 1}},
		"two conditions for the wider of two copies": {`
			@P0 BRA 1
			ISETP.GE.AND P1, PT, R0, R1, PT
			@P1 BRA 1
			LDG.E.64 R4, [R2.64]
			STG.E.64 [R8.64], R4
			EXIT
		1:
			LDG.E R4, [R2.64]
			LDG.E R5, [R2.64+4]
			LDG.E R6, [R2.64+8]
			STG.E [R8.64], R4
			STG.E [R8.64+4], R5
			STG.E [R8.64+8], R6
			EXIT`,
			path{code: 6, instructions: 6, loaded: 8, stored: 8, results: 8, width: 8, waits: 1}},
		"the wider of accesses under a predicate and its opposite": {`
			ISETP.NE.AND P1, PT, R0, R1, PT
			@!P1 LDG.E.128 R4, [R2.64]
			@P1 LDG.E R4, [R2.64]
			@P1 LDG.E R5, [R2.64+4]
			STG.E.128 [R8.64], R4
			EXIT`,
			path{code: 6, instructions: 6, loaded: 16, stored: 16, results: 16, width: 16, waits: 1}},
		"accesses under a predicate that a later branch decides": {`
			ISETP.NE.AND P1, PT, R0, R1, PT
			@P1 LDG.E R4, [R2.64]
			@P1 STG.E [R8.64], R4
			@P1 EXIT
			LDG.E.128 R4, [R2.64]
			STG.E.128 [R8.64], R4
			EXIT`,
			path{code: 7, instructions: 7, loaded: 16, stored: 16, results: 16, width: 16, waits: 1}},
		"a predicate that was set anew": {`
			ISETP.NE.AND P1, PT, R0, R1, PT
			@P1 LDG.E.64 R4, [R2.64]
			ISETP.NE.AND P1, PT, R0, R6, PT
			@!P1 LDG.E.64 R6, [R2.64+8]
			STG.E.128 [R8.64], R4
			EXIT`,
			path{code: 6, instructions: 6, loaded: 16, stored: 16, results: 16, width: 16, waits: 1}},
		"a load for the next turn": {`
		1:
			ISETP.NE.AND P1, PT, R0, R1, PT
			STG.E [R8.64], R4
			@P1 LDG.E R4, [R2.64]
			@P1 BRA 1
			EXIT`,
			path{code: 5, instructions: 4, loaded: 4, stored: 4, results: 4, width: 4, waits: 1}},
		"a warp that is not together": {`
			LDG.E R4, [R2.64]
			BRA.DIV UR4, 1
			SHFL.BFLY PT, R5, R4, 0x1, 0x1f
			STG.E [R8.64], R5
			EXIT
		1:
			STG.E.128 [R8.64], R4
			EXIT`,
			path{code: 5, instructions: 5, loaded: 4, stored: 4, results: 4, width: 4, waits: 1}},
		"a loop that is left at its top": {`
			MOV R1, R2
		1:
			@P0 BRA 2
			LDG.E R4, [R2.64]
			STG.E [R8.64], R4
			BRA 1
		2:
			EXIT`,
			path{code: 6, instructions: 4, loaded: 4, stored: 4, results: 4, width: 4, waits: 1}},
		"a loop that is left by a call": {`
		1:
			LDG.E R4, [R2.64]
			STG.E [R8.64], R4
			@P0 CALL.REL.NOINC 2
			BRA 1
		2:
			EXIT`,
			path{code: 4, instructions: 3, loaded: 4, stored: 4, results: 4, width: 4, waits: 1}},
		"a loop of four, and another for what remains": {`
		1:
			LDG.E.128 R4, [R2.64]
			FADD R9, R9, R4
			@P0 BRA 1
			@P1 EXIT
		2:
			LDG.E R4, [R2.64]
			FADD R9, R9, R4
			@P2 BRA 2
			STG.E [R8.64], R9
			EXIT`,
			path{code: 9, instructions: 3, loaded: 16, width: 16, waits: 1}},
		"rows in a loop, whose statistics are of another type": {`
			LDG.E R4, [R2.64]
			STS [R5], R4
		1:
			LDG.E.64 R4, [R2.64]
			LDG.E.64 R6, [R2.64+0x100]
			FADD R4, R4, R7
			STG.E [R8.64], R4
			STG.E.64 [R8.64], R4
			STG.E.64 [R8.64+0x100], R6
			@P2 BRA 1
			EXIT`,
			path{code: 10, instructions: 7, loaded: 16, stored: 20, results: 16, width: 8, waits: 1}},
	} {
		got := fullPath(sassOf(c.code), 0)
		if got == nil || fmt.Sprint(*got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %+v, want %+v", what, got, c.want)
		}
	}
	for what, code := range map[string]string{
		"products of matrices": "LDG.E R4, [R2.64]\nHMMA.16816.F32 R4, R4, R5, R6\nEXIT",
		"no accesses":          "FADD R4, R4, R5\nEXIT",
	} {
		if got := fullPath(sassOf(code), 0); got != nil {
			t.Errorf("%s: %+v, want no path", what, got)
		}
	}
}

// Kernels for sm_90 that read and wrote 2 bytes at a time: an instruction count by hand, along a row of 1,024 elements,
// gave 72.7 and 53 for an element.
func TestPathOfKernels(t *testing.T) {
	for kernel, want := range map[string]string{
		"softmax_bf16":            "2353 instructions, 64 and 64 bytes by 2, 8 waits, 73.5 for an element",
		"cross_entropy_grad_bf16": "1728 instructions, 64 and 64 bytes by 2, 8 waits, 54.0 for an element",
	} {
		file, err := os.Open("testdata/" + kernel + ".sass.gz")
		if err != nil {
			t.Fatal(err)
		}
		text, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		sass, err := io.ReadAll(text)
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
		p := fullPath(readSass(string(sass))[kernel], 0)
		if got := fmt.Sprintf("%d instructions, %d and %d bytes by %d, %g waits, %.1f for an element", p.instructions,
			p.loaded, p.stored, p.width, p.waits, p.perElement(elementSize(kernel))); got != want {
			t.Errorf("%s: %s, want %s", kernel, got, want)
		}
	}
}

// A path can be chosen by the bytes that it moves.
func TestPathOfBytes(t *testing.T) {
	ops := sassOf(`
		@P0 BRA 1
		LDG.E R4, [R2.64]
		LDG.E R5, [R6.64]
		FADD R4, R4, R5
		STG.E [R6.64], R4
		BRA 2
	1:
		LDG.E R4, [R2.64]
	2:
		STG.E [R8.64], R4
		EXIT`)
	for most, want := range map[int]int{0: 16, 100: 16, 16: 16, 15: 8, 8: 8} {
		if p := fullPath(ops, most); p == nil || p.loaded+p.stored != want {
			t.Errorf("at most %d bytes: %+v, want %d", most, p, want)
		}
	}
	if p := fullPath(ops, 7); p != nil {
		t.Errorf("at most 7 bytes: %+v, want none", p)
	}
}

func TestWaits(t *testing.T) {
	for what, c := range map[string]struct {
		code   string
		isLoop bool
		want   float64
	}{
		"loads before uses":     {"LDG.E R4, [R2.64]\nLDG.E R5, [R2.64+4]\nFADD R6, R4, R5\nFADD R6, R6, R4", false, 1},
		"a load after each use": {"LDG.E R4, [R2.64]\nFADD R6, R4, R6\nLDG.E R5, [R2.64+4]\nFADD R6, R5, R6", false, 2},
		"an address from memory": {
			"LDG.E.64 R4, [R2.64]\nLDG.E R6, [R4.64]\nSTG.E [R2.64], R6", false, 2},
		"the last register of a vector": {"LDG.E.128 R4, [R2.64]\nFADD R8, R8, R7.reuse", false, 1},
		"a vector is stored":            {"LDG.E R7, [R2.64]\nSTG.E.128 [R2.64], R4", false, 1},
		"a predicate is the result":     {"LDG.E R4, [R2.64]\nISETP.GE.AND P0, PT, R4, R1, PT", false, 1},
		"a shuffle":                     {"LDG.E R4, [R2.64]\nSHFL.BFLY PT, R5, R4, 0x1, 0x1f", false, 1},
		"another value in the register": {"LDG.E R4, [R2.64]\nMOV R4, R5\nFADD R6, R4, R4", false, 0},
		"a number beside vectors": {
			"LDG.E.U16 R4, [R2.64]\nFADD R6, R4, R6\nLDG.E.128 R8, [R2.64+4]\nFADD R6, R8, R6", false, 1},
		"a turn":       {"LDG.E R4, [R2.64]\nFADD R6, R4, R6", true, 1},
		"a turn ahead": {"FADD R6, R4, R6\nLDG.E R4, [R2.64]", true, 1},
		"two loads, each a turn ahead": {
			"FADD R6, R4, R6\nLDG.E R4, [R2.64]\nFADD R6, R5, R6\nLDG.E R5, [R2.64+4]", true, 1},
	} {
		var ops []*sassOp
		for _, o := range sassOf(c.code) {
			ops = append(ops, &o)
		}
		if got := waits(ops, c.isLoop); got != c.want {
			t.Errorf("%s: %g waits, want %g", what, got, c.want)
		}
	}
}

func TestPerElement(t *testing.T) {
	for _, c := range []struct {
		p    path
		size int
		want float64
	}{
		{path{instructions: 40, loaded: 16, stored: 24, results: 16}, 2, 5},
		{path{instructions: 40, loaded: 64, stored: 12, results: 12}, 4, 2.5},
		{path{instructions: 40, loaded: 16}, 4, 10},
		{path{instructions: 40, loaded: 16}, 0, 0},
	} {
		if got := c.p.perElement(c.size); got != c.want {
			t.Errorf("%+v: %g instructions, want %g", c.p, got, c.want)
		}
	}
	for name, want := range map[string]int{"copy_b16": 16, "norm_bf16": 2, "pointwise_add_f32_f32_vector": 4,
		"any_rows_bool": 1, "sum_f64": 8, "sum_integer": 0} {
		if got := elementSize(name); got != want {
			t.Errorf("elements of %s have %d bytes, want %d", name, got, want)
		}
	}
}
