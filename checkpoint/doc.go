// Package checkpoint brings the weights of models to files and back.
//
// Files are safetensors (package checkpoint/safetensors), which PyTorch and Hugging Face programs open, too:
//
//	err := checkpoint.SaveModel("model.safetensors", model)
//	err = checkpoint.Load(model, "model.safetensors")
//
// Save and Load stream: beside the model they need a few megabytes. Load looks at all names, shapes and types before it
// changes anything, and its error lists all that does not fit. Options load files of others:
//
//	err := checkpoint.Load(model, "gpt2", checkpoint.Rename(checkpoint.GPT2), checkpoint.Convert())
//
// Where things are:
//
//   - load.go, match.go: loading, and which tensor of a file goes where.
//   - rename.go: names of others.
//   - save.go: saving.
//   - dtype.go: element types here and in files.
package checkpoint
