// Package attack holds the tests that call everything with absurd arguments: docs/RELIABILITY.md.
//
// attack_linux_test.go runs them in child processes, which may die or hang: calls of every exported function and
// method, samples of operations between pages without access, and random programs.
//
//	surface_test.go      lists the functions, and holds the list complete
//	world_test.go        what calls are made in: a device, models, steps; and how their ends are judged
//	values_test.go       arguments
//	samples_test.go      samples of operations, in types and layouts
//	guard_linux_test.go  a device whose memory lies between pages without access
//	programs_test.go     random programs, ways to run them, and what reduces one that fails
package attack
