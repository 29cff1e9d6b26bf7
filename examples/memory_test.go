package examples

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// TestMemoryLimit: chargpt within half of the memory that it takes ends with a report that says what helps, and what
// helps gives the same weights; halving the batch helps, too.
func TestMemoryLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("trains four times")
	}
	binary := build(t, "chargpt") + "chargpt"
	train := func(args ...string) (last map[string]any, stderr string, err error) {
		return lastLine(t, binary, append([]string{"-steps", "2", "-sample", "0"}, args...)...)
	}
	whole, stderr, err := train()
	if err != nil {
		t.Fatal(err, stderr)
	}
	half := fmt.Sprint(int(whole["peak_reserved"].(float64)) / 2)
	_, stderr, err = train("-memory-limit", half)
	for _, want := range []string{"error: main.go:", "requested", "largest:",
		"float32[16 64 512] gelu_tanh at main.go:", " in blocks.1/mlp", "as it is, a batch of ",
		"-checkpoint-blocks 1, 16 fits"} {
		if err == nil || !strings.Contains(stderr, want) {
			t.Errorf("half the memory: no %q in %q", want, stderr)
		}
	}
	for _, flags := range []string{"-checkpoint-blocks 1", "-halve-batch"} {
		last, stderr, err := train(append(strings.Fields(flags), "-memory-limit", half)...)
		if err != nil {
			t.Fatalf("%s: %v %s", flags, err, stderr)
		}
		if got := last["peak_reserved"].(float64); got > whole["peak_reserved"].(float64)/2 {
			t.Errorf("%s: %.0f bytes", flags, got)
		}
		if flags != "-halve-batch" && last["hash"] != whole["hash"] {
			t.Errorf("%s: hash %v, want %v", flags, last["hash"], whole["hash"])
		}
	}
}

// lastLine runs a program; last is what its last JSON line has.
func lastLine(t *testing.T, binary string, args ...string) (last map[string]any, stderr string, err error) {
	t.Helper()
	out, err := exec.Command(binary, append([]string{"-device", "cpu", "-log", "json", "-hash"}, args...)...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, string(exit.Stderr), err
	}
	all := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err := json.Unmarshal([]byte(all[len(all)-1]), &last); err != nil {
		t.Fatal(err)
	}
	return last, "", err
}

// TestHalveBatch: programs that do not get the memory for a batch train and test with parts of it.
func TestHalveBatch(t *testing.T) {
	if testing.Short() {
		t.Skip("trains")
	}
	for _, c := range []struct {
		limit int
		run   string
	}{
		{1_200_000, "mlp -epochs 1"}, {1_200_000, "cnn -epochs 1"}, {6_000_000, "images -epochs 1"},
		{6_000_000, "lstm -steps 2 -sample 0"},
	} {
		args := strings.Fields(c.run)
		binary := build(t, args[0]) + args[0]
		args = append(args[1:], "-memory-limit", fmt.Sprint(c.limit))
		if _, stderr, err := lastLine(t, binary, args...); err == nil || !strings.Contains(stderr, "requested") {
			t.Errorf("%s: %d bytes suffice, or %q", c.run, c.limit, stderr)
		}
		last, stderr, err := lastLine(t, binary, append(args, "-halve-batch")...)
		if err != nil || last["peak_reserved"].(float64) > float64(c.limit) {
			t.Errorf("%s: %v %s %v", c.run, err, stderr, last)
		}
	}
}
