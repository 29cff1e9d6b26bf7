package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weft-ml/weft/checkpoint"
)

// inspect prints what files of weights say of themselves. It reads headers, no data.
func inspect(args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("inspect", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintln(stderr, "weft inspect PATH: a file of weights, an index of shards, or a folder with either")
	}
	if err := parse(f, args, stderr, "PATH"); err != nil {
		return err
	}
	weights, err := checkpoint.OpenWeights(f.Arg(0))
	if err != nil {
		return err
	}
	defer weights.Close()
	out := bufio.NewWriter(stdout)
	tensors, elements, bytes := 0, int64(0), int64(0)
	for _, file := range weights.Files {
		fmt.Fprintf(out, "%s: %d tensors\n", plain(file.Name), file.Len)
		for _, key := range slices.Sorted(maps.Keys(file.Values)) {
			fmt.Fprintf(out, "  %s: %s\n", plain(key), plain(fmt.Sprint(file.Values[key])))
		}
		fmt.Fprintf(out, "%14s  %-11s  %-20s  %s\n", "bytes", "type", "shape", "name")
		for t := range file.Tensors {
			fmt.Fprintf(out, "%14d  %-11v  %-20s  %s", t.Bytes(), t.DType, fmt.Sprint(t.Shape), plain(t.Name))
			for _, alias := range t.Aliases {
				fmt.Fprintf(out, " = %s", plain(alias))
			}
			fmt.Fprintln(out)
			elements += t.Bytes() * 8 / int64(t.DType.Bits())
			bytes += t.Bytes()
		}
		tensors += file.Len
	}
	fmt.Fprintf(out, "total: %d tensors, %d elements, %d bytes\n", tensors, elements, bytes)
	return out.Flush()
}

// plain is a text of a file for a terminal: quoted if it has more than printable characters, and cut if it is long.
func plain(s string) string {
	const most = 200
	cut := ""
	if len(s) > most {
		cut = fmt.Sprintf("... (%d bytes)", len(s))
		for s = s[:most]; !utf8.ValidString(s); {
			s = s[:len(s)-1]
		}
	}
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		s = strconv.Quote(s)
	}
	return s + cut
}
