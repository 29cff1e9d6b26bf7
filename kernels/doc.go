// Package kernels is the border between tensors and devices: operations cross it as data.
//
// A row of the operation table (package tensor) has a device half, [Op]. One application of it to
// memory is a [Launch]: a plain value that names the operation, the buffers with their layouts and
// the attributes, so that launches can be compared, recorded and replayed. A [Backend] is what a
// device must offer to run launches; it does not grow when operations are added. Backends announce
// themselves with [Register], as drivers of database/sql do.
package kernels
