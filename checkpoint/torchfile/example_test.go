package torchfile_test

import (
	"fmt"
	"log"
	"os"

	"github.com/weft-ml/weft/checkpoint/torchfile"
)

func Example() {
	r, err := os.Open("testdata/2.15/adamw.pt")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		log.Fatal(err)
	}
	file, err := torchfile.Open(r, info.Size())
	if err != nil {
		log.Fatal(err)
	}
	for t := range file.Tensors() {
		if t.Name == "state_dict.0.weight" || t.Name == "optimizer.state.0.exp_avg" {
			fmt.Println(t.Name, t.DType, t.Shape)
		}
	}
	fmt.Println(file.Values()["epoch"], file.Values()["optimizer.param_groups.0.lr"])
	// Output:
	// state_dict.0.weight F32 [4 3]
	// optimizer.state.0.exp_avg F32 [4 3]
	// 3 0.01
}
