package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/weft-ml/weft/checkpoint"
	"github.com/weft-ml/weft/checkpoint/safetensors"
)

// diff compares the tensors of two files of weights, of any formats, by name and bit by bit.
func diff(args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("diff", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintln(stderr, "weft diff A B: the tensors that differ in two files of weights, or folders\n"+
			"exit code 0: none differ, 1: some do, 2: they cannot be compared")
	}
	if err := parse(f, args, stderr, "A", "B"); err != nil {
		return err
	}
	var sides [2]map[string]safetensors.Tensor
	for i := range sides {
		weights, err := checkpoint.OpenWeights(f.Arg(i))
		if err != nil {
			return trouble{err}
		}
		defer weights.Close()
		sides[i] = map[string]safetensors.Tensor{}
		for t := range weights.Tensors() {
			for _, name := range append([]string{t.Name}, t.Aliases...) {
				sides[i][name] = t
			}
		}
	}
	out, differ, total := bufio.NewWriter(stdout), 0, maps.Clone(sides[0])
	maps.Copy(total, sides[1])
	for _, name := range slices.Sorted(maps.Keys(total)) {
		a, inA := sides[0][name]
		b, inB := sides[1][name]
		var says string
		switch {
		case !inA:
			says = "only in B"
		case !inB:
			says = "only in A"
		case a.DType != b.DType || !slices.Equal(a.Shape, b.Shape):
			says = fmt.Sprintf("%v%v in A, %v%v in B", a.DType, a.Shape, b.DType, b.Shape)
		default:
			var err error
			if says, err = difference(a, b); err != nil {
				return trouble{fmt.Errorf("%s: %w", plain(name), err)}
			}
		}
		if says != "" {
			differ++
			fmt.Fprintf(out, "%s: %s\n", plain(name), says)
		}
	}
	fmt.Fprintf(out, "%d of %d tensors differ\n", differ, len(total))
	if err := out.Flush(); err != nil {
		return trouble{err}
	}
	if differ > 0 {
		return errReported
	}
	return nil
}

// difference says how the data of two tensors of one type and shape differ; "" if they do not.
func difference(a, b safetensors.Tensor) (string, error) {
	kind := numberTypes[a.DType]
	if kind.read == nil {
		kind.size = 1
	}
	var first, count int64
	largest, ulp := 0.0, uint64(0)
	bufA, bufB := make([]byte, min(pieceBytes, a.Bytes())), make([]byte, min(pieceBytes, a.Bytes()))
	dataA, dataB := a.Data(), b.Data()
	for at := int64(0); at < a.Bytes(); at += int64(len(bufA)) {
		n := min(int64(len(bufA)), a.Bytes()-at)
		bufA, bufB = bufA[:n], bufB[:n]
		if _, err := io.ReadFull(dataA, bufA); err != nil {
			return "", fmt.Errorf("in A: %w", err)
		}
		if _, err := io.ReadFull(dataB, bufB); err != nil {
			return "", fmt.Errorf("in B: %w", err)
		}
		if bytes.Equal(bufA, bufB) {
			continue
		}
		for i := 0; i < len(bufA); i += kind.size {
			if bytes.Equal(bufA[i:i+kind.size], bufB[i:i+kind.size]) {
				continue
			}
			if count == 0 {
				first = (at + int64(i)) / int64(kind.size)
			}
			count++
			if kind.read != nil {
				x, y := kind.read(bufA[i:]), kind.read(bufB[i:])
				largest = math.Max(largest, math.Abs(x.value-y.value)) // NaN if one is
				ulp = max(ulp, uint64(max(x.order, y.order))-uint64(min(x.order, y.order)))
			}
		}
	}
	if count == 0 {
		return "", nil
	}
	if kind.read == nil {
		return fmt.Sprintf("%d of %d bytes, the first at %d", count, a.Bytes(), first), nil
	}
	each := max(1, int64(a.DType.Bits()/8/kind.size)) // two in a complex element
	says := fmt.Sprintf("%d of %d numbers, the first at %v, largest difference %.6g", count, a.Bytes()/int64(kind.size),
		indexOf(a, first, each), largest)
	if kind.isFloat {
		says += fmt.Sprintf(", %d ulp", ulp)
	}
	return says, nil
}
