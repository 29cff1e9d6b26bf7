package cpu

import "github.com/weft-ml/weft/kernels/cpu/internal/par"

// Background calls f on ranges [lo, hi) of grain elements that cover [0, n), beside kernels of other goroutines in the
// time in which their threads wait for the next kernel. A range is worth about a microsecond; f does not panic, and
// several calls of it may run at once.
func Background(n, grain int, f func(lo, hi int)) { par.Background(n, grain, f) }
