// Package survey lists all operations of a program that have no kernel on a GPU, for tests with the tags cuda and emu;
// a run on the GPU itself would end at the first one.
package survey
