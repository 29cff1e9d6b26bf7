// Package onehash holds the test that training gives the same bits on every vector unit, for any number of
// threads and in every run: the SHA-256 of all weights and optimizer state after 200 steps of a multilayer
// perceptron and of a small character model in float32, and after 40 steps of the latter in mixed precision.
// onehash.go has the models, for other tests too, onehash_test.go the hashes; cuda_test.go and emu_test.go train
// on a GPU.
package onehash
