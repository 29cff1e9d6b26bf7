package npy_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"log"

	"github.com/weft-ml/weft/checkpoint/npy"
	"github.com/weft-ml/weft/checkpoint/safetensors"
)

func Example() {
	var file bytes.Buffer
	x := safetensors.Tensor{Name: "x", DType: safetensors.F32, Shape: []int{1, 3}}
	err := npy.Write(&file, x, func(w io.Writer, _ safetensors.Tensor) error {
		return binary.Write(w, binary.LittleEndian, []float32{1, 2, 3})
	})
	if err != nil {
		log.Fatal(err)
	}
	y, err := npy.Open(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		log.Fatal(err)
	}
	values := make([]float32, 3)
	if err := binary.Read(y.Data(), binary.LittleEndian, values); err != nil {
		log.Fatal(err)
	}
	fmt.Println(y.DType, y.Shape, values)
	// Output: F32 [1 3] [1 2 3]
}
