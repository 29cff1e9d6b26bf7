package data_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weft-ml/weft/data"
	"github.com/weft-ml/weft/tensor"
)

func Example() {
	train, test, err := data.Digits(42)
	if err != nil {
		fmt.Println(err)
		return
	}
	loader := &data.Loader{Dataset: train, BatchSize: 512, Shuffle: true, Seed: 42, Epochs: 2}
	for batch, err := range loader.Batches(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("epoch", batch.Epoch, "batch", batch.Index, "inputs", batch.X.Shape(), "targets", batch.Y.Shape())
	}
	fmt.Println(test.Len(), "images for the test")
	// Output:
	// epoch 0 batch 0 inputs [512 64] targets [512]
	// epoch 0 batch 1 inputs [512 64] targets [512]
	// epoch 0 batch 2 inputs [414 64] targets [414]
	// epoch 1 batch 0 inputs [512 64] targets [512]
	// epoch 1 batch 1 inputs [512 64] targets [512]
	// epoch 1 batch 2 inputs [414 64] targets [414]
	// 359 images for the test
}

// Two workers change no batch, and a state goes on after the batch that the loop had.
func ExampleBatches() {
	numbers := data.Shuffle(data.From(data.Slice[int]{0, 1, 2, 3, 4, 5, 6, 7}), 42)
	squares := data.Map(numbers, func(_ data.Sample, x int) (float32, error) { return float32(x * x), nil })
	collate := func(x []float32) (*tensor.Tensor, error) { return tensor.FromSlice(x, len(x)), nil }
	batches := data.Batches(squares, 3, collate, data.Epochs(2), data.Workers(2))
	var state []byte
	for range 2 {
		it, err := batches.Start(context.Background(), state)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer it.Close()
		for x, err := range it.All() {
			epoch, k := it.Position()
			fmt.Println(epoch, k, x, err)
			if state = it.State(); epoch == 0 && k == 1 {
				break
			}
		}
		fmt.Println("it stops")
	}
	// Output:
	// 0 0 float32[3] [ 9.  1. 49.] <nil>
	// 0 1 float32[3] [16. 36.  0.] <nil>
	// it stops
	// 0 2 float32[2] [25.  4.] <nil>
	// 1 0 float32[3] [ 0. 49. 16.] <nil>
	// 1 1 float32[3] [9. 1. 4.] <nil>
	// 1 2 float32[2] [36. 25.] <nil>
	// it stops
}

// Documents of tokens fill two rows of six; the targets are the next tokens, -100 where there is none.
func ExamplePack() {
	documents := data.From(data.Slice[[]int]{{1, 2, 3, 4}, {5, 6, 7}, {8, 9}, {10, 11, 12}})
	it, err := data.Pack(documents, 2, 6, false).Start(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer it.Close()
	for s, err := range it.All() {
		fmt.Println(tensor.ToSlice[int64](s.X), s.Targets, "targets", err)
		fmt.Println(tensor.ToSlice[int64](s.Segments))
	}
	// Output:
	// [1 2 3 4 8 9 5 6 7 10 11 12] 8 targets <nil>
	// [1 1 1 1 2 2 1 1 1 2 2 2]
}

// A run that had used 4 batches goes on with the fifth.
func ExampleLoader_start() {
	d, err := data.NewArrays([]float32{0, 1, 2, 3, 4, 5}, nil, []int64{0, 1, 0, 1, 0, 1}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	loader := &data.Loader{Dataset: d, BatchSize: 2, Shuffle: true, Seed: 1, Epochs: 2, Start: 4}
	for batch, err := range loader.Batches(context.Background()) {
		fmt.Println(batch.Epoch, batch.Index, err)
	}
	// Output:
	// 1 1 <nil>
	// 1 2 <nil>
}

func ExampleNewArrays() {
	// Three points of the plane, each with a value to predict.
	points := []float32{0, 0, 1, 0, 0, 1}
	heights := []float32{5, 6, 7}
	d, err := data.NewArrays(points, []int{2}, heights, []int{1})
	if err != nil {
		fmt.Println(err)
		return
	}
	batch, err := d.Batch([]int{2, 0})
	fmt.Println(batch.X.Shape(), batch.Y.Shape(), err)
	// Output: [2 2] [2 1] <nil>
}

func ExampleDecodeIDX() {
	file := []byte{
		0, 0, 0x08, 2, // unsigned bytes, two axes
		0, 0, 0, 2, 0, 0, 0, 3, // of size 2 and 3
		1, 2, 3, 4, 5, 6,
	}
	x, err := data.DecodeIDX("small-idx2-ubyte", file)
	fmt.Println(x.Shape, x.Data, err)

	_, err = data.DecodeIDX("small-idx2-ubyte", file[:15])
	fmt.Println(err)
	// Output:
	// [2 3] [1 2 3 4 5 6] <nil>
	// small-idx2-ubyte: byte 15: size: found 15 bytes, want 18 bytes, declared as 2 x 3 of uint8: unexpected EOF
}

func ExampleImages_WithShape() {
	train, _, err := data.Digits(42)
	if err != nil {
		fmt.Println(err)
		return
	}
	planes, err := train.WithShape(1, 8, 8)
	if err != nil {
		fmt.Println(err)
		return
	}
	batch, err := planes.Batch([]int{0, 1, 2})
	fmt.Println(batch.X.Shape(), err)
	// Output: [3 1 8 8] <nil>
}

func ExampleImages_Split() {
	train, _, err := data.Digits(42)
	if err != nil {
		fmt.Println(err)
		return
	}
	fit, validation, err := train.Split(7, 0.1)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(fit.Len(), validation.Len())
	// Output: 1293 145
}

func ExampleOpenCSV() {
	path := filepath.Join(os.TempDir(), "weft-example.csv")
	defer os.Remove(path)
	err := os.WriteFile(path, []byte("species,length,width\nsetosa,1.4,0.2\nvirginica,6,2.5\n"), 0o600)
	if err != nil {
		fmt.Println(err)
		return
	}
	type flower struct {
		Species string
		Sizes   []float32 `csv:"length..width"`
	}
	flowers, err := data.OpenCSV[flower](path) // a Source: data.From(flowers) begins a pipeline
	if err != nil {
		fmt.Println(err)
		return
	}
	defer flowers.Close()
	second, err := flowers.At(1)
	fmt.Println(flowers.Len(), second, err)
	// Output: 2 {virginica [6 2.5]} <nil>
}

// Pictures of several sizes are cut to one, some are flipped, and they become batches.
func ExampleImageFolder() {
	pictures, err := data.ImageFolder("testdata/pictures") // of two classes
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(pictures.Len(), pictures.Classes())
	flipped := data.Map(data.Shuffle(data.From(pictures), 1), func(s data.Sample, x data.Picture) (data.Picture,
		error) {
		return x.ResizeShorter(10).CenterCrop(8, 8).RandomFlip(s.Random), nil
	})
	mean, std := []float32{0.485, 0.456, 0.406}, []float32{0.229, 0.224, 0.225}
	it, err := data.Batches(flipped, 16, data.PictureBatch(mean, std)).Start(context.Background(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer it.Close()
	for batch, err := range it.All() {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(batch.X.Shape(), batch.Y.Shape())
	}
	// Output:
	// 19 [exact lossy]
	// [16 3 8 8] [16]
	// [3 3 8 8] [3]
}

func ExampleText() {
	text, err := data.NewText([]byte("to be or not to be, that is the question"), data.Chars)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(text.VocabSize(), "characters;", text.TrainLen(), "to train with,",
		text.ValidationLen(), "for validation")
	tokens, err := text.Encode("be that")
	fmt.Println(tokens, text.Decode(tokens...), err)

	batch, err := text.Batch(4, 8, 42, 0)
	fmt.Println(batch.X.Shape(), batch.Y.Shape(), err)
	for batch, err := range text.Validation(4, 3, 0) {
		fmt.Println("validation", batch.X.Shape(), err)
	}
	// Output:
	// 14 characters; 36 to train with, 4 for validation
	// [3 4 0 12 5 2 12] be that <nil>
	// [4 8] [4 8] <nil>
	// validation [1 3] <nil>
}
