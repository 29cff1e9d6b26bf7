package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"

	"github.com/weft-ml/weft/tensor"
)

// families are the stems of file names: that of an operation is the same in all layers.
var families = []string{"attention", "conv", "copy", "cross_entropy", "ctc", "fft", "index", "matmul", "norm",
	"pointwise", "reduce", "scan", "softmax", "sort", "view", "window"}

// family is the longest stem that a name without a file's ending begins with, or "".
func family(name string) (found string) {
	for _, f := range families {
		if (name == f || strings.HasPrefix(name, f+"_")) && len(f) > len(found) {
			found = f
		}
	}
	return found
}

// files are those of an operation, without their folders; "" where a layer has none of its own.
type files struct {
	tensor string   // tensor/op_FAMILY_NAME.go
	cpu    string   // kernels/cpu/FAMILY.go
	plan   string   // kernels/cuda/plan_FAMILY.go
	src    []string // kernels/cuda/src/FAMILY.cu
}

// findFiles finds the files of operations in a checkout: where the table of operations has the literal with the name,
// where the function of the CPU is, where the name of its CUDA kernels is given a plan, and the kernels of that plan's
// family.
func findFiles(root string, ops []*tensor.Op) (map[string]files, error) {
	named, err := scan(filepath.Join(root, "tensor/op_*.go"), definitions)
	if err != nil {
		return nil, err
	}
	planned, err := scan(filepath.Join(root, "kernels/cuda/plan_*.go"), plans)
	if err != nil {
		return nil, err
	}
	all := map[string]files{}
	for _, o := range ops {
		f := files{tensor: named[o.Name], plan: planned[o.Kernel]}
		switch {
		case o.Expr != nil:
			f.cpu, f.plan = "pointwise.go", "plan_pointwise.go"
		case o.CPU != nil:
			file, _ := runtime.FuncForPC(reflect.ValueOf(o.CPU).Pointer()).FileLine(reflect.ValueOf(o.CPU).Pointer())
			f.cpu = filepath.Base(file)
		}
		if f.src, err = sources(root, f.plan); err != nil {
			return nil, err
		}
		all[o.Name] = f
	}
	return all, nil
}

// sources are the files of CUDA for a plan: FAMILY.cu and FAMILY_*.cu, or a header where all kernels are generated.
func sources(root, plan string) (found []string, err error) {
	stem := family(strings.TrimSuffix(strings.TrimPrefix(plan, "plan_"), ".go"))
	if stem == "" {
		return nil, nil
	}
	for _, ending := range []string{".cu", ".cuh"} {
		for _, pattern := range []string{stem + ending, stem + "_*" + ending} {
			paths, err := filepath.Glob(filepath.Join(root, "kernels/cuda/src", pattern))
			if err != nil {
				return nil, err
			}
			for _, path := range paths {
				found = append(found, filepath.Base(path))
			}
		}
		if len(found) > 0 {
			break
		}
	}
	return found, nil
}

// scan parses the files of a pattern but for tests, and returns in which of them find sees each name.
func scan(pattern string, find func(n ast.Node) []ast.Expr) (map[string]string, error) {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, x := range find(n) {
				if name, ok := literal(x); ok {
					if other := found[name]; other != "" && other != filepath.Base(path) {
						err = fmt.Errorf("%s is in %s and in %s", name, other, filepath.Base(path))
					}
					found[name] = filepath.Base(path)
				}
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// literal returns the text of a string.
func literal(x ast.Expr) (string, bool) {
	if b, ok := x.(*ast.BasicLit); ok && b.Kind == token.STRING {
		text, err := strconv.Unquote(b.Value)
		return text, err == nil
	}
	return "", false
}

// definitions finds the names of operations: the field Name of a kernels.Op or of a pointwise, or what follows the
// address of the operation in a call of a function that fills in several alike.
func definitions(n ast.Node) (found []ast.Expr) {
	switch n := n.(type) {
	case *ast.CompositeLit:
		kind, ok := n.Type.(*ast.Ident)
		if s, qualified := n.Type.(*ast.SelectorExpr); qualified {
			kind, ok = s.Sel, true
		}
		if !ok || kind.Name != "Op" && kind.Name != "pointwise" {
			return nil
		}
		for _, x := range n.Elts {
			if x, ok := x.(*ast.KeyValueExpr); ok {
				if key, ok := x.Key.(*ast.Ident); ok && strings.EqualFold(key.Name, "name") {
					found = append(found, x.Value)
				}
			}
		}
	case *ast.CallExpr:
		if len(n.Args) > 1 {
			if address, ok := n.Args[0].(*ast.UnaryExpr); ok && address.Op == token.AND {
				return n.Args[1:2]
			}
		}
	}
	return found
}

// plans finds the names in assignments to the map of plans.
func plans(n ast.Node) (found []ast.Expr) {
	if a, ok := n.(*ast.AssignStmt); ok {
		for _, x := range a.Lhs {
			if index, ok := x.(*ast.IndexExpr); ok {
				if table, ok := index.X.(*ast.Ident); ok && table.Name == "plans" {
					found = append(found, index.Index)
				}
			}
		}
	}
	return found
}
