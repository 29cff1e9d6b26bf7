package src

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/weft-ml/weft/kernels"
)

// Suffixes end the symbols of kernels, by element type.
var Suffixes = [8]string{
	kernels.Float32: "f32", kernels.Float64: "f64", kernels.Float16: "f16", kernels.BFloat16: "bf16",
	kernels.Int64: "i64", kernels.Int32: "i32", kernels.Uint8: "u8", kernels.Bool: "bool",
}

// PointwiseOf describes the kernels of a launch of a pointwise operation. Their name tells the operation, its content,
// for there are operations of one name that compute other things, and the types.
func PointwiseOf(l *kernels.Launch) *Pointwise {
	p := &Pointwise{Name: fmt.Sprintf("pointwise_%s_%.6s", identifier(l.Op.Name), Sum(l.Op.Expr.Key())), Func: l.Op.Expr}
	for _, a := range l.In {
		p.In = append(p.In, a.DType)
	}
	for _, a := range l.Out {
		p.Out = append(p.Out, a.DType)
	}
	p.Short = l.Op.Approximate
	for _, d := range slices.Concat(p.In, p.Out) {
		p.Name += "_" + Suffixes[d]
		p.Short = p.Short && d.IsHalf()
	}
	return p
}

// Symbols are the kernels of the source.
func (p *Pointwise) Symbols() []string {
	return []string{p.Name + "_vector", p.Name + "_strided", p.Name + "_strided64"}
}

// Sum identifies a generated source: images carry it.
func Sum(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

// identifier makes a name one of C.
func identifier(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 128 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') {
			return r
		}
		return '_'
	}, name)
}
