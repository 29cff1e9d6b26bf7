package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// opticks is the path of Newton's "Opticks" (567 KB of English text), which is part of the Go toolchain's
// source tree, so every machine with Go has it. It is searched in the directory of the environment variable
// GOROOT and in what `go env GOROOT` prints. If it is in neither, the error lists what was tried.
func opticks() (string, error) {
	var tried []string
	look := func(source, root string) (string, bool) {
		path := filepath.Join(root, "src", "testdata", "Isaac.Newton-Opticks.txt")
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() {
			return path, true
		}
		tried = append(tried, fmt.Sprintf("%s: no %s", source, path))
		return "", false
	}
	if root := os.Getenv("GOROOT"); root == "" {
		tried = append(tried, "GOROOT: not set")
	} else if path, ok := look("GOROOT", root); ok {
		return path, nil
	}
	if root, err := goRoot(); err != nil {
		tried = append(tried, "go env GOROOT: "+err.Error())
	} else if path, ok := look("go env GOROOT", root); ok {
		return path, nil
	}
	return "", fmt.Errorf("corpus: Newton's Opticks not found (%s); give a text of your own with -data FILE",
		strings.Join(tried, "; "))
}

// goRoot asks the go command in PATH for its directory. It runs outside any module, so that no go.mod makes
// it switch to another toolchain.
func goRoot() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "env", "GOROOT")
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOROOT=")
	out, err := cmd.Output()
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}
