// Package lower makes programs of primitive FP32 operations (package kernels/expr/lane) from what generators and tests
// of kernels start with: expressions, and streams of random numbers.
package lower

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/weft-ml/weft/kernels/expr"
	"github.com/weft-ml/weft/kernels/expr/lane"
)

// Expression turns f into one program of primitive FP32 operations, which gives the same bits as its instructions one
// by one. Set uniform has bit k set if argument k is one element for all. The inputs of the program are the other
// arguments and then the random streams, its scalars the parameters and then the uniform arguments, each in ascending
// order; its outputs are the roots.
//
// There is no such program for sin, cos and tan, which need wider arithmetic for large operands.
func Expression(f *expr.Func, uniform uint64) (*lane.Program, error) {
	b := lane.NewBuilder()
	values := map[*expr.Node]lane.Value{}
	vectors, streams := len(f.Args)-bits.OnesCount64(uniform), f.Streams()
	for _, n := range f.Order() {
		switch n.Op {
		case expr.Arg:
			below := bits.OnesCount64(uniform & (1<<n.K - 1)) // uniform arguments before this one
			if uniform>>n.K&1 == 1 {
				values[n] = b.Uniform(len(f.Params) + below)
			} else {
				values[n] = b.In(n.K - below)
			}
		case expr.Param:
			values[n] = b.Uniform(n.K)
		case expr.Const:
			values[n] = b.Const(n.C)
		case expr.Rand:
			values[n] = b.In(vectors + slices.Index(streams, n.K))
		default:
			in := lane.Find(n.Op.String())
			if in == nil || in.Large != nil {
				return nil, fmt.Errorf("expression %q: %v cannot be part of a fused kernel", f.Src, n.Op)
			}
			var x [3]lane.Value
			for i, o := range n.Operands() {
				x[i] = values[o]
			}
			values[n] = in.Build(b, x[0], x[1], x[2])
		}
	}
	var outs []lane.Value
	for _, r := range f.Roots {
		outs = append(outs, values[r])
	}
	return b.Program(outs...), nil
}
