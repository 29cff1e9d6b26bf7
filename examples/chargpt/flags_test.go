package main

import (
	"flag"
	"strings"
	"testing"
)

// Flags that make no model are errors before anything is read or made.
func TestFlags(t *testing.T) {
	for args, says := range map[string]string{
		"":                "",
		"-layers 0":       "-layers",
		"-heads 0":        "-heads",
		"-heads -4":       "-heads",
		"-heads 3":        "-width 128 is not a multiple of -heads 3",
		"-width 0":        "-width",
		"-context 0":      "-context",
		"-batch 0":        "-batch",
		"-batch -1":       "-batch",
		"-accumulate 0":   "-accumulate 0",
		"-accumulate 17":  "-accumulate 17",
		"-dropout 1":      "-dropout 1",
		"-dropout -0.1":   "-dropout",
		"-dropout NaN":    "-dropout NaN",
		"-lr 0":           "-lr 0",
		"-lr NaN":         "-lr NaN",
		"-lr Inf":         "-lr +Inf",
		"-lr 1e300":       "-lr 1e+300",
		"-sample -1":      "-sample",
		"-layers 9999999": "-layers",
	} {
		if fields := strings.Fields(args); len(fields) > 0 {
			f := flag.Lookup(fields[0][1:])
			if err := f.Value.Set(fields[1]); err != nil {
				t.Fatal(err)
			}
			defer f.Value.Set(f.DefValue)
			if err := check(); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %q", args, err, says)
			}
			f.Value.Set(f.DefValue)
		} else if err := check(); err != nil {
			t.Error(err)
		}
	}
}
