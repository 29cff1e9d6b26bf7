package walk_test

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"testing"

	"github.com/weft-ml/weft/internal/walk"
)

type inner struct{ A, hidden int }

type outer struct {
	inner
	List    []int
	ByName  map[string]int `weft:"named"`
	ByIndex map[uint8]bool
	Left    int `weft:"-"`
}

// list is a container by its pointer.
type list struct{ names []string }

func (l *list) Children() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for i, n := range l.names {
			if !yield(n, i) {
				return
			}
		}
	}
}

func TestParts(t *testing.T) {
	held := struct{ L list }{list{[]string{"x", "y"}}}
	var none *outer
	for _, c := range []struct {
		of   any
		want string
	}{
		{outer{inner: inner{hidden: 1}}, "[ list named byindex]"},
		{&inner{}, "[a hidden!]"},
		{map[string]any{"b": 1, "a": 2}, "[a b]"},
		{map[uint8]*int{10: nil, 9: nil}, "[9 10]"},
		{map[int]any{10: true, -9: true}, "[-9 10]"},
		{[]any{7, 8}, "[0 1]"}, {[]int{7, 8}, "[]"}, {map[string]int{"a": 1}, "[]"},
		{&list{[]string{"p", "q"}}, "[p q]"},
		{&held, "[l]"},
		{&held.L, "[x y]"},
		{none, "[]"}, {nil, "[]"}, {3, "[]"},
	} {
		got := []string{}
		for p := range walk.Parts(reflect.ValueOf(c.of)) {
			if p.Hidden {
				p.Name += "!"
			}
			got = append(got, p.Name)
		}
		if fmt.Sprint(got) != c.want {
			t.Errorf("%T: %v, want %s", c.of, got, c.want)
		}
	}
	field := reflect.ValueOf(&held).Elem().Field(0) // held by value, its method has a pointer
	if got := len(slices.Collect(walk.Parts(field))); got != 2 {
		t.Errorf("a container held by value has %d parts", got)
	}
}

func ExampleParts() {
	for p := range walk.Parts(reflect.ValueOf(map[string]any{"right": 2, "left": 1})) {
		fmt.Println(p.Name, p.Value)
	}
	// Output:
	// left 1
	// right 2
}
