// Package train has what training programs share: flags, a progress line, a log for machines, the end by Ctrl-C, errors
// of one line, accuracy, and when to stop. The training loop stays the program's own. Nothing else in the library
// needs this package.
//
//	func main() { os.Exit(train.Main(train.Options{Steps: 2000, Seed: 42}, learn)) }
//
//	func learn(ctx context.Context, r *train.Run) error {
//		dev, err := r.Open()
//		if err != nil {
//			return err
//		}
//		defer dev.Close()
//		...
//		r.Expect(r.Steps, "examples")
//		first, err := r.Resume(&checkpoint.State{Device: dev, Model: model, Optimizer: opt}) // with -checkpoint
//		...
//		for i := first; i < r.Steps && ctx.Err() == nil; i++ {
//			... r.TrainStep(batchSize, f) ... // or dev.Step(f, r.Mode()...)
//			r.Step(loss, batchSize)
//		}
//		if err := r.SaveLast(); err != nil {
//			return err
//		}
//		r.Metric("val_loss", loss)
//		return nil
//	}
//
// [Main] parses the flags, calls the function and returns the exit code: 0 after success, 1 with the error in one line,
// 2 for flags that do not parse, and 130 after Ctrl-C or SIGTERM. A program that calls [Run.Resume] and [Run.SaveLast]
// can be killed at any moment and goes on with -resume as if it had not been; SIGUSR1 has it save at once.
//
// [Accuracy] is of one batch, a [ConfusionMatrix] of many, [EarlyStopping] says when a loss has stopped falling. They
// need no Main. [Fit] says, without the card, what memory a training takes and which batch fits.
//
// Every program has -memory-limit, and -memory-profile, -memory-timeline and -warn-leaks, which package profile
// explains. Where memory does not suffice [Run.Explain] says which batch would have fitted, and [Run.TrainStep] goes
// on with parts of it, as [Halve] does for any program.
//
// run.go has flags, logs and the end of a run, checkpoint.go the saving, memory.go what is done where memory is short,
// progress.go the progress line, metrics.go what is measured, stop.go early stopping, fit.go what memory a training
// takes.
package train
