package examples

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// picture shows the curves of TestHalfCurves.
const picture = "../docs/mixed-precision.svg"

// halfCurves are runs that differ in precision alone, float32 first.
var halfCurves = []struct {
	title string
	files [3]string
}{
	{"MLP on digits", [3]string{"mlp", "mlp-bf16", "mlp-fp16"}},
	{"char-GPT on Opticks, 400 steps", [3]string{"chargpt-400", "chargpt-bf16", "chargpt-fp16"}},
}

// TestHalfCurves compares the committed curves of mixed precision with those of float32: the mean loss of the last 50
// steps differs by at most 0.5 %. With -update it draws them.
func TestHalfCurves(t *testing.T) {
	var all [][3][]float64
	for _, c := range halfCurves {
		var curves [3][]float64
		for i, name := range c.files {
			for _, v := range read(t, filepath.Join("testdata", name+".loss")) {
				x, _ := strconv.ParseFloat(v, 64)
				curves[i] = append(curves[i], x)
			}
		}
		all = append(all, curves)
		want := mean(curves[0][len(curves[0])-50:])
		for i, curve := range curves[1:] {
			if len(curve) != len(curves[0]) {
				t.Fatalf("%s has %d steps, %s %d", c.files[1+i], len(curve), c.files[0], len(curves[0]))
			}
			got := mean(curve[len(curve)-50:])
			t.Logf("%s: %.5f, float32 %.5f, ratio %.5f", c.files[1+i], got, want, got/want)
			if !(math.Abs(got/want-1) <= 0.005) {
				t.Errorf("%s: the last 50 steps have a mean loss of %v, in float32 %v", c.files[1+i], got, want)
			}
		}
	}
	svg := draw(all)
	if *update {
		if err := os.WriteFile(picture, svg, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(picture); err != nil || !bytes.Equal(have, svg) {
		t.Errorf("%s does not show the curves (%v); go test ./examples -run HalfCurves -update draws it", picture, err)
	}
}

// TestHealthLog: where a far too large learning rate makes activations overflow, each step's line in the log names the
// first parameter whose gradient is not finite, and the operation that was first. The program ends with code 1.
func TestHealthLog(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("over and under ", 20)), 0o666); err != nil {
		t.Fatal(err)
	}
	const args = "-device cpu -log json -amp fp16 -anomaly -lr 3e3 -accumulate 2 -steps 3 " +
		"-layers 1 -width 16 -heads 2 -context 8 -batch 2 -sample 0 -data "
	out, err := exec.Command("go", append([]string{"run", "./chargpt"}, strings.Fields(args+text)...)...).Output()
	failed, _ := errors.AsType[*exec.ExitError](err)
	if failed == nil || !strings.Contains(string(failed.Stderr), "error: the loss is not finite since step 2\n") {
		t.Fatalf("%v\n%s", err, out)
	}
	for k, line := range strings.Split(string(out), "\n")[:3] {
		var step struct {
			Scale, Skipped     float64
			NonFinite, Anomaly string
		}
		if err := json.Unmarshal([]byte(line), &step); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		named := step.NonFinite == "tok.weight" && strings.HasPrefix(step.Anomaly, "main.go:") &&
			strings.HasSuffix(step.Anomaly, " in blocks.0/attn")
		if named != (k > 0) || step.Skipped != float64(k) || step.Scale != math.Ldexp(65536, -k) {
			t.Errorf("step %d: %s", k+1, line)
		}
	}
}

func mean(v []float64) (m float64) {
	for _, x := range v {
		m += x / float64(len(v))
	}
	return m
}

// draw makes one panel for each program, with a line for each precision: the mean of every 10 losses.
func draw(all [][3][]float64) []byte {
	const width, height, margin, every = 420, 260, 45, 10
	colors, names := [3]string{"#222222", "#1f77b4", "#d62728"}, [3]string{"float32", "bfloat16", "float16 and scaler"}
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" `+
		`font-size="12">`+"\n", len(all)*width, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	for k, curves := range all {
		left, right, top, bottom := float64(k*width+margin), float64((k+1)*width-15), 30., float64(height-margin)
		high := 0.
		for _, c := range curves {
			high = max(high, math.Ceil(mean(c[:every])))
		}
		steps := len(curves[0])
		fmt.Fprintf(&b, `<text x="%.0f" y="18">%s</text>`+"\n", left, halfCurves[k].title)
		fmt.Fprintf(&b, `<path d="M%.0f %.0fV%.0fH%.0f" fill="none" stroke="#888"/>`+"\n", left, top, bottom, right)
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" text-anchor="end">%.0f</text>`+
			`<text x="%.0f" y="%.0f" text-anchor="end">0</text>`+"\n", left-6, top+10, high, left-6, bottom)
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" text-anchor="end">%d steps</text>`+
			`<text x="%.0f" y="%.0f">loss</text>`+"\n", right, bottom+18, steps, left+6, top+10)
		for i, c := range curves {
			fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="%.1f" points="`, colors[i],
				[]float64{3, 1.2, 1.2}[i])
			for at := 0; at+every <= steps; at += every {
				x := left + (right-left)*(float64(at)+every/2)/float64(steps)
				fmt.Fprintf(&b, "%.1f,%.1f ", x, bottom-(bottom-top)*mean(c[at:at+every])/high)
			}
			fmt.Fprintf(&b, `"/><text x="%.0f" y="%.0f" fill="%s">%s</text>`+"\n",
				right-130, top+20+16*float64(i), colors[i], names[i])
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
