package tensor_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// Names that users of a package must find their way through.
const (
	mostNames        = 83 // exported names of this package beside the methods of Tensor and Device
	mostScopeMethods = 14
)

// documented is what go doc shows of this package.
func documented(t *testing.T) *doc.Package {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset, files := token.NewFileSet(), []*ast.File{}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(fset, path, source, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	p, err := doc.NewFromFiles(fset, files, "github.com/weft-ml/weft/tensor")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestFace holds the number of names that users see.
func TestFace(t *testing.T) {
	p := documented(t)
	n := len(p.Funcs) + len(p.Types)
	count := func(values []*doc.Value) {
		for _, v := range values {
			for _, name := range v.Names {
				if ast.IsExported(name) {
					n++
				}
			}
		}
	}
	count(p.Consts)
	count(p.Vars)
	for _, typ := range p.Types {
		n += len(typ.Funcs)
		count(typ.Consts)
		count(typ.Vars)
		if typ.Name != "Tensor" && typ.Name != "Device" {
			n += len(typ.Methods)
		}
		if typ.Name == "Scope" && len(typ.Methods) > mostScopeMethods {
			t.Errorf("Scope has %d methods, at most %d are allowed", len(typ.Methods), mostScopeMethods)
		}
	}
	if n > mostNames {
		t.Errorf("%d exported names beside the methods of Tensor and Device, at most %d are allowed: what other "+
			"packages of the library need is a method of engine, what users need may belong into nn", n, mostNames)
	}
	if n < mostNames-10 {
		t.Errorf("%d exported names: lower the limit of %d", n, mostNames)
	}
}

// TestGroups: the package comment has every method of Tensor once.
func TestGroups(t *testing.T) {
	_, groups, _ := strings.Cut(documented(t).Doc, "# Methods of Tensor")
	named := map[string]int{}
	for _, m := range regexp.MustCompile(`\[Tensor\.(\w+)\]`).FindAllStringSubmatch(groups, -1) {
		named[m[1]]++
	}
	methods := reflect.TypeFor[*tensor.Tensor]()
	for i := range methods.NumMethod() {
		name := methods.Method(i).Name
		if n := named[name]; n != 1 {
			t.Errorf("Tensor.%s is in %d groups of the package comment, want 1", name, n)
		}
		delete(named, name)
	}
	for name := range named {
		t.Errorf("the package comment names Tensor.%s, which does not exist", name)
	}
}
