package onnx

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// readTests reads the files of all tests, by name.
func readTests(t *testing.T) map[string]map[string][]byte {
	f, err := os.Open("testdata/node.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	tests, byPath := map[string]map[string][]byte{}, map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return tests
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeLink {
			b = byPath[h.Linkname]
		}
		byPath[h.Name] = b
		name, file, _ := strings.Cut(h.Name, "/")
		if tests[name] == nil {
			tests[name] = map[string][]byte{}
		}
		tests[name][file] = b
	}
}

// TestNode runs the node tests of ONNX. What is neither supported nor left out for a reason is an error.
func TestNode(t *testing.T) {
	dev, err := tensor.Open("cpu")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	tests := readTests(t)
	passed, failed := 0, 0
	reasons, used := map[string]int{}, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		why, operator := "", ""
		m, err := readModel(tests[name]["model.onnx"])
		var missing typeError
		switch {
		case errors.As(err, &missing):
			why = missing.Error()
		case err != nil:
			t.Errorf("%s: %v", name, err)
			continue
		default:
			why, operator = lacks(m.graph)
		}
		if operator != "" && why == "" {
			t.Errorf("%s needs the operator %s, which is neither there nor listed as outside", name, operator)
			continue
		}
		used[operator], used[name] = true, true
		if why = cmp.Or(why, left[name]); why != "" {
			reasons[why]++
			continue
		}
		if t.Run(strings.TrimPrefix(name, "test_"), func(t *testing.T) { runTest(t, dev, m, tests[name]) }) {
			passed++
		} else {
			failed++
		}
	}
	for name := range maps.All(outside) {
		if !used[name] || operators[name] != nil {
			t.Errorf("operator %s is listed as outside, and no test is left out for it", name)
		}
	}
	for name := range left {
		if !used[name] {
			t.Errorf("there is no test %s to leave out", name)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Printf("left out %3d: %s\n", reasons[why], why)
	}
	fmt.Printf("node tests %d, supported %d, passed %d, failed %d\n", len(tests), passed+failed, passed, failed)
	if passed < 600 {
		t.Errorf("%d tests passed, 600 are wanted", passed)
	}
}

// runTest runs all data sets of a test.
func runTest(t *testing.T, dev *tensor.Device, m *model, files map[string][]byte) {
	sets := 0
	for ; files[path.Join(fmt.Sprint("test_data_set_", sets), "output_0.pb")] != nil; sets++ {
		folder := fmt.Sprint("test_data_set_", sets)
		tensors := func(kind string, declared []int64) (all []*tensor.Tensor) {
			for i := 0; ; i++ {
				b := files[path.Join(folder, fmt.Sprintf("%s_%d.pb", kind, i))]
				if b == nil {
					return all
				}
				_, x, err := readTensor(b, declared[i])
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, x)
			}
		}
		inputs := tensors("input", m.graph.types)
		want := tensors("output", m.graph.types[len(m.graph.inputs):])
		err := dev.Eval(func(s *tensor.Scope) error {
			values := map[string]*tensor.Tensor{}
			for i, x := range inputs {
				values[m.graph.inputs[i]] = s.In(x)
			}
			got := evaluate(s, m.graph, m.opset, values)
			if len(got) != len(want) {
				t.Fatalf("%d outputs, want %d", len(got), len(want))
			}
			for i, y := range got {
				compare(t, fmt.Sprint("output ", i), y, want[i])
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if sets == 0 {
		t.Error("no data")
	}
}

// compare compares shape and type, and values within ONNX's own tolerances.
func compare(t *testing.T, what string, got, want *tensor.Tensor) {
	if got == nil || got.DType() != want.DType() || !slices.Equal(got.Shape(), want.Shape()) {
		t.Errorf("%s is %v, want %v", what, got, want)
		return
	}
	rtol, atol := 1e-3, 1e-7
	if want.DType() == tensor.BFloat16 || want.DType() == tensor.Float16 {
		rtol = 1e-2
	}
	x, y := tensor.ToSlice[float64](got), tensor.ToSlice[float64](want)
	for i := range x {
		same := x[i] == y[i] || x[i] != x[i] && y[i] != y[i]
		if !same && !(math.Abs(x[i]-y[i]) <= atol+rtol*math.Abs(y[i])) {
			t.Errorf("%s [%d] is %v, want %v", what, i, x[i], y[i])
			return
		}
	}
}
