package main

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weft-ml/weft/checkpoint"
	"github.com/weft-ml/weft/checkpoint/safetensors"
)

// pieceBytes is the size of the pieces in which data are read; a multiple of every element.
const pieceBytes = 1 << 20

// verify reads all of a checkpoint, or of files of weights: checksums, NaN and infinities by name, and a hash. That of
// a checkpoint is the optimizer's, as the run has it; that of weights is of names, types, shapes and values, and does
// not depend on the format.
func verify(args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("verify", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintln(stderr, "weft verify PATH: a checkpoint, a run's folder, whose newest checkpoint is meant,\n"+
			"a file of weights, an index of shards, or a folder with either")
	}
	if err := parse(f, args, stderr, "PATH"); err != nil {
		return err
	}
	path := f.Arg(0)
	out := bufio.NewWriter(stdout)
	info, err := checkpointAt(path)
	if err != nil {
		return err
	}
	if info == nil {
		sum := sha256.New()
		if err = scanFile(out, sum, path); err == nil || err == errReported {
			fmt.Fprintf(out, "hash: %x\n", sum.Sum(nil))
		}
	} else {
		fmt.Fprintf(out, "%s: step %d of run %s, on %s\n", plain(info.Dir), info.Step, plain(info.Run),
			plain(info.Device))
		for _, file := range info.Files {
			fmt.Fprintf(out, "%14d bytes  sha256 %s  %s\n", file.Size, file.SHA256, plain(file.Name))
			if filepath.Ext(file.Name) == ".safetensors" {
				err = cmp.Or(err, scanFile(out, io.Discard, filepath.Join(info.Dir, file.Name)))
			}
		}
		for _, name := range slices.Sorted(maps.Keys(info.Hash)) {
			label := "hash" // of State.Optimizer, as programs print it
			if name != "optimizer" {
				label = "hash of " + plain(name)
			}
			fmt.Fprintf(out, "%s: %s\n", label, info.Hash[name])
		}
	}
	return cmp.Or(out.Flush(), err)
}

// checkpointAt verifies the checkpoint at a path; nil if there is none: neither a state.json nor folders of steps.
func checkpointAt(path string) (*checkpoint.Info, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return nil, err
	}
	entries, err := os.ReadDir(path)
	if err != nil || !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return e.Name() == "state.json" || strings.HasPrefix(e.Name(), "step-")
	}) {
		return nil, err
	}
	return checkpoint.Verify(path)
}

// scanFile reads files of weights, tells what of them is not finite, and adds them to a hash. The error is errReported
// if there is anything.
func scanFile(out, hash io.Writer, path string) error {
	weights, err := checkpoint.OpenWeights(path)
	if err != nil {
		return err
	}
	defer weights.Close()
	tensors := slices.Collect(weights.Tensors())
	named := map[string]safetensors.Tensor{} // by every name: some formats have tied weights once
	for _, t := range tensors {
		for _, name := range append([]string{t.Name}, t.Aliases...) {
			named[name] = t
		}
	}
	wrong, unread := 0, 0
	for _, name := range slices.Sorted(maps.Keys(named)) {
		t := named[name]
		fmt.Fprintf(hash, "%q %v %v\n", name, t.DType, t.Shape)
		nan, infinite, err := scan(t, hash)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %s: %w", path, plain(t.Name), err)
		case name != t.Name:
			continue
		}
		if nan+infinite > 0 {
			wrong++
			fmt.Fprintf(out, "%s: %d NaN, %d infinite\n", plain(t.Name), nan, infinite)
		}
		if numberTypes[t.DType].read == nil {
			unread++
		}
	}
	fmt.Fprintf(out, "%d tensors, %d of them with NaN or infinities", len(tensors), wrong)
	if unread > 0 {
		fmt.Fprintf(out, ", %d of types of 8 bits or less, which are not looked at", unread)
	}
	fmt.Fprintln(out)
	if wrong > 0 {
		return errReported
	}
	return nil
}

// scan reads all data of a tensor, adds them to a hash, and counts what is not finite.
func scan(t safetensors.Tensor, hash io.Writer) (nan, infinite int, err error) {
	kind, data := numberTypes[t.DType], t.Data()
	buf := make([]byte, min(pieceBytes, t.Bytes()))
	for at := int64(0); at < t.Bytes(); at += int64(len(buf)) {
		buf = buf[:min(int64(len(buf)), t.Bytes()-at)]
		if _, err := io.ReadFull(data, buf); err != nil {
			return nan, infinite, err
		}
		hash.Write(buf)
		for i := 0; kind.isFloat && i < len(buf); i += kind.size {
			switch v := kind.read(buf[i:]).value; {
			case math.IsNaN(v):
				nan++
			case math.IsInf(v, 0):
				infinite++
			}
		}
	}
	return nan, infinite, nil
}
