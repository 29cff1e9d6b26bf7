package data

import (
	"embed"
	"fmt"
)

// digitsFiles holds the test part of "Optical Recognition of Handwritten Digits" as IDX files; see
// digits/README.md for its source and licence.
//
//go:embed digits/images-idx3-ubyte.gz digits/labels-idx1-ubyte.gz
var digitsFiles embed.FS

// Digits are 1,797 handwritten digits of 8x8 pixels, built into the library: a data set for first steps and tests that
// needs no download. It is split class by class, one fifth for the test: 1,438 images to train with and 359 to test;
// seed decides which ones (see [Images.Split]). An image is [64] in a batch, with values from 0 to 1 in 17 levels.
//
// The images are the test part of the data set "Optical Recognition of Handwritten Digits" of the UCI Machine Learning
// Repository, by E. Alpaydin and C. Kaynak (CC BY 4.0).
func Digits(seed uint64) (train, test *Images, err error) {
	all, err := labelled(embeddedIDX, "digits/images-idx3-ubyte.gz", "digits/labels-idx1-ubyte.gz", 8, 16)
	if err != nil {
		return nil, nil, err
	}
	return all.Split(seed, 0.2)
}

// embeddedIDX decodes a file of digitsFiles.
func embeddedIDX(name string) (*IDX, error) {
	file, err := digitsFiles.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("data: built-in digits: %w", err)
	}
	return DecodeIDX(name, file)
}
