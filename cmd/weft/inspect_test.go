package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weft-ml/weft/checkpoint/safetensors"
)

// TestInspect holds what is printed of one file and of shards, with names that would do something to a terminal.
func TestInspect(t *testing.T) {
	tensors := []safetensors.Tensor{
		{Name: "wte", DType: safetensors.F32, Shape: []int{2, 3}, Aliases: []string{"head"}},
		{Name: "a\x1b[2J", DType: safetensors.F4, Shape: []int{4}},
	}
	write := func(limit int64) (dir string) {
		dir = t.TempDir()
		create := func(name string) (io.WriteCloser, error) { return os.Create(filepath.Join(dir, name)) }
		zeros := func(w io.Writer, x safetensors.Tensor) error {
			_, err := w.Write(make([]byte, x.Bytes()))
			return err
		}
		note := map[string]string{"note": strings.Repeat("é", 150)}
		if err := safetensors.WriteShards(create, limit, tensors, note, zeros); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	run := func(path string) (out, errs string, code int) {
		var stdout, stderr bytes.Buffer
		code = run([]string{"inspect", path}, &stdout, &stderr)
		return stdout.String(), stderr.String(), code
	}
	const lines = `
         bytes  type         shape                 name
            24  F32          [2 3]                 wte = head
`
	one := write(100)
	out, errs, code := run(one)
	if code != 0 || errs != "" {
		t.Errorf("exit code %d, %s", code, errs)
	}
	says(t, out, "model.safetensors: 2 tensors\n", "  format: pt\n", "  head: wte\n", lines, `"a\x1b[2J"`+"\n",
		"  note: "+strings.Repeat("é", 100)+"... (300 bytes)\n", "total: 2 tensors, 10 elements, 26 bytes\n")
	if again, _, _ := run(filepath.Join(one, "model.safetensors")); again != out {
		t.Errorf("the file: %s, want what is said of the folder: %s", again, out)
	}
	out, _, _ = run(write(1))
	says(t, out, "model-00001-of-00002.safetensors: 1 tensors\n", "model-00002-of-00002.safetensors: 1 tensors\n",
		lines, "total: 2 tensors, 10 elements, 26 bytes\n")
	if _, errs, code := run(filepath.Join(one, "no")); code != 1 || !strings.Contains(errs, "no such file") {
		t.Errorf("no file: exit code %d, %s", code, errs)
	}
	evil := filepath.Join(one, "evil.safetensors")
	if err := os.WriteFile(evil, []byte("0123456789"), 0o666); err != nil {
		t.Fatal(err)
	}
	_, errs, code = run(evil)
	if code != 1 || !strings.HasPrefix(errs, "weft inspect: "+evil+": byte 0: header size") {
		t.Errorf("an evil file: exit code %d, %s", code, errs)
	}
}
