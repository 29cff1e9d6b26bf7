package vec

import (
	"maps"
	"slices"
)

// What tests outside the package use: they import tensor, whose table says what is fused.
var (
	EachTier = tiers
	Operand  = operand
	Special  = special
	Values   = values
	Guarded  = guarded
	Intact   = intact
	Same     = same
)

// FusedNames lists the fused kernels.
func FusedNames() []string { return slices.Sorted(maps.Keys(fused)) }

// Evaluator returns a function that computes one instruction.
func Evaluator() func(name string, x ...float32) float32 { return newScalar().do }
