package amp

import "github.com/weft-ml/weft/tensor"

// Autocast runs operations in half precision where that is safe: matrix products and attention take their operands in
// dt, tensor.Float16 or tensor.BFloat16; sums, exponentials, norms and losses take theirs in float32; the rest takes
// what it gets. The column "autocast" of docs/OPS.md has the class of every operation, the same on every device.
// Parameters stay as they are, each is cast once in a step, and gradients reach them in their own type.
//
// It is an option of Device.Step, Device.Eval and Scope.With; the innermost one holds. Float32 turns it off.
func Autocast(dt tensor.DType) tensor.Option { return engine.Autocast(dt) }
