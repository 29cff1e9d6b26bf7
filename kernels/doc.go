// Package kernels is the border between tensors and devices: operations cross it as data.
//
// An operation of package tensor has a part for devices, [Op]. A [Launch] is an op call: a plain value that names the
// operation, the buffers with their layouts and the attributes, so that calls can be compared, recorded and replayed. A
// [Backend] runs op calls; it does not change when operations are added. Backends announce themselves with [Register],
// as drivers of database/sql do.
//
// Files: dtype.go has element types, layout.go and dims.go layouts and their algebra, kernels.go operations, op calls,
// backends and their registry, pointwise.go the types that expressions compute in, round.go conversions between types,
// waits.go a count of waits, error.go errors.
package kernels
