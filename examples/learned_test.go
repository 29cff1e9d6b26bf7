package examples

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// build makes programs of this folder and returns the directory of the binaries.
func build(t *testing.T, programs ...string) string {
	t.Helper()
	bin := t.TempDir() + string(filepath.Separator)
	args := []string{"build", "-o", bin}
	for _, name := range programs {
		args = append(args, "./"+name)
		if _, err := os.ReadFile(name + "/main.go"); err != nil { // the go command sees that the test depends on it
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// TestLearned runs programs, shorter than they are by default, and checks what they have learned. Bounds are wide
// enough for other seeds.
func TestLearned(t *testing.T) {
	bin := build(t, "cnn", "hello", "images", "regression", "gan", "vae", "lstm")
	for program, c := range map[string]struct {
		args    string
		learned func(metrics map[string]float64) bool
	}{
		// Always the same digit would have 0.1; the network without its convolutions has 0.97.
		"cnn": {"", func(m map[string]float64) bool { return m["test_accuracy"] > 0.96 }},
		// Four shapes: guessing has 0.25.
		"images": {"-workers 2", func(m map[string]float64) bool { return m["test_accuracy"] > 0.9 }},
		// The best there can be is 1; predicting the mean has 5, a linear model some 2.6.
		"regression": {"", func(m map[string]float64) bool { return 1 <= m["test_rmse"] && m["test_rmse"] < 1.25 }},
		// Points spread over the disk of the ring would have a share of 0.22; without penalty the slope is above 500.
		"gan": {"-steps 800", func(m map[string]float64) bool {
			return m["clouds"] >= 7 && m["share_near_clouds"] > 0.6 && 0.8 < m["slope"] && m["slope"] < 1.3
		}},
		// What is learned beyond how bright each pixel is on average.
		"vae": {"-epochs 40", func(m map[string]float64) bool { return m["test_loss"] < m["mean_image_loss"]-2 }},
		// After a step no line is a number, after 100 two thirds are.
		"lstm": {"-steps 300", func(m map[string]float64) bool {
			return m["lines"] > 20 && m["numbers"] > 0.9*m["lines"]
		}},
	} {
		t.Run(program, func(t *testing.T) {
			args := append([]string{"-log", "json", "-device", "cpu"}, strings.Fields(c.args)...)
			out, err := exec.Command(bin+program, args...).Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			all := strings.Split(strings.TrimSpace(string(out)), "\n")
			var last map[string]any
			if err := json.Unmarshal([]byte(all[len(all)-1]), &last); err != nil {
				t.Fatal(err)
			}
			metrics := map[string]float64{}
			for name, v := range last {
				if number, ok := v.(float64); ok {
					metrics[name] = number
				}
			}
			t.Log(metrics)
			if !c.learned(metrics) {
				t.Errorf("not learned: %v", metrics)
			}
		})
	}
	t.Run("hello", func(t *testing.T) {
		out, err := exec.Command(bin + "hello").CombinedOutput()
		digits := regexp.MustCompile(`int64\[3\] \[\d \d \d\]`).FindAllString(string(out), -1)
		if err != nil || len(digits) != 2 || digits[0] != digits[1] {
			t.Errorf("what is read is not what is written: %v\n%s", err, out)
		}
	})
}
