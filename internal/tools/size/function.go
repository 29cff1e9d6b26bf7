package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
)

// A function is one with a body, from its name to its closing brace.
type function struct {
	path, name string
	lines      int
	table      int // lines of it that are a table
}

// A table is a slice, array or map that is written out, or a function that does nothing but call others, once for each
// entry: such a function counts no lines itself, but each function among its arguments is one of its own.

// goFunctions returns the functions of a Go file.
func goFunctions(path string, text []byte) ([]function, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	span := func(n ast.Node) int { return files.Position(n.End()).Line - files.Position(n.Pos()).Line + 1 }
	var all []function
	for _, decl := range file.Decls {
		name := "var"
		if f, ok := decl.(*ast.FuncDecl); ok {
			if f.Body == nil {
				continue
			}
			if name = f.Name.Name; f.Recv != nil {
				name = receiver(f.Recv.List[0].Type) + "." + name
			}
			if !onlyCalls(f.Body) {
				all = append(all, function{path, name, span(f), tables(f.Body, span)})
				continue
			}
			all = append(all, function{path, name, span(f), span(f)})
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			f, ok := n.(*ast.FuncLit)
			if ok {
				all = append(all, function{path, name + " func", span(f), tables(f.Body, span)})
			}
			return !ok
		})
	}
	return all, nil
}

// receiver is the name of a method's type.
func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return ""
}

// onlyCalls tells whether each statement is a call, or gives a variable the result of one or a function.
func onlyCalls(body *ast.BlockStmt) bool {
	for _, s := range body.List {
		var x ast.Expr
		switch s := s.(type) {
		case *ast.ExprStmt:
			x = s.X
		case *ast.AssignStmt:
			x = s.Rhs[0]
		}
		switch x.(type) {
		case *ast.CallExpr, *ast.FuncLit:
		default:
			return false
		}
	}
	return len(body.List) > 0
}

// tables counts the lines of slices, arrays and maps that are written out.
func tables(body *ast.BlockStmt, span func(ast.Node) int) int {
	n := 0
	ast.Inspect(body, func(node ast.Node) bool {
		if c, ok := node.(*ast.CompositeLit); ok {
			switch c.Type.(type) {
			case *ast.ArrayType, *ast.MapType:
				n += span(c) - 1
				return false
			}
		}
		return true
	})
	return n
}

// In C and CUDA a function begins at the left edge, with a name before a parenthesis or as
// KERNEL(name, and ends with a brace there.
// What else begins at the edge and has a body are types and namespaces.
var (
	cBegin = regexp.MustCompile(`^KERNEL\((\w+)|(\w+)\(`)
	cOther = regexp.MustCompile(`^(namespace|struct|class|union|enum|extern "C" \{|typedef|#|/|\}|\s)`)
)

// cFunctions returns the functions of a file of C or CUDA.
func cFunctions(path string, text []byte) (all []function) {
	name, begin, open := "", 0, false
	for i, line := range strings.Split(string(text), "\n") {
		if name == "" && !cOther.MatchString(line) {
			if m := cBegin.FindStringSubmatch(line); m != nil {
				name, begin, open = m[1]+m[2], i, false
			}
		}
		open = open || strings.Contains(line, "{")
		left := strings.HasPrefix(line, "}") || i == begin && strings.HasSuffix(line, "}")
		switch {
		case name == "":
		case open && left:
			all = append(all, function{path, name, i - begin + 1, 0})
			name = ""
		case !open && strings.HasSuffix(line, ";"): // a declaration
			name = ""
		}
	}
	return all
}
