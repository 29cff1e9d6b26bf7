package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestFit: the shipped models have a largest batch, which is larger on a larger card and with checkpoints.
func TestFit(t *testing.T) {
	largest := func(args ...string) int {
		var out, errs strings.Builder
		if code := run(append([]string{"fit"}, args...), &out, &errs); code != 0 {
			t.Fatalf("%v: exit code %d, %s", args, code, errs.String())
		}
		says(t, out.String(), "parameters", "optimizer", "activations", "together")
		m := regexp.MustCompile(`largest batch on \d+GB: (\d+)\n$`).FindStringSubmatch(out.String())
		if m == nil {
			t.Fatalf("%v: %s", args, out.String())
		}
		n, _ := strconv.Atoi(m[1])
		return n
	}
	small := largest("-model", "chargpt", "-card", "1GB", "-batch", "4")
	large := largest("-model", "chargpt", "-card", "2GB")
	half := largest("-model", "chargpt", "-card", "1GB", "-amp", "bf16")
	less := largest("-model", "chargpt", "-card", "1GB", "-checkpoint-blocks", "1")
	away := largest("-model", "chargpt", "-card", "1GB", "-checkpoint-blocks", "1", "-offload")
	if small < 1 || large < 2*small || half <= small || less < 2*small || away <= less {
		t.Errorf("the largest batches are %d, %d, %d, %d and %d", small, large, half, less, away)
	}
	n := largest("-model", "chargpt", "-card", "1GB", "-checkpoint-blocks", "-1", "-batch", strconv.Itoa(less))
	if n != less {
		t.Errorf("with as few checkpoints as are needed for a batch of %d, %d is the largest", less, n)
	}
	if n := largest("-model", "cnn", "-card", "1GB"); n < 1 {
		t.Errorf("the largest batch is %d", n)
	}
	for _, args := range [][]string{{"-model", "x"}, {"-card", "0GB"}, {"-card", "many"}, {"-batch", "0"},
		{"-amp", "int8"}, {"-checkpoint-blocks", "-2"}, {"more"}, {"-offload"},
		{"-model", "mlp", "-checkpoint-blocks", "1"}} {
		var out, errs strings.Builder
		if code := run(append([]string{"fit"}, args...), &out, &errs); code != 2 || errs.Len() == 0 {
			t.Errorf("%v: exit code %d, %q", args, code, errs.String())
		}
	}
}
