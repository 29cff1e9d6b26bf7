package tensor_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/tensor"
)

// TestFormatNumPy compares with what NumPy prints: scripts/goldens/format.py wrote the file.
func TestFormatNumPy(t *testing.T) {
	file, err := os.ReadFile("testdata/numpy.txt")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]tensor.DType{}
	for _, dt := range []tensor.DType{tensor.Float64, tensor.Float32, tensor.Float16, tensor.Int64, tensor.Uint8} {
		types[dt.String()] = dt
	}
	cases := strings.Split(strings.TrimSuffix(string(file), "\n=\n"), "\n=\n")
	if len(cases) < 30 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		input, want, _ := strings.Cut(c, "\n")
		part := strings.Split(input, "|")
		shape, n := []int{}, 1
		for _, d := range strings.FieldsFunc(part[1], func(r rune) bool { return r == ',' }) {
			size, _ := strconv.Atoi(d)
			shape, n = append(shape, size), n*size
		}
		var x *tensor.Tensor
		if start, step, ok := strings.Cut(part[2], ":"); ok {
			a, _ := strconv.ParseFloat(start, 64)
			d, _ := strconv.ParseFloat(step, 64)
			x = tensor.Arange(tensor.Float64, a, a+float64(n)*d, d).Reshape(shape...)
		} else {
			v := make([]float64, 0)
			exact := make([]int64, 0)
			for _, f := range strings.FieldsFunc(part[2], func(r rune) bool { return r == ',' }) {
				a, _ := strconv.ParseFloat(f, 64)
				i, _ := strconv.ParseInt(f, 10, 64)
				v, exact = append(v, a), append(exact, i)
			}
			if x = tensor.FromSlice(v, shape...); part[0] == "int64" {
				x = tensor.FromSlice(exact, shape...)
			}
		}
		x = x.To(types[part[0]])
		between := " "
		if strings.Contains(want, "\n") {
			between = "\n"
		}
		want = x.String() + between + want
		if got := fmt.Sprint(x); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", input, got, want)
		}
		for a := range shape { // strides do not matter
			if y := x.Transpose(0, a).Clone().Transpose(0, a); fmt.Sprint(y) != want {
				t.Errorf("%s, strides %v:\n%v\nwant\n%s", input, y, y, want)
			}
		}
	}
}

func TestFormat(t *testing.T) {
	x := tensor.FromSlice([]float32{1, -2.5, 3, 0.125, 5, 60}, 2, 3)
	i := tensor.FromSlice([]int32{1, -20, 3}, 3)
	var none *tensor.Tensor
	for _, c := range []struct {
		format string
		of     *tensor.Tensor
		want   string
	}{
		{"%.3f", x, "float32[2 3]\n[[ 1.000 -2.500  3.000]\n [ 0.125  5.000 60.000]]"},
		{"%8.1f", x.Select(0, 1), "float32[3] [     0.1      5.0     60.0]"},
		{"%+.1e", x.Select(0, 1), "float32[3] [+1.2e-01 +5.0e+00 +6.0e+01]"},
		{"%g", x.Select(0, 1), "float32[3] [0.125     5    60]"},
		{"%.2v", x.Select(0, 1), "float32[3] [ 0.12  5.   60.  ]"},
		{"%.0v", x.Select(0, 1), "float32[3] [ 0.  5. 60.]"},
		{"%s", x, "float32[2 3]"},
		{"%14s|", x, "  float32[2 3]|"},
		{"%q", x, `"float32[2 3]"`},
		{"%#v", x.T(), "float32[3 2], strides [1 3]"},
		{"%+v", x.T().Select(0, 0), "float32[2], strides [3] [1.    0.125]"},
		{"%d", x, "%!d(float32[2 3])"},
		{"%z", x, "%!z(float32[2 3])"},
		{"%v", i, "int32[3] [  1 -20   3]"},
		{"%4d", i, "int32[3] [   1  -20    3]"},
		{"%.1f", i, "int32[3] [  1.0 -20.0   3.0]"},
		{"%v", i.Greater(tensor.Of(int32(2))), "bool[3] [false false  true]"},
		{"%.3f", i.Greater(tensor.Of(int32(2))), "bool[3] [false false  true]"},
		{"%v", x.Select(0, 0).To(tensor.BFloat16).Scale(0.1), "bfloat16[3] [ 0.1  -0.25  0.3 ]"},
		{"%v", none, "nil tensor"},
		{"%+v %[1]s", none, "nil tensor nil tensor"},
		{"%v", &tensor.Tensor{}, "float32[] (no values yet)"},
		{"%v", nn.Parameter(nil, 2), "float32[2] (no values yet)"},
		{"%+v", nn.ParameterOf("w", tensor.Of(2.5)), "w float64[], strides [], needs a gradient 2.5"},
		{"%v", tensor.Zeros(tensor.Uint8, 2).Unsqueeze(0).Expand(2, 2), "uint8[2 2]\n[[0 0]\n [0 0]]"},
	} {
		if got := fmt.Sprintf(c.format, c.of); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.format, got, c.want)
		}
	}
}

// Values are read inside a step, too; what cannot be read is named.
func TestFormatInStep(t *testing.T) {
	dev := open(t)
	w, err := engine.NewState(dev, "w", tensor.Float32, 2)
	if err != nil {
		t.Fatal(err)
	}
	var made, freed *tensor.Tensor
	says := func(x *tensor.Tensor, want string) {
		t.Helper()
		if got := fmt.Sprint(x); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	err = dev.Step(func(s *tensor.Scope) error {
		made = s.Full(1.5, tensor.Float32, 2)
		says(made, "float32[2] [1.5 1.5]")
		says(s.Full(2, tensor.BFloat16, 40, 50).T(), "bfloat16[50 40]\n"+
			"[[2. 2. 2. ... 2. 2. 2.]\n [2. 2. 2. ... 2. 2. 2.]\n [2. 2. 2. ... 2. 2. 2.]\n ...\n"+
			" [2. 2. 2. ... 2. 2. 2.]\n [2. 2. 2. ... 2. 2. 2.]\n [2. 2. 2. ... 2. 2. 2.]]")
		s.Region("part", func() []*tensor.Tensor { freed = made.Scale(2); return nil })
		says(freed, "float32[2] (released when region part ended)")
		says(w, "w float32[2] [0. 0.]")
		w.Assign(made)
		if got := fmt.Sprint(w); !strings.HasPrefix(got, "w float32[2] (w float32[2] was updated in this step") {
			t.Errorf("after an update: %q", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	says(made, "float32[2] (released when its step at format_test.go:127 ended)")
	says(w, "w float32[2] [1.5 1.5]")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%.2f", "%x", "%p"} {
		if got := fmt.Sprintf(verb, made); strings.Contains(got, "PANIC") {
			t.Errorf("%s of a released tensor: %s", verb, got)
		}
	}
}

// On a device with memory of its own the values are fetched; what is cut away is not.
func TestFormatOnDevice(t *testing.T) {
	dev, err := tensor.Open("null")
	if err != nil {
		t.Fatal(err)
	}
	w, err := engine.NewState(dev, "w", tensor.Float32, 2000, 2)
	if err != nil {
		t.Fatal(err)
	}
	rows := " [0. 0.]\n [0. 0.]\n [0. 0.]"
	want := "w float32[2000 2]\n[" + rows[1:] + "\n ...\n" + rows + "]"
	if got := fmt.Sprint(w); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := dev.Eval(func(s *tensor.Scope) error {
		if got := fmt.Sprint(s.In(w)); got != want {
			t.Errorf("in a step: got %s, want %s", got, want)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// Messages of errors name tensors: printing values there would wait for the device.
func TestErrorsNameTensors(t *testing.T) {
	err := engine.Try(func() { engine.Fail(tensor.ErrValue, "test", "%v and %d", tensor.Of(math.Pi), 3) })
	var e *tensor.Error
	if !errors.As(err, &e) || e.Msg != "float64[] and 3" {
		t.Errorf("got %v", err)
	}
}

func ExampleTensor_Format() {
	x := tensor.Arange(tensor.Float32, 0, 3, 0.5).Reshape(2, 3)
	fmt.Println(x)
	fmt.Printf("%.2f\n", x.Select(0, 1))
	fmt.Printf("%s\n", x)
	fmt.Println(tensor.Arange(tensor.Int64, 0, 1e6, 1).Reshape(1000, 1000))
	// Output:
	// float32[2 3]
	// [[0.  0.5 1. ]
	//  [1.5 2.  2.5]]
	// float32[3] [1.50 2.00 2.50]
	// float32[2 3]
	// int64[1000 1000]
	// [[     0      1      2 ...    997    998    999]
	//  [  1000   1001   1002 ...   1997   1998   1999]
	//  [  2000   2001   2002 ...   2997   2998   2999]
	//  ...
	//  [997000 997001 997002 ... 997997 997998 997999]
	//  [998000 998001 998002 ... 998997 998998 998999]
	//  [999000 999001 999002 ... 999997 999998 999999]]
}
