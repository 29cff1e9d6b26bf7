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
// memory with another or with the loader: keep it as long as you like. With [Loader.Device] or [On] a
// batch is good until the loop asks for the next one; [tensor.Tensor.Keep] makes a copy that lasts.
//
// A [Pipeline] is for everything else: examples of any type from a [Source], changed, filtered, mixed and shuffled by
// [Map], [Filter], [Interleave], [Shuffle] and the others, made into batches of any type by workers ahead of the loop:
//
//	pictures, err := data.ImageFolder("flowers") // flowers/rose/1.jpg and so on
//	shuffled := data.Shuffle(data.From(pictures), seed)
//	examples := data.Map(shuffled, func(s data.Sample, x data.Picture) (data.Picture, error) {
//		// s.Random are the random numbers of this example, whichever worker runs it
//		return x.RandomResizedCrop(s.Random, 224, 224, 0.08).RandomFlip(s.Random), nil
//	})
//	batches := data.Batches(examples, 128, data.PictureBatch(mean, std), data.Epochs(5))
//	it, err := batches.Start(ctx, nil)
//	...
//	defer it.Close()
//	for batch, err := range it.All() {
//
// Its batches depend on the data, the description and the seed alone: not on workers, nor on how far these are ahead.
// [Iterator.State] is a few integers with which [Batched.Start] goes on, also with other workers, and without
// making again what was used. It is refused where data or description differ. [Iterator.Report] tells what limits.
//
// What can be read in its order only is a [Stream]. It, and stages that count examples behind a [Filter], have no
// number by which a worker could begin anywhere: one goroutine reads them in order, and the state has a cursor for
// each.
//
// [BucketByLength] makes batches of examples of similar length, [Pack] rows of whole documents, and [Rank] gives each
// of several processes its rows of every batch.
//
// Where things are:
//
//   - batch.go, arrays.go, images.go: what a dataset is; slices and labelled images as datasets.
//   - loader.go, shuffle.go, random.go: batches in order, the shuffle, and the random numbers of this package.
//   - source.go, combine.go, pure.go: sources and pipelines, what is done with them, and whether functions are pure.
//   - stream.go, sequence.go: what has no index, and what must count: read in order, with a cursor.
//   - diskcache.go: examples kept in files, for later runs.
//   - batches.go, ordered.go: batches of pipelines, made ahead and handed over in order.
//   - workers.go, tune.go, report.go, bytes.go: the goroutines that make them and the bytes these may take, how many
//     are best, and what an iteration tells of it.
//   - upload.go: batches on their way to a device.
//   - group.go, lengths.go, pack.go: which examples are a batch: so many, of similar length, documents in rows; ranks.
//   - state.go: where a run is in its data, for checkpoints.
//   - index.go: where examples begin in a file, in a file beside it.
//   - file.go, opened.go: which files are opened, and how large they may be; files read at any place.
//   - map.go, map_unix.go: files in memory that may be cut meanwhile.
//   - unpack.go: files that may be compressed, with gzip or what [RegisterCompression] adds.
//   - rows.go, columns.go: CSV and JSONL files as sources.
//   - imagefolder.go, picture.go, resize.go: folders of pictures; crops, flips, normalising; other sizes.
//   - tokens.go, npy.go: tokens of texts in binary files, arrays of NumPy.
//   - tar.go, tfrecord.go: tar files of WebDataset, records of TensorFlow.
//   - idx.go, mnist.go, digits.go: the IDX file format, MNIST and Fashion-MNIST, the built-in digits.
//   - text.go: characters or bytes of a text.
//   - errors.go: errors, and the checks of indices and sizes.
//
// Files are not trusted: sizes are checked against what is really there before memory is allocated,
// and what does not fit is a [*FormatError].
package data
