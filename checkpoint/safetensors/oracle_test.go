package safetensors

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// oracle is Python's library in a process of its own.
type oracle struct {
	in    io.Writer
	out   *bufio.Scanner
	types []string // that it can write
}

type oracleTensor struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
	Data  []byte `json:"data"`
}

type question struct {
	File     []byte            `json:"file"`
	Tensors  []oracleTensor    `json:"tensors"`
	Metadata map[string]string `json:"metadata"`
	Measure  *measurement      `json:"measure,omitempty"`
}

type measurement struct {
	What    string `json:"what"`
	Path    string `json:"path"`
	Tensors int    `json:"tensors"`
	Bytes   int    `json:"bytes"`
}

type answer struct {
	File    []byte
	Tensors []oracleTensor
	Seconds float64
	Error   string
}

// newOracle starts Python with the library of scripts/check-safetensors.
func newOracle(t testing.TB) *oracle {
	dir := os.Getenv("WEFT_SAFETENSORS_PYTHON")
	if dir == "" {
		t.Skip("run scripts/check-safetensors, which fetches Python's library")
	}
	python := exec.CommandContext(t.Context(), "python3", "testdata/oracle.py")
	python.Env = append(os.Environ(), "PYTHONPATH="+dir)
	python.Stderr = os.Stderr
	in, err := python.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := python.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := python.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := python.Wait(); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	o := &oracle{in: in, out: bufio.NewScanner(out)}
	o.out.Buffer(nil, 64<<20)
	var hello struct {
		Version string
		Types   []string
	}
	o.read(t, &hello)
	t.Logf("safetensors %s", hello.Version)
	o.types = hello.Types
	return o
}

func (o *oracle) read(t testing.TB, v any) {
	t.Helper()
	if !o.out.Scan() {
		t.Fatalf("no answer: %v", o.out.Err())
	}
	if err := json.Unmarshal(o.out.Bytes(), v); err != nil {
		t.Fatal(err)
	}
}

func (o *oracle) ask(t testing.TB, q question) (a answer) {
	t.Helper()
	line, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.in.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	o.read(t, &a)
	return a
}

// TestPython writes random tensors here and reads them in Python, and, of those types that Python writes, the other way
// round: its files are ours byte for byte.
func TestPython(t *testing.T) {
	o := newOracle(t)
	same := 0
	for seed := range uint64(300) {
		tensors, data := random(rand.New(rand.NewPCG(seed, 2)))
		file, err := write(tensors, nil, data)
		if err != nil {
			t.Fatal(err)
		}
		read := o.ask(t, question{File: file})
		if read.Error != "" || len(read.Tensors) != len(tensors) {
			t.Fatalf("seed %d: Python reads %d of %d tensors, error %q", seed, len(read.Tensors), len(tensors),
				read.Error)
		}
		theirs := []oracleTensor{}
		var ours []Tensor
		for _, x := range tensors {
			i := slices.IndexFunc(read.Tensors, func(y oracleTensor) bool { return y.Name == x.Name })
			if i < 0 {
				t.Fatalf("seed %d: Python finds no %q", seed, x.Name)
			}
			y := read.Tensors[i]
			if y.DType != x.DType.String() || !slices.Equal(y.Shape, x.Shape) || string(y.Data) != data[x.Name] {
				t.Fatalf("seed %d: Python reads %+v, want %+v", seed, y, x)
			}
			if slices.Contains(o.types, y.DType) {
				theirs, ours = append(theirs, y), append(ours, x)
			}
		}
		file, err = write(ours, nil, data)
		if err != nil {
			t.Fatal(err)
		}
		written := o.ask(t, question{Tensors: theirs, Metadata: map[string]string{"format": "pt"}}).File
		if !bytes.Equal(written, file) {
			t.Fatalf("seed %d: Python writes\n%q, Weft\n%q", seed, written, file)
		}
		f := open(t, written)
		for _, x := range ours {
			check(t, f, x, data[x.Name])
		}
		same += len(ours)
	}
	t.Logf("300 files, %d tensors written alike", same)
}

// lax are the faults that Python's library lets pass.
var lax = []string{"name of a tensor", "header", "text", "key in ", "__metadata__", "entry", "shape"}

// TestPythonRefuses changes files at random, and opens those of testdata/evil. What Python refuses, Weft must refuse;
// what Weft refuses alone is of few kinds, such as names that come twice.
func TestPythonRefuses(t *testing.T) {
	o := newOracle(t)
	files := evilFiles(t)
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		tensors, data := random(rng)
		file, err := write(tensors, nil, data)
		if err != nil {
			t.Fatal(err)
		}
		for range 1 + rng.IntN(2) {
			file = change(rng, file)
		}
		files[fmt.Sprint("seed ", seed)] = file
	}
	right, both, alone := 0, 0, map[string]int{}
	for name, file := range files {
		_, err := Open(bytes.NewReader(file), int64(len(file)))
		theirs := o.ask(t, question{File: file})
		var format *FormatError
		switch {
		case err == nil && theirs.Error == "":
			right++
		case err == nil:
			t.Errorf("%s: only Python refuses it: %s\n%q", name, theirs.Error, file)
		case theirs.Error != "":
			both++
		case errors.As(err, &format) && slices.ContainsFunc(lax, func(part string) bool {
			return strings.HasPrefix(format.What, part)
		}):
			alone[strings.Fields(format.What)[0]]++
		default:
			t.Errorf("%s: only Weft refuses it: %v", name, err)
		}
	}
	t.Logf("%d files accepted by both, %d refused by both, by Weft alone %v", right, both, alone)
}

// change makes a small change to a file.
func change(rng *rand.Rand, file []byte) []byte {
	header := 8 + int(file[0]) + int(file[1])<<8
	at := 8 + rng.IntN(min(header, len(file))-8)
	switch rng.IntN(6) {
	case 0: // cut
		file = file[:9+rng.IntN(len(file)-9)]
	case 1: // longer
		file = append(file, 'x')
	case 2: // another byte
		file[at] = byte(rng.Uint32())
	case 3: // another digit
		file = bytes.Replace(file, []byte{byte('0' + rng.IntN(10))}, []byte{byte('0' + rng.IntN(10))}, 1)
	case 4: // another type
		name := func() []byte { return []byte(`"` + DType(1+rng.IntN(len(dtypes)-1)).String() + `"`) }
		file = bytes.Replace(file, name(), name(), 1)
	default: // two bytes change places
		other := 8 + rng.IntN(min(header, len(file))-8)
		file[at], file[other] = file[other], file[at]
	}
	return file
}
