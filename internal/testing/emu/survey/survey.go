//go:build emu && cuda && cgo && linux

package survey

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weft-ml/weft/internal/testing/emu"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cpu"
	"github.com/weft-ml/weft/kernels/cuda"
	"github.com/weft-ml/weft/kernels/cuda/images"
	"github.com/weft-ml/weft/kernels/cuda/src"
)

// variable is set in processes that run the program.
const variable = "WEFT_SURVEY"

// Main is TestMain of a program: main runs in the processes that [Holes] starts, with the device "survey".
func Main(m *testing.M, main func()) {
	if os.Getenv(variable) == "" {
		os.Exit(m.Run())
	}
	kernels.Register("survey", func(ordinal int) (kernels.Backend, error) {
		gpu, err := kernels.Open(fmt.Sprint("cuda:", ordinal))
		return device{gpu}, err
	})
	main()
}

// Holes runs the program with some arguments and fails for each operation that the GPU has no kernel for.
func Holes(t *testing.T, args string) {
	t.Helper()
	if err := emu.Use(emu.Plain); errors.Is(err, emu.ErrNoCompiler) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], append([]string{"-device", "survey"}, strings.Fields(args)...)...)
	cmd.Env = append(os.Environ(), variable+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "done: ") {
		t.Errorf("%s: %v\n%s", args, err, out)
	}
	var holes []string
	for line := range strings.Lines(string(out)) {
		if hole, found := strings.CutPrefix(line, "hole: "); found && !slices.Contains(holes, hole) {
			holes = append(holes, hole)
			t.Errorf("%s: no kernel: %s", args, hole)
		}
	}
}

// device is a GPU; it reports the operations without kernel on standard error and computes them on the CPU.
type device struct{ kernels.Backend }

// Name tells the device from the GPU itself.
func (d device) Name() string { return "survey of " + d.Backend.Name() }

// Run runs an op call; without a kernel it reports a hole and runs the call on the CPU. A pointwise operation without
// an image is a hole, too: the emulator compiles it, but a machine without NVRTC cannot.
func (d device) Run(l *kernels.Launch) error {
	if err := imageOf(l); err != nil {
		note(l, err)
	}
	err := d.Backend.Run(l)
	if !errors.Is(err, kernels.ErrDevice) || errors.Is(err, cuda.ErrFault) || errors.Is(err, cuda.ErrLost) {
		return err
	}
	note(l, err)
	return d.onCPU(l)
}

// note prints a hole.
func note(l *kernels.Launch, why error) {
	var types []string
	for _, a := range slices.Concat(l.In, l.Out) {
		types = append(types, a.DType.String())
	}
	fmt.Fprintf(os.Stderr, "hole: %s (%s): %v\n", l.Op.Name, strings.Join(types, " "), why)
}

// imageOf fails if the op call is pointwise and its kernel is not among the compiled ones.
func imageOf(l *kernels.Launch) error {
	if l.Op.Expr == nil {
		return nil
	}
	text, err := src.PointwiseOf(l).Text()
	if err == nil && !texts()[src.Sum(text)] {
		err = errors.New("no image; make kernels compiles what internal/tools/kernelc launches")
	}
	return err
}

// texts are the sources of all compiled kernels, as sums.
var texts = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	for _, m := range images.All() {
		all[m.Text] = true
	}
	return all
})

// onCPU runs an op call on copies of its memory.
func (d device) onCPU(l *kernels.Launch) error {
	host, memory := l.Clone(), map[kernels.Buffer][]byte{}
	for _, args := range [2][]kernels.Arg{host.In, host.Out} {
		for i := range args {
			a := &args[i]
			if memory[a.Buf] == nil {
				memory[a.Buf] = make([]byte, a.Buf.Bytes())
				if err := d.Read(l.Stream, memory[a.Buf], a.Buf, 0); err != nil {
					return err
				}
			}
			a.Buf = cpu.Wrap(memory[a.Buf])
		}
	}
	if err := (cpu.Backend{}).Run(host); err != nil {
		return err
	}
	for _, a := range l.Out {
		if err := d.CopyIn(l.Stream, a.Buf, 0, memory[a.Buf]); err != nil {
			return err
		}
	}
	return nil
}
