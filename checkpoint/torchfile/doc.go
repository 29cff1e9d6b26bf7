// Package torchfile reads the files that torch.save of PyTorch 1.6 and newer writes, such as model.pt and
// pytorch_model.bin: tensors, numbers and texts by name.
//
//	file, err := torchfile.Open(r, size)
//	for t := range file.Tensors() {
//		fmt.Println(t.Name, t.DType, t.Shape) // state_dict.fc1.weight F32 [64 32]
//	}
//
// Such a file is a zip file with a pickle, which is a program for a machine with a stack, and the memory of tensors.
// The machine here has the instructions that dictionaries, lists, numbers, texts and tensors need, and knows the
// few functions that make tensors by name: it calls none. Anything else, such as a whole module or a function of the
// system, is a [*safetensors.FormatError] that names it. Files of older versions, TorchScript and big-endian files are
// refused by name.
//
// Names are the keys on the way to a value, joined by dots: "optimizer.state.0.exp_avg". Tensors are row-major when
// they are read, whatever their strides; data stay in the file until then. Checksums of the zip file are not
// looked at.
//
// Where things are:
//
//   - file.go: the parts of a file, and names.
//   - machine.go: the pickle's instructions.
//   - objects.go: what they make.
package torchfile
