// Package zipfile finds the files inside the zip files that PyTorch and NumPy write: nothing is compressed, so that a
// file inside is a section of the whole, and is read where it is. A hostile file takes little memory.
//
// zipfile.go has all.
package zipfile
