package main

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/weft-ml/weft/kernels/cuda/driver"
)

// cudaEnv prepares builds of any module with -tags cuda: it copies our cuda.h to the user's cache, and prints or
// stores the settings by which cgo finds it there.
//
// The settings are environment variables, because gorgonia.org/cu includes <cuda.h>, and #cgo lines of one package do
// not apply to another.
func cudaEnv(args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("cuda-env", flag.ContinueOnError)
	write := f.Bool("w", false, "store the settings with go env -w, for all modules of this user")
	undo := f.Bool("u", false, "take them back")
	if err := parse(f, args, stderr); err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	base := filepath.Join(cache, "weft", "cuda")
	cflags, err := goEnv("CGO_CFLAGS")
	if err != nil {
		return err
	}
	ldflags, err := goEnv("CGO_LDFLAGS")
	if err != nil {
		return err
	}
	cflags, ldflags = withoutOurs(cflags, base), without(ldflags, asNeeded)
	if *undo {
		if err := store(stdout, cflags, ldflags); err != nil {
			return err
		}
		if err := os.RemoveAll(base); err != nil {
			return err
		}
		fmt.Fprintln(stdout, "taken back: Weft's flags in CGO_CFLAGS and CGO_LDFLAGS, and its headers, in "+base)
		return nil
	}
	include, err := copyHeaders(base)
	if err != nil {
		return err
	}
	cflags, ldflags = join(cflags, quote("-I"+include)), join(ldflags, asNeeded)
	if !*write {
		fmt.Fprintf(stdout, "export CGO_CFLAGS=%s\nexport CGO_LDFLAGS=%s\n", shellQuote(cflags), shellQuote(ldflags))
		return nil
	}
	if err := store(stdout, cflags, ldflags); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "stored with go env -w. Now: go build -tags cuda ./...")
	fmt.Fprintln(stdout,
		"Other programs of yours that use CUDA through cgo would find Weft's small cuda.h first; "+
			"weft cuda-env -u takes the settings back.")
	return nil
}

// asNeeded makes the linker drop libraries that nothing refers to: a program starts without a driver even if the linker
// found a real libcuda.
const asNeeded = "-Wl,--as-needed"

// copyHeaders writes the headers to a folder of base that is named after their content, so that several versions of
// Weft can be built on one machine, and returns it.
func copyHeaders(base string) (include string, err error) {
	files := map[string][]byte{}
	hash := sha256.New()
	err = fs.WalkDir(driver.Headers, "include", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[path], err = fs.ReadFile(driver.Headers, path)
		fmt.Fprintf(hash, "%s %d\n%s", path, len(files[path]), files[path])
		return err
	})
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, hex.EncodeToString(hash.Sum(nil))[:12])
	for path, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "include"), nil
}

// goEnv asks the go command for a setting.
func goEnv(name string) (string, error) {
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		return "", fmt.Errorf("go env %s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// store sets CGO_CFLAGS and CGO_LDFLAGS for the user, or clears those that are at their default.
func store(stdout io.Writer, cflags, ldflags string) error {
	const byDefault = "-O2 -g"
	for _, v := range [][2]string{{"CGO_CFLAGS", cflags}, {"CGO_LDFLAGS", ldflags}} {
		args := []string{"env", "-w", v[0] + "=" + v[1]}
		if v[1] == byDefault {
			args = []string{"env", "-u", v[0]}
		}
		out, err := exec.Command("go", args...).CombinedOutput()
		stdout.Write(out) // go warns there of variables that hide the setting
		if err != nil {
			return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
		}
	}
	return nil
}

// withoutOurs removes the -I that an earlier run, perhaps of another version, has added to flags.
func withoutOurs(flags, base string) string {
	ours := regexp.MustCompile(`['"]?-I` + regexp.QuoteMeta(base) + `[/\\][0-9a-f]{12}[/\\]include['"]?`)
	return strings.Join(strings.Fields(ours.ReplaceAllString(flags, "")), " ")
}

// without removes a flag from flags.
func without(flags, flag string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(" "+flags+" ", " "+flag+" ", " ")), " ")
}

// join appends a flag.
func join(flags, flag string) string { return strings.TrimSpace(flags + " " + flag) }

// quote quotes a flag for the go command, which splits flags at spaces.
func quote(flag string) string {
	if strings.ContainsAny(flag, " \t") {
		return `"` + flag + `"`
	}
	return flag
}

// shellQuote quotes a value for a shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
