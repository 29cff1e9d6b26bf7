// Package golden reads the reference values that tests compare Weft with.
//
// The files are in testdata/goldens and are written by the Python programs in
// scripts/goldens, which run each operation, model and optimizer in PyTorch
// and record inputs, results and gradients. Every value is stored exactly.
//
// A file is gzip-compressed JSON:
//
//	{
//	  "format": 1,
//	  "script": "scripts/goldens/ops.py",
//	  "torch":  "1.13.0a0",
//	  "notes":  {"topic": "free text"},
//	  "arrays": {"name": {"dtype": "float64", "shape": [2, 3], "data": "..."}},
//	  "cases":  [{"name": "softmax/axis=1", "op": "softmax", "attrs": {"axis": 1},
//	              "inputs": ["17.x"], "outputs": ["17.y"], "weights": ["17.w"], "grads": ["17.gx"]}]
//	}
//
// The data of an array are its elements in row-major order, little endian, in
// standard base64. Element types are float64, float32, int64, int32, uint8 and
// bool (one byte, 0 or 1).
//
// Models are found by array name ([File.Float64]); operations are in
// [File.Cases], so that one table-driven test serves them all:
//
//	f, err := golden.Open("ops.json.gz")
//	for _, c := range f.Cases {
//		x, shape := f.Float64(c.Inputs[0])
//		...
//	}
//
// golden.go reads files, case.go has the calls of operations.
package golden
