// Package data brings data sets to training loops: datasets, batches, shuffling, file readers, text.
//
// A [Dataset] answers "give me the examples with these indices". A [Loader] turns it into a sequence of
// batches, which a training loop ranges over; an error arrives as the second value, at its batch:
//
//	train, test, err := data.FashionMNIST("fashion-mnist")
//	loader := &data.Loader{Dataset: train, BatchSize: 128, Shuffle: true, Seed: 42, Epochs: 5}
//	for batch, err := range loader.Batches(ctx) {
//		if err != nil {
//			return err
//		}
//		... batch.X is float32[128 784], batch.Y is int64[128] ...
//	}
//
// Batches are reproducible: batch k of an epoch is a pure function of (seed, epoch, k), so a run that
// stopped after some batches continues with the next one ([Resumable]) at no cost. No batch shares
// memory with another or with the loader: keep it as long as you like.
//
// Where things are:
//
//   - batch.go, arrays.go, images.go: what a dataset is; slices and labelled images as datasets.
//   - loader.go, shuffle.go, stream.go: batches in order, the shuffle, and the random streams of this package.
//   - state.go: where a run is in its data, for checkpoints.
//   - file.go: which files are opened, and how large they may be.
//   - idx.go, mnist.go, digits.go: the IDX file format, MNIST and Fashion-MNIST, the built-in digits.
//   - text.go: characters or bytes of a text.
//   - errors.go: errors, and the checks of indices and sizes.
//
// Files are not trusted: sizes are checked against what is really there before memory is allocated,
// and what does not fit is a [*FormatError].
package data
