package examples

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const page = "../docs/PYTORCH.md"

// variables are what docs/PYTORCH.md calls values of some types.
var variables = map[string]string{"x": "tensor.Tensor", "p": "tensor.Tensor", "s": "tensor.Scope",
	"dev": "tensor.Device", "opt": "optim.Optimizer", "scaler": "amp.GradScaler", "loader": "data.Loader"}

// selector is a name that is looked up: tensor.Zeros, data.Images.Split, x.Sum.
var selector = regexp.MustCompile(`\b[a-z]+\.[A-Z]\w*(\.[A-Z]\w*)?`)

// TestPyTorchNames: every name of Weft in the tables of docs/PYTORCH.md exists, and there are 150 of PyTorch.
func TestPyTorchNames(t *testing.T) {
	names := exportedNames(t, "tensor", "autograd", "linalg", "nn", "optim", "amp", "data", "checkpoint", "train",
		"fft", "profile")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	span := regexp.MustCompile("`[^`]+`")
	theirs, ours := 0, 0
	for row := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(row), " | ")
		if len(cells) < 2 || !strings.HasPrefix(row, "| ") || strings.HasPrefix(row, "| PyTorch") {
			continue
		}
		theirs += len(span.FindAllString(cells[0], -1))
		if there := strings.Contains(cells[1], "`"); there == (cells[1] == "not there") {
			t.Errorf("neither a name nor \"not there\": %s", row)
		}
		for _, code := range span.FindAllString(strings.Join(cells[1:], " "), -1) {
			for _, name := range selector.FindAllString(code, -1) {
				parts := strings.Split(name, ".")
				if typ, ok := variables[parts[0]]; ok {
					name = typ + "." + parts[1] // opt.LR of opt.LR.Set
				}
				if ours++; !names[name] && !strings.HasPrefix(name, "fmt.") && !strings.HasPrefix(name, "runtime.") {
					t.Errorf("there is no %s: %s", name, row)
				}
			}
		}
	}
	t.Logf("%d names of PyTorch, %d of Weft", theirs, ours)
	if theirs < 150 || ours < 150 {
		t.Errorf("%d names of PyTorch, %d of Weft", theirs, ours)
	}
}

// exportedNames are the exported names of packages, such as nn.Init, and those of the fields and methods of their
// types, such as tensor.Tensor.Sum.
func exportedNames(t *testing.T, packages ...string) map[string]bool {
	names := map[string]bool{}
	for _, pkg := range packages {
		files, err := filepath.Glob(filepath.Join("..", pkg, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pkg, len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					name := pkg + "." + d.Name.Name
					if d.Recv != nil {
						name = pkg + "." + receiver(d.Recv.List[0].Type) + "." + d.Name.Name
					}
					names[name] = true
				case *ast.GenDecl:
					for _, s := range d.Specs {
						addSpec(names, pkg, s)
					}
				}
			}
		}
	}
	return names
}

// addSpec adds the names that a type, constant or variable declares.
func addSpec(names map[string]bool, pkg string, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			names[pkg+"."+n.Name] = true
		}
	case *ast.TypeSpec:
		names[pkg+"."+s.Name.Name] = true
		if fields, ok := s.Type.(*ast.StructType); ok {
			for _, field := range fields.Fields.List {
				for _, n := range field.Names {
					names[pkg+"."+s.Name.Name+"."+n.Name] = true
				}
			}
		}
	}
}

// receiver is the name of the type in *T, T and T[X].
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// TestPyTorchPrograms compiles the programs of docs/PYTORCH.md and docs/DATA.md, and runs none. They become packages of
// this module that exist for the compiler alone.
func TestPyTorchPrograms(t *testing.T) {
	var programs [][]string
	for _, page := range []string{page, "../docs/DATA.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		ours := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		if python := strings.Count(string(text), "```python\n"); len(ours) != python || python < 4 {
			t.Errorf("%s: %d programs of Weft, %d in Python", page, len(ours), python)
		}
		programs = append(programs, ours...)
	}
	dir := t.TempDir()
	args := []string{"build", "-overlay", filepath.Join(dir, "overlay")}
	replace := map[string]string{}
	for i, p := range programs {
		if !strings.HasPrefix(p[1], "package main\n") {
			t.Errorf("not a whole program:\n%s", p[1])
		}
		file := filepath.Join(dir, fmt.Sprintf("program%d.go", i))
		if err := os.WriteFile(file, []byte(p[1]), 0o666); err != nil {
			t.Fatal(err)
		}
		at, err := filepath.Abs(fmt.Sprintf("pytorch%d/main.go", i))
		if err != nil {
			t.Fatal(err)
		}
		replace[at] = file
		args = append(args, fmt.Sprintf("./pytorch%d", i))
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(args[2], overlay, 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
