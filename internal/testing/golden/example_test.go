package golden_test

import (
	"fmt"

	"github.com/weft-ml/weft/internal/testing/golden"
)

func Example() {
	f, err := golden.Open("models.json.gz")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range f.Under("mlp/init/") {
		_, shape := f.Float32("mlp/init/" + name)
		fmt.Println(name, shape)
	}
	losses, _ := f.Float64("mlp/f64/adamw/losses")
	fmt.Printf("loss %.4f, after ten steps of AdamW %.4f\n", losses[0], losses[10])
	// Output:
	// 0.bias [16]
	// 0.weight [16 7]
	// 2.bias [16]
	// 2.weight [16 16]
	// 4.bias [5]
	// 4.weight [5 16]
	// loss 1.7976, after ten steps of AdamW 0.9310
}
