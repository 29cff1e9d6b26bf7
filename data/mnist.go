package data

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// MNIST reads the handwritten digits of MNIST, or any set of the same form, from the four IDX files in
// dir: train-images, train-labels, t10k-images and t10k-labels, each named like
// "train-images-idx3-ubyte" or "train-images.idx3-ubyte", with or without ".gz".
//
// Images are 28x28 pixels, [784] in a batch (see [Images.WithShape]), in 10 classes. Missing files are
// an error that lists the names tried; content that is not right is a [*FormatError].
func MNIST(dir string, options ...ReadOption) (train, test *Images, err error) {
	if train, err = mnistPart(dir, "train", options); err != nil {
		return nil, nil, err
	}
	if test, err = mnistPart(dir, "t10k", options); err != nil {
		return nil, nil, err
	}
	return train, test, nil
}

// FashionMNIST reads the 70,000 pictures of clothes of Fashion-MNIST, whose files are named and made
// as those of [MNIST]. The Debian package dataset-fashion-mnist puts them into
// /usr/share/datasets/fashion-mnist. [FashionMNISTClasses] names the classes.
func FashionMNIST(dir string, options ...ReadOption) (train, test *Images, err error) {
	return MNIST(dir, options...)
}

// FashionMNISTClasses are the names of the classes 0 to 9 of Fashion-MNIST.
var FashionMNISTClasses = [10]string{
	"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
}

// mnistPart reads images and labels of one part, "train" or "t10k".
func mnistPart(dir, part string, options []ReadOption) (*Images, error) {
	imagesFile, err := findIDX(dir, part+"-images", 3)
	if err != nil {
		return nil, err
	}
	labelsFile, err := findIDX(dir, part+"-labels", 1)
	if err != nil {
		return nil, err
	}
	read := func(name string) (*IDX, error) { return ReadIDX(name, options...) }
	return labelled(read, imagesFile, labelsFile, 28, 255)
}

// labelled reads a file of images, size pixels wide and high, and a file of labels in 10 classes.
func labelled(read func(name string) (*IDX, error), imagesFile, labelsFile string, size int, brightest uint8) (
	*Images, error) {
	const classes = 10
	images, err := read(imagesFile)
	if err != nil {
		return nil, err
	}
	labels, err := read(labelsFile)
	if err != nil {
		return nil, err
	}
	pixels, ok := images.Data.([]uint8)
	if !ok || len(images.Shape) != 3 || images.Shape[1] != size || images.Shape[2] != size {
		return nil, &FormatError{
			File: imagesFile, Offset: -1, What: "images",
			Found: fmt.Sprintf("%T of shape %v", images.Data, images.Shape),
			Want:  fmt.Sprintf("[]uint8 of shape [N %d %d]", size, size),
		}
	}
	class, ok := labels.Data.([]uint8)
	if !ok || len(labels.Shape) != 1 {
		return nil, &FormatError{
			File: labelsFile, Offset: -1, What: "labels",
			Found: fmt.Sprintf("%T of shape %v", labels.Data, labels.Shape), Want: "[]uint8 of shape [N]",
		}
	}
	if len(class) != images.Shape[0] {
		return nil, &FormatError{
			File: labelsFile, Offset: -1, What: "number of labels",
			Found: fmt.Sprint(len(class)),
			Want:  fmt.Sprintf("%d, the number of images in %s", images.Shape[0], imagesFile),
		}
	}
	if i := slices.IndexFunc(class, func(c uint8) bool { return int(c) >= classes }); i >= 0 {
		return nil, &FormatError{
			File: labelsFile, Offset: int64(8 + i), What: fmt.Sprintf("label %d", i), Found: fmt.Sprint(class[i]),
			Want: fmt.Sprintf("0 to %d", classes-1),
		}
	}
	return NewImages(pixels, size*size, class, brightest, classes)
}

// findIDX is the path of the first of the four usual names of a file that exists in dir.
func findIDX(dir, base string, rank int) (string, error) {
	var tried []string
	for _, separator := range []string{"-", "."} {
		for _, suffix := range []string{"", ".gz"} {
			name := fmt.Sprintf("%s%sidx%d-ubyte%s", base, separator, rank, suffix)
			path := filepath.Join(dir, name)
			_, err := os.Stat(path)
			if err == nil {
				return path, nil
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
			tried = append(tried, name)
		}
	}
	return "", fmt.Errorf("data: no %s in %q (tried %s): %w", base, dir, strings.Join(tried, ", "), fs.ErrNotExist)
}
