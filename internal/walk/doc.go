// Package walk finds the parts of a model: what its fields, elements and map entries are called, and which of them
// other packages cannot see. nn.Walk, which names parameters, and nn.Tree, which prints models, are built on it:
//
//	for _, p := range walk.Parts(reflect.ValueOf(model)) {
//		fmt.Println(p.Name, p.Value.Type())
//	}
//
// walk.go has all of it.
package walk
