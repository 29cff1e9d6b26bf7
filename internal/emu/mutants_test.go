//go:build emu && cgo && linux

package emu

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/weft-ml/weft/kernels/cuda/src"
)

var (
	mutantCount  = flag.Int("mutants", 0, "how many mutants TestMutants makes; it takes about ten seconds each")
	mutantFamily = flag.String("family", "", "only mutants of this file, such as softmax.cu")
)

// families are the files that are changed, with the file of kernels that shows it and the test.
var families = []struct{ file, kernels, test string }{
	{"copy.cu", "copy.cu", "TestCopyAndFill"},
	{"random.cu", "random.cu", "TestUniform"},
	{"philox.cuh", "", "TestPointwise"},
	{"reduce.cu", "reduce.cu", "TestReduce"},
	{"reduce.cuh", "reduce.cu", "TestReduce"},
	{"softmax.cu", "softmax.cu", "TestSoftmax"},
	{"matmul.cu", "matmul.cu", "TestMatMul"},
	{"gemm.cu", "gemm.cu", "TestGemm"},
	{"batch.cuh", "gemm.cu", "TestGemm"},
	{"pointwise.cuh", "", "TestPointwise"},
	{"index.cuh", "copy.cu", "TestCopyAndFill"},
}

// A mutation replaces what a pattern matches; $1 and so on are its groups.
type mutation struct{ what, pattern, with string }

var mutations = []mutation{
	{"no barrier", `__syncthreads\(\);`, `;`},
	{"no warp barrier", `__syncwarp\(\);`, `;`},
	{"no wait", `cp_async_wait<\d+>\(\);`, `;`},
	{"later wait", `cp_async_wait<0>`, `cp_async_wait<1>`},
	{"later wait", `cp_async_wait<1>`, `cp_async_wait<2>`},
	{"no commit", `cp_async_commit\(\);`, `;`},
	{"bound", ` < `, ` <= `},
	{"bound", ` <= `, ` < `},
	{"bound", ` >= `, ` > `},
	{"bound", ` > `, ` >= `},
	{"condition", ` == `, ` != `},
	{"condition", ` && `, ` || `},
	{"condition", ` \|\| `, ` && `},
	{"sign", ` \+ `, ` - `},
	{"sign", ` - `, ` + `},
	{"factor", ` \* `, ` + `},
	{"rest", ` % `, ` / `},
	{"quotient", ` / `, ` * `},
	{"shifted index", `\[([a-z]\w*)\]`, `[$1 + 1]`},
	{"number", `([ (\[<])(\d+)([ )\];,>])`, `$1(1+$2)$3`},
	{"rounding", `__fadd_rn\(`, `__fsub_rn(`},
	{"order", `__fmaf_rn\((\w.*?), (\w.*?), (\w.*?)\)`, `__fadd_rn(__fmul_rn($1, $2), $3)`},
	{"fold", `Fold::combine\((.*?), (.*?)\);`, `Fold::combine($2, $2);`},
}

// declaration is the declaration of an array, whose size may well be larger.
var declaration = regexp.MustCompile(`SHARED\(|^\s*[\w:<> ]+ \w+(\[[^\]]*\])+(, \w+(\[[^\]]*\])+)*;\s*$`)

// A change is a file with one mutation at one place.
type change struct {
	file, kernels, test string
	line                int
	what, before, after string
	text                string
}

// changes lists all mutants of a file. Comments, directives and the macros that name kernels stay.
func changes(file, kernels, test, text string) (all []change) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		code, comment, _ := strings.Cut(line, "//")
		if strings.HasPrefix(strings.TrimSpace(code), "#") || strings.Contains(code, "constexpr") || strings.Contains(code, "template <") ||
			strings.Contains(code, "KERNEL(") || strings.Contains(code, "EXPORT(") || declaration.MatchString(code) {
			continue
		}
		for _, m := range mutations {
			re := regexp.MustCompile(m.pattern)
			for _, at := range re.FindAllStringIndex(code, -1) {
				after := code[:at[0]] + re.ReplaceAllString(code[at[0]:at[1]], m.with) + code[at[1]:]
				if after == code {
					continue
				}
				changed := append([]string(nil), lines...)
				changed[i] = after + "//" + comment
				all = append(all, change{file, kernels, test, i + 1, m.what, strings.TrimSpace(code), strings.TrimSpace(after), strings.Join(changed, "\n")})
			}
		}
	}
	return all
}

// TestMutants changes one place of a kernel at a time: its test must notice, in the plain or the checked build. With
// -mutants 300 it takes an hour. Survivors are listed; at most one in twenty may survive.
func TestMutants(t *testing.T) {
	if *mutantCount == 0 {
		t.Skip("slow: -mutants 300 runs it")
	}
	var all []change
	for _, f := range families {
		if *mutantFamily != "" && f.file != *mutantFamily {
			continue
		}
		text, err := src.Files.ReadFile(f.file)
		must(t, err)
		all = append(all, changes(f.file, f.kernels, f.test, string(text))...)
	}
	// A choice spread over files and kinds, the same each time.
	sort.SliceStable(all, func(i, j int) bool { return spread(all[i]) < spread(all[j]) })
	chosen := all[:min(*mutantCount, len(all))]
	survivors, tried := 0, 0
	for _, c := range chosen {
		switch killed, why := c.try(t); {
		case !killed && why != "":
			t.Logf("%s:%d: %s: does not compile: %s", c.file, c.line, c.what, c.after)
		case !killed:
			tried++
			survivors++
			t.Logf("%s:%d: %s survives: %s  =>  %s", c.file, c.line, c.what, c.before, c.after)
		default:
			tried++
			t.Logf("%s:%d: %s killed (%s)", c.file, c.line, c.what, why)
		}
	}
	t.Logf("%d of %d mutants of %d possible ones survive", survivors, tried, len(all))
	if 20*survivors > tried {
		t.Errorf("%d of %d mutants survive", survivors, tried)
	}
}

func spread(c change) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, c.file, c.line, c.what, c.after)
	return h.Sum64()
}

// try runs the test of a mutant, first in the plain build. A test that takes a minute is a dead one, too.
func (c change) try(t *testing.T) (killed bool, why string) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, c.file), []byte(c.text), 0o666))
	if c.kernels != "" && c.kernels != c.file {
		text, err := src.Files.ReadFile(c.kernels)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, c.kernels), text, 0o666))
	}
	for _, flavour := range []string{"plain", "checked"} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", "^"+c.test+"$/^"+flavour, "-test.failfast")
		cmd.Env = append(os.Environ(), "WEFT_EMU_MUTANT="+dir, "WEFT_EMU_MUTANT_FILE="+c.kernels)
		out, err := cmd.CombinedOutput()
		cancel()
		switch {
		case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
			return true, "time"
		case strings.Contains(string(out), "error: "):
			return false, "error"
		case err != nil && strings.Contains(string(out), "emulator:"):
			return true, flavour + ", report"
		case err != nil:
			return true, flavour + ", numbers"
		}
	}
	return false, ""
}
