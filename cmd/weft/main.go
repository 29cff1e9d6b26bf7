// Weft checks an installation, shows what a machine has, tests it, prepares builds with CUDA, and looks into files.
//
//	weft info           the CPU, the GPUs and the driver, and what is missing
//	weft doctor         tests memory, kernels, a matrix product and training on every device
//	weft probe          what a GPU's memory, tensor cores, launches and copies do by themselves, as JSON
//	weft cuda-env       settings for building a module with -tags cuda, without a CUDA toolkit
//	weft inspect PATH   names, types, shapes and sizes of the weights in files of any format that is read
//	weft verify PATH    NaN and infinities in the weights, and their hash
//	weft diff A B       the weights that differ
//	weft fit            what memory a training takes, and the largest batch for a card
//	weft data PATH      what is in files of data, how fast it is read, and what limits that
//
// Without installing: go run github.com/weft-ml/weft/cmd/weft info
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

const usage = `weft checks an installation of Weft.

	weft info      what this machine offers, and what is missing
	weft doctor    test every device: memory, a kernel, a matrix product, training
	weft probe     what a GPU's memory, tensor cores, launches and copies do by themselves, as JSON
	weft cuda-env  settings for building with -tags cuda, without a CUDA toolkit
	weft inspect   names, types and shapes of the weights in a file or a folder: safetensors, .pt, .bin, .npy, .npz
	weft verify    read all weights: NaN and infinities by name, and a hash
	weft diff      the weights that differ in two files: where, and how much
	weft fit       what memory the training of a model takes, and the largest batch for a card
	weft data      data for training in a file or a folder: three examples, how fast they are read, what limits that

"weft COMMAND -h" lists the flags of a command.
`

// run is the program; it returns the exit code: 0 for success, 1 for failure, 2 for a wrong command line, or files that
// diff cannot compare.
func run(args []string, stdout, stderr io.Writer) int {
	commands := map[string]func(args []string, stdout, stderr io.Writer) error{
		"info": info, "doctor": doctor, "cuda-env": cudaEnv, "inspect": inspect, "verify": verify,
		"diff": diff, "fit": fit, "data": describeData, "probe": probe, checkCommand: runCheck,
	}
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "-help" || args[0] == "--help" {
		fmt.Fprint(stdout, usage)
		return 0
	}
	command := commands[args[0]]
	if command == nil {
		fmt.Fprintf(stderr, "weft: there is no command %q\n\n%s", args[0], usage)
		return 2
	}
	out := &output{Writer: stdout}
	err := command(args[1:], out, stderr)
	if err == nil && out.err != nil {
		err = fmt.Errorf("output is lost: %w", out.err)
	}
	var wrong usageError
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &wrong):
		return 2
	case errors.Is(err, errReported):
		return 1
	}
	fmt.Fprintf(stderr, "weft %s: %s\n", args[0], strings.ReplaceAll(err.Error(), "\n", "; "))
	if errors.As(err, &trouble{}) {
		return 2
	}
	return 1
}

// output remembers the first error of a writer.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// errReported is a failure that has been reported already.
var errReported = errors.New("reported")

// trouble is an error of diff, whose exit code 1 means that files differ.
type trouble struct{ error }

// usageError is a wrong command line; the flag set has printed why.
type usageError struct{ error }

// parse parses the flags of a command, and its other arguments, which are the named ones.
func parse(f *flag.FlagSet, args []string, stderr io.Writer, names ...string) error {
	f.SetOutput(stderr)
	if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return usageError{err}
	}
	if n := f.NArg(); n > len(names) {
		fmt.Fprintf(stderr, "weft %s: unexpected argument %q\n", f.Name(), f.Arg(len(names)))
		return usageError{errReported}
	} else if n < len(names) {
		fmt.Fprintf(stderr, "weft %s: %s is missing\n", f.Name(), names[n])
		return usageError{errReported}
	}
	return nil
}
