package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/weft-ml/weft/autograd"
	"github.com/weft-ml/weft/kernels"
	"github.com/weft-ml/weft/kernels/cuda"
	"github.com/weft-ml/weft/nn"
	"github.com/weft-ml/weft/optim"
	"github.com/weft-ml/weft/tensor"
)

// A check tests one ability of a device and reports in a few words what it found.
type check struct {
	name string
	try  func(device string) (string, error)
}

// The checks, each after those that it depends on.
var checks = []check{{"memory", onBackend(tryMemory)}, {"images", onBackend(tryImages)}, {"kernel", tryKernel},
	{"matmul", tryMatMul}, {"training", tryTraining}}

// checkCommand is the command by which doctor runs a check in a process of its own.
const checkCommand = "doctor-check"

// doctor checks the devices. A fault on a GPU ends the process, and a hang never ends: so each check is a process under
// a time limit.
func doctor(args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("doctor", flag.ContinueOnError)
	device := f.String("device", "", "try only this device: cpu, cuda, cuda:1, ...")
	limit := f.Duration("timeout", time.Minute, "time for one check")
	if err := parse(f, args, stderr); err != nil {
		return err
	}
	devices := []string{*device}
	if *device == "" {
		devices = []string{"cpu"}
		gpus, _, err := cuda.Devices()
		if err != nil {
			fmt.Fprintf(stdout, "no GPU: %s\n", reason(err))
		}
		for i := range gpus {
			devices = append(devices, fmt.Sprintf("cuda:%d", i))
		}
	}
	failed := 0
	for _, d := range devices {
		fmt.Fprintf(stdout, "%s\n", d)
		for _, c := range checks {
			start := time.Now()
			said, err := inProcess(d, c.name, *limit)
			verdict := "ok"
			if err != nil {
				verdict, said = "FAILED", err.Error()
				failed++
			}
			fmt.Fprintf(stdout, "  %-9s %-7s %5.1f s  %s\n", c.name, verdict, time.Since(start).Seconds(), said)
		}
	}
	if failed > 0 {
		fmt.Fprintf(stdout, "%d of %d checks failed\n", failed, len(checks)*len(devices))
		return errReported
	}
	return nil
}

// inProcess runs a check in a new process and returns its report.
func inProcess(device, name string, limit time.Duration) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, self, checkCommand, device, name)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = time.Second
	ended := make(chan error, 1)
	go func() { ended <- cmd.Run() }()
	select {
	case err = <-ended:
	case <-time.After(limit + 5*time.Second): // a process that hangs in the driver survives being killed
		return "", fmt.Errorf("it did not end within %v and cannot be stopped", limit)
	}
	said := strings.TrimSpace(out.String())
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("it did not end within %v and was stopped", limit)
	case err != nil && said != "":
		return "", errors.New(said)
	case err != nil:
		first, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		return "", fmt.Errorf("its process ended early (%v): %s", err, first)
	}
	return said, nil
}

// runCheck is what the process of a check does: its arguments are a device and a check.
func runCheck(args []string, stdout, _ io.Writer) error {
	i := -1
	if len(args) == 2 {
		i = slices.IndexFunc(checks, func(c check) bool { return c.name == args[1] })
	}
	if i < 0 {
		return fmt.Errorf("want a device and a check, not %q", args)
	}
	said, err := checks[i].try(args[0])
	var e *kernels.Error
	if errors.As(err, &e) {
		err = &kernels.Error{Op: e.Op, Msg: e.Msg} // without the line in this file
	}
	if err != nil {
		fmt.Fprintln(stdout, err)
		return errReported
	}
	fmt.Fprintln(stdout, said)
	return nil
}

// onBackend makes a check of a test that works below package tensor.
func onBackend(try func(kernels.Backend) (string, error)) func(device string) (string, error) {
	return func(device string) (string, error) {
		dev, err := kernels.Open(device)
		if err != nil {
			return "", err
		}
		if c, ok := dev.(io.Closer); ok {
			defer c.Close()
		}
		return try(dev)
	}
}

// tryMemory copies 64 MiB to the device and back.
func tryMemory(dev kernels.Backend) (string, error) {
	const n = 64 << 20
	m, err := dev.Alloc(n)
	if err != nil {
		return "", err
	}
	defer dev.Free(m)
	sent, received := make([]byte, n), make([]byte, n)
	for i := range sent {
		sent[i] = byte(i * 2654435761 >> 24)
	}
	if err := dev.CopyIn(0, m, 0, sent); err != nil {
		return "", err
	}
	if err := dev.Read(0, received, m, 0); err != nil {
		return "", err
	}
	if !bytes.Equal(sent, received) {
		return "", fmt.Errorf("64 MiB copied to the device came back different")
	}
	return "64 MiB there and back", nil
}

// tryImages loads all kernels of the device and checks that the registers and local memory they use are within budget.
func tryImages(dev kernels.Backend) (string, error) {
	loader, ok := dev.(interface {
		CheckKernels() (n int, remarks []string, err error)
	})
	if !ok {
		return "none to load", nil
	}
	n, remarks, err := loader.CheckKernels()
	if err != nil {
		return "", err
	}
	if len(remarks) > 0 {
		const shown = 20
		said := strings.Join(remarks[:min(shown, len(remarks))], "; ")
		if len(remarks) > shown {
			said += fmt.Sprintf(" and %d more", len(remarks)-shown)
		}
		return "", fmt.Errorf("%d kernels loaded, which work, but slower than they should: %s", n, said)
	}
	return fmt.Sprintf("%d kernels loaded, within their budgets", n), nil
}

// A computation makes a tensor, of float32 or float64.
type computation func(s *tensor.Scope, dt tensor.DType) *tensor.Tensor

// evaluate runs f in a step of its own on a device and returns the elements of its result.
func evaluate(device string, f computation, dt tensor.DType) (v []float64, err error) {
	dev, err := tensor.Open(device)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	err = dev.Eval(func(s *tensor.Scope) error {
		v = tensor.ToSlice[float64](f(s, dt))
		return nil
	})
	return v, err
}

// compare runs f in float32 on the device. The result must be near that of float64 on the CPU, and on a GPU equal to
// that of float32 on the CPU, to the bit.
func compare(device string, f computation) error {
	got, err := evaluate(device, f, tensor.Float32)
	if err != nil {
		return err
	}
	exact, err := evaluate("cpu", f, tensor.Float64)
	if err != nil {
		return err
	}
	for i, want := range exact {
		if !(math.Abs(got[i]-want) <= 1e-4*(1+math.Abs(want))) {
			return fmt.Errorf("element %d of %d is %v, in float64 %v", i, len(exact), got[i], want)
		}
	}
	if device == "cpu" {
		return nil
	}
	same, err := evaluate("cpu", f, tensor.Float32)
	if err != nil {
		return err
	}
	for i, want := range same {
		if got[i] != want {
			return fmt.Errorf("element %d of %d is %v, on the CPU %v", i, len(same), got[i], want)
		}
	}
	return nil
}

// agreement is the end of the report of a check that compares with the CPU.
func agreement(device string) string {
	if device == "cpu" {
		return "as in float64"
	}
	return "equal to the CPU's"
}

// tryKernel runs a pointwise operation on a million elements.
func tryKernel(device string) (string, error) {
	x := tensor.Randn(tensor.Seed(1), 1000, 1000)
	err := compare(device, func(s *tensor.Scope, dt tensor.DType) *tensor.Tensor { return s.In(x.To(dt)).GELU() })
	return "gelu of 1000000 elements, " + agreement(device), err
}

// tryMatMul multiplies two matrices.
func tryMatMul(device string) (string, error) {
	a, b := tensor.Randn(tensor.Seed(1), 300, 700), tensor.Randn(tensor.Seed(2), 700, 500)
	err := compare(device, func(s *tensor.Scope, dt tensor.DType) *tensor.Tensor {
		return s.In(a.To(dt)).MatMul(s.In(b.To(dt)))
	})
	return "300x700 by 700x500, " + agreement(device), err
}

// tryTraining trains a small network to tell points inside a circle from points outside.
func tryTraining(device string) (string, error) {
	first, last, err := trainNetwork(device)
	if err != nil {
		return "", err
	}
	if !(last < first/2) {
		return "", fmt.Errorf("the loss went from %.4f to %.4f in 100 steps; it should have halved", first, last)
	}
	said := fmt.Sprintf("loss %.4f to %.4f in 100 steps", first, last)
	if device == "cpu" {
		return said, nil
	}
	wantFirst, wantLast, err := trainNetwork("cpu")
	if err != nil {
		return "", err
	}
	if first != wantFirst || last != wantLast {
		return "", fmt.Errorf("the loss went from %v to %v, on the CPU from %v to %v", first, last, wantFirst, wantLast)
	}
	return said + ", equal to the CPU's", nil
}

// trainNetwork returns the first and the last loss.
func trainNetwork(device string) (first, last float64, err error) {
	dev, err := tensor.Open(device, tensor.Seed(1))
	if err != nil {
		return 0, 0, err
	}
	defer dev.Close()
	model := nn.Sequential(nn.NewLinear(2, 32), nn.GELU, nn.NewLinear(32, 2))
	if err := nn.Init(dev, model); err != nil {
		return 0, 0, err
	}
	opt := optim.New(optim.AdamW(0.03), model)
	x := tensor.Randn(tensor.Seed(3), 256, 2)
	inside := make([]int64, 256)
	for i, p := range slices.Collect(slices.Chunk(tensor.ToSlice[float64](x), 2)) {
		if p[0]*p[0]+p[1]*p[1] < 1.4 {
			inside[i] = 1
		}
	}
	y := tensor.FromSlice(inside, 256)
	for step := range 100 {
		err := dev.Step(func(s *tensor.Scope) error {
			loss := nn.CrossEntropy(model.Forward(s.In(x)), s.In(y))
			autograd.Backward(loss)
			if last = loss.Item(); step == 0 {
				first = last
			}
			return opt.Step(s)
		})
		if err != nil {
			return 0, 0, err
		}
	}
	return first, last, nil
}
