// Package checkpoint brings the weights of models to files and back, and saves whole runs, so that one that is killed
// at any moment goes on as if it had not been.
//
// Files of weights are safetensors (package checkpoint/safetensors), which PyTorch and Hugging Face programs open, too:
//
//	err := checkpoint.SaveModel("model.safetensors", model)
//	err = checkpoint.Load(model, "model.safetensors")
//
// SaveModel and Load stream: beside the model they need a few megabytes. Load looks at all names, shapes and types
// before it changes anything, and its error lists all that does not fit. Options load files of others:
//
//	err := checkpoint.Load(model, "gpt2", checkpoint.Rename(checkpoint.GPT2), checkpoint.Convert())
//	err = checkpoint.Load(model, "last.ckpt", checkpoint.Key("state_dict"))
//
// Such files are safetensors, or those of PyTorch (package checkpoint/torchfile) and of NumPy (checkpoint/npy);
// checkpoint/gpt2 makes models from folders of Hugging Face. OpenWeights opens any of them for other uses.
//
// A [Manager] keeps the checkpoints of a run in a folder. It writes them while the run goes on:
//
//	ck, err := checkpoint.Open("runs/opticks", checkpoint.Keep(3), checkpoint.Best("val_loss"))
//	st := &checkpoint.State{Device: dev, Model: model, Optimizer: opt, Scaler: scaler, Data: loader}
//	step, err := ck.Resume(st)           // the newest good one; 0 if there is none
//	err = ck.Save(step, st, metrics)     // returns when the next update may run
//	err = ck.Close()                     // waits; fails if any save has failed
//
// What holds then, and what is in the files, is in docs/CHECKPOINTS.md. Package train has flags for all that.
//
// Where things are:
//
//   - load.go, match.go: loading, and which tensor of a file goes where.
//   - weights.go: which file is opened, in which format.
//   - rename.go: names of others.
//   - save.go: saving weights.
//   - manager.go, state.go, folder.go: saving and resuming runs; what belongs to a run; a checkpoint's files.
//   - dtype.go: element types here and in files.
package checkpoint
