// Package onnx runs the node tests of ONNX (https://onnx.ai, version 1.12) with Weft's operations: models of one
// operator, with inputs and expected outputs.
//
// The tests are in testdata/node.tar.gz, as Debian's package libonnx-testdata has them; scripts/goldens/onnx.py
// packs them. A test counts as supported if Weft has the types of its inputs and outputs, and all of its operators;
// left.go says why others are left out.
//
// proto.go reads the files, model.go the messages in them, run.go evaluates graphs; the operators by subject are in
// op_*.go.
package onnx
