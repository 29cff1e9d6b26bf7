// Package safetensors reads and writes files in the safetensors format, in which Hugging Face and PyTorch programs keep
// weights. It needs nothing but the standard library, and no file can make it crash or fill the memory.
//
// Reading shows what a file holds without its data, and then as much of the data as is asked for:
//
//	model, err := safetensors.OpenPath("gpt2")      // a file, its index, or a folder with either
//	defer model.Close()
//	for t := range model.Tensors() {
//		fmt.Println(t.Name, t.DType, t.Shape, t.Bytes())
//	}
//	t, ok := model.Lookup("wte.weight")
//	_, err = io.ReadFull(t.Data(), buf)             // or any part of it: t.Data() is an io.SectionReader
//
// [Open] does so for one file behind an [io.ReaderAt]. Writing takes a list of what is to be written and a function
// that writes the data of one tensor, in pieces of any size:
//
//	err := safetensors.Write(file, tensors, nil, func(w io.Writer, t safetensors.Tensor) error {
//		_, err := w.Write(weights[t.Name])
//		return err
//	})
//
// [WriteShards] splits large models over files of a limited size. What is written is, byte for byte, what Python's
// library writes for the same tensors.
//
// The format, with all numbers little-endian (https://github.com/huggingface/safetensors):
//
//	8 bytes   size of the header, unsigned, at most 100,000,000
//	header    JSON: {"__metadata__": {"key": "text", ...},
//	          "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...} and spaces
//	data      of all tensors, row-major, without holes; the offsets count from here
//
// A tensor that has several names is stored once, under the first of them; each other name is a key of the metadata,
// with the stored name as its text, as Python's save_model does it.
//
// Where things are:
//
//   - dtype.go, tensor.go: element types, and a tensor of a file.
//   - file.go, header.go, json.go: a file; its header; the JSON of headers.
//   - shards.go: a model of one or several files.
//   - write.go: writing.
//   - errors.go: what is wrong with a file.
package safetensors
