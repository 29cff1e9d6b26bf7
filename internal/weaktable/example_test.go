package weaktable_test

import (
	"fmt"
	"runtime"

	"github.com/weft-ml/weft/internal/weaktable"
)

// What is asked for again is the same value while somebody holds it.
func Example() {
	var words weaktable.Table[string, string]
	read := func(word string) *string {
		v, _ := words.Get(word, func() (*string, error) { return &word, nil })
		return v
	}
	first := read("weft")
	fmt.Println(first == read("weft"), first == read("warp"), words.Len())
	runtime.KeepAlive(first)
	// Output: true false 2
}
