// Package mutants changes the kernels of kernels/cuda/src one place at a time, and asks of their tests that they
// notice. Its tests have the build tag emu; ../README.md tells how to run them and what came of it.
package mutants

import (
	"fmt"
	"regexp"
	"strings"
)

// A Mutant is a source with one change.
type Mutant struct {
	File          string
	Line          int
	Kind          string // what was changed
	Before, After string // the line
	Text          string // the file
}

// Name is the file and the line's text before and after, which outlast changes elsewhere in the file.
func (m *Mutant) Name() string { return m.File + ": " + m.Before + "  =>  " + m.After }

// A kind of change replaces what a pattern matches; $1 and so on are its groups.
type kind struct{ name, pattern, with string }

// order is the kind that changes roundings alone: it shows where results are exact.
const order = "order"

var kinds = []kind{
	// Order among threads.
	{"no barrier", `__syncthreads\(\);`, `;`},
	{"no barrier", `__syncwarp\(\);`, `;`},
	{"no wait", `(cp_async|wgmma)_wait<[^;]*>\(\);`, `;`},
	{"no wait", `mbarrier_wait\([^;]*\);`, `;`},
	{"no fence", `(wgmma_fence|fence_proxy_async)\(\);`, `;`},
	{"no wait", `mma_done\(\);`, `;`},
	{"later wait", `(cp_async|wgmma)_wait<(.+)>\(`, `${1}_wait<$2 + 1>(`},
	{"no commit", `(cp_async|wgmma)_commit\(\);`, `;`},
	{"other lane", `shuffle_xor\((\w+), (\w+)\)`, `shuffle_xor($1, $2 ^ 1)`},
	{"other lane", `threadIdx\.x % 32(;| [*/+])`, `(threadIdx.x + 1) % 32$1`},
	{"other lane", `(if \(.*)\blane\b`, `$1(lane ^ 1)`},
	// Bounds and conditions.
	{"bound", ` < `, ` <= `},
	{"bound", ` <= `, ` < `},
	{"bound", ` >= `, ` > `},
	{"bound", ` > `, ` >= `},
	{"condition", ` == `, ` != `},
	{"condition", ` != `, ` == `},
	{"condition", ` && `, ` || `},
	{"condition", ` \|\| `, ` && `},
	{"no check", `\bif \(([^;{]*)\) (return|continue|break|\w+\[|[\w.]+ =|put|store|\{)`, `if (true) $2`},
	{"no check", `\bif \(([^;{]*)\) (return|continue|break|\w+\[|[\w.]+ =|put|store|\{)`, `if (false) $2`},
	{"no check", `\bif \(([^;{]*)\)$`, `if (true)`},
	{"no check", `\bif \(([^;{]*)\)$`, `if (false)`},
	{"truth", `\btrue\b`, `false`},
	{"truth", `\bfalse\b`, `true`},
	// Places.
	{"shifted index", `\[([a-z]\w*)\]`, `[$1 + 1]`},
	{"number", `([ (\[<])(\d+)([ )\];,>])`, `$1($2 + 1)$3`},
	{"swizzle", ` \^ `, ` + `},
	{"swizzle", `(\w+) \^ `, `0 * $1 ^ `},
	{"sign", ` \+ `, ` - `},
	{"sign", ` - `, ` + `},
	{"factor", ` \* `, ` + `},
	{"rest", ` % `, ` / `},
	{"quotient", ` / `, ` % `},
	{"shift", ` << `, ` >> `},
	{"shift", ` >> `, ` << `},
	{"mask", ` & `, ` | `},
	{"stride", `\b(\w+(?:\.|_|->))row\b`, `${1}column`},
	{"stride", `\b(\w+(?:\.|_|->))column\b`, `${1}row`},
	{"block", `blockIdx\.([xy])`, `(blockIdx.$1 & ~1u)`},
	// Values.
	{"no start", `\b(=|\{) ?-?0\.f;`, `= 1.f;`},
	{"sum", ` \+= `, ` = `},
	{"sum", ` \+= `, ` -= `},
	{"no assignment", `^(\s*)[\w.\[\]>*()-]+ [-+*/|^&]?= [^;{]*;$`, `$1;`},
	{"no call", `^(\s*)[a-z][\w.]*(<[^;]*>)?\([^;{]*\);$`, `$1;`},
	{"function", `(__f|__d|math::)add(_rn)?\(`, `${1}sub${2}(`},
	{"function", `(__f|__d|math::)sub(_rn)?\(`, `${1}add${2}(`},
	{"function", `(__f|__d|math::)mul(_rn)?\(`, `${1}add${2}(`},
	{"function", `(__f|__d|math::)div(_rn)?\(`, `${1}mul${2}(`},
	{"fold", `<Max\b`, `<Min`},
	{"fold", `<Sum\b`, `<Prod`},
	{"fold", `Fold::combine\((.*?), (.*?)\);`, `Fold::combine($2, $2);`},
	{order, `__fmaf_rn\((\w.*?), (\w.*?), (\w.*?)\)`, `__fadd_rn(__fmul_rn($1, $2), $3)`},
	{order, `Fold::combine\(low, high\)`, `Fold::combine(high, low)`},
}

var (
	patterns = func() (all []*regexp.Regexp) {
		for _, k := range kinds {
			all = append(all, regexp.MustCompile(k.pattern))
		}
		return all
	}()
	// fixed are lines that stay: directives, macros, constants that sizes of arrays are made of, and declarations of
	// arrays, which may well be larger.
	fixed = regexp.MustCompile(`^\s*#|\\$|\bconstexpr\b|\busing\b|KERNEL\(|EXPORT\(|ENTRY\(|SHARED\(|^\s*[\w:<>* ]+ ` +
		`\w+(\[[^\]]*\])+(, \w+(\[[^\]]*\])+)*;\s*$`)
	// header is the beginning of a line that says only what a template is for.
	header = regexp.MustCompile(`^\s*template <[^()]*?> (DEV|DEV_METHOD|struct|using)\b`)
)

// Of lists all mutants of a file. Where results are not exact, roundings stay as they are.
func Of(file, text string, exact bool) (all []Mutant) {
	lines := strings.Split(text, "\n")
	seen := map[string]int{}
	for i, line := range lines {
		code, comment, commented := strings.Cut(line, "//")
		code = strings.TrimRight(code, " ")
		if fixed.MatchString(code) {
			continue
		}
		from := len(header.FindString(code))
		seen[strings.TrimSpace(code)]++
		done := map[string]bool{code: true}
		for k, re := range patterns {
			if kinds[k].name == order && !exact {
				continue
			}
			for _, at := range re.FindAllStringSubmatchIndex(code, -1) {
				if at[0] < from {
					continue
				}
				after := code[:at[0]] + string(re.ExpandString(nil, kinds[k].with, code, at)) + code[at[1]:]
				if done[after] {
					continue
				}
				done[after] = true
				changed := append([]string(nil), lines...)
				changed[i] = after
				if commented {
					changed[i] += "  //" + comment
				}
				before := strings.TrimSpace(code)
				if n := seen[before]; n > 1 {
					before += fmt.Sprintf(" (%d)", n)
				}
				all = append(all, Mutant{file, i + 1, kinds[k].name, before, strings.TrimSpace(after),
					strings.Join(changed, "\n")})
			}
		}
	}
	return all
}
