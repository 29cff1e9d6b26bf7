// Package npy reads and writes NumPy's arrays: one in a .npy file, several by name in a .npz file.
//
//	t, err := npy.Open(r, size)     // an array: type, shape, and data that are read when asked for
//	all, err := npy.OpenZip(r, size)
//	err = npy.WriteZip(w, tensors, data)
//
// Read are little-endian arrays of the types that [safetensors.DType] has, row-major and column-major (Fortran order),
// with headers of versions 1, 2 and 3. Big-endian arrays, records, objects and compressed .npz files are refused by
// name. Nothing is executed: objects would be pickles.
//
// Where things are: file.go has files, header.go the header's text, which is that of a Python dictionary.
package npy
