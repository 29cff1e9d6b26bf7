//go:build emu && cgo && linux

package mutants

import (
	"bytes"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weft-ml/weft/internal/testing/emu"
	"github.com/weft-ml/weft/kernels/cuda/src"
)

var (
	most = flag.Int("mutants", 0,
		"how many mutants of each file TestMutants makes, beside those of the order among threads; -1: all")
	only = flag.String("file", "", "only mutants of this file")
	like = flag.String("like", "", "all mutants whose names match this regular expression, and no others")
	jobs = flag.Int("jobs", 2, "mutants at a time")
)

// A family is a file that is changed, the files of kernels that show it ("" for those that tests compile), and the
// tests: a package and names.
type family struct {
	file, kernels string
	exact         bool
	tests         [][2]string
}

const raw, launches, operations = "internal/testing/emu", "kernels/cuda", "internal/testing/emu/ops"

var families = []family{
	{"attention.cu", "attention.cu", true, [][2]string{{launches, "Attention|AttentionOverflow|MaskedAttention"},
		{operations, "AttentionFloat64"}}},
	{"attention.cuh", "attention.cu", true, [][2]string{{launches, "Attention|AttentionOverflow|MaskedAttention"}}},
	{"attention_flash.cu", "attention_flash.cu", false, [][2]string{{launches, "Flash"}}},
	{"attention_flash_hopper_grad.cu", "attention_flash_hopper_grad.cu", false, [][2]string{{launches, "Flash"}}},
	{"attention_flash_hopper.cuh", "attention_flash_hopper_grad.cu", false, [][2]string{{launches, "Flash"}}},
	{"attention_flash.cuh", "attention_flash.cu attention_flash_hopper.cu attention_flash_hopper_grad.cu", false,
		[][2]string{{launches, "Flash"}}},
	{"attention_flash_hopper.cu", "attention_flash_hopper.cu", false, [][2]string{{launches, "Flash"}}},
	{"blocks.cuh", "copies.cu reduce.cu", true, [][2]string{{launches, "CopiesTogether|Sums"}}},
	{"conv.cu", "conv.cu", true, [][2]string{{operations, "Conv"}}},
	{"copies.cu", "copies.cu", true, [][2]string{{launches, "CopiesTogether"}}},
	{"copy.cu", "copy.cu", true,
		[][2]string{{raw, "CopyAndFill"}, {launches, "Transpose|Copies|PadEveryAxis|CopyWide"}}},
	{"copy.cuh", "copy.cu", true, [][2]string{{raw, "CopyAndFill"}, {launches, "Copies|CopyWide"}}},
	{"cross_entropy.cu", "cross_entropy.cu", true,
		[][2]string{{launches, "CrossEntropy|IndexOutside|LongCrossEntropy"}}},
	{"element.cuh", "", true, [][2]string{{raw, "Elements"}}},
	{"exp_sum.cuh", "softmax.cu cross_entropy.cu", true, [][2]string{{launches,
		"Softmax|CrossEntropy|LongRows|LongCrossEntropy|InfiniteRows"}}},
	{"f64.cuh", "", true, [][2]string{{raw, "Numbers|PrimitiveLogFloat64"}}},
	{"i64.cuh", "", true, [][2]string{{raw, "Numbers"}}},
	{"index.cu", "index.cu", true, [][2]string{{launches,
		"Indexed|Embedding|ManyAdditions|AdditionsOutside|IndexOutside"}}},
	{"index_error.cuh", "index.cu", true, [][2]string{{launches, "IndexOutside|IndexOutsideLater"}}},
	{"lane.cuh", "", true, [][2]string{{raw, "PrimitiveInstructions|PrimitiveExpressions"}}},
	{"layout.cuh", "copy.cu", true, [][2]string{{raw, "CopyAndFill"}}},
	{"matmul.cuh", "matmul_f32.cu matmul_half.cu matmul_hopper.cu attention.cu", true,
		[][2]string{{raw, "MatMul|MatMulHalf|MatMulHopper"}, {launches, "Attention"}}},
	{"matmul_f32.cu", "matmul_f32.cu", true, [][2]string{{raw, "MatMul"}}},
	{"matmul_half.cu", "matmul_half.cu", true, [][2]string{{raw, "MatMulHalf"}}},
	{"matmul_half.cuh", "matmul_half.cu matmul_hopper.cu", true, [][2]string{{raw, "MatMulHalf|MatMulHopper"}}},
	{"matmul_hopper.cu", "matmul_hopper.cu", true, [][2]string{{raw, "MatMulHopper"}}},
	{"norm.cu", "norm.cu", true, [][2]string{{launches, "AddNormBits|Norms|LongNorms"}}},
	{"philox.cuh", "", true, [][2]string{{raw, "Pointwise"}}},
	{"pointwise.cuh", "", true, [][2]string{{raw, "Pointwise"}}},
	{"probe.cu", "probe.cu", true, [][2]string{{launches, "Probe"}}},
	{"probe_hopper.cu", "probe_hopper.cu", false, [][2]string{{launches, "Probe"}}},
	{"reduce.cu", "reduce.cu", true, [][2]string{{launches, "Reductions|ReductionOrder|Sums"}}},
	{"reduce.cuh", "norm.cu", true, [][2]string{{raw, "Folds"}, {launches, "LongNorms"}}},
	{"reduce_row.cu", "reduce_row.cu", true, [][2]string{{launches, "ArgExtremes|Statistics|LongRows|ProdGrad"}}},
	{"row.cuh", "norm.cu", true, [][2]string{{launches, "Norms|LongNorms"}}},
	{"scan.cu", "scan.cu", true, [][2]string{{launches, "CumSum|Scans"}}},
	{"softmax.cu", "softmax.cu", true, [][2]string{{launches, "Softmax|Statistics|LongRows|InfiniteRows"}}},
	{"sort.cu", "sort.cu", true, [][2]string{{launches, "Sort|SearchSorted"}}},
	{"window.cu", "window.cu", true, [][2]string{{operations, "Windows"}}},
}

// trims leave out kernels that differ from others in the type of elements alone, and that the tests above do without:
// most of the time goes to the compiler.
var trims = []struct {
	file string
	from *regexp.Regexp
	to   string
	not  string // files of families whose tests do need them
}{
	{"row.cuh", regexp.MustCompile(`(#define FLOATS\(make\)).*`),
		`$1 make(_f32, float) make(_f16, f16) make(_bf16, bf16)`, "attention.cu norm.cu sort.cu window.cu"},
	{"reduce_row.cu", regexp.MustCompile(`(?m)^ARG_EXTREMES\(_integer,.*`), "", ""},
	{"scan.cu", regexp.MustCompile(`(?m)^CUMSUM\(_integer,.*`), "", ""},
}

// binaries are the compiled tests of packages.
var binaries = map[string]string{}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		if *most == 0 {
			return m.Run()
		}
		for _, f := range []emu.Flavour{emu.Plain, emu.Checked} {
			if _, err := emu.Build(f); err != nil {
				fmt.Println(err)
				return 1
			}
		}
		dir, err := os.MkdirTemp("", "weft-mutants-")
		if err != nil {
			fmt.Println(err)
			return 1
		}
		defer os.RemoveAll(dir)
		for _, p := range []string{raw, launches, operations} {
			binaries[p] = filepath.Join(dir, filepath.Base(p)+".test")
			cmd := exec.Command("scripts/cuda-env", "go", "test", "-c", "-tags", "cuda,emu", "-o", binaries[p], "./"+p)
			cmd.Dir = root
			if out, err := cmd.CombinedOutput(); err != nil {
				fmt.Printf("%v: %v\n%s", cmd, err, out)
				return 1
			}
		}
		return m.Run()
	}())
}

// root is the folder of the module.
var root = func() string {
	path, err := filepath.Abs("../../../..")
	if err != nil {
		panic(err)
	}
	return path
}()

// An end is what became of a mutant.
type end int

const (
	survived end = iota
	wrong        // results
	reported     // by the checked build
	hung
	invalid // does not compile
	ends
)

var endNames = [ends]string{"survives", "wrong results", "reported", "time", "does not compile"}

// TestMutants changes one place of a kernel at a time: its tests must notice, in the plain or the checked build. A
// change that cannot be noticed stands in equivalent.txt with its reason. At most one of twenty of the others may
// survive.
func TestMutants(t *testing.T) {
	if *most == 0 {
		t.Skip("slow: -mutants 20 runs 20 of each file and those of the order among threads")
	}
	known := equivalent(t)
	var total [ends + 1]int // the last: equivalent
	table := "file                possible   made  wrong  reported  time  equivalent  survive  invalid\n"
	line := func(name string, possible int, n [ends + 1]int) {
		made := n[survived] + n[wrong] + n[reported] + n[hung] + n[ends]
		table += fmt.Sprintf("%-18s%10d%7d%7d%10d%6d%12d%9d%9d\n", name, possible, made, n[wrong], n[reported], n[hung],
			n[ends], n[survived], n[invalid])
	}
	everything := 0
	for _, f := range families {
		if *only != "" && f.file != *only {
			continue
		}
		text, err := src.Files.ReadFile(f.file)
		must(t, err)
		all := Of(f.file, string(text), f.exact)
		// The sources as they are show that the tests pass, and what they take.
		unchanged := f.try(t.TempDir(), string(text), 10*time.Minute)
		if unchanged.end != survived {
			t.Fatalf("%s unchanged: %s\n%s", f.file, endNames[unchanged.end], unchanged.output)
		}
		limit := 5*time.Second + 3*unchanged.most
		t.Logf("%s: %d possible; the tests take at most %v of a processor at once", f.file, len(all),
			unchanged.most.Round(time.Second/10))
		var n [ends + 1]int
		some := chosen(all)
		for i, e := range f.tryAll(t, some, limit) {
			if _, found := known[some[i].Name()]; found {
				switch e {
				case survived:
					e = ends
				case invalid:
				default:
					t.Errorf("%s is killed (%s), but stands in equivalent.txt", some[i].Name(), endNames[e])
				}
			}
			n[e]++
		}
		line(f.file, len(all), n)
		everything += len(all)
		for k := range n {
			total[k] += n[k]
		}
	}
	line("all", everything, total)
	t.Log("\n" + table)
	tried := total[survived] + total[wrong] + total[reported] + total[hung]
	if 20*total[survived] > tried {
		t.Errorf("%d of %d mutants survive", total[survived], tried)
	}
}

// chosen are those that -like names, or the mutants of the order among threads, and as many others as are asked for,
// without regard to their place.
func chosen(all []Mutant) (some []Mutant) {
	if *like != "" {
		re := regexp.MustCompile(*like)
		return slices.DeleteFunc(slices.Clone(all), func(m Mutant) bool { return !re.MatchString(m.Name()) })
	}
	ordered := slices.Clone(all)
	slices.SortStableFunc(ordered, func(a, b Mutant) int { return cmp.Compare(spread(&a), spread(&b)) })
	others := 0
	for _, m := range ordered {
		switch m.Kind {
		case "no barrier", "no wait", "later wait", "no commit":
		default:
			if others++; *most >= 0 && others > *most {
				continue
			}
		}
		some = append(some, m)
	}
	return some
}

// spread orders mutants without regard to their place, the same each time.
func spread(m *Mutant) uint64 {
	h := fnv.New64a()
	h.Write([]byte(m.Name()))
	return h.Sum64() * 0x9e3779b97f4a7c15
}

// tryAll tries some at a time.
func (f *family) tryAll(t *testing.T, all []Mutant, limit time.Duration) []end {
	results := make([]end, len(all))
	next := make(chan int)
	var wait sync.WaitGroup
	for range *jobs {
		dir := t.TempDir()
		wait.Go(func() {
			for i := range next {
				m := &all[i]
				results[i] = f.try(dir, m.Text, limit).end
				t.Logf("%s:%d: %s: %s: %s  =>  %s", m.File, m.Line, endNames[results[i]], m.Kind, m.Before, m.After)
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	wait.Wait()
	return results
}

// A result is what became of a text: its end, what the last program printed, and the most processor time of a test.
type result struct {
	end    end
	output string
	most   time.Duration
}

// try runs the tests with a text in place of the file, first in the plain build. Each has so much processor time.
func (f *family) try(dir, text string, limit time.Duration) (r result) {
	if err := os.RemoveAll(dir); err != nil {
		panic(err)
	}
	if err := os.CopyFS(dir, src.Files); err != nil {
		panic(err)
	}
	write := func(file, text string) {
		for _, trim := range trims {
			if trim.file == file && !slices.Contains(strings.Fields(trim.not), f.file) {
				text = trim.from.ReplaceAllString(text, trim.to)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o666); err != nil {
			panic(err)
		}
	}
	for _, trim := range trims {
		whole, err := src.Files.ReadFile(trim.file)
		if err != nil {
			panic(err)
		}
		write(trim.file, string(whole))
	}
	write(f.file, text)
	for _, flavour := range []emu.Flavour{emu.Plain, emu.Checked} {
		if f.kernels != "" {
			err := emu.Variant(flavour, dir, strings.Fields(f.kernels))
			var c *emu.CompileError
			if errors.As(err, &c) {
				return result{invalid, c.Output, 0}
			} else if err != nil {
				panic(err)
			}
		}
		for _, test := range f.tests {
			one := run(dir, flavour, test[0], test[1], limit)
			one.most = max(one.most, r.most)
			if r = one; r.end != survived {
				return r
			}
		}
	}
	return r
}

// run runs tests of a package with the libraries in a folder.
func run(dir string, flavour emu.Flavour, pkg, names string, limit time.Duration) result {
	pattern := "^Test(" + names + ")$"
	driver, nvrtc := flavour.Libraries()
	env := append(os.Environ(), "GOMAXPROCS=1", "WEFT_CACHE="+filepath.Join(dir, "cache"))
	if pkg == raw {
		pattern += map[emu.Flavour]string{emu.Plain: "/^plain", emu.Checked: "/^checked"}[flavour]
		env = append(env, "WEFT_EMU_MUTANT="+dir)
	} else {
		env = append(env, "WEFT_CUDA_DRIVER="+filepath.Join(dir, driver),
			"WEFT_NVRTC="+filepath.Join(root, "build/emu", nvrtc), "WEFT_EMU_SCHEDULES=1")
	}
	// What hangs is killed by the system: time on the clock would tell more about other programs.
	cmd := exec.Command("sh", "-c", `ulimit -t "$1" && shift && exec "$@"`, "sh", fmt.Sprint(int(limit.Seconds())),
		binaries[pkg], "-test.run", pattern, "-test.failfast", "-test.short")
	cmd.Dir, cmd.Env = filepath.Join(root, pkg), env
	out, err := cmd.CombinedOutput()
	r := result{wrong, string(out), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	switch {
	case err == nil && !bytes.Contains(out, []byte("no tests to run")):
		r.end = survived
	case cmd.ProcessState.ExitCode() < 0 && r.most > limit*9/10:
		r.end = hung
	case bytes.Contains(out, []byte("error: ")):
		r.end = invalid
	case bytes.Contains(out, []byte("emulator:")):
		r.end = reported
	}
	return r
}

// equivalent are the changes that nothing can notice, with the reason. In the file a line names a change as Name does,
// and the next one, after a tab, tells why.
func equivalent(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("equivalent.txt")
	must(t, err)
	all := map[string]string{}
	name := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch reason, isReason := strings.CutPrefix(line, "\t"); {
		case line == "" || line[0] == '#':
		case isReason && name != "":
			all[name], name = reason, ""
		case isReason || name != "":
			t.Fatalf("equivalent.txt: a change and its reason take turns; found %q", line)
		default:
			name = line
		}
	}
	return all
}

// TestEquivalent: what equivalent.txt names are still changes of the sources.
func TestEquivalent(t *testing.T) {
	names := map[string]bool{}
	for _, f := range families {
		text, err := src.Files.ReadFile(f.file)
		must(t, err)
		for _, m := range Of(f.file, string(text), f.exact) {
			names[m.Name()] = true
		}
	}
	for name := range equivalent(t) {
		if !names[name] {
			t.Errorf("equivalent.txt: there is no such change any more: %s", name)
		}
	}
}

// TestFamilies: the tests that families name exist.
func TestFamilies(t *testing.T) {
	for _, f := range families {
		for _, test := range f.tests {
			files, err := filepath.Glob(filepath.Join(root, test[0], "*_test.go"))
			must(t, err)
			var all []byte
			for _, file := range files {
				text, err := os.ReadFile(file)
				must(t, err)
				all = append(all, text...)
			}
			for _, name := range strings.Split(test[1], "|") {
				if !bytes.Contains(all, []byte("\nfunc Test"+name+"(t *testing.T)")) {
					t.Errorf("%s: %s has no test Test%s", f.file, test[0], name)
				}
			}
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
