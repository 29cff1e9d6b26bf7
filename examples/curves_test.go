package examples

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	// What the programs use, so that the go command runs the test again when it changes.
	_ "github.com/weft-ml/weft/checkpoint"
	_ "github.com/weft-ml/weft/data"
	_ "github.com/weft-ml/weft/nn"
	_ "github.com/weft-ml/weft/optim"
	_ "github.com/weft-ml/weft/train"
)

var update = flag.Bool("update", false, "record the loss curves anew")

// TestLossCurves runs the examples, with their defaults and in mixed precision, and compares the loss of every step
// with the committed curve. Programs that train for minutes are stopped after the first steps.
func TestLossCurves(t *testing.T) {
	bin := build(t, "mlp", "chargpt")
	for _, c := range []struct {
		curve string // the program, and after a dash what distinguishes the run
		args  string
		steps int // to replay; 0: all
	}{
		{"mlp", "", 0},
		{"mlp-bf16", "-amp bf16", 200},
		{"mlp-fp16", "-amp fp16", 200},
		{"chargpt", "", 60},
		{"chargpt-400", "-sample 0 -steps 400", 1},
		{"chargpt-bf16", "-sample 0 -steps 400 -amp bf16", 15},
		{"chargpt-fp16", "-sample 0 -steps 400 -amp fp16", 15},
	} {
		t.Run(c.curve, func(t *testing.T) {
			file := filepath.Join("testdata", c.curve+".loss")
			program, _, _ := strings.Cut(c.curve, "-")
			if *update {
				record(t, file, losses(t, bin+program, c.args, 0))
				return
			}
			want := read(t, file)
			got := losses(t, bin+program, c.args, c.steps)
			if c.steps > 0 {
				want = want[:c.steps]
			}
			if len(got) != len(want) {
				t.Fatalf("%d steps, the curve has %d", len(got), len(want))
			}
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("step %d: loss %s, the curve has %s", i, got[i], want[i])
				}
			}
		})
	}
}

// losses runs a program and returns the losses of its first steps as printed; of all steps if limit is 0.
func losses(t *testing.T, binary, args string, limit int) (all []string) {
	cmd := exec.Command(binary, append([]string{"-log", "json"}, strings.Fields(args)...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var line struct {
			Event string
			Loss  json.Number
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%v in %q", err, lines.Text())
		}
		if line.Event != "step" {
			continue
		}
		if all = append(all, line.Loss.String()); len(all) == limit {
			cmd.Process.Kill()
			cmd.Wait()
			return all
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return all
}

func read(t *testing.T, file string) []string {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	curve := strings.Fields(string(b))
	for _, v := range curve {
		if _, err := strconv.ParseFloat(v, 64); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return curve
}

func record(t *testing.T, file string, curve []string) {
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Join(curve, "\n")+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%s: %d steps\n", file, len(curve))
}
