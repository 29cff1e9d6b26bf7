package neon

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestWords holds the words of all instructions to those of another assembler: each line of testdata/words.txt was
// assembled from its comment by llvm-mc -triple=aarch64 of LLVM 14.
func TestWords(t *testing.T) {
	f := NewFile("go run .", "x", "pool")
	var names []string
	for name := range instructions {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if strings.Contains(instructions[name].operands, "%[3]") {
			f.Op(name, 17, 10, 21)
		} else {
			f.Op(name, 17, 10)
		}
	}
	for _, name := range []string{"SHL", "SSHR", "USHR"} {
		for _, by := range []int{1, 16, 31} {
			f.Shift(name, 30, 1, by)
		}
	}
	for lane := range 4 {
		f.MultiplyAdd(23, 31, 26, lane)
	}
	f.Move(1, 31)
	f.Zero(9)
	want, err := os.ReadFile("testdata/words.txt")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(f.code.String(), "\n")
	for i, line := range strings.Split(string(want), "\n") {
		if i >= len(got) || strings.TrimSpace(got[i]) != line {
			t.Errorf("line %d is %q, want %q", i+1, got[min(i, len(got)-1)], line)
		}
	}
}

// The offsets of arguments are those of Go's stack frames: results begin at a word.
func TestArguments(t *testing.T) {
	f := NewFile("go run .", "x", "pool")
	f.Func("f", "does nothing.", "func(p **float32, n, m int, x float32, add bool) (a, b float32)", 100)
	for name, at := range map[string]int{"p": 0, "n": 8, "m": 16, "x": 24, "add": 28, "a": 32, "b": 36} {
		if got, want := f.Argument(name), fmt.Sprintf("%s+%d(FP)", name, at); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if text := string(f.Assembly()); !strings.Contains(text, "TEXT ·f(SB), NOSPLIT, $104-40") {
		t.Error(text)
	}
	if at := []int{f.Constant(1, 1, 1, 1), f.Constant(2), f.Constant(1, 1, 1, 1), f.Constant(3)}; !slices.Equal(at,
		[]int{0, 16, 0, 32}) {
		t.Errorf("constants at %v", at)
	}
}

func TestUnknownInstruction(t *testing.T) {
	for name, f := range map[string]func(f *File){
		"FSQRT": func(f *File) { f.Op("FSQRT", 1, 2, 3) }, "FADD": func(f *File) { f.Op("FADD", 1, 2) },
		"NOPE": func(f *File) { f.Op("NOPE", 1, 2) },
	} {
		func() {
			defer func() {
				if why := fmt.Sprint(recover()); !strings.Contains(why, "no instruction "+name) {
					t.Errorf("%s: %s", name, why)
				}
			}()
			f(NewFile("go run .", "x", "pool"))
		}()
	}
}
