package data

import (
	"errors"
	"math"
	"testing"

	"github.com/weft-ml/weft/tensor"
)

// Batches that no memory holds are typed errors; sizes that only look absurd are not.
func TestSizes(t *testing.T) {
	text := alphabet(t, 1000)
	for rows, kind := range map[int]error{1 << 40: tensor.ErrMemory, math.MaxInt: tensor.ErrShape} {
		if _, err := text.Batch(rows, 8, 1, 1); !errors.Is(err, kind) {
			t.Errorf("a batch of %d rows: %v, want %v", rows, err, kind)
		}
	}
	batches := 0
	for b, err := range text.Validation(math.MaxInt, 9, math.MaxInt) {
		if batches++; err != nil || b.X.Dim(0) != 11 {
			t.Errorf("validation in one batch: %v, %v", b.X, err)
		}
	}
	if batches != 1 {
		t.Errorf("%d batches, want 1", batches)
	}
	images, err := NewImages([]uint8{0, 1, 2, 3}, 1, []uint8{0, 1, 0, 1}, 3, math.MaxInt)
	if err != nil {
		t.Fatal(err)
	}
	if a, b, err := images.Split(1, 0.5); err != nil || a.Len() != 2 || b.Len() != 2 {
		t.Errorf("images of many classes: %v, %v, %v", a, b, err)
	}
	l := Loader{Dataset: images, BatchSize: math.MaxInt}
	if b, err := l.Batch(0, 0); err != nil || b.X.Dim(0) != 4 {
		t.Errorf("all images in a batch: %v, %v", b.X, err)
	}
	for _, dims := range [][]int{{math.MaxInt, 3}, {1 << 32, 1 << 32}, {-1, -4}} {
		if _, err := images.WithShape(dims...); err == nil {
			t.Errorf("an image of shape %v is taken", dims)
		}
		if _, err := NewArrays([]float32{1}, dims, []float32{1}, nil); err == nil {
			t.Errorf("an array of shape %v is taken", dims)
		}
	}
}
