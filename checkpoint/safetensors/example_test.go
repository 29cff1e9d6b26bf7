package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log"

	"github.com/weft-ml/weft/checkpoint/safetensors"
)

func Example() {
	weights := map[string][]float32{"layer.weight": {1, 2, 3, 4, 5, 6}, "layer.bias": {0.5, -0.5}}
	var file bytes.Buffer
	err := safetensors.Write(&file, []safetensors.Tensor{
		{Name: "layer.weight", DType: safetensors.F32, Shape: []int{2, 3}},
		{Name: "layer.bias", DType: safetensors.F32, Shape: []int{2}},
	}, nil, func(w io.Writer, t safetensors.Tensor) error {
		return binary.Write(w, binary.LittleEndian, weights[t.Name])
	})
	if err != nil {
		log.Fatal(err)
	}

	f, err := safetensors.Open(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		log.Fatal(err)
	}
	for t := range f.Tensors() {
		values := make([]float32, t.Bytes()/4)
		if err := binary.Read(t.Data(), binary.LittleEndian, values); err != nil {
			log.Fatal(err)
		}
		fmt.Println(t.Name, t.DType, t.Shape, values)
	}
	// Output:
	// layer.bias F32 [2] [0.5 -0.5]
	// layer.weight F32 [2 3] [1 2 3 4 5 6]
}
