package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// An assembler is a version of ptxas. Drivers carry its like: one of 2024 that of 12.4, and so on.
type assembler struct {
	version string
	targets []string // that it knows, of those that the gates assemble for
}

var (
	upToHopper    = []string{"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"}
	blackwell     = []string{"sm_100", "sm_120"}
	upToBlackwell = slices.Concat(upToHopper, blackwell)
	assemblers    = []assembler{{"12.4", upToHopper}, {"12.6", upToHopper}, {"12.8", upToBlackwell},
		{"12.9", upToBlackwell}, {"13.0", upToBlackwell}}
	plainAssemblers = []assembler{{"12.8", blackwell}, {"13.0", blackwell}}
)

// assemblersOf returns the assemblers that a text is given to: all, if it has tensor instructions, of which they make
// different code. Any other text is given to the first and the last of those that know the GPUs for which drivers
// compile it; what the compiler's own assembler says of earlier GPUs is in the log of the cubins.
func assemblersOf(ptx []byte) []assembler {
	if bytes.Contains(ptx, []byte("mma.")) {
		return assemblers
	}
	return plainAssemblers
}

// assembles returns the targets for which PTX of a virtual architecture is assembled: all, except that PTX of one
// chip's own instructions fits that chip alone.
func (a assembler) assembles(virtual string) []string {
	number := strings.TrimPrefix(virtual, "compute_")
	if !strings.HasSuffix(number, "a") {
		return a.targets
	}
	if target := "sm_" + number; slices.Contains(a.targets, target) {
		return []string{target}
	}
	return nil
}

// compiler is what the manifest says of how images were made. Contraction is off: what may be fused is written as a
// fused multiply-add, so that a GPU and a CPU compute the same bits.
const compiler = "nvrtc 12.4.127 --std=c++17 -default-device --fmad=false"

// options are those of the compiler. With contract it may fuse.
func options(contract bool) []string {
	all := strings.Fields(compiler)[2:]
	if i := slices.Index(all, "--fmad=false"); contract {
		all[i] = "--fmad=true"
	}
	return all
}

// nvrtc compiles a program for a target, with the options given, in the folder of sources. The log has the remarks of
// the compiler and, for a cubin, of the assembler.
func (p *project) nvrtc(program, target string, options ...string) (image []byte, log string, err error) {
	folder, err := filepath.Abs(filepath.Join(p.toolchain(), "nvrtc"))
	if err != nil {
		return nil, "", err
	}
	read, err := includedBy(p.sources(), "program", program)
	if err != nil {
		return nil, "", err
	}
	args := append([]string{"--gpu-architecture=" + target, "--include-path=."}, options...)
	if strings.HasPrefix(target, "sm_") {
		args = append(args, "--ptxas-options=-v")
	}
	call, library := filepath.Join(folder, "call"), filepath.Join(folder, "libnvrtc")
	compilers := []string{call, library + ".so.12", library + "-builtins.so.12.4"}
	out, err := p.cache.ask(question{compilers, args, []byte(hashFiles(read))}, func() (output, error) {
		cmd := exec.Command(call, append([]string{folder}, args...)...)
		cmd.Dir = p.sources()
		cmd.Stdin = strings.NewReader(program)
		var out, remarks bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &remarks
		if err := cmd.Run(); err != nil {
			return output{}, fmt.Errorf("nvrtc for %s: %w\n%s", target, err, remarks.String())
		}
		return output{out.Bytes(), remarks.Bytes()}, nil
	})
	return out.result, string(out.log), err
}

// ptxas assembles PTX and returns what the assembler says about it.
func (p *project) ptxas(version, target, ptx string) (log string, err error) {
	ptxas := filepath.Join(p.toolchain(), "ptxas-"+version)
	args := []string{"-v", "-arch=" + target, "-o", os.DevNull, "/dev/stdin"}
	out, err := p.cache.ask(question{[]string{ptxas}, args, []byte(ptx)}, func() (output, error) {
		cmd := exec.Command(ptxas, args...)
		cmd.Stdin = strings.NewReader(ptx)
		log, err := cmd.CombinedOutput()
		if err != nil {
			return output{}, fmt.Errorf("ptxas %s for %s: %w\n%s", version, target, err, log)
		}
		return output{log: log}, nil
	})
	return string(out.log), err
}

// nvdisasm returns the instructions of a cubin.
func (p *project) nvdisasm(cubin []byte) (string, error) {
	nvdisasm := filepath.Join(p.toolchain(), "nvdisasm")
	out, err := p.cache.ask(question{[]string{nvdisasm}, []string{"-c"}, cubin}, func() (output, error) {
		file, err := os.CreateTemp("", "*.cubin")
		if err != nil {
			return output{}, err
		}
		defer os.Remove(file.Name())
		_, err = file.Write(cubin)
		if err = errors.Join(err, file.Close()); err != nil {
			return output{}, err
		}
		var log bytes.Buffer
		cmd := exec.Command(nvdisasm, "-c", file.Name())
		cmd.Stderr = &log
		text, err := cmd.Output()
		if err != nil {
			return output{}, fmt.Errorf("nvdisasm: %w\n%s", err, log.String())
		}
		return output{result: text}, nil
	})
	return string(out.result), err
}

// parallel calls f for 0 to n-1 on all processors and joins the errors in that order.
func parallel(n int, f func(i int) error) error {
	faults := make([]error, n)
	free := make(chan struct{}, runtime.NumCPU())
	var wg sync.WaitGroup
	for i := range n {
		free <- struct{}{}
		wg.Go(func() {
			faults[i] = f(i)
			<-free
		})
	}
	wg.Wait()
	return errors.Join(faults...)
}
